// The UNet of Stable Diffusion 1.x and XL: an image through levels of halving size and back, with what left each block
// on the way down joined to what enters one on the way up.
#pragma once

#include "layers.h"

enum { UNET_CHANNELS = 320, UNET_LEVELS = 4, UNET_SKIPS = 16 };

struct unet_shape {
    int     levels;
    int     multiples[UNET_LEVELS]; // channels of a level, in units of UNET_CHANNELS
    int     depths[UNET_LEVELS];    // transformer blocks in each transformer of a level
    int     middle_depth;
    int     head_width;             // or 0 where the number of heads is fixed
    int     heads;
    int64_t context_width;          // of the text embedding
    int64_t label_width;            // of the vector that comes with the time step; 0 for none
};

static const struct unet_shape sd1_unet = {
    .levels = 4, .multiples = { 1, 2, 4, 4 }, .depths = { 1, 1, 1, 0 }, .middle_depth = 1,
    .heads = 8, .context_width = 768,
};

static const struct unet_shape sdxl_unet = {
    .levels = 3, .multiples = { 1, 2, 4 }, .depths = { 0, 2, 10 }, .middle_depth = 10,
    .head_width = 64, .context_width = 2048, .label_width = 2816,
};

struct unet {
    const struct unet_shape * shape;
    const struct new_graph *  g;
    bool                      flash;
    struct ggml_tensor *      embedding; // of the time step
    struct ggml_tensor *      context;   // [context_width, 77]
    struct ggml_tensor *      skips[UNET_SKIPS];
    int                       n_skips;
};

static inline struct ggml_tensor * unet_attention(const struct unet * u, struct ggml_tensor * x,
                                                  struct ggml_tensor * context) {
    const struct new_graph * g = u->g;
    const int64_t channels = x->ne[0];
    const int heads = u->shape->heads > 0 ? u->shape->heads : (int) (channels / u->shape->head_width);
    struct ggml_tensor * q = linear(g, x, channels, false);
    struct ggml_tensor * k = linear(g, context, channels, false);
    struct ggml_tensor * v = linear(g, context, channels, false);
    return linear(g, attention(g, q, k, v, heads, u->flash), channels, true);
}

static inline struct ggml_tensor * transformer_block(const struct unet * u, struct ggml_tensor * x) {
    const struct new_graph * g = u->g;
    const int64_t channels = x->ne[0];
    struct ggml_tensor * normed = layer_norm(g, x);
    x = ggml_add(g->ctx, unet_attention(u, normed, normed), x);
    x = ggml_add(g->ctx, unet_attention(u, layer_norm(g, x), u->context), x);
    struct ggml_tensor * hidden = linear(g, layer_norm(g, x), 8 * channels, true);
    hidden = ggml_geglu_swapped(g->ctx, hidden); // the second half is the gate
    return ggml_add(g->ctx, linear(g, hidden, channels, true), x);
}

static inline struct ggml_tensor * unet_transformer(const struct unet * u, struct ggml_tensor * x, int depth) {
    const struct new_graph * g = u->g;
    const int64_t width = x->ne[0], channels = x->ne[2];
    struct ggml_tensor * h = image_to_sequence(g, group_norm(g, x));
    h = linear(g, h, channels, true);
    for (int i = 0; i < depth; i++) {
        h = transformer_block(u, h);
    }
    h = sequence_to_image(g, linear(g, h, channels, true), width);
    return ggml_add(g->ctx, h, x);
}

static inline struct ggml_tensor * unet_block(const struct unet * u, struct ggml_tensor * x, int level) {
    x = residual_block(u->g, x, u->embedding, (int64_t) u->shape->multiples[level] * UNET_CHANNELS);
    return u->shape->depths[level] > 0 ? unet_transformer(u, x, u->shape->depths[level]) : x;
}

static inline struct ggml_tensor * unet_keep(struct unet * u, struct ggml_tensor * x) {
    u->skips[u->n_skips++] = x;
    return x;
}

static inline struct ggml_tensor * unet_down(struct unet * u, struct ggml_tensor * x) {
    x = unet_keep(u, conv(u->g, x, UNET_CHANNELS, 3, 1));
    for (int level = 0; level < u->shape->levels; level++) {
        x = unet_keep(u, unet_block(u, x, level));
        x = unet_keep(u, unet_block(u, x, level));
        if (level + 1 < u->shape->levels) {
            x = unet_keep(u, conv(u->g, x, x->ne[2], 3, 2));
        }
    }
    return x;
}

static inline struct ggml_tensor * unet_up(struct unet * u, struct ggml_tensor * x) {
    for (int level = u->shape->levels - 1; level >= 0; level--) {
        for (int i = 0; i < 3; i++) {
            x = unet_block(u, ggml_concat(u->g->ctx, x, u->skips[--u->n_skips], 2), level);
        }
        if (level > 0) {
            x = upsample(u->g, x);
        }
    }
    return x;
}

static inline struct ggml_tensor * two_layers(const struct new_graph * g, struct ggml_tensor * x, int64_t width) {
    return linear(g, ggml_silu(g->ctx, linear(g, x, width, true)), width, true);
}

static inline struct ggml_tensor * unet_embedding(const struct unet * u) {
    const struct new_graph * g = u->g;
    struct ggml_tensor * step = new_graph_input(g, GGML_TYPE_F32, 1, 1, 1, "time_step");
    struct ggml_tensor * x = two_layers(g, ggml_timestep_embedding(g->ctx, step, UNET_CHANNELS, 10000), 4 * UNET_CHANNELS);
    if (u->shape->label_width == 0) {
        return x;
    }
    struct ggml_tensor * label = new_graph_input(g, GGML_TYPE_F32, u->shape->label_width, 1, 1, "label");
    return ggml_add(g->ctx, x, two_layers(g, label, 4 * UNET_CHANNELS));
}

// One step on a latent image of `size` times `size`.
static inline struct ggml_tensor * build_unet(const struct new_graph * g, const struct unet_shape * shape, int64_t size,
                                              bool flash) {
    struct unet u = { .shape = shape, .g = g, .flash = flash };
    u.embedding = unet_embedding(&u);
    u.context   = new_graph_input(g, GGML_TYPE_F32, shape->context_width, 77, 1, "context");
    struct ggml_tensor * x = unet_down(&u, new_graph_input(g, GGML_TYPE_F32, size, size, 4, "latent"));
    const int last = shape->levels - 1;
    const int64_t channels = (int64_t) shape->multiples[last] * UNET_CHANNELS;
    x = residual_block(g, x, u.embedding, channels);
    x = unet_transformer(&u, x, shape->middle_depth);
    x = residual_block(g, x, u.embedding, channels);
    x = unet_up(&u, x);
    return conv(g, ggml_silu(g->ctx, group_norm(g, x)), 4, 3, 1);
}
