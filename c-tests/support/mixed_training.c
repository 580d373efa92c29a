#include "mixed_training.h"

#include <stdlib.h>

#include "check.h"
#include "ggml-alloc.h"
#include "splitmix.h"

#define TENSORS 4096
#define NODES   2048

static int below(struct mixed_training * t, int limit) {
    return (int) (splitmix64(&t->state) % (uint64_t) limit);
}

static struct ggml_tensor * new_weight(struct mixed_training * t, int64_t columns, int64_t rows) {
    struct ggml_tensor * weight = ggml_new_tensor_2d(t->keeping, GGML_TYPE_F32, columns, rows);
    ggml_set_param(weight);
    CHECK(t->n_weights < MIXED_TRAINING_TENSORS, "too many weights");
    return t->weights[t->n_weights++] = weight;
}

// A view of a result, or of a view of it, that the graph lists now.
static void add_view(struct mixed_training * t, struct ggml_tensor * of) {
    if (t->n_views == MIXED_TRAINING_TENSORS) {
        return;
    }
    struct ggml_tensor * view = of;
    switch (below(t, 4)) {
        case 0:  view = ggml_transpose(t->ctx, of); break;
        case 1:  view = ggml_view_2d(t->ctx, of, of->ne[0], of->ne[1] / 2, of->nb[1], of->nb[1] * 2); break;
        case 2:  view = ggml_view_1d(t->ctx, ggml_reshape_1d(t->ctx, of, ggml_nelements(of)), 16, 64); break;
        default: view = ggml_reshape_1d(t->ctx, of, ggml_nelements(of)); break;
    }
    t->views[t->n_views++] = view;
    ggml_build_forward_expand(t->graph, view);
}

static struct ggml_tensor * activation(struct mixed_training * t, struct ggml_tensor * x) {
    switch (below(t, 5)) {
        case 0:  return ggml_silu(t->ctx, x);
        case 1:  return ggml_sqr(t->ctx, x);
        case 2:  return ggml_soft_max(t->ctx, x);
        case 3:  return ggml_scale(t->ctx, x, 0.7f);
        default: return ggml_relu(t->ctx, x);
    }
}

struct mixed_training mixed_training_new(uint64_t seed) {
    size_t                bytes = TENSORS * ggml_tensor_overhead() + ggml_graph_overhead_custom(NODES, true);
    struct mixed_training t = { .ctx = no_alloc_context(bytes), .keeping = no_alloc_context(bytes), .state = seed * 6007 + 5 };
    struct ggml_tensor *  hidden[MIXED_TRAINING_TENSORS];
    int64_t               width = 16 + 8 * below(&t, 4), rows = 48 + 8 * below(&t, 9);
    int                   count = 0;
    t.graph                     = ggml_new_graph_custom(t.ctx, NODES, true);
    struct ggml_tensor * x = t.x = ggml_new_tensor_2d(t.ctx, GGML_TYPE_F32, width, rows);
    ggml_set_input(x);
    for (int layer = 3 + below(&t, 5); layer > 0; layer--) {
        int64_t              inner = 32 * (1 + below(&t, 4));
        struct ggml_tensor * h     = ggml_mul_mat(t.ctx, new_weight(&t, width, inner), ggml_rms_norm(t.ctx, x, 1e-5f));
        hidden[count++]            = h;
        h                          = activation(&t, h);
        hidden[count++]            = h;
        if (below(&t, 3) == 0) {
            // Read through a view.
            h = ggml_reshape_2d(t.ctx, ggml_reshape_1d(t.ctx, h, ggml_nelements(h)), inner, rows);
        }
        if (below(&t, 2) == 0) {
            add_view(&t, hidden[count - 1 - below(&t, 2)]);
        }
        h = ggml_mul_mat(t.ctx, new_weight(&t, inner, width), h);
        x = below(&t, 2) == 0 ? ggml_add(t.ctx, x, h) : h;
    }
    t.loss = ggml_sum(t.ctx, ggml_sqr(t.ctx, x));
    ggml_set_loss(t.loss);
    ggml_set_output(t.loss);
    ggml_build_forward_expand(t.graph, t.loss);
    ggml_build_backward_expand(t.ctx, t.graph, NULL);
    for (int i = 0; i < t.n_weights; i++) {
        struct ggml_tensor * gradient = ggml_graph_get_grad(t.graph, t.weights[i]);
        CHECK(gradient != NULL, "weight %d has no gradient", i);
        // As steps of an optimizer do, this frees the gradient.
        t.sums[i] = ggml_sum(t.ctx, ggml_sqr(t.ctx, gradient));
        ggml_set_output(t.sums[i]);
        ggml_build_forward_expand(t.graph, t.sums[i]);
        if (below(&t, 3) == 0) {
            add_view(&t, hidden[below(&t, count)]);
        }
    }
    ggml_build_forward_expand(t.graph, ggml_scale(t.ctx, t.loss, 2.0f));
    t.buffer = ggml_backend_alloc_ctx_tensors_from_buft(t.keeping, ggml_backend_cpu_buffer_type());
    CHECK(t.buffer != NULL, "no memory for weights");
    return t;
}

void mixed_training_free(struct mixed_training * t) {
    ggml_backend_buffer_free(t->buffer);
    ggml_free(t->ctx);
    ggml_free(t->keeping);
}

static void fill(struct ggml_tensor * t, uint64_t seed) {
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        ((float *) t->data)[i] = (float) (splitmix64(&seed) >> 40) / (float) (1 << 24) - 0.5f;
    }
}

void mixed_training_run(struct mixed_training * t, ggml_backend_t cpu) {
    for (int i = 0; i < t->n_weights; i++) {
        fill(t->weights[i], (uint64_t) i + 11);
    }
    fill(t->x, 3);
    float one = 1.0f;
    ggml_backend_tensor_set(ggml_graph_get_grad_acc(t->graph, t->loss), &one, 0, sizeof(one));
    CHECK(ggml_backend_graph_compute(cpu, t->graph) == GGML_STATUS_SUCCESS, "not computed");
}
