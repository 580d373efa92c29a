// Access to the fields of a graph, which are internal to ggml; not every program uses all of the included functions.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include "ggml-impl.h"
#pragma GCC diagnostic pop

#define FLAG_COMPUTE 16 // GGML_TENSOR_FLAG_COMPUTE, which old versions do not have

// Whether backends compute the node: in a graph in which some have the flag, they skip those that do not.
static inline bool is_computed(const struct ggml_cgraph * graph, const struct ggml_tensor * node) {
    bool some_have_flag = false;
    for (int i = 0; i < graph->n_nodes; i++) {
        some_have_flag = some_have_flag || (graph->nodes[i]->flags & FLAG_COMPUTE) != 0;
    }
    return !some_have_flag || (node->flags & FLAG_COMPUTE) != 0;
}

// Operations that only name memory of their source.
static inline bool is_view_op(const struct ggml_tensor * t) {
    return t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE || t->op == GGML_OP_PERMUTE || t->op == GGML_OP_TRANSPOSE;
}
