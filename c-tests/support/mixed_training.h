// Random training graphs with views of their results: forward, backward, and a step for each weight. The seed determines
// the graph.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#define MIXED_TRAINING_TENSORS 32

struct mixed_training {
    struct ggml_context * ctx;     // tensors that the allocator places
    struct ggml_context * keeping; // weights
    ggml_backend_buffer_t buffer;  // of the latter
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  x;
    struct ggml_tensor *  loss;
    struct ggml_tensor *  weights[MIXED_TRAINING_TENSORS];
    struct ggml_tensor *  sums[MIXED_TRAINING_TENSORS]; // of the gradients of the weights
    int                   n_weights;
    struct ggml_tensor *  views[MIXED_TRAINING_TENSORS]; // of results of the forward pass; no node reads most of them
    int                   n_views;
    uint64_t              state;
};

struct mixed_training mixed_training_new(uint64_t seed);
void                  mixed_training_free(struct mixed_training * t);

// Sets weights and inputs, which depend on their numbers alone, and computes the graph.
void mixed_training_run(struct mixed_training * t, ggml_backend_t cpu);
