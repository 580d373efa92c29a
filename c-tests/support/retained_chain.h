// A chain of operations that ggml computes in place, each node over the one before it: without retention, only the last
// value is there when the graph has run.
#pragma once

#include "check.h"
#include "computing.h"
#include "ggml-alloc.h"

#define CHAIN 6

struct chain {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  input;
    struct ggml_tensor *  nodes[CHAIN]; // "hidden-0" to "hidden-5"
};

// In its own context.
static inline struct chain chain_new(void) {
    return (struct chain){ .ctx = no_alloc_context(64 * ggml_tensor_overhead() + 8 * ggml_graph_overhead()) };
}

// Equal calls in one context give equal addresses after ggml_reset().
static inline void chain_build(struct chain * chain, int64_t width) {
    struct ggml_context * ctx = chain->ctx;
    chain->graph              = ggml_new_graph(ctx);
    chain->input              = ggml_set_name(ggml_new_tensor_1d(ctx, GGML_TYPE_F32, width), "input");
    ggml_set_input(chain->input);
    struct ggml_tensor * last = chain->input;
    for (int i = 0; i < CHAIN; i++) {
        last = i % 3 == 0 ? ggml_scale(ctx, last, 1.5f) : i % 3 == 1 ? ggml_sqr(ctx, last) : ggml_neg(ctx, last);
        ggml_format_name(last, "hidden-%d", i);
        chain->nodes[i] = last;
    }
    ggml_build_forward_expand(chain->graph, last);
}

static inline struct chain chain_of(int64_t width) {
    struct chain chain = chain_new();
    chain_build(&chain, width);
    return chain;
}

// The value of a node after `steps` nodes, as the CPU computes it.
static inline float chain_value(float value, int steps) {
    for (int i = 0; i < steps; i++) {
        value = i % 3 == 0 ? value * 1.5f : i % 3 == 1 ? value * value : -value;
    }
    return value;
}

static inline void chain_compute(ggml_backend_t cpu, struct chain * chain, int first, int end) {
    if (first == 0) {
        set_values(chain->input, 7);
    }
    struct ggml_cgraph part = ggml_graph_view(chain->graph, first, end);
    CHECK(ggml_backend_graph_compute(cpu, &part) == GGML_STATUS_SUCCESS, "nodes %d to %d", first, end);
}

// Whether node `i`, or the input for -1, holds its value.
static inline bool chain_holds(const struct chain * chain, int i) {
    const struct ggml_tensor * t    = i < 0 ? chain->input : chain->nodes[i];
    uint64_t                   seed = 7;
    for (int64_t at = 0; at < ggml_nelements(t); at++) {
        float value = (float) (splitmix64(&seed) >> 40) / (float) (1 << 24) - 0.5f;
        if (((const float *) t->data)[at] != chain_value(value, i + 1)) {
            return false;
        }
    }
    return true;
}

// The bytes from the first to the last that the tensors of a graph have, in one buffer.
static inline size_t bytes_in_use(struct ggml_cgraph * graph) {
    uintptr_t start = UINTPTR_MAX;
    uintptr_t end   = 0;
    for (int i = 0; i < graph->n_leafs + graph->n_nodes; i++) {
        struct ggml_tensor * t = i < graph->n_leafs ? graph->leafs[i] : graph->nodes[i - graph->n_leafs];
        uintptr_t            data = (uintptr_t) t->data;
        start                     = data < start ? data : start;
        end                       = data + ggml_nbytes(t) > end ? data + ggml_nbytes(t) : end;
    }
    return end - start;
}

static inline void chain_free(struct chain * chain) {
    ggml_free(chain->ctx);
}
