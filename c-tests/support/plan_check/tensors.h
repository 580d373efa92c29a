// Properties of tensors that the checks need, and their bytes.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ggml-backend.h"
#include "graph_fields.h"

// Bytes of one buffer: half-open. Buffers are kept apart, since those without memory may have any
// addresses.
struct range {
    ggml_backend_buffer_t buffer;
    uintptr_t             start;
    uintptr_t             end;
};

static inline const struct ggml_tensor * root_of(const struct ggml_tensor * t) {
    return t->view_src != NULL ? t->view_src : t;
}

static inline bool is_view(const struct ggml_tensor * t) {
    return t->view_src != NULL;
}

// A control dependency, with which schedulers keep memory: a node without operation that has sources.
static inline bool is_marker(const struct ggml_tensor * t) {
    bool has_source = false;
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        has_source = has_source || t->src[i] != NULL;
    }
    return t->op == GGML_OP_NONE && has_source;
}

// Nodes that only name memory. A tensor without operation in the node list is one that the scheduler
// fills there, unless it is an input: that was filled before.
static inline bool touches_no_bytes(const struct ggml_tensor * t) {
    bool is_input = (t->flags & GGML_TENSOR_FLAG_INPUT) != 0;
    return is_view_op(t) || (t->op == GGML_OP_NONE && (is_view(t) || is_input));
}

static inline bool is_external(const struct ggml_tensor * t) {
    ggml_backend_buffer_t buffer = root_of(t)->buffer;
    return buffer == NULL || ggml_backend_buffer_get_usage(buffer) != GGML_BACKEND_BUFFER_USAGE_COMPUTE;
}

static inline bool has_same_layout(const struct ggml_tensor * a, const struct ggml_tensor * b) {
    bool same = a->type == b->type;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        same = same && a->ne[i] == b->ne[i] && a->nb[i] == b->nb[i];
    }
    return same;
}

static inline bool is_source_of(const struct ggml_tensor * t, const struct ggml_tensor * node) {
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (node->src[i] == t && node != t) {
            return true;
        }
    }
    return false;
}

static inline int count_readers(const struct ggml_cgraph * graph, const struct ggml_tensor * t) {
    int count = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        count += is_source_of(t, graph->nodes[i]);
    }
    return count;
}

// Whether the node of a step is a view of memory that the graph lists later, as a tensor without operation: what others
// write is complete there.
static inline bool is_view_of_later(const struct ggml_cgraph * graph, int step) {
    const struct ggml_tensor * root = graph->nodes[step]->view_src;
    for (int i = step + 1; i < graph->n_nodes && root != NULL; i++) {
        if (graph->nodes[i] == root) {
            return root->op == GGML_OP_NONE && !is_marker(root);
        }
    }
    return false;
}

// Whether the node of a step writes there.
static inline bool is_part_of_later(const struct ggml_cgraph * graph, int step) {
    const struct ggml_tensor * node = graph->nodes[step];
    bool writes = is_view(node) && !touches_no_bytes(node) && is_source_of(node->view_src, node);
    return writes && is_view_of_later(graph, step);
}

static inline struct range range_of(const struct ggml_tensor * t, size_t size) {
    return (struct range){ .buffer = root_of(t)->buffer,
                           .start  = (uintptr_t) t->data,
                           .end    = (uintptr_t) t->data + size };
}

static inline struct range bytes_of(const struct ggml_tensor * t) {
    return range_of(t, ggml_nbytes(t));
}

// The bytes that the allocator must reserve: some buffer types need more than a tensor has.
static inline struct range memory_of(const struct ggml_tensor * t) {
    return is_external(t) ? bytes_of(t) : range_of(t, ggml_backend_buffer_get_alloc_size(t->buffer, t));
}

static inline bool overlaps(struct range a, struct range b) {
    return a.buffer == b.buffer && a.start < b.end && b.start < a.end;
}
