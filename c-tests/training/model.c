#include "model.h"

#include "check.h"
#include "splitmix.h"

#include <math.h>

#define SEED            2
#define NODES_PER_LAYER 200

static struct ggml_tensor * matrix(const struct model * model, int columns, int rows) {
    struct ggml_tensor * weight = ggml_new_tensor_2d(model->ctx, GGML_TYPE_F32, columns, rows);
    ggml_set_param(weight);
    return weight;
}

static struct ggml_tensor * vector(const struct model * model, int columns) {
    struct ggml_tensor * weight = ggml_new_tensor_1d(model->ctx, GGML_TYPE_F32, columns);
    ggml_set_param(weight);
    return weight;
}

static struct model_layer new_layer(const struct model * model) {
    int width = model->shape.width;
    return (struct model_layer){
        .attention_norm = vector(model, width),
        .query          = matrix(model, width, width),
        .key            = matrix(model, width, width),
        .value          = matrix(model, width, width),
        .mixed          = matrix(model, width, width),
        .ffn_norm       = vector(model, width),
        .gate           = matrix(model, width, 4 * width),
        .up             = matrix(model, width, 4 * width),
        .down           = matrix(model, 4 * width, width),
    };
}

// Norms start at 1, matrices evenly distributed with a variance of 1 / columns.
static void start_values(struct ggml_tensor * weight, uint64_t * random) {
    int64_t n     = ggml_nelements(weight);
    float   scale = sqrtf(12.0f / (float) weight->ne[0]);
    float * data  = malloc((size_t) n * sizeof(*data));
    CHECK(data != NULL, "out of memory");
    for (int64_t i = 0; i < n; i++) {
        float unit = (float) (splitmix64(random) >> 40) / (float) (1 << 24) - 0.5f;
        data[i]    = weight->ne[1] == 1 ? 1.0f : scale * unit;
    }
    ggml_backend_tensor_set(weight, data, 0, ggml_nbytes(weight));
    free(data);
}

struct model model_new(struct model_shape shape, ggml_backend_t backend) {
    CHECK(shape.layers <= MODEL_MAX_LAYERS, "%d layers are more than %d", shape.layers, MODEL_MAX_LAYERS);
    struct model model = { .shape = shape, .ctx = no_alloc_context(MODEL_MAX_WEIGHTS * ggml_tensor_overhead()) };
    model.tokens       = matrix(&model, shape.width, shape.modulus + 1);
    model.positions    = matrix(&model, shape.width, TASK_TOKENS);
    for (int i = 0; i < shape.layers; i++) {
        model.layers[i] = new_layer(&model);
    }
    model.norm    = vector(&model, shape.width);
    model.classes = matrix(&model, shape.width, shape.modulus);
    model.buffer  = ggml_backend_alloc_ctx_tensors(model.ctx, backend);
    CHECK(model.buffer != NULL, "no memory for the weights");
    uint64_t random = SEED;
    for (struct ggml_tensor * weight = ggml_get_first_tensor(model.ctx); weight != NULL;
         weight                      = ggml_get_next_tensor(model.ctx, weight)) {
        start_values(weight, &random);
    }
    return model;
}

void model_free(struct model * model) {
    ggml_backend_buffer_free(model->buffer);
    ggml_free(model->ctx);
}

static struct ggml_tensor * normalize(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * scale) {
    return ggml_mul(ctx, ggml_rms_norm(ctx, x, 1e-5f), scale);
}

// One projection, by head: [width of a head, tokens, heads, batch].
static struct ggml_tensor * heads(const struct model * model, struct ggml_context * ctx, struct ggml_tensor * weight,
                                  struct ggml_tensor * x) {
    int64_t              head = model->shape.width / model->shape.heads;
    struct ggml_tensor * y    = ggml_mul_mat(ctx, weight, x);
    y = ggml_reshape_4d(ctx, y, head, model->shape.heads, TASK_TOKENS, x->ne[1] / TASK_TOKENS);
    return ggml_permute(ctx, y, 0, 2, 1, 3);
}

static struct ggml_tensor * attend(const struct model * model, struct ggml_context * ctx, const struct model_layer * l,
                                   struct ggml_tensor * x) {
    float                scale  = 1.0f / sqrtf((float) (model->shape.width / model->shape.heads));
    struct ggml_tensor * q      = heads(model, ctx, l->query, x);
    struct ggml_tensor * k      = heads(model, ctx, l->key, x);
    struct ggml_tensor * v      = ggml_cont(ctx, ggml_transpose(ctx, heads(model, ctx, l->value, x)));
    struct ggml_tensor * scores = ggml_soft_max_ext(ctx, ggml_mul_mat(ctx, k, q), NULL, scale, 0.0f);
    struct ggml_tensor * mixed  = ggml_permute(ctx, ggml_mul_mat(ctx, v, scores), 0, 2, 1, 3);
    return ggml_mul_mat(ctx, l->mixed, ggml_cont_2d(ctx, mixed, x->ne[0], x->ne[1]));
}

static struct ggml_tensor * feed_forward(struct ggml_context * ctx, const struct model_layer * l,
                                         struct ggml_tensor * x) {
    struct ggml_tensor * gate = ggml_silu(ctx, ggml_mul_mat(ctx, l->gate, x));
    return ggml_mul_mat(ctx, l->down, ggml_mul(ctx, gate, ggml_mul_mat(ctx, l->up, x)));
}

// The rows behind the last tokens: [width, batch].
static struct ggml_tensor * last_tokens(struct ggml_context * ctx, struct ggml_tensor * x) {
    size_t               row  = x->nb[1];
    struct ggml_tensor * last = ggml_view_2d(ctx, x, x->ne[0], x->ne[1] / TASK_TOKENS, TASK_TOKENS * row,
                                             (TASK_TOKENS - 1) * row);
    return ggml_cont(ctx, last);
}

struct ggml_tensor * model_build(const struct model * model, struct ggml_context * ctx, struct ggml_tensor * inputs) {
    int64_t              batch = inputs->ne[1];
    int                  width = model->shape.width;
    struct ggml_tensor * x     = ggml_get_rows(ctx, model->tokens, ggml_reshape_1d(ctx, inputs, TASK_TOKENS * batch));
    x = ggml_add(ctx, ggml_reshape_3d(ctx, x, width, TASK_TOKENS, batch), model->positions);
    x = ggml_reshape_2d(ctx, x, width, TASK_TOKENS * batch);
    for (int i = 0; i < model->shape.layers; i++) {
        const struct model_layer * l = &model->layers[i];
        x                            = ggml_add(ctx, x, attend(model, ctx, l, normalize(ctx, x, l->attention_norm)));
        x                            = ggml_add(ctx, x, feed_forward(ctx, l, normalize(ctx, x, l->ffn_norm)));
        ggml_format_name(x, "layer %d", i);
    }
    struct ggml_tensor * out = ggml_mul_mat(ctx, model->classes, normalize(ctx, last_tokens(ctx, x), model->norm));
    ggml_set_name(out, "answer");
    return out;
}

int model_graph_size(const struct model * model) {
    return NODES_PER_LAYER * (model->shape.layers + 1);
}
