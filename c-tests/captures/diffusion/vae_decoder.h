// The decoder of Stable Diffusion's autoencoder: a latent image to one of eight times its size.
#pragma once

#include "layers.h"

enum { VAE_CHANNELS = 128, VAE_LEVELS = 4 };

// Channels of a level, in units of VAE_CHANNELS; the first level is the largest image.
static const int vae_multiples[VAE_LEVELS] = { 1, 2, 4, 4 };

static inline struct ggml_tensor * vae_attention(const struct new_graph * g, struct ggml_tensor * x, bool flash) {
    const int64_t channels = x->ne[2];
    struct ggml_tensor * normed = group_norm(g, x);
    struct ggml_tensor * q = image_to_sequence(g, conv(g, normed, channels, 1, 1));
    struct ggml_tensor * k = image_to_sequence(g, conv(g, normed, channels, 1, 1));
    struct ggml_tensor * v = image_to_sequence(g, conv(g, normed, channels, 1, 1));
    struct ggml_tensor * mixed = sequence_to_image(g, attention(g, q, k, v, 1, flash), x->ne[0]);
    return ggml_add(g->ctx, conv(g, mixed, channels, 1, 1), x);
}

static inline struct ggml_tensor * build_vae_decoder(const struct new_graph * g, int64_t size, bool flash) {
    const int64_t widest = vae_multiples[VAE_LEVELS - 1] * VAE_CHANNELS;
    struct ggml_tensor * x = new_graph_input(g, GGML_TYPE_F32, size, size, 4, "latent");
    x = conv(g, conv(g, x, 4, 1, 1), widest, 3, 1);
    x = residual_block(g, x, NULL, widest);
    x = vae_attention(g, x, flash);
    x = residual_block(g, x, NULL, widest);
    for (int level = VAE_LEVELS - 1; level >= 0; level--) {
        for (int i = 0; i < 3; i++) {
            x = residual_block(g, x, NULL, vae_multiples[level] * VAE_CHANNELS);
        }
        if (level > 0) {
            x = upsample(g, x);
        }
    }
    return conv(g, ggml_silu(g->ctx, group_norm(g, x)), 3, 3, 1);
}
