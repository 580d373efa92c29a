// A mixture of experts that all see every token, each wider inside than at its ends. The order of the nodes decides how
// many of the wide middles are live at once: one when expert follows expert, all when layer follows layer.
#pragma once

#include "../diffusion/layers.h"

enum { MIXTURE_EXPERTS = 8, MIXTURE_LAYERS = 6, MIXTURE_WIDTH = 1024, MIXTURE_TOKENS = 512 };

static inline struct ggml_tensor * mixture_layer(const struct new_graph * g, struct ggml_tensor * x, bool layer_by_layer) {
    struct ggml_tensor * normed = layer_norm(g, x);
    struct ggml_tensor * shares = ggml_soft_max(g->ctx, linear(g, normed, MIXTURE_EXPERTS, false));
    struct ggml_tensor * wide[MIXTURE_EXPERTS];
    for (int i = 0; i < MIXTURE_EXPERTS; i++) {
        // The experts differ in width, as their middles should not all fit into each other's place.
        wide[i] = ggml_gelu(g->ctx, linear(g, normed, (2 + i % 4) * MIXTURE_WIDTH, true));
        if (layer_by_layer) {
            ggml_build_forward_expand(g->graph, wide[i]);
        }
    }
    for (int i = 0; i < MIXTURE_EXPERTS; i++) {
        struct ggml_tensor * share = ggml_view_2d(g->ctx, shares, 1, MIXTURE_TOKENS, shares->nb[1], (size_t) i * shares->nb[0]);
        x = ggml_add(g->ctx, x, ggml_mul(g->ctx, linear(g, wide[i], MIXTURE_WIDTH, true), share));
    }
    return x;
}

static inline struct ggml_tensor * build_mixture(const struct new_graph * g, bool layer_by_layer) {
    struct ggml_tensor * x = new_graph_input(g, GGML_TYPE_F32, MIXTURE_WIDTH, MIXTURE_TOKENS, 1, "tokens");
    for (int layer = 0; layer < MIXTURE_LAYERS; layer++) {
        x = mixture_layer(g, x, layer_by_layer);
    }
    return linear(g, layer_norm(g, x), MIXTURE_WIDTH, true);
}
