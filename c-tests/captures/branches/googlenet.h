// GoogLeNet: nine modules, each of which has four branches and joins their results.
#pragma once

#include "../diffusion/layers.h"

struct inception_shape {
    int ones;                         // channels of the 1x1 convolution
    int before_threes, threes;        // of the 3x3 convolution, and of the 1x1 before it
    int before_fives, fives;          // of the branch with 5x5
    int pooled;                       // of the 1x1 convolution after the pooling
};

static const struct inception_shape googlenet_modules[] = {
    { 64,  96,  128, 16, 32,  32  }, { 128, 128, 192, 32, 96,  64  },
    { 192, 96,  208, 16, 48,  64  }, { 160, 112, 224, 24, 64,  64  }, { 128, 128, 256, 24, 64, 64 },
    { 112, 144, 288, 32, 64,  64  }, { 256, 160, 320, 32, 128, 128 },
    { 256, 160, 320, 32, 128, 128 }, { 384, 192, 384, 48, 128, 128 },
};

static inline struct ggml_tensor * conv_relu(const struct new_graph * g, struct ggml_tensor * x, int channels, int kernel,
                                             int stride) {
    return ggml_relu(g->ctx, conv(g, x, channels, kernel, stride));
}

static inline struct ggml_tensor * max_pool(const struct new_graph * g, struct ggml_tensor * x, int stride) {
    return ggml_pool_2d(g->ctx, x, GGML_OP_POOL_MAX, 3, 3, stride, stride, 1, 1);
}

static inline struct ggml_tensor * inception(const struct new_graph * g, struct ggml_tensor * x,
                                             const struct inception_shape * shape) {
    struct ggml_tensor * ones   = conv_relu(g, x, shape->ones, 1, 1);
    struct ggml_tensor * threes = conv_relu(g, conv_relu(g, x, shape->before_threes, 1, 1), shape->threes, 3, 1);
    struct ggml_tensor * fives  = conv_relu(g, conv_relu(g, x, shape->before_fives, 1, 1), shape->fives, 5, 1);
    struct ggml_tensor * pooled = conv_relu(g, max_pool(g, x, 1), shape->pooled, 1, 1);
    return ggml_concat(g->ctx, ggml_concat(g->ctx, ones, threes, 2), ggml_concat(g->ctx, fives, pooled, 2), 2);
}

static inline struct ggml_tensor * build_googlenet(const struct new_graph * g) {
    struct ggml_tensor * x = new_graph_input(g, GGML_TYPE_F32, 224, 224, 3, "image");
    x = max_pool(g, conv_relu(g, x, 64, 7, 2), 2);
    x = max_pool(g, conv_relu(g, conv_relu(g, x, 64, 1, 1), 192, 3, 1), 2);
    for (int i = 0; i < 9; i++) {
        x = inception(g, x, &googlenet_modules[i]);
        if (i == 1 || i == 6) {
            x = max_pool(g, x, 2);
        }
    }
    x = ggml_pool_2d(g->ctx, x, GGML_OP_POOL_AVG, (int) x->ne[0], (int) x->ne[1], 1, 1, 0, 0);
    return linear(g, ggml_reshape_1d(g->ctx, x, ggml_nelements(x)), 1000, true);
}
