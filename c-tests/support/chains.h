// Chains: graphs whose result is known for an input that has the same value everywhere.
#pragma once

#include <stdlib.h>

#include "check.h"
#include "ggml-backend.h"
#include "ggml.h"

enum { CHAIN_COLUMNS = 64 };

// An input or a view of the result of another chain, and several nodes.
struct chain {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  input;
    struct ggml_tensor *  result;
};

static inline struct chain new_chain(struct ggml_tensor * source, int64_t rows) {
    struct chain chain = { .ctx = no_alloc_context((size_t) 64 << 10) };
    chain.graph        = ggml_new_graph_custom(chain.ctx, 64, false);
    if (source != NULL) {
        chain.input = ggml_view_tensor(chain.ctx, source);
    } else {
        chain.input = ggml_new_tensor_2d(chain.ctx, GGML_TYPE_F32, CHAIN_COLUMNS, rows);
        ggml_set_input(chain.input);
    }
    struct ggml_tensor * t = chain.input;
    for (int i = 0; i < 4; i++) {
        t = ggml_add(chain.ctx, ggml_mul(chain.ctx, t, t), ggml_scale(chain.ctx, t, 0.5f));
    }
    // Read once more when the result is written.
    chain.result = ggml_add(chain.ctx, t, chain.input);
    ggml_build_forward_expand(chain.graph, chain.result);
    return chain;
}

static inline float truth_of(float input) {
    float value = input;
    for (int i = 0; i < 4; i++) {
        value = value * value + value * 0.5f;
    }
    return value + input;
}

// In any memory.
static inline void set_input_to(struct ggml_tensor * t, float value) {
    size_t  count  = (size_t) ggml_nelements(t);
    float * values = malloc(count * sizeof(float));
    CHECK(values != NULL, "out of memory");
    for (size_t i = 0; i < count; i++) {
        values[i] = value;
    }
    ggml_backend_tensor_set(t, values, 0, count * sizeof(float));
    free(values);
}
