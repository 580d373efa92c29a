// Graph: one step of the model, from tokens to logits.
#pragma once

#include "api.h"
#include "copies.h"
#include "errors.h"
#include "ggml.h"
#include "ggml-cpu.h"
#include "model.h"
#include "options.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define NODES_PER_LAYER 64 // more than build_layer makes, views included
#define NODES_OUTSIDE   64 // nodes before and after the layers
#define NORM_EPS        1e-5f
#define ROPE_FREQ_BASE  10000.0f

// The tokens of one step. They are at first_pos and after; attention reads the first n_kv rows of the cache.
struct batch {
    const int32_t * tokens;
    int n_tokens;
    int first_pos;
    int n_kv;
};

// Memory for the tensors and the graph of one step, used again for every step: bytes, or a context that needs no size.
struct arena {
    void * memory;
    size_t size;
    struct ggml_context * ctx;
    size_t max_nodes;
};

struct graph {
    struct ggml_context * ctx; // the arena's where that has one
    struct ggml_cgraph  * cgraph;

    struct ggml_tensor * tokens;    // I32 [n_tokens]
    struct ggml_tensor * positions; // I32 [n_tokens]
    struct ggml_tensor * kv_rows;   // I64 [n_tokens]: the cache rows to write; NULL where rows are copied to a view
    struct ggml_tensor * mask;      // F32 [n_kv, n_tokens]: 0 where attention is allowed, -inf elsewhere
    struct ggml_tensor * out_rows;  // I32 [1]: the token whose logits are computed; NULL where those of all are
    struct ggml_tensor * attn_mask; // the mask in the type that the attention takes

    struct ggml_tensor * logits;    // F32 [vocab], or [vocab, n_tokens]

    struct copies copies;
};

static struct arena arena_new(const struct options * opt) {
    struct arena arena = { .max_nodes = (size_t) opt->layers * NODES_PER_LAYER + NODES_OUTSIDE };
    if (opt->api == API_LASTUSE) {
        arena.ctx = api_graph_context();
        return arena;
    }
    // a graph, and one of its copies alone
    arena.size   = arena.max_nodes * ggml_tensor_overhead() + 2 * ggml_graph_overhead_custom(arena.max_nodes, false);
    arena.memory = checked_calloc(1, arena.size);
    return arena;
}

static void arena_free(struct arena * arena) {
    if (arena->ctx != NULL) {
        lastuse_context_free(arena->ctx);
    }
    free(arena->memory);
}

// An empty context for one graph.
static struct ggml_context * arena_context(const struct arena * arena) {
    if (arena->ctx != NULL) {
        ggml_reset(arena->ctx);
        return arena->ctx;
    }
    const struct ggml_init_params params = {
        .mem_size = arena->size, .mem_buffer = arena->memory, .no_alloc = true,
    };
    struct ggml_context * ctx = ggml_init(params);
    if (ctx == NULL) {
        die("ggml_init failed for a graph of %zu nodes", arena->max_nodes);
    }
    return ctx;
}

static struct ggml_tensor * new_input(struct graph * graph, enum ggml_type type, int ne0, int ne1, const char * name) {
    struct ggml_tensor * tensor = ggml_new_tensor_2d(graph->ctx, type, ne0, ne1);
    ggml_set_input(tensor);
    ggml_set_name(tensor, name);
    return tensor;
}

static void create_inputs(struct graph * graph, const struct model * model, const struct batch * batch) {
    graph->tokens    = new_input(graph, GGML_TYPE_I32, batch->n_tokens, 1, "tokens");
    graph->positions = new_input(graph, GGML_TYPE_I32, batch->n_tokens, 1, "positions");
    graph->kv_rows   = model->opt.kv_write == KV_WRITE_ROWS
        ? new_input(graph, GGML_TYPE_I64, batch->n_tokens, 1, "kv_rows")
        : NULL;
    graph->mask      = new_input(graph, GGML_TYPE_F32, batch->n_kv, batch->n_tokens, "mask");
    graph->out_rows  = model->opt.logits == LOGITS_LAST ? new_input(graph, GGML_TYPE_I32, 1, 1, "out_rows") : NULL;
    // flash attention takes an F16 mask only; one cast serves all layers
    graph->attn_mask = model->opt.attention == ATTENTION_FLASH
        ? ggml_cast(graph->ctx, graph->mask, GGML_TYPE_F16)
        : graph->mask;
}

static struct ggml_tensor * build_norm(struct ggml_context * ctx, struct ggml_tensor * cur,
        struct ggml_tensor * weight) {
    return ggml_mul(ctx, ggml_rms_norm(ctx, cur, NORM_EPS), weight);
}

// Projects to `heads` heads and rotates each by the positions of the tokens: [head_width, heads, n_tokens].
static struct ggml_tensor * build_rotated_heads(const struct graph * graph, const struct model * model,
        struct ggml_tensor * weight, struct ggml_tensor * cur, int heads) {
    struct ggml_context * ctx = graph->ctx;
    struct ggml_tensor * projected = ggml_mul_mat(ctx, weight, cur);
    projected = ggml_reshape_3d(ctx, projected, model->head_width, heads, cur->ne[1]);
    return ggml_rope_ext(ctx, projected, graph->positions, NULL, model->head_width, GGML_ROPE_TYPE_NEOX, 0,
            ROPE_FREQ_BASE, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f);
}

// The rows of the tokens into a cache with one row per token. A copy to a view is all that the rows are computed for,
// and can be done without where they have the type of the cache; rows whose indices are an input are always written by
// their own node.
static struct ggml_tensor * build_row_write(const struct graph * graph, const struct model * model,
        const struct batch * batch, struct ggml_tensor * cache, struct ggml_tensor * rows) {
    struct ggml_context * ctx = graph->ctx;
    if (model->opt.kv_write == KV_WRITE_ROWS) {
        return ggml_set_rows(ctx, cache, rows, graph->kv_rows);
    }
    const size_t offset = (size_t) batch->first_pos * cache->nb[1];
    struct ggml_tensor * slots = ggml_view_2d(ctx, cache, model->kv_width, batch->n_tokens, cache->nb[1], offset);
    return model->opt.api == API_LASTUSE ? api_write(ctx, rows, slots) : ggml_cpy(ctx, rows, slots);
}

static struct ggml_tensor * build_key_write(const struct graph * graph, const struct model * model,
        const struct layer * layer, const struct batch * batch, struct ggml_tensor * keys) {
    if (model->opt.api == API_LASTUSE && model->opt.kv_write == KV_WRITE_COPY) {
        // a result is computed in its own shape
        struct ggml_tensor * cache = layer->k_cache;
        const size_t head_size = (size_t) model->head_width * ggml_element_size(cache);
        return api_write(graph->ctx, keys, ggml_view_3d(graph->ctx, cache, keys->ne[0], keys->ne[1], keys->ne[2],
                head_size, cache->nb[1], (size_t) batch->first_pos * cache->nb[1]));
    }
    struct ggml_tensor * rows = ggml_reshape_2d(graph->ctx, keys, model->kv_width, keys->ne[2]);
    return build_row_write(graph, model, batch, layer->k_cache, rows);
}

static struct ggml_tensor * build_value_write(const struct graph * graph, const struct model * model,
        const struct layer * layer, const struct batch * batch, struct ggml_tensor * values) {
    struct ggml_context * ctx   = graph->ctx;
    struct ggml_tensor  * cache = layer->v_cache;
    if (values_are_rows(&model->opt)) {
        return build_row_write(graph, model, batch, cache, values);
    }
    const size_t offset = (size_t) batch->first_pos * ggml_element_size(cache);
    struct ggml_tensor * columns = ggml_view_2d(ctx, cache, batch->n_tokens, model->kv_width, cache->nb[1], offset);
    return ggml_cpy(ctx, ggml_transpose(ctx, values), columns);
}

// The part of a cache with one row per token that attention reads: [head_width, n_kv, kv_heads].
static struct ggml_tensor * build_cached_rows(struct ggml_context * ctx, const struct model * model,
        struct ggml_tensor * cache, int n_kv) {
    const size_t head_size = (size_t) model->head_width * ggml_element_size(cache);
    return ggml_view_3d(ctx, cache, model->head_width, n_kv, model->opt.kv_heads, cache->nb[1], head_size, 0);
}

// That part of the transposed cache: [n_kv, head_width, kv_heads].
static struct ggml_tensor * build_cached_columns(struct ggml_context * ctx, const struct model * model,
        struct ggml_tensor * cache, int n_kv) {
    const size_t head_size = (size_t) model->head_width * cache->nb[1];
    return ggml_view_3d(ctx, cache, n_kv, model->head_width, model->opt.kv_heads, cache->nb[1], head_size, 0);
}

// The inputs of attention.
struct cache {
    struct ggml_tensor * keys, * values;
};

// The values, mixed by their probabilities: [head_width, n_tokens, heads]. ggml multiplies by columns of any type, and
// sums up rows of 32-bit numbers only.
static struct ggml_tensor * build_mixed(struct ggml_context * ctx, const struct model * model,
        struct ggml_tensor * values, int n_kv, struct ggml_tensor * probs) {
    if (values_are_rows(&model->opt)) {
        return ggml_out_prod(ctx, build_cached_rows(ctx, model, values, n_kv), ggml_transpose(ctx, probs));
    }
    return ggml_mul_mat(ctx, build_cached_columns(ctx, model, values, n_kv), probs);
}

// ggml repeats the KV heads over the query heads by itself, in both kinds of attention.
static struct ggml_tensor * build_attention(const struct graph * graph, const struct model * model,
        struct cache cache, const struct batch * batch, struct ggml_tensor * queries) {
    struct ggml_context * ctx = graph->ctx;
    const float scale = 1.0f / sqrtf((float) model->head_width);

    struct ggml_tensor * q = ggml_permute(ctx, queries, 0, 2, 1, 3); // [head_width, n_tokens, heads]
    struct ggml_tensor * k = build_cached_rows(ctx, model, cache.keys, batch->n_kv);

    if (model->opt.attention == ATTENTION_FLASH) {
        struct ggml_tensor * v = build_cached_rows(ctx, model, cache.values, batch->n_kv);
        struct ggml_tensor * mixed = ggml_flash_attn_ext(ctx, q, k, v, graph->attn_mask, scale, 0.0f, 0.0f);
        return ggml_reshape_2d(ctx, mixed, model->opt.width, batch->n_tokens);
    }

    // scores and probs are [n_kv, n_tokens, heads]
    struct ggml_tensor * scores = ggml_mul_mat(ctx, k, q);
    struct ggml_tensor * probs  = ggml_soft_max_ext(ctx, scores, graph->attn_mask, scale, 0.0f);
    struct ggml_tensor * mixed  = build_mixed(ctx, model, cache.values, batch->n_kv, probs);
    mixed = ggml_permute(ctx, mixed, 0, 2, 1, 3);
    return ggml_cont_2d(ctx, mixed, model->opt.width, batch->n_tokens);
}

// The cache of a layer after the keys and values of these tokens were written. The views that attention reads it
// through do not depend on the writes: only the order of the nodes puts the writes first. The queries go in before
// them, so that the three projections of one tensor are adjacent.
static struct cache build_cache(const struct graph * graph, const struct model * model, const struct layer * layer,
        const struct batch * batch, struct ggml_tensor * queries, struct ggml_tensor * keys, struct ggml_tensor * values) {
    struct ggml_tensor * key_write   = build_key_write(graph, model, layer, batch, keys);
    struct ggml_tensor * value_write = build_value_write(graph, model, layer, batch, values);
    if (model->opt.api == API_LASTUSE) {
        return (struct cache) {
            .keys   = ggml_dependency(graph->ctx, layer->k_cache, key_write),
            .values = ggml_dependency(graph->ctx, layer->v_cache, value_write),
        };
    }
    ggml_build_forward_expand(graph->cgraph, queries);
    ggml_build_forward_expand(graph->cgraph, key_write);
    ggml_build_forward_expand(graph->cgraph, value_write);
    return (struct cache) { .keys = layer->k_cache, .values = layer->v_cache };
}

static struct ggml_tensor * build_attention_block(const struct graph * graph, const struct model * model,
        const struct layer * layer, const struct batch * batch, struct ggml_tensor * cur) {
    struct ggml_context * ctx = graph->ctx;
    struct ggml_tensor * queries = build_rotated_heads(graph, model, layer->wq, cur, model->opt.heads);
    struct ggml_tensor * keys    = build_rotated_heads(graph, model, layer->wk, cur, model->opt.kv_heads);
    struct ggml_tensor * values  = ggml_mul_mat(ctx, layer->wv, cur);

    const struct cache cache = build_cache(graph, model, layer, batch, queries, keys, values);
    return ggml_mul_mat(ctx, layer->wo, build_attention(graph, model, cache, batch, queries));
}

static struct ggml_tensor * build_ffn(struct ggml_context * ctx, const struct layer * layer, struct ggml_tensor * cur) {
    struct ggml_tensor * up   = ggml_mul_mat(ctx, layer->ffn_up, cur);
    struct ggml_tensor * gate = ggml_mul_mat(ctx, layer->ffn_gate, cur);
    return ggml_mul_mat(ctx, layer->ffn_down, ggml_swiglu_split(ctx, gate, up));
}

static struct ggml_tensor * build_layer(const struct graph * graph, const struct model * model, int il,
        const struct batch * batch, struct ggml_tensor * residual) {
    struct ggml_context * ctx = graph->ctx;
    const struct layer  * layer = &model->layers[il];

    struct ggml_tensor * cur = build_norm(ctx, residual, layer->attn_norm);
    cur = build_attention_block(graph, model, layer, batch, cur);

    // after the last attention only the rows whose logits are computed matter
    if (il == model->opt.layers - 1 && graph->out_rows != NULL) {
        cur      = ggml_get_rows(ctx, cur, graph->out_rows);
        residual = ggml_get_rows(ctx, residual, graph->out_rows);
    }
    residual = ggml_add(ctx, cur, residual);

    cur = build_norm(ctx, residual, layer->ffn_norm);
    return ggml_add(ctx, build_ffn(ctx, layer, cur), residual);
}

static struct graph graph_new(const struct model * model, const struct arena * arena, const struct batch * batch) {
    struct graph graph = { .ctx = arena_context(arena) };
    graph.cgraph = ggml_new_graph_custom(graph.ctx, arena->max_nodes, false);
    if (graph.cgraph == NULL) {
        die("ggml_new_graph_custom failed for %zu nodes", arena->max_nodes);
    }
    create_inputs(&graph, model, batch);

    struct ggml_tensor * residual = ggml_get_rows(graph.ctx, model->token_embd, graph.tokens);
    for (int il = 0; il < model->opt.layers; il++) {
        residual = build_layer(&graph, model, il, batch, residual);
    }
    struct ggml_tensor * cur = build_norm(graph.ctx, residual, model->output_norm);
    graph.logits = ggml_mul_mat(graph.ctx, model->output, cur);
    ggml_set_output(graph.logits);
    ggml_set_name(graph.logits, "logits");
    ggml_build_forward_expand(graph.cgraph, graph.logits);
    if (model->opt.copies == COPIES_REMOVED) {
        graph.copies = remove_copies(graph.cgraph);
    }
    return graph;
}

static void graph_free(const struct arena * arena, struct graph * graph) {
    if (graph->ctx != arena->ctx) {
        ggml_free(graph->ctx);
    }
}
