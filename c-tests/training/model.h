// The network: a small transformer without causal mask, which reads the answer behind the last token.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#include "task.h"

#define MODEL_MAX_LAYERS  8
#define MODEL_MAX_WEIGHTS (4 + 9 * MODEL_MAX_LAYERS)

struct model_shape {
    int layers;
    int width;
    int heads;
    int modulus;
};

struct model_layer {
    struct ggml_tensor * attention_norm;
    struct ggml_tensor * query;
    struct ggml_tensor * key;
    struct ggml_tensor * value;
    struct ggml_tensor * mixed;
    struct ggml_tensor * ffn_norm;
    struct ggml_tensor * gate;
    struct ggml_tensor * up;
    struct ggml_tensor * down;
};

struct model {
    struct model_shape    shape;
    struct ggml_context * ctx; // of the weights
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *  tokens;    // [width, modulus + 1]
    struct ggml_tensor *  positions; // [width, tokens of a data point]
    struct ggml_tensor *  norm;
    struct ggml_tensor *  classes; // [width, modulus]
    struct model_layer    layers[MODEL_MAX_LAYERS];
};

// Weights in their own memory, flagged as parameters, random but equal in each run.
struct model model_new(struct model_shape shape, ggml_backend_t backend);
void         model_free(struct model * model);

// Builds the forward pass from inputs [tokens of a data point, batch] to [modulus, batch], and names the result of each
// layer.
struct ggml_tensor * model_build(const struct model * model, struct ggml_context * ctx, struct ggml_tensor * inputs);

// Nodes that the graph of a step has room for.
int model_graph_size(const struct model * model);
