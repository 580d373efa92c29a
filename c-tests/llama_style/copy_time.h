// Copy time: the time of copies of one type into the same type, apart from everything else that a prompt takes.
#pragma once

#include "errors.h"
#include "ggml.h"
#include "ggml-backend.h"
#include "graph.h"
#include "timing.h"

#include <stdbool.h>
#include <stddef.h>

#define COPY_SAMPLES 21

struct copy_time {
    int    n_copies;
    size_t bytes;
    double us; // all of them, once
};

static bool is_copy_to_view(const struct ggml_tensor * node) {
    return node->op == GGML_OP_CPY && node->view_src != NULL && node->src[0]->type == node->type;
}

// The copies of a graph that has memory, as a separate graph. It copies what happens to be in memory.
static struct ggml_cgraph * graph_of_copies(struct graph * graph, struct copy_time * found) {
    const int n_nodes = ggml_graph_n_nodes(graph->cgraph);
    struct ggml_cgraph * copies = ggml_new_graph_custom(graph->ctx, (size_t) n_nodes, false);
    for (int i = 0; i < n_nodes; i++) {
        struct ggml_tensor * node = ggml_graph_node(graph->cgraph, i);
        if (is_copy_to_view(node)) {
            ggml_graph_add_node(copies, node);
            found->n_copies++;
            found->bytes += ggml_nbytes(node);
        }
    }
    return copies;
}

static struct copy_time measure_copies(ggml_backend_t backend, struct graph * graph) {
    struct copy_time found = { 0 };
    struct ggml_cgraph * copies = graph_of_copies(graph, &found);
    double samples[COPY_SAMPLES];
    for (int i = -1; i < COPY_SAMPLES; i++) {
        const double start = now_us();
        if (found.n_copies > 0 && ggml_backend_graph_compute(backend, copies) != GGML_STATUS_SUCCESS) {
            die("the copies alone cannot be computed");
        }
        if (i >= 0) {
            samples[i] = found.n_copies > 0 ? now_us() - start : 0;
        }
    }
    found.us = median(samples, COPY_SAMPLES);
    return found;
}
