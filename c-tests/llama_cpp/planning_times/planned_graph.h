// A graph, and the buffers that its tensors are to get memory in.

#pragma once

#include "allocators.h"

struct planned_graph {
    struct ggml_cgraph * graph;
    const int *          node_ids;
    const int *          leaf_ids;
};

static bool reserve(const struct allocator_functions * functions, ggml_gallocr_t galloc, struct planned_graph planned) {
    return functions->reserve_n(galloc, planned.graph, planned.node_ids, planned.leaf_ids);
}

static void measure(const struct allocator_functions * functions, ggml_gallocr_t galloc, struct planned_graph planned,
                    size_t * sizes) {
    functions->reserve_n_size(galloc, planned.graph, planned.node_ids, planned.leaf_ids, sizes);
}

static void stop_unless(bool done, const char * what) {
    if (!done) {
        fprintf(stderr, PROGRAM ": an allocator refuses to %s\n", what);
        exit(EXIT_FAILURE);
    }
}
