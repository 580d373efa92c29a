// Graph memory: ggml_gallocr alone, or ggml_backend_sched with a ggml_gallocr inside.
#pragma once

#include "errors.h"
#include "ggml.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "graph.h"
#include "options.h"
#include "timing.h"
#include "weak_lastuse.h"
#include "reports.h"

#include <stdbool.h>
#include <stddef.h>

struct graph_memory {
    ggml_backend_t       backend;
    ggml_gallocr_t       gallocr; // NULL where the scheduler is used
    ggml_backend_sched_t sched;   // NULL where the allocator is used alone
};

static struct graph_memory graph_memory_new(enum allocator_kind kind, ggml_backend_t backend, size_t max_nodes) {
    struct graph_memory memory = { .backend = backend };
    if (kind == ALLOCATOR_GALLOCR) {
        memory.gallocr = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
        if (memory.gallocr == NULL) {
            die("ggml_gallocr_new failed");
        }
    } else {
        memory.sched = ggml_backend_sched_new(&backend, NULL, 1, max_nodes, false, false);
        if (memory.sched == NULL) {
            die("ggml_backend_sched_new failed for graphs of %zu nodes", max_nodes);
        }
    }
    return memory;
}

static void graph_memory_free(struct graph_memory * memory) {
    ggml_gallocr_free(memory->gallocr);
    ggml_backend_sched_free(memory->sched);
}

// Returns the time of the reservation in microseconds.
static double graph_memory_reserve(struct graph_memory * memory, struct graph * graph) {
    const double start = now_us();
    const bool done = memory->gallocr != NULL
        ? ggml_gallocr_reserve(memory->gallocr, graph->cgraph)
        : ggml_backend_sched_reserve(memory->sched, graph->cgraph);
    const double time = now_us() - start;
    if (!done) {
        die("%s failed for the worst-case graph of %d nodes",
                memory->gallocr != NULL ? "ggml_gallocr_reserve" : "ggml_backend_sched_reserve",
                ggml_graph_n_nodes(graph->cgraph));
    }
    return time;
}

// Returns the time of the allocation in microseconds.
static double graph_memory_alloc(struct graph_memory * memory, struct graph * graph) {
    if (memory->sched != NULL) {
        // the scheduler still knows the tensors of the last step, which are gone
        ggml_backend_sched_reset(memory->sched);
    }
    const double start = now_us();
    const bool done = memory->gallocr != NULL
        ? ggml_gallocr_alloc_graph(memory->gallocr, graph->cgraph)
        : ggml_backend_sched_alloc_graph(memory->sched, graph->cgraph);
    const double time = now_us() - start;
    if (!done) {
        die("%s failed for a graph of %d nodes",
                memory->gallocr != NULL ? "ggml_gallocr_alloc_graph" : "ggml_backend_sched_alloc_graph",
                ggml_graph_n_nodes(graph->cgraph));
    }
    return time;
}

static void graph_memory_compute(struct graph_memory * memory, struct graph * graph) {
    const enum ggml_status status = memory->gallocr != NULL
        ? ggml_backend_graph_compute(memory->backend, graph->cgraph)
        : ggml_backend_sched_graph_compute(memory->sched, graph->cgraph);
    if (status != GGML_STATUS_SUCCESS) {
        die("%s failed: %s",
                memory->gallocr != NULL ? "ggml_backend_graph_compute" : "ggml_backend_sched_graph_compute",
                ggml_status_to_string(status));
    }
}

static size_t graph_memory_size(const struct graph_memory * memory) {
    return memory->gallocr != NULL
        ? ggml_gallocr_get_buffer_size(memory->gallocr, 0)
        : ggml_backend_sched_get_buffer_size(memory->sched, memory->backend);
}

// The scheduler does not show its allocator, so there the bound stays unknown.
static bool graph_memory_lower_bound(const struct graph_memory * memory, size_t * bound) {
    if (memory->gallocr == NULL || !lastuse_is_allocating() || lastuse_gallocr_report == NULL) {
        return false;
    }
    *bound = lower_bound_of(memory->gallocr, 0);
    return *bound > 0; // every graph needs some memory: 0 means that there is no plan
}
