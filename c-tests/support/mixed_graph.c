#include "mixed_graph.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ggml-alloc.h"
#include "graph_fields.h"
#include "splitmix.h"

#define TENSORS      20000
#define MOST         (1 << 17) // elements of a result
#define MOST_POOL    64

// Values that later nodes may read, newest last.
struct pool {
    struct mixed_graph * g;
    struct ggml_tensor * items[MOST_POOL];
    bool                 is_read[MOST_POOL];
    int                  count;
};

static int below(struct mixed_graph * g, int limit) {
    return (int) (splitmix64(&g->state) % (uint64_t) limit);
}

static bool chance(struct mixed_graph * g, int percent) {
    return below(g, 100) < percent;
}

static int64_t one_of(struct mixed_graph * g, int64_t a, int64_t b, int64_t c, int64_t d) {
    int64_t all[] = { a, b, c, d };
    return all[below(g, 4)];
}

static struct ggml_tensor * leaf(struct mixed_graph * g, enum ggml_type type, int64_t x, int64_t y, int64_t z, int64_t w) {
    CHECK(g->n_leafs < MIXED_GRAPH_VALUES, "too many leafs");
    struct ggml_tensor * t = ggml_new_tensor_4d(g->keeping, type, x, y, z, w);
    ggml_set_input(t);
    g->leafs[g->n_leafs++] = t;
    return t;
}

static void add(struct pool * pool, struct ggml_tensor * t) {
    struct mixed_graph * g = pool->g;
    if (pool->count < MOST_POOL && g->n_values < MIXED_GRAPH_VALUES) {
        pool->is_read[pool->count] = false;
        pool->items[pool->count++] = t;
        g->values[g->n_values++]   = t;
    }
}

// One of the latest values most of the time.
static struct ggml_tensor * pick(struct pool * pool) {
    int newest = pool->count < 4 ? pool->count : 4;
    int at     = chance(pool->g, 70) ? pool->count - 1 - below(pool->g, newest) : below(pool->g, pool->count);
    pool->is_read[at] = true;
    return pool->items[at];
}

// Another value of the shape of `t`, if there is one; otherwise an input, with one element in some dimensions.
static struct ggml_tensor * operand(struct pool * pool, const struct ggml_tensor * t) {
    struct mixed_graph * g = pool->g;
    for (int i = pool->count - 1; i >= 0 && chance(g, 80); i--) {
        if (pool->items[i] != t && ggml_are_same_shape(pool->items[i], t)) {
            pool->is_read[i] = true;
            return pool->items[i];
        }
    }
    int64_t ne[4];
    for (int d = 0; d < 4; d++) {
        ne[d] = chance(g, 50) ? t->ne[d] : 1;
    }
    return leaf(g, GGML_TYPE_F32, ne[0], ne[1], ne[2], ne[3]);
}

// Without gaps, and with ggml's own strides in dimensions of one element.
static struct ggml_tensor * packed(struct mixed_graph * g, struct ggml_tensor * t) {
    size_t next = ggml_type_size(t->type);
    for (int d = 0; d < 4; next *= (size_t) t->ne[d++]) {
        if (t->nb[d] != next) {
            return ggml_cont(g->ctx, t);
        }
    }
    return t;
}

static struct ggml_tensor * with_rows(struct mixed_graph * g, struct ggml_tensor * t) {
    return t->nb[0] == ggml_type_size(t->type) ? t : ggml_cont(g->ctx, t);
}

static struct ggml_tensor * attention(struct mixed_graph * g) {
    int64_t              keys = one_of(g, 24, 32, 64, 96), queries = one_of(g, 16, 31, 64, 72);
    int64_t              heads = one_of(g, 1, 2, 4, 6), batches = one_of(g, 1, 1, 2, 3), size = one_of(g, 8, 16, 32, 32);
    int64_t              shared = chance(g, 30) ? 1 : heads;
    struct ggml_tensor * k      = leaf(g, GGML_TYPE_F32, size, keys, shared, batches);
    struct ggml_tensor * q      = leaf(g, GGML_TYPE_F32, size, queries, heads, batches);
    struct ggml_tensor * mask   = NULL;
    if (chance(g, 50)) {
        enum ggml_type type = chance(g, 50) ? GGML_TYPE_F16 : GGML_TYPE_F32;
        mask = leaf(g, type, keys, queries + below(g, 2) * 9, chance(g, 30) ? heads : 1, chance(g, 30) ? batches : 1);
    }
    struct ggml_tensor * sinks = chance(g, 50) ? leaf(g, GGML_TYPE_F32, heads, 1, 1, 1) : NULL;
    float                bias  = mask != NULL && chance(g, 40) ? 8.0f : 0.0f;
    if (mask != NULL && mask->type == GGML_TYPE_F16 && mask->ne[2] == 1 && chance(g, 30)) {
        struct ggml_tensor * v = leaf(g, GGML_TYPE_F32, size, keys, shared, batches);
        struct ggml_tensor * f = ggml_flash_attn_ext(g->ctx, q, k, v, mask, 0.3f, bias, 0.0f);
        ggml_flash_attn_ext_add_sinks(f, sinks);
        return f;
    }
    struct ggml_tensor * scores = ggml_mul_mat(g->ctx, k, q);
    bool                 in_place = chance(g, 20);
    struct ggml_tensor * soft     = in_place && mask == NULL ? ggml_soft_max_inplace(g->ctx, scores)
                                                             : ggml_soft_max_ext(g->ctx, scores, mask, 0.3f, bias);
    ggml_soft_max_add_sinks(soft, sinks);
    struct ggml_tensor * v     = leaf(g, GGML_TYPE_F32, keys, size, shared, batches);
    struct ggml_tensor * mixed = ggml_mul_mat(g->ctx, v, soft);
    return chance(g, 50) ? mixed : ggml_cont(g->ctx, ggml_permute(g->ctx, mixed, 0, 2, 1, 3));
}

static struct ggml_tensor * convolution(struct mixed_graph * g, struct ggml_tensor * x) {
    struct ggml_tensor * kernel = leaf(g, GGML_TYPE_F16, 3, 3, x->ne[2], one_of(g, 2, 4, 6, 8));
    int                  stride = 1 + below(g, 2);
    return ggml_conv_2d(g->ctx, kernel, x, stride, stride, 1, 1, 1, 1);
}

// Rows that overlap: each begins a few elements after the one before, so that the view has elements several times.
static struct ggml_tensor * overlapping_rows(struct mixed_graph * g, struct ggml_tensor * x) {
    int64_t n       = ggml_nelements(x);
    int64_t columns = 2 + below(g, n > 96 ? 64 : 1);
    int64_t rows    = 1 + below(g, (int) (n / columns > 0 ? n / columns : 1));
    size_t  step    = (size_t) (chance(g, 50) ? 1 : (columns + 1) / 2) * x->nb[0];
    return n < columns ? x : ggml_view_2d(g->ctx, x, columns, rows, step, 0);
}

// A view of any kind: ranges, other orders of dimensions, rows that overlap.
static struct ggml_tensor * view(struct mixed_graph * g, struct ggml_tensor * x) {
    x                = x->view_src != NULL && chance(g, 70) ? ggml_cont(g->ctx, x) : x;
    int64_t rows     = x->ne[1] / 2 > 0 ? x->ne[1] / 2 : 1;
    int64_t columns  = x->ne[0] / 2 > 0 ? x->ne[0] / 2 : 1;
    bool    is_plain = x->view_src == NULL;
    switch (below(g, is_plain ? 6 : 3)) {
        case 0: return ggml_permute(g->ctx, x, 1, 0, 2, 3);
        case 1: return ggml_permute(g->ctx, x, 0, 2, 1, 3);
        case 2: return ggml_reshape_2d(g->ctx, packed(g, x), x->ne[0] * x->ne[1], x->ne[2] * x->ne[3]);
        case 3:
            return ggml_view_4d(g->ctx, x, x->ne[0], rows, x->ne[2], x->ne[3], x->nb[1], x->nb[2], x->nb[3],
                                (size_t) (x->ne[1] - rows) * x->nb[1]);
        case 4:
            return ggml_view_4d(g->ctx, x, columns, x->ne[1], x->ne[2], x->ne[3], x->nb[1], x->nb[2], x->nb[3],
                                (size_t) (x->ne[0] - columns) * x->nb[0]);
        default: return overlapping_rows(g, x);
    }
}

static struct ggml_tensor * joined(struct mixed_graph * g, struct ggml_tensor * x) {
    int64_t ne[4];
    int     dim = below(g, 4);
    memcpy(ne, x->ne, sizeof(ne));
    ne[dim] = 1 + below(g, 8);
    struct ggml_tensor * other = leaf(g, GGML_TYPE_F32, ne[0], ne[1], ne[2], ne[3]);
    struct ggml_tensor * t     = ggml_concat(g->ctx, packed(g, x), other, dim);
    // Over a result that nothing else reads.
    return chance(g, 40) ? ggml_scale_inplace(g->ctx, t, 0.5f) : t;
}

static struct ggml_tensor * product(struct mixed_graph * g, struct ggml_tensor * x) {
    x            = with_rows(g, x);
    int64_t rows = one_of(g, 16, 32, 100, 112), n = ggml_nelements(x) / x->ne[0];
    rows         = rows * n > MOST ? 4 : rows;
    if (chance(g, 20)) {
        x = packed(g, x);
        return ggml_add(g->ctx, ggml_mul_mat(g->ctx, leaf(g, GGML_TYPE_F32, x->ne[0], x->ne[0], 1, 1), x), x);
    }
    int64_t heads = chance(g, 30) ? x->ne[2] : 1, batches = chance(g, 40) ? x->ne[3] : 1;
    return ggml_mul_mat(g->ctx, leaf(g, GGML_TYPE_F32, x->ne[0], rows, heads, batches), x);
}

static struct ggml_tensor * operand_like(struct mixed_graph * g, const struct ggml_tensor * t) {
    return leaf(g, GGML_TYPE_F32, t->ne[0], t->ne[1], t->ne[2], t->ne[3]);
}

static struct ggml_tensor * elementwise(struct mixed_graph * g, struct pool * pool, struct ggml_tensor * x) {
    struct ggml_context * ctx = g->ctx;
    switch (below(g, 16)) {
        case 0:  return ggml_silu(ctx, packed(g, x));
        case 1:  return ggml_soft_max(ctx, packed(g, x));
        case 2:  return ggml_add(ctx, packed(g, x), operand(pool, x));
        case 3:  return ggml_mul(ctx, packed(g, x), operand(pool, x));
        case 4:  return ggml_rms_norm(ctx, with_rows(g, x), 1e-5f);
        case 5:  return ggml_scale(ctx, packed(g, x), 0.6f);
        case 6:  return ggml_sqr(ctx, packed(g, x));
        case 7:  return ggml_cont(ctx, ggml_permute(ctx, x, 1, 0, 2, 3));
        case 8:  return ggml_sum_rows(ctx, with_rows(g, x));
        case 9:  return ggml_cast(ctx, ggml_cast(ctx, packed(g, x), GGML_TYPE_F16), GGML_TYPE_F32);
        case 10: return ggml_repeat_4d(ctx, ggml_sum_rows(ctx, with_rows(g, x)), 4, x->ne[1], x->ne[2], x->ne[3]);
        case 11: return ggml_group_norm(ctx, packed(g, x), 1, 1e-5f);
        case 12: return ggml_upscale(ctx, packed(g, x), 2, GGML_SCALE_MODE_NEAREST);
        case 13: return ggml_cpy(ctx, packed(g, x), ggml_dup(ctx, operand_like(g, x)));
        case 14: return ggml_add_inplace(ctx, ggml_dup(ctx, packed(g, x)), operand(pool, x));
        default: return ggml_scale_inplace(ctx, ggml_dup(ctx, packed(g, x)), 1.5f);
    }
}

// Over a value that others may read: before or after it, as the graph lists them.
static struct ggml_tensor * written_over(struct mixed_graph * g, struct ggml_tensor * x) {
    int left = 0;
    for (int i = 0; i < g->n_values; i++) {
        bool is_kept = g->values[i] != x && g->values[i]->view_src != x;
        g->values[left] = g->values[i];
        left += is_kept;
    }
    g->n_values = left;
    return chance(g, 50) ? ggml_scale_inplace(g->ctx, x, 0.8f) : ggml_silu_inplace(g->ctx, x);
}

static struct ggml_tensor * next(struct mixed_graph * g, struct pool * pool) {
    int                  kind = below(g, 20);
    struct ggml_tensor * x    = pick(pool);
    if (kind < 3) {
        return attention(g);
    } else if (kind < 8) {
        return product(g, x);
    } else if (kind < 11) {
        return view(g, x);
    } else if (kind < 13) {
        return joined(g, x);
    } else if (kind < 14 && packed(g, x) == x && x->ne[0] > 2 && x->ne[1] > 2 && ggml_nelements(x) < MOST / 8) {
        return convolution(g, x);
    }
    return kind == 19 && x->view_src == NULL && chance(g, 50) ? written_over(g, x) : elementwise(g, pool, x);
}

static struct ggml_tensor * sum_of(struct mixed_graph * g, struct ggml_tensor * sum, struct ggml_tensor * t) {
    t = ggml_sum(g->ctx, ggml_sqr(g->ctx, packed(g, t)));
    return sum == NULL ? t : ggml_add(g->ctx, sum, t);
}

// The last node of a graph of the values that nothing reads, and of some others.
static struct ggml_tensor * result(struct mixed_graph * g, struct pool * pool, int percent) {
    struct ggml_tensor * sum = NULL;
    for (int i = 0; i < pool->count; i++) {
        if (sum == NULL || chance(g, pool->is_read[i] ? 10 : percent)) {
            sum = sum_of(g, sum, pool->items[i]);
        }
    }
    ggml_set_output(sum);
    return sum;
}

struct mixed_graph mixed_graph_new(uint64_t seed) {
    size_t             bytes = TENSORS * ggml_tensor_overhead() + 2 * ggml_graph_overhead_custom(MIXED_GRAPH_NODES, false);
    struct mixed_graph g     = { .ctx = no_alloc_context(bytes), .state = seed * 7919 + 3 };
    bool               keeps = seed % 3 != 0;
    g.keeping                = keeps ? no_alloc_context(MIXED_GRAPH_VALUES * ggml_tensor_overhead()) : g.ctx;
    struct pool        pool  = { .g = &g };
    add(&pool, ggml_silu(g.ctx, leaf(&g, GGML_TYPE_F32, one_of(&g, 32, 60, 112, 184), one_of(&g, 14, 27, 60, 64),
                                     one_of(&g, 1, 2, 4, 7), one_of(&g, 1, 1, 2, 3))));
    for (int i = 4 + below(&g, 12); i > 0; i--) {
        struct ggml_tensor * t = next(&g, &pool);
        if (ggml_nelements(t) <= MOST) {
            add(&pool, t);
        }
    }
    g.results[0] = result(&g, &pool, 100);
    g.results[1] = ggml_scale(g.ctx, result(&g, &pool, 50), 2.0f);
    ggml_set_output(g.results[1]);
    g.graph  = ggml_new_graph_custom(g.ctx, MIXED_GRAPH_NODES, false);
    g.second = ggml_new_graph_custom(g.ctx, MIXED_GRAPH_NODES, false);
    ggml_build_forward_expand(g.graph, g.results[0]);
    ggml_build_forward_expand(g.second, g.results[1]);
    g.buffer = keeps ? ggml_backend_alloc_ctx_tensors_from_buft(g.keeping, ggml_backend_cpu_buffer_type()) : NULL;
    return g;
}

void mixed_graph_free(struct mixed_graph * g) {
    if (g->keeping != g->ctx) {
        ggml_backend_buffer_free(g->buffer);
        ggml_free(g->keeping);
    }
    ggml_free(g->ctx);
}

bool mixed_graph_lists(const struct ggml_cgraph * graph, const struct ggml_tensor * t) {
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i] == t) {
            return true;
        }
    }
    return false;
}

void mixed_graph_drop_memory(struct mixed_graph * g) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(g->ctx); t != NULL; t = ggml_get_next_tensor(g->ctx, t)) {
        t->data   = NULL;
        t->buffer = NULL;
    }
}

static void set_leaf(struct ggml_tensor * t, uint64_t seed) {
    int64_t n = ggml_nelements(t);
    for (int64_t i = 0; i < n; i++) {
        float value = (float) (splitmix64(&seed) >> 40) / (float) (1 << 24) - 0.5f;
        if (t->type == GGML_TYPE_F32) {
            ((float *) t->data)[i] = value;
        } else {
            ((ggml_fp16_t *) t->data)[i] = ggml_fp32_to_fp16(value);
        }
    }
}

void mixed_graph_run(struct mixed_graph * g, struct ggml_cgraph * graph, ggml_backend_t cpu) {
    for (int i = 0; i < g->n_leafs; i++) {
        if (g->leafs[i]->data != NULL) {
            set_leaf(g->leafs[i], (uint64_t) i * 131 + 7);
        }
    }
    enum ggml_status status = ggml_backend_graph_compute(cpu, graph);
    CHECK(status == GGML_STATUS_SUCCESS, "status %d", (int) status);
}
