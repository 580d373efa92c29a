// runs: ggml-0.26 ggml-0.9.5
//
// lastuse_tensor_dedicate: results that lie in buffers of the program, and survive later graphs.
//
//   dedicate <case> [first seed] [number of seeds]

#include "separate_backends.h"
#include "cases.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "lastuse.h"
#include "own_memory.h"
#include "random_graph.h"
#include "splitmix.h"
#include "training.h"

#define ROWS      32
#define COLUMNS   48
#define ALIGNMENT 64

// What most cases start from.
struct scene {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  input;
    struct dummy_buft     dummy;
    ggml_backend_buffer_t buffer;
    struct ggml_tallocr   talloc; // of buffer
    ggml_gallocr_t        galloc;
};

static void scene_init(struct scene * s, size_t buffer_size) {
    s->ctx   = no_alloc_context(1u << 20);
    s->graph = ggml_new_graph_custom(s->ctx, 256, false);
    s->input = ggml_new_tensor_2d(s->ctx, GGML_TYPE_F32, COLUMNS, ROWS);
    ggml_set_input(s->input);
    dummy_buft_init(&s->dummy, "dedicated", ALIGNMENT, 0);
    s->buffer = ggml_backend_buft_alloc_buffer(dummy_buft_type(&s->dummy), buffer_size);
    s->galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(s->buffer != NULL && s->galloc != NULL, "no memory");
    s->talloc = ggml_tallocr_new(s->buffer);
}

static void scene_free(struct scene * s) {
    ggml_gallocr_free(s->galloc);
    ggml_backend_buffer_free(s->buffer);
    ggml_free(s->ctx);
}

static struct ggml_tensor * dedicated(struct scene * s, struct ggml_tensor * t) {
    struct ggml_tensor * kept = lastuse_tensor_dedicate(s->ctx, t, &s->talloc);
    CHECK(kept != NULL, "refused: %s", lastuse_last_error());
    CHECK(kept->buffer == s->buffer && dummy_buft_contains(&s->dummy, kept->data, ggml_nbytes(kept)),
          "%s lies elsewhere", kept->name);
    CHECK((kept->flags & GGML_TENSOR_FLAG_OUTPUT) != 0, "%s may be fused away", kept->name);
    return kept;
}

static void run(struct scene * s, uint64_t seed) {
    ggml_backend_t cpu = new_cpu(1);
    CHECK(ggml_gallocr_alloc_graph(s->galloc, s->graph), "not allocated: %s", lastuse_last_error());
    set_values(s->input, seed);
    CHECK(ggml_backend_graph_compute(cpu, s->graph) == GGML_STATUS_SUCCESS, "not computed");
    ggml_backend_free(cpu);
}

// A second graph in the memory of the first.
static void run_another_graph(struct scene * s) {
    struct ggml_cgraph * first = s->graph;
    struct ggml_tensor * input = s->input;
    s->graph                   = ggml_new_graph_custom(s->ctx, 256, false);
    s->input                   = ggml_new_tensor_2d(s->ctx, GGML_TYPE_F32, COLUMNS, ROWS);
    ggml_set_input(s->input);
    ggml_build_forward_expand(s->graph, ggml_sqr(s->ctx, ggml_concat(s->ctx, s->input, s->input, 0)));
    run(s, 99);
    s->graph = first;
    s->input = input;
}

CASE(produced_in_the_buffer) {
    struct scene s;
    scene_init(&s, 1u << 16);
    struct ggml_tensor * older = NULL;
    struct ggml_tensor * state = ggml_scale(s.ctx, s.input, 2.0f);
    older                      = ggml_view_1d(s.ctx, state, COLUMNS, COLUMNS * sizeof(float));
    CHECK(dedicated(&s, state) == state, "%s is copied", state->name);
    struct ggml_tensor * newer = ggml_view_1d(s.ctx, state, COLUMNS, 0);
    struct ggml_tensor * sum   = ggml_sum(s.ctx, ggml_add(s.ctx, ggml_sqr(s.ctx, older), newer));
    ggml_build_forward_expand(s.graph, sum);
    int n_nodes = ggml_graph_n_nodes(s.graph);
    run(&s, 1);
    CHECK(ggml_graph_n_nodes(s.graph) == n_nodes, "nodes were added");
    CHECK((char *) older->data == (char *) state->data + COLUMNS * sizeof(float) && newer->data == state->data,
          "views do not follow");
    run_another_graph(&s);
    float values[COLUMNS * ROWS];
    s.input->data = values;
    set_values(s.input, 1);
    for (int i = 0; i < COLUMNS * ROWS; i++) {
        CHECK(((float *) state->data)[i] == 2.0f * values[i], "%d: the value is lost", i);
    }
    scene_free(&s);
}

static void checks_copy(struct scene * s, struct ggml_tensor * t, const char * what) {
    struct ggml_tensor * kept = dedicated(s, t);
    CHECK(kept != t, "%s is not copied", what);
    CHECK(ggml_is_contiguous(kept) && ggml_are_same_shape(kept, t) && kept->type == t->type, "%s: another tensor", what);
    CHECK(t->buffer == NULL && kept->src[0] == t, "%s has changed", what);
    int n_nodes = ggml_graph_n_nodes(s->graph);
    ggml_build_forward_expand(s->graph, t);
    int more = ggml_graph_n_nodes(s->graph) - n_nodes;
    ggml_build_forward_expand(s->graph, kept);
    CHECK(ggml_graph_n_nodes(s->graph) == n_nodes + more + 1, "%s takes more than one node", what);
}

CASE(views_are_copied) {
    struct scene s;
    scene_init(&s, 1u << 16);
    struct ggml_tensor * x       = ggml_sqr(s.ctx, s.input);
    struct ggml_tensor * row     = ggml_view_1d(s.ctx, x, COLUMNS, 5 * COLUMNS * sizeof(float));
    struct ggml_tensor * turned  = ggml_transpose(s.ctx, x);
    struct ggml_tensor * shaped  = ggml_reshape_1d(s.ctx, x, COLUMNS * ROWS);
    struct ggml_tensor * y       = ggml_scale(s.ctx, s.input, 3.0f);
    struct ggml_tensor * inplace = ggml_neg_inplace(s.ctx, y);
    struct ggml_tensor * read    = ggml_view_1d(s.ctx, s.input, 4, 0);
    checks_copy(&s, row, "a view");
    checks_copy(&s, turned, "a transposed view");
    checks_copy(&s, shaped, "a reshaped tensor");
    checks_copy(&s, inplace, "a result in place");
    checks_copy(&s, read, "a view of an input");
    struct ggml_tensor * copies[5] = { NULL };
    for (int i = 0, n = 0; i < ggml_graph_n_nodes(s.graph); i++) {
        if (ggml_graph_node(s.graph, i)->op == GGML_OP_CONT) {
            copies[n++] = ggml_graph_node(s.graph, i);
        }
    }
    run(&s, 7);
    run_another_graph(&s);
    float values[COLUMNS * ROWS];
    s.input->data = values;
    set_values(s.input, 7);
    for (int i = 0; i < COLUMNS * ROWS; i++) {
        float square = values[i] * values[i];
        int   there  = i % COLUMNS * ROWS + i / COLUMNS;
        CHECK(((float *) copies[1]->data)[there] == square, "%d: the transposed view is wrong", i);
        CHECK(((float *) copies[2]->data)[i] == square, "%d: the reshaped tensor is wrong", i);
        CHECK(((float *) copies[3]->data)[i] == -(3.0f * values[i]), "%d: the result in place is wrong", i);
        CHECK(i / COLUMNS != 5 || ((float *) copies[0]->data)[i % COLUMNS] == square, "%d: the view is wrong", i);
        CHECK(i >= 4 || ((float *) copies[4]->data)[i] == values[i], "%d: the view of the input is wrong", i);
    }
    scene_free(&s);
}

// The plain run, then one in which every gradient and the loss are dedicated: equal weights, and gradients that can
// still be read after another graph.
CASE(gradients_of_training_in_threads) {
    ggml_backend_t  cpu   = new_cpu(2);
    struct training plain = training_new();
    struct training t     = training_new();
    ggml_gallocr_t  first = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(first, plain.graph), "not allocated");

    ggml_gallocr_t        galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), 4u << 20);
    struct ggml_tallocr   talloc = ggml_tallocr_new(buffer);
    struct ggml_tensor *  kept[TRAINING_WEIGHTS + 1];
    int                   n_copied = 0;
    for (int i = 0; i <= TRAINING_WEIGHTS; i++) {
        bool                 is_loss = i == TRAINING_WEIGHTS;
        struct ggml_tensor * t_i     = is_loss ? t.loss : ggml_graph_get_grad(t.graph, t.weights[i]);
        kept[i]                      = lastuse_tensor_dedicate(t.ctx, t_i, &talloc);
        CHECK(kept[i] != NULL, "%d is refused: %s", i, lastuse_last_error());
        n_copied += kept[i] != t_i;
        ggml_build_forward_expand(t.graph, kept[i]);
    }
    CHECK(ggml_gallocr_alloc_graph(galloc, t.graph), "not allocated");
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) < ggml_gallocr_get_buffer_size(first, 0) || n_copied > 0,
          "gradients are still in the compute buffer");
    for (int step = 1; step <= 3; step++) {
        training_set_data(&plain);
        training_set_data(&t);
        training_run(&plain, cpu, step);
        training_run(&t, cpu, step);
        for (int i = 0; i < TRAINING_WEIGHTS; i++) {
            check_same_bytes(t.weights[i], plain.weights[i], 1);
            check_same_bytes(t.moments[0][i], plain.moments[0][i], 1);
        }
        check_same_bytes(kept[TRAINING_WEIGHTS], plain.loss, 1);
    }
    struct random_graph g = random_graph_new(5, (struct random_graph_options){ 0 });
    CHECK(ggml_gallocr_alloc_graph(galloc, g.graph), "another graph is not allocated");
    compute_graph(cpu, &g);
    // After the first step the first moment is a tenth of the gradient, to the last bit as AdamW computes it.
    training_set_data(&t);
    CHECK(ggml_gallocr_alloc_graph(galloc, t.graph), "not allocated again");
    training_run(&t, cpu, 1);
    CHECK(ggml_gallocr_alloc_graph(galloc, g.graph), "another graph is not allocated");
    compute_graph(cpu, &g);
    for (int i = 0; i < TRAINING_WEIGHTS; i++) {
        const float * gradient = kept[i]->data;
        const float * moment   = t.moments[0][i]->data;
        for (int64_t j = 0; j < ggml_nelements(kept[i]); j++) {
            CHECK(moment[j] == gradient[j] * (1.0f - 0.9f), "weight %d, %lld: the gradient is lost", i, (long long) j);
        }
    }
    random_graph_free(&g);
    ggml_gallocr_free(galloc);
    ggml_gallocr_free(first);
    ggml_backend_buffer_free(buffer);
    training_free(&t);
    training_free(&plain);
    ggml_backend_free(cpu);
}

static void random_graph_with_dedicated_nodes(ggml_backend_t cpu, uint64_t seed) {
    struct random_graph_options options = { .n_steps = 30 };
    struct random_graph         g       = random_graph_new(seed, options);
    struct random_graph         truth   = random_graph_new(seed, options);
    uint64_t                    random  = seed;
    int                         n_nodes = g.graph->n_nodes;
    struct ggml_tensor **       kept    = calloc((size_t) n_nodes, sizeof(*kept));
    ggml_gallocr_t              galloc  = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    ggml_backend_buffer_t       buffer  = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), 16u << 20);
    struct ggml_context *       ctx     = no_alloc_context(1u << 20); // of copies
    CHECK(kept != NULL && buffer != NULL, "no memory");
    struct ggml_tallocr talloc = ggml_tallocr_new(buffer);
    for (int i = 0; i < n_nodes; i++) {
        struct ggml_tensor * node = g.graph->nodes[i];
        if (splitmix64(&random) % 3 == 0 && ggml_is_contiguous(node)) {
            kept[i] = lastuse_tensor_dedicate(ctx, node, &talloc);
            CHECK(kept[i] != NULL || strstr(lastuse_last_error(), "t is a view of") != NULL ||
                      strstr(lastuse_last_error(), "t is an input") != NULL ||
                      strstr(lastuse_last_error(), "no operation computes t") != NULL ||
                      strstr(lastuse_last_error(), "t has no elements") != NULL,
                  "seed %llu: %s", (unsigned long long) seed, lastuse_last_error());
        }
    }
    for (int i = 0; i < n_nodes; i++) {
        if (kept[i] != NULL) {
            ggml_build_forward_expand(g.graph, kept[i]);
        }
        if (kept[i] != NULL && kept[i] == g.graph->nodes[i]) {
            truth.graph->nodes[i]->flags |= GGML_TENSOR_FLAG_OUTPUT; // the CPU would fuse it with the next node
        }
    }
    CHECK(ggml_gallocr_alloc_graph(galloc, g.graph), "seed %llu: not allocated", (unsigned long long) seed);
    compute_graph(cpu, &g);
    ggml_backend_buffer_t own = compute_in_own_memory(cpu, &truth);
    check_same_lists(g.outputs, truth.outputs, seed);
    for (int i = 0; i < n_nodes; i++) {
        if (kept[i] != NULL) {
            check_same_bytes(kept[i], truth.graph->nodes[i], seed);
        }
    }
    ggml_backend_buffer_free(own);
    ggml_gallocr_free(galloc);
    ggml_backend_buffer_free(buffer);
    free(kept);
    ggml_free(ctx);
    random_graph_free(&truth);
    random_graph_free(&g);
}

static void run_random_graphs(int n_threads, uint64_t first, uint64_t count) {
    ggml_backend_t cpu = new_cpu(n_threads);
    for (uint64_t seed = first; seed < first + count; seed++) {
        random_graph_with_dedicated_nodes(cpu, seed);
    }
    ggml_backend_free(cpu);
}

CASE(random_graphs) {
    run_random_graphs(1, (uint64_t) case_number(args, 0, 1), (uint64_t) case_number(args, 1, 240));
}

CASE(random_graphs_in_threads) {
    run_random_graphs(2, (uint64_t) case_number(args, 0, 1), (uint64_t) case_number(args, 1, 300));
}

// A scheduler runs the tensor on the backend of the buffer, whichever that is.
CASE(in_a_scheduler) {
    for (int where = 0; where < BACKENDS; where++) {
        struct separate_backends separate;
        struct scene             s;
        separate_backends_init(&separate, 1);
        scene_init(&s, 64);
        ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(separate.types[where], 1u << 16);
        struct ggml_tallocr   talloc = ggml_tallocr_new(buffer);
        struct ggml_tensor *  x      = ggml_sqr(s.ctx, s.input);
        struct ggml_tensor *  y      = ggml_scale(s.ctx, x, 3.0f);
        struct ggml_tensor *  row    = ggml_view_1d(s.ctx, x, COLUMNS, 0);
        struct ggml_tensor *  kept   = lastuse_tensor_dedicate(s.ctx, y, &talloc);
        struct ggml_tensor *  copy   = lastuse_tensor_dedicate(s.ctx, row, &talloc);
        CHECK(kept == y && copy != NULL && copy != row, "refused: %s", lastuse_last_error());
        ggml_build_forward_expand(s.graph, ggml_sum(s.ctx, y));
        ggml_build_forward_expand(s.graph, copy);
        ggml_backend_sched_t sched =
            ggml_backend_sched_new(separate.backends, separate.types, BACKENDS, 256, false, false);
        CHECK(ggml_backend_sched_alloc_graph(sched, s.graph), "not allocated");
        set_values(s.input, 3);
        CHECK(ggml_backend_sched_graph_compute(sched, s.graph) == GGML_STATUS_SUCCESS, "not computed");
        CHECK(ggml_backend_sched_get_tensor_backend(sched, y) == separate.backends[where], "run elsewhere");
        ggml_backend_sched_free(sched);
        float values[COLUMNS * ROWS];
        s.input->buffer = NULL;
        s.input->data   = values;
        set_values(s.input, 3);
        for (int i = 0; i < COLUMNS * ROWS; i++) {
            float square = values[i] * values[i];
            CHECK(((float *) y->data)[i] == 3.0f * square, "%d: another value", i);
            CHECK(i >= COLUMNS || ((float *) copy->data)[i] == square, "%d: another value is copied", i);
        }
        ggml_gallocr_free(s.galloc);
        s.galloc = NULL;
        ggml_backend_buffer_free(buffer);
        ggml_backend_buffer_free(s.buffer);
        ggml_free(s.ctx);
        separate_backends_free(&separate);
    }
}

static bool supports_all_but_products(ggml_backend_dev_t dev, const struct ggml_tensor * op) {
    (void) dev;
    return op->op != GGML_OP_MUL_MAT;
}

static bool supports_nothing(ggml_backend_dev_t dev, const struct ggml_tensor * op) {
    (void) dev, (void) op;
    return false;
}

CASE(devices_decide) {
    struct separate_backends separate;
    struct scene             s;
    separate_backends_init(&separate, 1);
    scene_init(&s, 1u << 16);
    s.dummy.type.device                   = &separate.devices[0];
    separate.devices[0].iface.supports_op = supports_all_but_products;
    struct ggml_tensor * product          = ggml_mul_mat(s.ctx, s.input, s.input);
    struct ggml_tensor * square           = ggml_sqr(s.ctx, product);
    CHECK(dedicated(&s, square) == square, "a supported operation is copied");
    checks_copy(&s, product, "what the device cannot compute");
    separate.devices[0].iface.supports_op = supports_nothing;
    struct ggml_tensor * other            = ggml_neg(s.ctx, product);
    CHECK(lastuse_tensor_dedicate(s.ctx, other, &s.talloc) == NULL, "not refused");
    CHECK(strstr(lastuse_last_error(), "can neither compute t nor copy it") != NULL, "%s", lastuse_last_error());
    CHECK(other->buffer == NULL && other->data == NULL && other->flags == 0, "it has changed");
    scene_free(&s);
    separate_backends_free(&separate);
}

CASE(bytes_are_handed_out_in_order) {
    struct scene s;
    scene_init(&s, 4 * ALIGNMENT);
    char * base = ggml_backend_buffer_get_base(s.buffer);
    CHECK(s.talloc.offset == 0, "bytes are taken already");
    for (int round = 0; round < 3; round++) {
        struct ggml_tensor * x     = ggml_new_tensor_1d(s.ctx, GGML_TYPE_F32, 16);
        struct ggml_tensor * a     = ggml_neg(s.ctx, ggml_view_1d(s.ctx, x, 1, 0));
        struct ggml_tensor * b     = ggml_neg(s.ctx, x);
        struct ggml_tensor * c     = ggml_concat(s.ctx, x, x, 0);
        struct ggml_tensor * after = ggml_neg(s.ctx, x);
        dedicated(&s, a);
        CHECK(a->data == base && s.talloc.offset == ALIGNMENT, "the first");
        dedicated(&s, b);
        CHECK((char *) b->data == base + ALIGNMENT, "the second is at %td", (char *) b->data - base);
        dedicated(&s, c); // to the last byte
        CHECK(s.talloc.offset == 4 * ALIGNMENT, "the third");
        CHECK(lastuse_tensor_dedicate(s.ctx, after, &s.talloc) == NULL, "the buffer has no end");
        CHECK(strstr(lastuse_last_error(), "not enough space in the buffer") != NULL, "%s",
              lastuse_last_error());
        CHECK(after->data == NULL && after->buffer == NULL, "it has memory");
        s.talloc = ggml_tallocr_new(s.buffer);
    }
    scene_free(&s);
}

static void check_refused(struct scene * s, struct ggml_tensor * t, const char * why) {
    struct ggml_tensor before = *t;
    size_t             taken  = s->talloc.offset;
    CHECK(lastuse_tensor_dedicate(s->ctx, t, &s->talloc) == NULL, "not refused: %s", why);
    CHECK(strstr(lastuse_last_error(), why) != NULL, "\"%s\" is not in \"%s\"", why, lastuse_last_error());
    CHECK(memcmp(&before, t, sizeof(before)) == 0, "%s: t has changed", why);
    CHECK(s->talloc.offset == taken, "%s: bytes are taken", why);
}

CASE(contradictory_requests) {
    struct log_capture log;
    struct scene       s;
    scene_init(&s, 1u << 14);
    log_capture_start(&log);
    struct ggml_tensor * leaf  = ggml_new_tensor_1d(s.ctx, GGML_TYPE_F32, 4);
    struct ggml_tensor * x     = ggml_sqr(s.ctx, s.input);
    struct ggml_tensor * view  = ggml_view_1d(s.ctx, x, 4, 0);
    struct ggml_tensor * large = ggml_concat(s.ctx, ggml_concat(s.ctx, x, x, 0), x, 0);
    struct ggml_tensor * empty = ggml_neg(s.ctx, ggml_new_tensor_2d(s.ctx, GGML_TYPE_F32, 0, 4));
    struct ggml_tensor * q     = ggml_new_tensor_2d(s.ctx, GGML_TYPE_Q4_0, 64, 8);
    struct ggml_tensor * rows  = ggml_view_2d(s.ctx, q, 32, 8, q->nb[1], 0);
    struct ggml_tensor * input = ggml_scale(s.ctx, s.input, 2.0f);
    input->flags |= GGML_TENSOR_FLAG_INPUT;
    check_refused(&s, leaf, "no operation computes t");
    check_refused(&s, s.input, "no operation computes t");
    check_refused(&s, input, "t is an input");
    check_refused(&s, empty, "t has no elements");
    check_refused(&s, rows, "quantized elements that are not in order");
    check_refused(&s, large, "not enough space in the buffer");
    dedicated(&s, x);
    check_refused(&s, x, "t has memory already: it was dedicated before");
    checks_copy(&s, view, "a view of what is dedicated");
    CHECK(log_capture_has(&log, "lastuse_tensor_dedicate: t has memory already"), "not in the log");
    log_capture_stop();
    scene_free(&s);
}

CASE(after_the_graph_is_allocated) {
    struct scene s;
    scene_init(&s, 1u << 16);
    struct ggml_tensor * x    = ggml_sqr(s.ctx, s.input);
    struct ggml_tensor * view = ggml_view_1d(s.ctx, x, 4, 0);
    ggml_build_forward_expand(s.graph, ggml_sum(s.ctx, ggml_concat(s.ctx, x, x, 0)));
    run(&s, 1);
    check_refused(&s, x, "t has memory already");
    check_refused(&s, view, "t is a view of a tensor whose graph is allocated already");
    struct ggml_tensor * y    = ggml_neg(s.ctx, s.input);
    s.talloc                  = ggml_tallocr_new(x->buffer);
    check_refused(&s, y, "the buffer is a compute buffer");
    scene_free(&s);
}

CASE(a_backend_that_fails) {
    struct scene s;
    scene_init(&s, 1u << 16);
    s.dummy.inits_left     = 0;
    struct ggml_tensor * x = ggml_sqr(s.ctx, s.input);
    check_refused(&s, x, "the backend cannot initialize t");
    check_refused(&s, ggml_view_1d(s.ctx, x, 4, 0), "the backend cannot initialize t");
    s.dummy.inits_left = DUMMY_UNLIMITED;
    dedicated(&s, x);
    scene_free(&s);
}

static void negate(struct ggml_tensor * dst, const struct ggml_tensor * a, int ith, int nth, void * userdata) {
    (void) userdata;
    for (int64_t i = ith; i < ggml_nelements(dst); i += nth) {
        ((float *) dst->data)[i] = -((const float *) a->data)[i];
    }
}

CASE(functions_of_the_program) {
    struct scene s;
    scene_init(&s, 1u << 16);
    struct ggml_tensor * x = ggml_map_custom1(s.ctx, s.input, negate, GGML_N_TASKS_MAX, NULL);
    CHECK(dedicated(&s, x) == x, "it is copied");
    ggml_build_forward_expand(s.graph, ggml_sum(s.ctx, ggml_sqr(s.ctx, x)));
    run(&s, 2);
    run_another_graph(&s);
    float values[COLUMNS * ROWS];
    s.input->data = values;
    set_values(s.input, 2);
    for (int i = 0; i < COLUMNS * ROWS; i++) {
        CHECK(((float *) x->data)[i] == -values[i], "%d: another value", i);
    }
    scene_free(&s);
}
