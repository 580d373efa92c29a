#include "training.h"

#include <stdlib.h>

#include "check.h"
#include "ggml-alloc.h"

#define WIDTH    48
#define HIDDEN   96
#define CLASSES  16
#define EXAMPLES 8
#define NODES    2048

static struct ggml_tensor * new_weight(struct training * t, int number, int64_t columns, int64_t rows) {
    struct ggml_tensor * weight = ggml_new_tensor_2d(t->keeping, GGML_TYPE_F32, columns, rows);
    ggml_set_param(weight);
    t->weights[number] = weight;
    for (int i = 0; i < 2; i++) {
        t->moments[i][number] = ggml_new_tensor_2d(t->keeping, GGML_TYPE_F32, columns, rows);
    }
    return weight;
}

static void build_forward(struct training * t) {
    struct ggml_tensor * x = t->rows;
    for (int layer = 0; layer < TRAINING_LAYERS; layer++) {
        struct ggml_tensor * in  = new_weight(t, 2 * layer, WIDTH, HIDDEN);
        struct ggml_tensor * out = new_weight(t, 2 * layer + 1, HIDDEN, WIDTH);
        struct ggml_tensor * h   = ggml_silu(t->ctx, ggml_mul_mat(t->ctx, in, ggml_rms_norm(t->ctx, x, 1e-5f)));
        x                        = ggml_add(t->ctx, x, ggml_mul_mat(t->ctx, out, h));
    }
    struct ggml_tensor * classes = new_weight(t, TRAINING_WEIGHTS - 1, WIDTH, CLASSES);
    t->loss                      = ggml_cross_entropy_loss(t->ctx, ggml_mul_mat(t->ctx, classes, x), t->labels);
    ggml_set_loss(t->loss);
    ggml_set_output(t->loss);
    ggml_build_forward_expand(t->graph, t->loss);
}

static void build_steps(struct training * t) {
    for (int i = 0; i < TRAINING_WEIGHTS; i++) {
        struct ggml_tensor * gradient = ggml_graph_get_grad(t->graph, t->weights[i]);
        CHECK(gradient != NULL, "weight %d has no gradient", i);
        struct ggml_tensor * step =
            ggml_opt_step_adamw(t->ctx, t->weights[i], gradient, t->moments[0][i], t->moments[1][i], t->step);
        ggml_build_forward_expand(t->graph, step);
    }
}

struct training training_new(void) {
    size_t          overhead = NODES * ggml_tensor_overhead() + ggml_graph_overhead_custom(NODES, true);
    struct training t        = { .ctx = no_alloc_context(overhead), .keeping = no_alloc_context(overhead) };
    t.graph                  = ggml_new_graph_custom(t.ctx, NODES, true);
    t.rows                   = ggml_new_tensor_2d(t.ctx, GGML_TYPE_F32, WIDTH, EXAMPLES);
    t.labels                 = ggml_new_tensor_2d(t.ctx, GGML_TYPE_F32, CLASSES, EXAMPLES);
    t.step                   = ggml_new_tensor_1d(t.keeping, GGML_TYPE_F32, 7);
    ggml_set_input(t.rows);
    ggml_set_input(t.labels);
    build_forward(&t);
    ggml_build_backward_expand(t.ctx, t.graph, NULL);
    build_steps(&t);
    t.buffer = ggml_backend_alloc_ctx_tensors_from_buft(t.keeping, ggml_backend_cpu_buffer_type());
    CHECK(t.buffer != NULL, "no memory for weights");
    return t;
}

void training_free(struct training * t) {
    ggml_backend_buffer_free(t->buffer);
    ggml_free(t->ctx);
    ggml_free(t->keeping);
}

// Small numbers, other ones in every tensor.
static void fill(struct ggml_tensor * tensor, int seed, float scale) {
    int64_t n      = ggml_nelements(tensor);
    float * values = malloc((size_t) n * sizeof(*values));
    CHECK(values != NULL, "out of memory");
    uint32_t random = (uint32_t) seed * 2654435761u + 1;
    for (int64_t i = 0; i < n; i++) {
        random    = random * 1664525u + 1013904223u;
        values[i] = scale * ((float) (random >> 8) / (float) (1 << 24) - 0.5f);
    }
    ggml_backend_tensor_set(tensor, values, 0, (size_t) n * sizeof(*values));
    free(values);
}

void training_set_data(const struct training * t) {
    static const float step[7] = { 0.01f, 0.9f, 0.999f, 1e-8f, 0.1f, 10.0f, 1000.0f };
    ggml_backend_tensor_set(t->step, step, 0, sizeof(step));
    for (int i = 0; i < TRAINING_WEIGHTS; i++) {
        fill(t->weights[i], i + 1, 0.3f);
        fill(t->moments[0][i], 0, 0.0f);
        fill(t->moments[1][i], 0, 0.0f);
    }
}

void training_set_inputs(const struct training * t) {
    float labels[CLASSES * EXAMPLES] = { 0 };
    float one                        = 1.0f;
    for (int i = 0; i < EXAMPLES; i++) {
        labels[i * CLASSES + i * 5 % CLASSES] = 1.0f;
    }
    fill(t->rows, 100, 1.0f);
    ggml_backend_tensor_set(t->labels, labels, 0, sizeof(labels));
    ggml_backend_tensor_set(ggml_graph_get_grad_acc(t->graph, t->loss), &one, 0, sizeof(one));
}

void training_run(const struct training * t, ggml_backend_t backend, int steps) {
    for (int i = 0; i < steps; i++) {
        training_set_inputs(t);
        CHECK(ggml_backend_graph_compute(backend, t->graph) == GGML_STATUS_SUCCESS, "step %d", i);
    }
}
