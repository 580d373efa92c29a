// Graphs that are computed on the CPU: values that depend on a seed alone, and the comparison of results.
#pragma once

#include "check.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "graph_fields.h"
#include "splitmix.h"

#define INDEX_LIMIT 8 // integers are indices of rows: each table has at least this many

static inline ggml_backend_t new_cpu(int n_threads) {
    ggml_backend_t cpu = ggml_backend_cpu_init();
    CHECK(cpu != NULL, "no CPU backend");
    ggml_backend_cpu_set_n_threads(cpu, n_threads);
    return cpu;
}

// Reals in [-0.5, 0.5), indices in [0, INDEX_LIMIT). The tensor lies in host memory.
static inline void set_values(struct ggml_tensor * t, uint64_t seed) {
    CHECK(t->type == GGML_TYPE_F32 || t->type == GGML_TYPE_I32, "%s has another type", t->name);
    CHECK(ggml_is_contiguous(t) && t->data != NULL, "%s is not contiguous in memory", t->name);
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        uint64_t number = splitmix64(&seed);
        if (t->type == GGML_TYPE_F32) {
            ((float *) t->data)[i] = (float) (number >> 40) / (float) (1 << 24) - 0.5f;
        } else {
            ((int32_t *) t->data)[i] = (int32_t) (number % INDEX_LIMIT);
        }
    }
}

// The values depend on the seed and the graph alone, not on addresses.
static inline void set_leaf_values(struct ggml_cgraph * graph, uint64_t seed) {
    for (int i = 0; i < graph->n_leafs; i++) {
        set_values(graph->leafs[i], seed * 4096 + (uint64_t) i);
    }
}

static inline void compute_with_values(ggml_backend_t cpu, struct ggml_cgraph * graph, uint64_t seed) {
    set_leaf_values(graph, seed);
    enum ggml_status status = ggml_backend_graph_compute(cpu, graph);
    CHECK(status == GGML_STATUS_SUCCESS, "seed %llu: status %d", (unsigned long long) seed, (int) status);
}

// Both tensors are contiguous, in host memory.
static inline void check_same_values(const struct ggml_tensor * t, const struct ggml_tensor * truth, uint64_t seed,
                                     const char * what) {
    size_t size = ggml_nbytes(truth);
    CHECK(ggml_nbytes(t) == size, "%s has %zu bytes, not %zu", t->name, ggml_nbytes(t), size);
    CHECK(memcmp(t->data, truth->data, size) == 0, "seed %llu, %s: %s has other bytes",
          (unsigned long long) seed, what, t->name);
}

// The tensors may be in any buffer. Nothing is compared when `truth` is in none.
static inline void check_same_bytes(const struct ggml_tensor * t, const struct ggml_tensor * truth, uint64_t seed) {
    unsigned long long number   = seed;
    size_t             size     = ggml_nbytes(truth);
    char *             found    = malloc(size + 1);
    char *             expected = malloc(size + 1);
    CHECK(found != NULL && expected != NULL, "out of memory");
    CHECK(ggml_nbytes(t) == size, "seed %llu: %s has another size", number, t->name);
    if (truth->buffer != NULL && size > 0) {
        ggml_backend_tensor_get(t, found, 0, size);
        ggml_backend_tensor_get(truth, expected, 0, size);
        CHECK(memcmp(found, expected, size) == 0, "seed %llu: %s has other bytes", number, t->name);
    }
    free(found);
    free(expected);
}

// The bytes that a new scheduler on the CPU reserves for a graph.
static inline size_t size_in_scheduler(struct ggml_cgraph * graph) {
    ggml_backend_t       cpu   = new_cpu(1);
    ggml_backend_sched_t sched = ggml_backend_sched_new(&cpu, NULL, 1, 256, false, false);
    CHECK(ggml_backend_sched_reserve(sched, graph), "a graph of %d nodes is not reserved", graph->n_nodes);
    size_t size = ggml_backend_sched_get_buffer_size(sched, cpu);
    ggml_backend_sched_free(sched);
    ggml_backend_free(cpu);
    return size;
}

// Compares a graph that was built twice: every tensor flagged as an output has equal bytes.
static inline void check_same_outputs_of(struct ggml_cgraph * graph, struct ggml_cgraph * truth, uint64_t seed,
                                         const char * what) {
    CHECK(graph->n_nodes == truth->n_nodes && graph->n_leafs == truth->n_leafs, "two graphs are compared");
    int n_outputs = 0;
    for (int i = 0; i < graph->n_nodes + graph->n_leafs; i++) {
        bool                 is_node = i < graph->n_nodes;
        struct ggml_tensor * t       = is_node ? graph->nodes[i] : graph->leafs[i - graph->n_nodes];
        struct ggml_tensor * other   = is_node ? truth->nodes[i] : truth->leafs[i - graph->n_nodes];
        if ((t->flags & GGML_TENSOR_FLAG_OUTPUT) != 0) {
            check_same_values(t, other, seed, what);
            n_outputs++;
        }
    }
    CHECK(n_outputs > 0, "there is nothing to compare");
}
