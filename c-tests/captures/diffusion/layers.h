// Layers of the networks of Stable Diffusion. Images are [width, height, channels], sequences [channels, length].
#pragma once

#include "../new_graph.h"

#include <math.h>

enum { NORM_GROUPS = 32 };

// A value of each channel, for all places of an image.
static inline struct ggml_tensor * per_channel(const struct new_graph * g, struct ggml_tensor * values) {
    return ggml_reshape_4d(g->ctx, values, 1, 1, ggml_nelements(values), 1);
}

static inline struct ggml_tensor * conv(const struct new_graph * g, struct ggml_tensor * x, int64_t channels, int kernel,
                                        int stride) {
    struct ggml_tensor * weight = new_weight(g, GGML_TYPE_F16, kernel, kernel, x->ne[2], channels);
    const int pad = kernel / 2;
    x = ggml_conv_2d(g->ctx, weight, x, stride, stride, pad, pad, 1, 1);
    return ggml_add(g->ctx, x, per_channel(g, new_vector(g, channels)));
}

static inline struct ggml_tensor * group_norm(const struct new_graph * g, struct ggml_tensor * x) {
    const int64_t channels = x->ne[2];
    x = ggml_group_norm(g->ctx, x, NORM_GROUPS, 1e-6f);
    x = ggml_mul(g->ctx, x, per_channel(g, new_vector(g, channels)));
    return ggml_add(g->ctx, x, per_channel(g, new_vector(g, channels)));
}

static inline struct ggml_tensor * layer_norm(const struct new_graph * g, struct ggml_tensor * x) {
    x = ggml_norm(g->ctx, x, 1e-5f);
    x = ggml_mul(g->ctx, x, new_vector(g, x->ne[0]));
    return ggml_add(g->ctx, x, new_vector(g, x->ne[0]));
}

static inline struct ggml_tensor * linear(const struct new_graph * g, struct ggml_tensor * x, int64_t width, bool bias) {
    x = ggml_mul_mat(g->ctx, new_weight(g, GGML_TYPE_F16, x->ne[0], width, 1, 1), x);
    return bias ? ggml_add(g->ctx, x, new_vector(g, width)) : x;
}

static inline struct ggml_tensor * upsample(const struct new_graph * g, struct ggml_tensor * x) {
    return conv(g, ggml_upscale(g->ctx, x, 2, GGML_SCALE_MODE_NEAREST), x->ne[2], 3, 1);
}

// `embedding` is that of the time step, or NULL in a network without one.
static inline struct ggml_tensor * residual_block(const struct new_graph * g, struct ggml_tensor * x,
                                                  struct ggml_tensor * embedding, int64_t channels) {
    struct ggml_tensor * h = conv(g, ggml_silu(g->ctx, group_norm(g, x)), channels, 3, 1);
    if (embedding != NULL) {
        struct ggml_tensor * shift = linear(g, ggml_silu(g->ctx, embedding), channels, true);
        h = ggml_add(g->ctx, h, per_channel(g, shift));
    }
    h = conv(g, ggml_silu(g->ctx, group_norm(g, h)), channels, 3, 1);
    return ggml_add(g->ctx, h, x->ne[2] == channels ? x : conv(g, x, channels, 1, 1));
}

static inline struct ggml_tensor * image_to_sequence(const struct new_graph * g, struct ggml_tensor * x) {
    const int64_t channels = x->ne[2], length = x->ne[0] * x->ne[1];
    x = ggml_cont(g->ctx, ggml_permute(g->ctx, x, 1, 2, 0, 3)); // channels first
    return ggml_reshape_2d(g->ctx, x, channels, length);
}

static inline struct ggml_tensor * sequence_to_image(const struct new_graph * g, struct ggml_tensor * x, int64_t width) {
    const int64_t channels = x->ne[0], height = x->ne[1] / width;
    x = ggml_cont(g->ctx, ggml_permute(g->ctx, x, 1, 0, 2, 3));
    return ggml_reshape_3d(g->ctx, x, width, height, channels);
}

// Attention of sequences that are projected already, with all heads side by side: [channels, length].
static inline struct ggml_tensor * attention(const struct new_graph * g, struct ggml_tensor * q, struct ggml_tensor * k,
                                             struct ggml_tensor * v, int heads, bool flash) {
    struct ggml_context * ctx = g->ctx;
    const int64_t channels = q->ne[0], head = channels / heads, queries = q->ne[1], keys = k->ne[1];
    const float scale = 1.0f / sqrtf((float) head);
    q = ggml_permute(ctx, ggml_reshape_3d(ctx, q, head, heads, queries), 0, 2, 1, 3);
    k = ggml_permute(ctx, ggml_reshape_3d(ctx, k, head, heads, keys), 0, 2, 1, 3);
    v = ggml_reshape_3d(ctx, v, head, heads, keys);
    if (flash) {
        k = ggml_cast(ctx, k, GGML_TYPE_F16);
        v = ggml_cast(ctx, ggml_permute(ctx, v, 0, 2, 1, 3), GGML_TYPE_F16);
        struct ggml_tensor * mixed = ggml_flash_attn_ext(ctx, ggml_cont(ctx, q), k, v, NULL, scale, 0.0f, 0.0f);
        return ggml_reshape_2d(ctx, mixed, channels, queries);
    }
    v = ggml_cont(ctx, ggml_permute(ctx, v, 1, 2, 0, 3)); // [keys, head, heads]
    struct ggml_tensor * scores = ggml_mul_mat(ctx, ggml_cont(ctx, k), ggml_cont(ctx, q));
    struct ggml_tensor * mixed = ggml_mul_mat(ctx, v, ggml_soft_max_ext(ctx, scores, NULL, scale, 0.0f));
    return ggml_cont_2d(ctx, ggml_permute(ctx, mixed, 0, 2, 1, 3), channels, queries);
}
