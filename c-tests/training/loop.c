// Training by a loop of the program, over the public functions that ggml_opt calls. It builds the graphs that ggml_opt
// builds, once, in a context for each, and computes them in memory of one allocator.

#include "training.h"

#include "check.h"

#include <math.h>

// The computation of a batch.
enum part {
    PART_EVAL, // the forward pass
    PART_GRAD, // and the backward pass, whose gradients are added to those of the batches before
    PART_STEP, // and a step of the optimizer
    N_PARTS,
};

struct part_graph {
    struct ggml_context * ctx;
    struct computed_graph g;
    struct ggml_tensor *  inputs;
    struct ggml_tensor *  labels;
    struct ggml_tensor *  loss;
    struct ggml_tensor *  n_correct;
};

struct loop {
    struct training *     t;
    struct ggml_context * kept; // what lasts from batch to batch
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *  step_params;
    struct ggml_tensor *  loss_grad;
    struct ggml_tensor *  sums[MODEL_MAX_WEIGHTS]; // of gradients, where they are accumulated
    struct ggml_tensor *  first[MODEL_MAX_WEIGHTS];
    struct ggml_tensor *  second[MODEL_MAX_WEIGHTS];
    ggml_gallocr_t        galloc;
    struct part_graph     parts[N_PARTS];
    int64_t               n_steps;
};

static bool accumulates(const struct loop * l) {
    return l->t->task.shape.group > 1;
}

static struct ggml_tensor * next_weight(const struct loop * l, struct ggml_tensor * weight) {
    return weight == NULL ? ggml_get_first_tensor(l->t->model.ctx) : ggml_get_next_tensor(l->t->model.ctx, weight);
}

// Gradients, moments and parameters of the optimizer

static int weight_number(const struct loop * l, const struct ggml_tensor * weight) {
    int number = 0;
    for (struct ggml_tensor * w = next_weight(l, NULL); w != NULL && w != weight; w = next_weight(l, w)) {
        number++;
    }
    return number;
}

static void new_kept(struct loop * l) {
    l->kept        = no_alloc_context((3 * MODEL_MAX_WEIGHTS + 2) * ggml_tensor_overhead());
    l->step_params = ggml_new_tensor_1d(l->kept, GGML_TYPE_F32, 7);
    l->loss_grad   = ggml_new_tensor_1d(l->kept, GGML_TYPE_F32, 1);
    ggml_set_name(l->step_params, "adamw_params");
    int i = 0;
    for (struct ggml_tensor * w = next_weight(l, NULL); w != NULL; w = next_weight(l, w), i++) {
        l->sums[i]   = accumulates(l) ? ggml_dup_tensor(l->kept, w) : NULL;
        l->first[i]  = ggml_dup_tensor(l->kept, w);
        l->second[i] = ggml_dup_tensor(l->kept, w);
    }
    l->buffer = ggml_backend_alloc_ctx_tensors(l->kept, l->t->backend);
    CHECK(l->buffer != NULL, "no memory for the optimizer");
    ggml_backend_buffer_clear(l->buffer, 0);
    float one = 1.0f;
    ggml_backend_tensor_set(l->loss_grad, &one, 0, sizeof(one));
}

static void clear_sums(const struct loop * l) {
    for (int i = 0; i < MODEL_MAX_WEIGHTS && l->sums[i] != NULL; i++) {
        ggml_set_zero(l->sums[i]);
    }
}

static void set_step_params(struct loop * l) {
    struct ggml_opt_optimizer_params params = training_rate(NULL);

    float iteration = (float) ++l->n_steps;
    float values[7] = {
        params.adamw.alpha,
        params.adamw.beta1,
        params.adamw.beta2,
        params.adamw.eps,
        params.adamw.wd,
        1.0f / (1.0f - powf(params.adamw.beta1, iteration)),
        1.0f / (1.0f - powf(params.adamw.beta2, iteration)),
    };
    ggml_backend_tensor_set(l->step_params, values, 0, sizeof(values));
}

// Graphs

static struct ggml_tensor * named(struct ggml_tensor * tensor, const char * name) {
    ggml_set_name(tensor, name);
    return tensor;
}

static void build_forward(const struct loop * l, struct part_graph * p) {
    const struct training * t = l->t;
    p->inputs = named(ggml_new_tensor_2d(p->ctx, GGML_TYPE_I32, TASK_TOKENS, t->task.shape.batch), "inputs");
    ggml_set_input(p->inputs);
    struct ggml_tensor * answer = model_build(&t->model, p->ctx, p->inputs);
    ggml_set_output(answer);
    ggml_build_forward_expand(p->g.graph, answer);
    p->labels = named(ggml_dup_tensor(p->ctx, answer), "labels");
    ggml_set_input(p->labels);
    p->loss = named(ggml_cross_entropy_loss(p->ctx, answer, p->labels), "loss");
    if (accumulates(l)) {
        p->loss = named(ggml_scale(p->ctx, p->loss, 1.0f / (float) t->task.shape.group), "loss_scaled");
    }
    ggml_set_output(p->loss);
    ggml_set_loss(p->loss);
    ggml_build_forward_expand(p->g.graph, p->loss);
    p->n_correct = ggml_count_equal(p->ctx, ggml_argmax(p->ctx, answer), ggml_argmax(p->ctx, p->labels));
    ggml_set_output(named(p->n_correct, "n_correct"));
    ggml_build_forward_expand(p->g.graph, p->n_correct);
}

static void build_backward(const struct loop * l, struct part_graph * p) {
    int                   n    = ggml_graph_n_nodes(p->g.graph);
    struct ggml_tensor ** sums = calloc((size_t) n, sizeof(*sums));
    CHECK(sums != NULL, "out of memory");
    for (int i = 0; i < n; i++) {
        struct ggml_tensor * node = ggml_graph_node(p->g.graph, i);
        if (node->flags & GGML_TENSOR_FLAG_PARAM) {
            sums[i] = l->sums[weight_number(l, node)];
        } else if (node->flags & GGML_TENSOR_FLAG_LOSS) {
            sums[i] = l->loss_grad;
        }
    }
    ggml_build_backward_expand(p->ctx, p->g.graph, sums);
    free(sums);
}

static void build_steps(const struct loop * l, struct part_graph * p, int n_forward) {
    for (int i = n_forward - 1; i >= 0; i--) {
        struct ggml_tensor * weight = ggml_graph_node(p->g.graph, i);
        if (weight->flags & GGML_TENSOR_FLAG_PARAM) {
            struct ggml_tensor * grad   = ggml_graph_get_grad(p->g.graph, weight);
            int                  number = weight_number(l, weight);
            struct ggml_tensor * step   = ggml_opt_step_adamw(p->ctx, weight, grad, l->first[number],
                                                              l->second[number], l->step_params);
            ggml_build_forward_expand(p->g.graph, step);
        }
    }
}

static struct part_graph build(const struct loop * l, enum part part) {
    size_t size     = (size_t) model_graph_size(&l->t->model);
    size_t overhead = 2 * size * ggml_tensor_overhead() + ggml_graph_overhead_custom(size, true);

    struct part_graph p = { .ctx = no_alloc_context(overhead) };
    p.g.ctx             = p.ctx;
    p.g.graph           = ggml_new_graph_custom(p.ctx, size, true);
    p.g.backend         = l->t->backend;
    p.g.galloc          = l->galloc;
    build_forward(l, &p);
    int n_forward = ggml_graph_n_nodes(p.g.graph);
    if (part >= PART_GRAD) {
        build_backward(l, &p);
    }
    if (part == PART_STEP) {
        build_steps(l, &p, n_forward);
    }
    if (l->t->method->change != NULL) {
        l->t->method->change(p.ctx, p.g.graph);
    }
    if (l->t->method->prepare != NULL) {
        l->t->method->prepare(&p.g);
    }
    return p;
}

// Memory: all graphs are in one compute buffer, which is reserved for each before one has addresses in it.

static bool is_used(const struct loop * l, enum part part) {
    return part != PART_GRAD || accumulates(l);
}

static void allocate(struct loop * l) {
    for (int i = 0; i < N_PARTS; i++) {
        CHECK(!is_used(l, i) || ggml_gallocr_reserve(l->galloc, l->parts[i].g.graph), "no memory");
    }
    for (int i = 0; i < N_PARTS; i++) {
        CHECK(!is_used(l, i) || ggml_gallocr_alloc_graph(l->galloc, l->parts[i].g.graph), "no memory");
    }
}

static struct loop loop_new(struct training * t) {
    struct loop l = { .t = t, .galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(t->backend)) };
    CHECK(l.galloc != NULL, "no allocator");
    new_kept(&l);
    for (int i = 0; i < N_PARTS; i++) {
        if (is_used(&l, i)) {
            l.parts[i] = build(&l, i);
        }
    }
    allocate(&l);
    return l;
}

static void add_memory(struct loop * l) {
    const struct method * method = l->t->method;
    for (int i = 0; i < N_PARTS && method->memory != NULL; i++) {
        l->t->beside += is_used(l, i) ? method->memory(&l->parts[i].g) : 0;
    }
    l->t->compute = ggml_gallocr_get_buffer_size(l->galloc, 0);
}

static void loop_free(struct loop * l) {
    add_memory(l);
    for (int i = 0; i < N_PARTS; i++) {
        if (l->t->method->free != NULL && is_used(l, i)) {
            l->t->method->free(&l->parts[i].g);
        }
        ggml_free(l->parts[i].ctx);
    }
    ggml_gallocr_free(l->galloc);
    ggml_backend_buffer_free(l->buffer);
    ggml_free(l->kept);
}

// Training

static void compute(const struct loop * l, struct part_graph * p) {
    const struct method * method = l->t->method;
    if (method->before != NULL) {
        method->before(p->g.graph);
    }
    if (method->compute != NULL) {
        method->compute(&p->g);
    } else {
        CHECK(ggml_backend_graph_compute(l->t->backend, p->g.graph) == GGML_STATUS_SUCCESS, "a graph is not computed");
    }
    if (method->after != NULL) {
        method->after(p->g.graph);
    }
}

static struct part_graph * run_batch(struct loop * l, int number, enum part part) {
    struct part_graph * p = &l->parts[part];
    if (part == PART_STEP) {
        set_step_params(l);
    }
    ggml_opt_dataset_get_batch(l->t->task.data, p->inputs, p->labels, number);
    compute(l, p);
    return p;
}

static void train_batch(struct loop * l, int number) {
    int group = l->t->task.shape.group;
    record_start(&l->t->record);
    if (number % group == 0) {
        clear_sums(l);
    }
    struct part_graph * p = run_batch(l, number, (number + 1) % group == 0 ? PART_STEP : PART_GRAD);
    record_trained(&l->t->record, p->loss);
}

static int evaluate_batch(struct loop * l, int number) {
    struct part_graph * p       = run_batch(l, number, PART_EVAL);
    int64_t             correct = 0;
    record_evaluated(&l->t->record, p->loss);
    ggml_backend_tensor_get(p->n_correct, &correct, 0, sizeof(correct));
    return (int) correct;
}

void train_by_loop(struct training * t) {
    struct loop l       = loop_new(t);
    int         correct = 0;
    do {
        task_shuffle(&t->task);
        correct = 0;
        for (int i = 0; i < task_n_batches(&t->task); i++) {
            if (task_is_trained(&t->task, i)) {
                train_batch(&l, i);
            } else {
                correct += evaluate_batch(&l, i);
            }
        }
    } while (!training_epoch_ends(t, correct, l.parts[PART_EVAL].g.graph));
    loop_free(&l);
}
