// Tensors without operation: weights and inputs.
#pragma once

#include "builder.h"

void add_buffer(struct random_graph_detail * d, ggml_backend_buffer_t buffer);

// An integer tensor with values in [0, limit).
struct ggml_tensor * new_indices(struct builder * b, enum ggml_type type, int64_t n, int64_t limit,
                                 bool unique);

// A tensor of reals in [-1, 1].
struct ggml_tensor * new_reals(struct builder * b, enum ggml_type type, const int64_t * ne,
                               int weight_percent);

struct ggml_tensor * new_matrix(struct builder * b, int64_t columns, int64_t rows);
struct ggml_tensor * new_random_leaf(struct builder * b);
