// The state while a graph is built: all values so far, and the largest magnitude of each.
#pragma once

#include "random_graph.h"

// A tensor whose values can be larger than this in magnitude is only read by a node that scales it down.
#define READ_BOUND 100.0f

// A tensor without operation: how its values are drawn.
struct leaf {
    struct ggml_tensor * tensor;
    int64_t              limit;  // values of an integer tensor lie in [0, limit)
    bool                 unique; // and are all different
};

// `node` may read `other` in place of its second source.
struct rewiring {
    struct ggml_tensor * node;
    struct ggml_tensor * other;
};

struct random_graph_detail {
    struct ggml_context * early_ctx; // weights that have memory while the graph is built
    struct ggml_context * late_ctx;  // weights that get it when the graph is complete

    ggml_backend_buffer_t * buffers;
    int                     n_buffers;

    struct leaf *      leafs;
    int                n_leafs;
    struct rewiring *  rewirings;
    int                n_rewirings;
    struct tensor_list overwritten; // roots that some node overwrites explicitly
};

struct builder {
    struct random_graph *        g;
    struct random_graph_options  options;
    struct random_graph_detail * d;
    struct ggml_context *        ctx;
    uint64_t                     random;

    struct tensor_list values; // everything made so far, in order
    float *            bounds; // for each value that is not a view: largest magnitude
    int                capacity;
};

static inline struct ggml_tensor * root_of(struct ggml_tensor * tensor) {
    return tensor->view_src != NULL ? tensor->view_src : tensor;
}

typedef bool (*tensor_property)(const struct ggml_tensor * tensor);

void list_add(struct tensor_list * list, struct ggml_tensor * tensor);
bool list_has(const struct tensor_list * list, const struct ggml_tensor * tensor);
float * bound_of(struct builder * b, struct ggml_tensor * tensor);

// Takes a new tensor into the list of values. A write through a view raises its root's bound.
struct ggml_tensor * add_value(struct builder * b, struct ggml_tensor * tensor, float bound);

bool is_f32(const struct ggml_tensor * t);
bool has_dense_rows(const struct ggml_tensor * t);
bool is_f32_with_dense_rows(const struct ggml_tensor * t);

// Stricter than ggml_is_contiguous(), which ignores the strides of dimensions of size 1; some operations
// compare them.
bool is_plain(const struct ggml_tensor * t);

bool is_plain_f32(const struct ggml_tensor * t);
bool is_real(const struct ggml_tensor * t);
bool is_dense_matrix(const struct ggml_tensor * t);
bool is_plain_real(const struct ggml_tensor * t);

// A random value with the property, usually one of the latest, or NULL.
struct ggml_tensor * pick(struct builder * b, tensor_property property);
