#include "large_graph.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "splitmix.h"

#define TENSORS 16384
#define PIECES  3

static int below(uint64_t * state, int limit) {
    return (int) (splitmix64(state) % (uint64_t) limit);
}

static int64_t one_of(uint64_t * state, int64_t a, int64_t b, int64_t c) {
    int choice = below(state, 3);
    return choice == 0 ? a : choice == 1 ? b : c;
}

struct ggml_tensor * large_graph_leaf(struct large_graph * b, enum ggml_type type, int64_t x, int64_t y, int64_t z, int64_t w) {
    CHECK(b->n_leafs < LARGE_GRAPH_LEAFS, "too many leafs");
    struct ggml_tensor * t = ggml_new_tensor_4d(b->ctx, type, x, y, z, w);
    ggml_set_input(t);
    b->leafs[b->n_leafs++] = t;
    return t;
}

// Scores, a mask, softmax, the weighted sum, and the heads side by side.
static struct ggml_tensor * attention(struct large_graph * b, uint64_t * state) {
    int64_t              keys    = one_of(state, 64, 96, 256);
    int64_t              queries = one_of(state, 64, 77, 128);
    int64_t              heads   = one_of(state, 1, 4, 8);
    int64_t              shared  = below(state, 3) == 0 ? 1 : heads;
    enum ggml_type       type    = below(state, 2) == 0 ? GGML_TYPE_F32 : GGML_TYPE_F16;
    struct ggml_tensor * k       = large_graph_leaf(b, type, 32, keys, shared, 1);
    struct ggml_tensor * v       = large_graph_leaf(b, type, keys, 32, shared, 1);
    struct ggml_tensor * q;
    if (below(state, 2) == 0) {
        q = large_graph_leaf(b, GGML_TYPE_F32, 32, queries, heads, 1);
    } else {
        q = ggml_permute(b->ctx, large_graph_leaf(b, GGML_TYPE_F32, 32, heads, queries, 1), 0, 2, 1, 3);
    }
    struct ggml_tensor * mask = below(state, 2) == 0 ? NULL : large_graph_leaf(b, GGML_TYPE_F32, keys, (queries + 31) / 32 * 32, 1, 1);
    float                bias = mask != NULL && below(state, 3) == 0 ? 8.0f : 0.0f;
    struct ggml_tensor * scores = ggml_soft_max_ext(b->ctx, ggml_mul_mat(b->ctx, k, q), mask, 0.2f, bias);
    struct ggml_tensor * mixed  = ggml_mul_mat(b->ctx, v, scores);
    return ggml_cont(b->ctx, ggml_permute(b->ctx, mixed, 0, 2, 1, 3));
}

static struct ggml_tensor * convolution(struct large_graph * b, uint64_t * state) {
    int64_t              channels = one_of(state, 3, 8, 16);
    int64_t              filters  = one_of(state, 4, 6, 16);
    int64_t              width    = one_of(state, 16, 24, 40);
    int64_t              height   = one_of(state, 16, 23, 40);
    int64_t              images   = below(state, 4) == 0 ? 2 : 1;
    int                  stride   = 1 + below(state, 2);
    int                  padding  = below(state, 3);
    struct ggml_tensor * kernel   = large_graph_leaf(b, GGML_TYPE_F16, 3, 3, channels, filters);
    struct ggml_tensor * image    = ggml_silu(b->ctx, large_graph_leaf(b, GGML_TYPE_F32, width, height, channels, images));
    struct ggml_tensor * found    = ggml_conv_2d(b->ctx, kernel, image, stride, stride, padding, padding, 1, 1);
    return ggml_add(b->ctx, found, large_graph_leaf(b, GGML_TYPE_F32, 1, 1, filters, 1));
}

static struct ggml_tensor * gated(struct large_graph * b, uint64_t * state) {
    enum ggml_type       types[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0 };
    enum ggml_type       type    = types[below(state, 4)];
    int64_t              hidden  = one_of(state, 256, 512, 1024);
    struct ggml_tensor * x       = ggml_rms_norm(b->ctx, large_graph_leaf(b, GGML_TYPE_F32, 64, one_of(state, 32, 61, 128), 1, 1), 1e-6f);
    struct ggml_tensor * up      = ggml_mul_mat(b->ctx, large_graph_leaf(b, type, 64, hidden, 1, 1), x);
    struct ggml_tensor * gate    = ggml_mul_mat(b->ctx, large_graph_leaf(b, type, 64, hidden, 1, 1), x);
    struct ggml_tensor * both    = ggml_mul(b->ctx, ggml_silu(b->ctx, gate), up);
    return ggml_mul_mat(b->ctx, large_graph_leaf(b, type, hidden, 64, 1, 1), both);
}

// Two experts of four for each token, the ones with the largest logits.
static struct ggml_tensor * routed(struct large_graph * b, uint64_t * state) {
    enum ggml_type       types[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0 };
    enum ggml_type       type    = types[below(state, 4)];
    int64_t              hidden  = one_of(state, 64, 96, 128);
    int64_t              tokens  = one_of(state, 200, 333, 400);
    struct ggml_tensor * x       = ggml_rms_norm(b->ctx, large_graph_leaf(b, GGML_TYPE_F32, 32, tokens, 1, 1), 1e-6f);
    struct ggml_tensor * logits  = ggml_mul_mat(b->ctx, large_graph_leaf(b, GGML_TYPE_F32, 32, 4, 1, 1), x);
    struct ggml_tensor * sorted  = ggml_argsort(b->ctx, logits, GGML_SORT_ORDER_DESC);
    struct ggml_tensor * ids     = ggml_view_2d(b->ctx, sorted, 2, tokens, sorted->nb[1], 0);
    struct ggml_tensor * columns = ggml_reshape_3d(b->ctx, x, 32, 1, tokens);
    struct ggml_tensor * up      = ggml_mul_mat_id(b->ctx, large_graph_leaf(b, type, 32, hidden, 4, 1), columns, ids);
    struct ggml_tensor * gate    = ggml_mul_mat_id(b->ctx, large_graph_leaf(b, type, 32, hidden, 4, 1), columns, ids);
    struct ggml_tensor * both    = ggml_mul(b->ctx, ggml_silu(b->ctx, gate), up);
    return ggml_mul_mat_id(b->ctx, large_graph_leaf(b, type, hidden, 32, 4, 1), both, ids);
}

static struct ggml_tensor * chain(struct large_graph * b, uint64_t * state) {
    struct ggml_tensor * x = large_graph_leaf(b, GGML_TYPE_F32, 64, one_of(state, 64, 65, 200), one_of(state, 1, 3, 4), 1);
    for (int i = 3 + below(state, 5); i > 0; i--) {
        switch (below(state, 7)) {
            case 0: x = ggml_add(b->ctx, x, large_graph_leaf(b, GGML_TYPE_F32, x->ne[0], 1, 1, 1)); break;
            case 1: x = ggml_norm(b->ctx, x, 1e-5f); break;
            case 2: x = ggml_cont(b->ctx, ggml_permute(b->ctx, x, 1, 0, 2, 3)); break;
            case 3: x = ggml_scale(b->ctx, x, 0.7f); break;
            case 4: x = ggml_soft_max(b->ctx, x); break;
            case 5: x = ggml_mul_mat(b->ctx, large_graph_leaf(b, GGML_TYPE_F32, x->ne[0], 128, 1, 1), x); break;
            default: x = ggml_gelu(b->ctx, x); break;
        }
    }
    return x;
}

struct large_graph large_graph_with_room(uint64_t seed, size_t nodes) {
    struct large_graph b = { .ctx = no_alloc_context(TENSORS * ggml_tensor_overhead() + ggml_graph_overhead_custom(nodes, false)) };
    uint64_t     state = seed * 7919 + 1;
    int          count = 1 + below(&state, PIECES);
    b.graph            = ggml_new_graph_custom(b.ctx, nodes, false);
    struct ggml_tensor * sum = NULL;
    for (int i = 0; i < count; i++) {
        int                  kind = seed % 5 == 4 && i == 0 ? 4 : below(&state, 4);
        struct ggml_tensor * t    = kind == 0 ? attention(&b, &state)
                                    : kind == 1 ? convolution(&b, &state)
                                    : kind == 2 ? gated(&b, &state)
                                    : kind == 3 ? chain(&b, &state)
                                                : routed(&b, &state);
        if (below(&state, 2) == 0) {
            ggml_set_output(t);
            b.results[b.n_results++] = t;
        }
        if (i == 0 && seed % 3 == 0) {
            // No node reads it, so it stays as it is to the end of the graph.
            b.results[b.n_results++] = ggml_scale(b.ctx, ggml_tanh(b.ctx, t), 3.0f);
            ggml_build_forward_expand(b.graph, b.results[b.n_results - 1]);
        }
        t   = ggml_sum(b.ctx, ggml_sqr(b.ctx, t));
        sum = sum == NULL ? t : ggml_add(b.ctx, sum, t);
    }
    ggml_set_output(sum);
    b.results[b.n_results++] = sum;
    ggml_build_forward_expand(b.graph, sum);
    return b;
}

struct large_graph large_graph_new(uint64_t seed) {
    return large_graph_with_room(seed, LARGE_GRAPH_NODES);
}

void large_graph_free(struct large_graph graph) {
    ggml_free(graph.ctx);
}

static void set_leaf(struct ggml_tensor * t, uint64_t seed) {
    int64_t n      = ggml_nelements(t);
    float * values = malloc((size_t) n * sizeof(float));
    CHECK(values != NULL, "out of memory");
    for (int64_t i = 0; i < n; i++) {
        values[i] = (float) (splitmix64(&seed) >> 40) / (float) (1 << 24) - 0.5f;
    }
    if (t->type == GGML_TYPE_F32) {
        memcpy(t->data, values, (size_t) n * sizeof(float));
    } else {
        ggml_quantize_chunk(t->type, values, t->data, 0, n / t->ne[0], t->ne[0], NULL);
    }
    free(values);
}

void large_graph_set(struct large_graph * b) {
    for (int i = 0; i < b->n_leafs; i++) {
        // A leaf that nothing reads has no memory.
        if (b->leafs[i]->data != NULL) {
            set_leaf(b->leafs[i], (uint64_t) i * 131 + 7);
        }
    }
}

void large_graph_expect_packed(const struct large_graph * g, size_t alignment) {
    for (int i = 0; i < ggml_graph_n_nodes(g->graph); i++) {
        const struct ggml_tensor * t = ggml_graph_node(g->graph, i);
        CHECK(t->view_offs % alignment == 0, "%s begins at %zu", t->name, t->view_offs);
        if (t->op != GGML_OP_VIEW && t->op != GGML_OP_PERMUTE && t->op != GGML_OP_TRANSPOSE && t->op != GGML_OP_CPY) {
            CHECK(ggml_is_contiguous(t), "%s is written with gaps", t->name);
        }
    }
}

void large_graph_run(struct large_graph * b, ggml_backend_t cpu) {
    large_graph_set(b);
    enum ggml_status status = ggml_backend_graph_compute(cpu, b->graph);
    CHECK(status == GGML_STATUS_SUCCESS, "status %d", (int) status);
}
