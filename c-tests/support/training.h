// A training step of a small residual network: forward, backward, and a step of AdamW for each of its
// weights, all in one graph. As ggml builds it, the steps come last, so every gradient lives to the end.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#define TRAINING_LAYERS  6
#define TRAINING_WEIGHTS (2 * TRAINING_LAYERS + 1)

struct training {
    struct ggml_context * ctx;     // tensors that the allocator places
    struct ggml_context * keeping; // tensors with their own memory
    ggml_backend_buffer_t buffer;  // of the latter
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  rows;
    struct ggml_tensor *  labels;
    struct ggml_tensor *  loss;
    struct ggml_tensor *  step; // the parameters of AdamW
    struct ggml_tensor *  weights[TRAINING_WEIGHTS];
    struct ggml_tensor *  moments[2][TRAINING_WEIGHTS];
};

struct training training_new(void);
void            training_free(struct training * t);

// Weights and moments as at the start.
void training_set_data(const struct training * t);

// Inputs and the gradient of the loss, which share memory with later results: before each step.
void training_set_inputs(const struct training * t);

// Computes the graph `steps` times.
void training_run(const struct training * t, ggml_backend_t backend, int steps);
