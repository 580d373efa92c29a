#include "attention.h"

#include "check.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "lastuse.h"

#define NODES 256

static struct ggml_context * new_context(void) {
    return no_alloc_context(NODES * ggml_tensor_overhead() + ggml_graph_overhead_custom(NODES, false));
}

struct attention attention_new(ggml_backend_buffer_type_t type) {
    struct attention a = { .keeping = new_context() };
    for (int layer = 0; layer < ATTENTION_LAYERS; layer++) {
        for (int i = 0; i < 3; i++) {
            a.weights[layer][i] = ggml_new_tensor_2d(a.keeping, GGML_TYPE_F32, ATTENTION_WIDTH, ATTENTION_WIDTH);
        }
        for (int i = 0; i < 2; i++) {
            a.caches[layer][i] = ggml_new_tensor_2d(a.keeping, GGML_TYPE_F32, ATTENTION_WIDTH, ATTENTION_ROWS);
            ggml_format_name(a.caches[layer][i], "cache %d of layer %d", i, layer);
        }
    }
    a.kept = ggml_backend_alloc_ctx_tensors_from_buft(a.keeping, type);
    CHECK(a.kept != NULL, "no memory for weights");
    return a;
}

void attention_free(struct attention * a) {
    ggml_free(a->ctx);
    ggml_backend_buffer_free(a->kept);
    ggml_free(a->keeping);
}

static struct ggml_tensor * slots_of(struct attention * a, struct ggml_tensor * cache, int head) {
    return ggml_view_2d(a->ctx, cache, ATTENTION_WIDTH, ATTENTION_NEW, cache->nb[1], (size_t) head * cache->nb[1]);
}

// The rows of a cache up to those that are new, which are put into it.
static struct ggml_tensor * cached(struct attention * a, int layer, int i, struct ggml_tensor * rows,
                                   enum caching caching, int head) {
    struct ggml_tensor * cache  = a->caches[layer][i];
    struct ggml_tensor * slots  = slots_of(a, cache, head);
    struct ggml_tensor * placed = NULL;
    if (caching == WRITTEN) {
        placed = ggml_set_output(rows, slots);
        CHECK(placed == rows, "refused: %s", lastuse_last_error());
    } else {
        placed = ggml_cpy(a->ctx, rows, slots);
    }
    a->rows[layer][i]        = placed;
    struct ggml_tensor * all = ggml_view_2d(a->ctx, cache, ATTENTION_WIDTH, head + ATTENTION_NEW, cache->nb[1], 0);
    if (caching == COPIED || caching == WRITTEN) {
        return ggml_dependency(a->ctx, all, placed);
    }
    if (caching == COPIED_AND_EXPANDED) {
        ggml_build_forward_expand(a->graph, placed);
    }
    return all;
}

static struct ggml_tensor * build_layer(struct attention * a, int layer, struct ggml_tensor * x, enum caching caching,
                                        int head) {
    struct ggml_context * ctx = a->ctx;
    struct ggml_tensor *  q   = ggml_mul_mat(ctx, a->weights[layer][0], x);
    struct ggml_tensor *  k   = ggml_rms_norm(ctx, ggml_mul_mat(ctx, a->weights[layer][1], x), 1e-5f);
    struct ggml_tensor *  v   = ggml_mul_mat(ctx, a->weights[layer][2], x);
    k                         = cached(a, layer, 0, k, caching, head);
    v                         = cached(a, layer, 1, v, caching, head);
    struct ggml_tensor * kq   = ggml_soft_max(ctx, ggml_scale(ctx, ggml_mul_mat(ctx, k, q), 0.2f));
    return ggml_add(ctx, x, ggml_mul_mat(ctx, ggml_cont(ctx, ggml_transpose(ctx, v)), kq));
}

void attention_build(struct attention * a, enum caching caching, int head, bool right_to_left) {
    ggml_free(a->ctx);
    a->ctx          = new_context();
    a->graph        = ggml_new_graph_custom(a->ctx, NODES, false);
    a->graph->order = right_to_left ? GGML_CGRAPH_EVAL_ORDER_RIGHT_TO_LEFT : GGML_CGRAPH_EVAL_ORDER_LEFT_TO_RIGHT;
    a->input        = ggml_new_tensor_2d(a->ctx, GGML_TYPE_F32, ATTENTION_WIDTH, ATTENTION_NEW);
    ggml_set_input(a->input);
    struct ggml_tensor * x = a->input;
    for (int layer = 0; layer < ATTENTION_LAYERS; layer++) {
        x = build_layer(a, layer, x, caching, head);
    }
    a->output = x;
    ggml_set_output(x);
    ggml_build_forward_expand(a->graph, x);
    for (int layer = 0; caching == COPIED_TOO_LATE && layer < ATTENTION_LAYERS; layer++) {
        ggml_build_forward_expand(a->graph, a->rows[layer][0]);
        ggml_build_forward_expand(a->graph, a->rows[layer][1]);
    }
}

void attention_fill(struct attention * a) {
    uint64_t seed = 1;
    for (int layer = 0; layer < ATTENTION_LAYERS; layer++) {
        for (int i = 0; i < 3; i++) {
            set_values(a->weights[layer][i], seed++);
        }
        for (int i = 0; i < 2; i++) {
            set_values(a->caches[layer][i], seed++);
        }
    }
}

void attention_fill_input(struct attention * a, int seed) {
    set_values(a->input, 1000 + (uint64_t) seed);
}

void attention_keep_result(const struct attention * a, struct attention_result * result) {
    ggml_backend_tensor_get(a->output, result->output, 0, sizeof(result->output));
    for (int i = 0; i < ATTENTION_LAYERS * 2; i++) {
        ggml_backend_tensor_get(a->caches[i / 2][i % 2], result->caches[i], 0, sizeof(result->caches[i]));
    }
}
