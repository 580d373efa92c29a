// Graphs of a small transformer with caches, and empty graphs to add nodes to.
#pragma once

#include "ggml.h"

#define WIDTH 32 // of an embedding

// A graph of a small transformer. Two graphs with the same number of layers, both with one token or both
// with several, have the same topology.
struct shape {
    int layers;
    int tokens;
    int past; // positions in the caches before these tokens
};

struct built {
    struct ggml_context * ctx;     // of tensors that the allocator places
    struct ggml_context * weights; // of tensors with their own memory
    struct ggml_cgraph *  graph;
};

struct built built_new(size_t nodes, size_t weight_bytes);
void         built_free(struct built built);

// An empty graph in the same context memory: its tensors can have the addresses of those before.
struct built built_again(struct built built);

struct ggml_tensor * new_input(struct ggml_context * ctx, int64_t width, int64_t rows);

// Multiplies by a weight matrix: `rows` is the width of the result.
struct ggml_tensor * project(struct built b, struct ggml_tensor * x, int64_t rows);

// RMS normalization with a scale.
struct ggml_tensor * normalize(struct built b, struct ggml_tensor * x);

// A single token attends to everything, so a decode graph has no mask.
struct built transformer_new(struct shape shape);

// In an empty room, where a graph with as many layers has been.
struct built transformer_in(struct built room, struct shape shape);
