// Keys and values of new rows are written into caches in one of three ways, and attention reads the caches.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#define ATTENTION_LAYERS 2
#define ATTENTION_WIDTH  32
#define ATTENTION_ROWS   64 // of each cache
#define ATTENTION_NEW    5  // rows of one step

enum caching {
    COPIED_AND_EXPANDED, // copies, expanded into the graph before the readers: the classic form
    COPIED,              // copies that the readers depend on
    WRITTEN,             // rows computed in the caches, that the readers depend on
    COPIED_TOO_LATE,     // copies, expanded into the graph after the readers
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
    struct ggml_tensor *  rows[ATTENTION_LAYERS][2]; // that are written to the caches
};

// Creates weights and caches in memory of `type`, without a graph.
struct attention attention_new(ggml_backend_buffer_type_t type);
void             attention_free(struct attention * attention);

// Builds a graph that writes rows into the caches from `head` on; replaces the graph before. `right_to_left` is an
// order in which ggml may walk a graph.
void attention_build(struct attention * attention, enum caching caching, int head, bool right_to_left);

// Fill weights and caches, and the allocated input, with values that depend on nothing but `seed`.
void attention_fill(struct attention * attention);
void attention_fill_input(struct attention * attention, int seed);

// The results of a computed graph.
struct attention_result {
    float output[ATTENTION_WIDTH * ATTENTION_NEW];
    float caches[ATTENTION_LAYERS * 2][ATTENTION_WIDTH * ATTENTION_ROWS];
};

void attention_keep_result(const struct attention * attention, struct attention_result * result);
