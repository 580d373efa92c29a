// Model: weights and KV cache.
#pragma once

#include "api.h"
#include "errors.h"
#include "ggml.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "options.h"
#include "random.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define KV_PADDING     256 // the KV length of a graph is a multiple of this, so that most decode graphs are alike

struct layer {
    struct ggml_tensor * attn_norm;
    struct ggml_tensor * wq, * wk, * wv, * wo;
    struct ggml_tensor * ffn_norm;
    struct ggml_tensor * ffn_up, * ffn_gate, * ffn_down;
    struct ggml_tensor * k_cache, * v_cache;
};

#define WEIGHTS_PER_LAYER  9
#define WEIGHTS_OUTSIDE    3
#define CACHES_PER_LAYER   2

struct model {
    struct options opt;
    int head_width;
    int kv_width;    // of one token's keys, and of its values, over all KV heads
    int kv_capacity; // tokens the KV cache has room for

    struct ggml_tensor * token_embd;
    struct ggml_tensor * output_norm;
    struct ggml_tensor * output;
    struct layer *       layers;

    struct ggml_context * weights_ctx;
    struct ggml_context * cache_ctx;
    ggml_backend_buffer_t weights_buffer;
    ggml_backend_buffer_t cache_buffer;
};

static int pad_kv_length(int length) {
    return (length + KV_PADDING - 1) / KV_PADDING * KV_PADDING;
}

// A context for tensors whose data lives in a backend buffer. Usage is an enum ggml_backend_buffer_usage.
static struct ggml_context * new_tensor_context(const struct options * opt, size_t n_tensors, int usage) {
    if (opt->api == API_LASTUSE) {
        return api_data_context(ggml_backend_cpu_buffer_type(), usage);
    }
    const struct ggml_init_params params = {
        .mem_size = n_tensors * ggml_tensor_overhead(), .mem_buffer = NULL, .no_alloc = true,
    };
    struct ggml_context * ctx = ggml_init(params);
    if (ctx == NULL) {
        die("ggml_init failed for a context of %zu tensors", n_tensors);
    }
    return ctx;
}

static struct ggml_tensor * new_matrix(struct ggml_context * ctx, int in, int out) {
    return ggml_new_tensor_2d(ctx, GGML_TYPE_F16, in, out);
}

static struct ggml_tensor * new_norm(struct ggml_context * ctx, int width) {
    return ggml_new_tensor_1d(ctx, GGML_TYPE_F32, width);
}

static void create_weights(struct model * model) {
    const struct options * opt = &model->opt;
    struct ggml_context  * ctx = model->weights_ctx;

    model->token_embd  = new_matrix(ctx, opt->width, opt->vocab);
    model->output_norm = new_norm(ctx, opt->width);
    model->output      = new_matrix(ctx, opt->width, opt->vocab);
    for (int il = 0; il < opt->layers; il++) {
        struct layer * layer = &model->layers[il];
        layer->attn_norm = new_norm(ctx, opt->width);
        layer->wq        = new_matrix(ctx, opt->width, opt->width);
        layer->wk        = new_matrix(ctx, opt->width, model->kv_width);
        layer->wv        = new_matrix(ctx, opt->width, model->kv_width);
        layer->wo        = new_matrix(ctx, opt->width, opt->width);
        layer->ffn_norm  = new_norm(ctx, opt->width);
        layer->ffn_up    = new_matrix(ctx, opt->width, opt->ffn);
        layer->ffn_gate  = new_matrix(ctx, opt->width, opt->ffn);
        layer->ffn_down  = new_matrix(ctx, opt->ffn, opt->width);
    }
}

// Keys are one row per token. So are values for flash attention, and where they can be summed up row by row. Otherwise
// softmax attention multiplies by the transposed values, and a cache that is transposed already saves a copy of it per
// step.
static bool values_are_rows(const struct options * opt) {
    return opt->attention == ATTENTION_FLASH || opt->kv_type == KV_TYPE_F32;
}

static void create_cache(struct model * model) {
    const enum ggml_type type = model->opt.kv_type == KV_TYPE_F16 ? GGML_TYPE_F16 : GGML_TYPE_F32;
    struct ggml_context * ctx = model->cache_ctx;
    for (int il = 0; il < model->opt.layers; il++) {
        struct layer * layer = &model->layers[il];
        layer->k_cache = ggml_new_tensor_2d(ctx, type, model->kv_width, model->kv_capacity);
        layer->v_cache = values_are_rows(&model->opt)
            ? ggml_new_tensor_2d(ctx, type, model->kv_width, model->kv_capacity)
            : ggml_new_tensor_2d(ctx, type, model->kv_capacity, model->kv_width);
    }
}

// NULL where the buffers belong to the context.
static ggml_backend_buffer_t allocate_tensors(const struct options * opt, struct ggml_context * ctx,
        ggml_backend_t backend, const char * what) {
    if (opt->api == API_LASTUSE) {
        api_realize(ctx);
        return NULL;
    }
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    if (buffer == NULL) {
        die("ggml_backend_alloc_ctx_tensors failed for the %s", what);
    }
    return buffer;
}

// Uniform values in centre +- amplitude, four from each random word.
static void random_values(uint64_t * state, float * values, size_t count, float centre, float amplitude) {
    for (size_t i = 0; i < count; i += 4) {
        const uint64_t word = next_random(state);
        for (size_t j = 0; j < 4 && i + j < count; j++) {
            const int16_t part = (int16_t) (uint16_t) (word >> (16*j));
            values[i + j] = centre + amplitude * (float) part / 32768.0f;
        }
    }
}

static void fill_tensor(struct ggml_tensor * tensor, uint64_t * state, float centre, float amplitude) {
    enum { CHUNK = 4096 };
    float       values[CHUNK];
    ggml_fp16_t halves[CHUNK];

    const size_t count = (size_t) ggml_nelements(tensor);
    for (size_t first = 0; first < count; first += CHUNK) {
        const size_t n = count - first < CHUNK ? count - first : CHUNK;
        random_values(state, values, n, centre, amplitude);
        if (tensor->type == GGML_TYPE_F16) {
            ggml_fp32_to_fp16_row(values, halves, (int64_t) n);
            ggml_backend_tensor_set(tensor, halves, first * sizeof(halves[0]), n * sizeof(halves[0]));
        } else {
            ggml_backend_tensor_set(tensor, values, first * sizeof(values[0]), n * sizeof(values[0]));
        }
    }
}

// A matrix gets the variance 1/inputs, so that its product with a normalized row has the variance 1 and the logits stay
// small. The embedding has no inputs to sum over: its rows are the residual stream, with the variance 1.
static void fill_weights(struct model * model) {
    uint64_t state = (uint64_t) model->opt.seed;
    struct ggml_tensor * tensor = ggml_get_first_tensor(model->weights_ctx);
    for (; tensor != NULL; tensor = ggml_get_next_tensor(model->weights_ctx, tensor)) {
        if (tensor->type == GGML_TYPE_F32) {
            fill_tensor(tensor, &state, 1.0f, 0.1f);
        } else {
            const float inputs = tensor == model->token_embd ? 1.0f : (float) tensor->ne[0];
            fill_tensor(tensor, &state, 0.0f, sqrtf(3.0f / inputs));
        }
    }
}

// Rows that no token has written yet are masked, but 0 times a stray NaN would still be NaN.
static void clear_cache(struct model * model) {
    struct ggml_tensor * tensor = ggml_get_first_tensor(model->cache_ctx);
    for (; tensor != NULL; tensor = ggml_get_next_tensor(model->cache_ctx, tensor)) {
        ggml_backend_tensor_memset(tensor, 0, 0, ggml_nbytes(tensor));
    }
}

static struct model model_without_memory(const struct options * opt) {
    struct model model = {
        .opt         = *opt,
        .head_width  = opt->width / opt->heads,
        .kv_width    = opt->width / opt->heads * opt->kv_heads,
        .kv_capacity = pad_kv_length(opt->prompt + opt->decode),
        .layers      = checked_calloc((size_t) opt->layers, sizeof(struct layer)),
    };
    const size_t n_layers = (size_t) opt->layers;
    model.weights_ctx = new_tensor_context(opt, n_layers * WEIGHTS_PER_LAYER + WEIGHTS_OUTSIDE,
            GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    model.cache_ctx = new_tensor_context(opt, n_layers * CACHES_PER_LAYER, GGML_BACKEND_BUFFER_USAGE_ANY);
    create_weights(&model);
    create_cache(&model);
    return model;
}

static struct model model_new(const struct options * opt, ggml_backend_t backend) {
    struct model model = model_without_memory(opt);
    model.weights_buffer = allocate_tensors(opt, model.weights_ctx, backend, "weights");
    model.cache_buffer   = allocate_tensors(opt, model.cache_ctx, backend, "KV cache");
    if (model.weights_buffer != NULL) {
        ggml_backend_buffer_set_usage(model.weights_buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    fill_weights(&model);
    clear_cache(&model);
    return model;
}

static void model_free(struct model * model) {
    ggml_backend_buffer_free(model->cache_buffer);
    ggml_backend_buffer_free(model->weights_buffer);
    const bool is_api = model->opt.api == API_LASTUSE;
    (is_api ? lastuse_context_free : ggml_free)(model->cache_ctx);
    (is_api ? lastuse_context_free : ggml_free)(model->weights_ctx);
    free(model->layers);
}
