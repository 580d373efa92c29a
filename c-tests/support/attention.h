// Keys and values of new rows go into caches, and attention reads the caches: in three ways.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#define ATTENTION_LAYERS 2
#define ATTENTION_WIDTH  32
#define ATTENTION_ROWS   64 // of each cache
#define ATTENTION_NEW    5  // rows of one step

enum caching {
    COPIED_AND_EXPANDED, // copies, put into the graph in front of what reads them: the classic form
    COPIED,              // copies, that what reads the caches depends on
    WRITTEN,             // computed there, that what reads the caches depends on
    COPIED_TOO_LATE,     // copies, put into the graph behind what reads them
};

struct attention {
    struct ggml_context * keeping; // weights and caches
    ggml_backend_buffer_t kept;
    struct ggml_tensor *  weights[ATTENTION_LAYERS][3]; // of queries, keys and values
    struct ggml_tensor *  caches[ATTENTION_LAYERS][2];  // of keys and values
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  input;
    struct ggml_tensor *  output;
    struct ggml_tensor *  rows[ATTENTION_LAYERS][2]; // what goes into the caches
};

// Weights and caches in memory of `type`. The graphs come later.
struct attention attention_new(ggml_backend_buffer_type_t type);
void             attention_free(struct attention * attention);

// A graph for rows that go into the caches from `head` on, in place of an earlier graph. `right_to_left` is an order that
// ggml may walk a graph in.
void attention_build(struct attention * attention, enum caching caching, int head, bool right_to_left);

// The same values every time, in weights, caches and input; the latter has its memory.
void attention_fill(struct attention * attention);
void attention_fill_input(struct attention * attention, int seed);
