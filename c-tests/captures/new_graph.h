// A graph that is built to be captured: weights that count as allocated, inputs, and room for nodes. Nothing is
// computed.
//
// Failures end the process at once, without freeing: the system takes the memory back.
#pragma once

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

#include "graph_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct new_graph {
    struct ggml_context * weights; // tensors that have memory before the graph is allocated
    struct ggml_context * ctx;     // tensors that the allocator places
    struct ggml_cgraph *  graph;
};

// Room for a graph of that many nodes; `grads` for one with a backward pass.
static inline struct new_graph new_graph(size_t max_nodes, bool grads) {
    const size_t tensors = 2 * max_nodes * ggml_tensor_overhead();
    const struct ggml_init_params weights = { .mem_size = tensors, .mem_buffer = NULL, .no_alloc = true };
    const struct ggml_init_params compute = {
        .mem_size = tensors + ggml_graph_overhead_custom(max_nodes, grads), .mem_buffer = NULL, .no_alloc = true,
    };
    struct new_graph g = { .weights = ggml_init(weights), .ctx = ggml_init(compute) };
    if (g.weights == NULL || g.ctx == NULL) {
        fprintf(stderr, "not enough memory for a graph of %zu nodes\n", max_nodes);
        exit(1);
    }
    g.graph = ggml_new_graph_custom(g.ctx, max_nodes, grads);
    return g;
}

// A tensor that the allocator treats as allocated; it is never read or written.
static inline struct ggml_tensor * new_weight(const struct new_graph * g, enum ggml_type type, int64_t ne0, int64_t ne1,
                                              int64_t ne2, int64_t ne3) {
    static char memory[1];
    struct ggml_tensor * weight = ggml_new_tensor_4d(g->weights, type, ne0, ne1, ne2, ne3);
    weight->data = memory;
    return weight;
}

static inline struct ggml_tensor * new_vector(const struct new_graph * g, int64_t width) {
    return new_weight(g, GGML_TYPE_F32, width, 1, 1, 1);
}

static inline struct ggml_tensor * new_graph_input(const struct new_graph * g, enum ggml_type type, int64_t ne0,
                                                   int64_t ne1, int64_t ne2, const char * name) {
    struct ggml_tensor * input = ggml_new_tensor_4d(g->ctx, type, ne0, ne1, ne2, 1);
    ggml_set_input(input);
    ggml_set_name(input, name);
    return input;
}

static inline void new_graph_output(const struct new_graph * g, struct ggml_tensor * output, const char * name) {
    ggml_set_output(output);
    ggml_set_name(output, name);
    ggml_build_forward_expand(g->graph, output);
}

// Writes the graph, with the bytes that ggml's own allocator needs for it, and frees it.
static inline void capture_new_graph(struct new_graph * g, const char * path, const char * label) {
    ggml_backend_buffer_type_t buft = ggml_backend_cpu_buffer_type();
    ggml_gallocr_t galloc = ggml_gallocr_new(buft);
    size_t size = 0;
    ggml_gallocr_reserve_n_size(galloc, g->graph, NULL, NULL, &size);
    ggml_gallocr_free(galloc);
    if (!write_graph_file(path, g->graph, label, buft, size)) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(1);
    }
    ggml_free(g->ctx);
    ggml_free(g->weights);
}
