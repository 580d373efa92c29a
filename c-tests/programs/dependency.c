// runs: ggml-0.26 ggml-0.9.5 off
//
// ggml_dependency: order as a part of the graph, in every walker of graphs that ggml has.
//
//   dependency <case>

#include "separate_backends.h"
#include "attention.h"
#include "cases.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "lastuse.h"

#define HEAD  17
#define BYTES (ATTENTION_WIDTH * ATTENTION_NEW * sizeof(float))

static struct attention_result computed(enum caching caching, int n_threads, bool right_to_left) {
    static struct attention_result result;
    ggml_backend_t       cpu    = new_cpu(n_threads);
    struct attention     a      = attention_new(ggml_backend_cpu_buffer_type());
    ggml_gallocr_t       galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    attention_fill(&a);
    attention_build(&a, caching, HEAD, right_to_left);
    CHECK(ggml_gallocr_alloc_graph(galloc, a.graph), "not allocated");
    attention_fill_input(&a, 0);
    CHECK(ggml_backend_graph_compute(cpu, a.graph) == GGML_STATUS_SUCCESS, "not computed");
    attention_keep_result(&a, &result);
    ggml_gallocr_free(galloc);
    attention_free(&a);
    ggml_backend_free(cpu);
    return result;
}

static bool same_outputs(const struct attention_result * a, const struct attention_result * b) {
    return memcmp(a->output, b->output, sizeof(a->output)) == 0;
}

// No call of ggml_build_forward_expand for the copies, whatever the order of the walk and the number of threads.
CASE(caches_are_read_after_they_are_written_by_several_threads) {
    struct attention_result classic = computed(COPIED_AND_EXPANDED, 1, false);
    for (int n_threads = 1; n_threads <= 4; n_threads++) {
        for (int order = 0; order < 2; order++) {
            struct attention_result ours = computed(COPIED, n_threads, order == 1);
            CHECK(memcmp(&ours, &classic, sizeof(ours)) == 0, "%d threads, order %d", n_threads, order);
        }
    }
}

// Those copies, put into the graph at a wrong place: the caches are read before.
CASE(without_it_the_order_is_wrong) {
    struct attention_result classic = computed(COPIED_AND_EXPANDED, 1, false);
    struct attention_result late    = computed(COPIED_TOO_LATE, 1, false);
    CHECK(!same_outputs(&late, &classic), "the order made no difference");
}

// ---------------------------------------------------------------------------------------------------
// Schedulers
// ---------------------------------------------------------------------------------------------------

static void compute_scheduled(ggml_backend_sched_t sched, struct ggml_cgraph * graph) {
    CHECK(ggml_backend_sched_graph_compute(sched, graph) == GGML_STATUS_SUCCESS, "not computed");
}

CASE(two_backends_that_share_memory) {
    struct attention_result         classic     = computed(COPIED_AND_EXPANDED, 1, false);
    ggml_backend_t        backends[2] = { new_cpu(2), new_cpu(1) };
    ggml_backend_sched_t  sched       = ggml_backend_sched_new(backends, NULL, 2, 256, false, true);
    static struct attention_result  ours;
    struct attention      a = attention_new(ggml_backend_cpu_buffer_type());
    attention_fill(&a);
    attention_build(&a, COPIED, HEAD, false);
    for (int i = 0; i < ggml_graph_n_nodes(a.graph); i += 3) {
        ggml_backend_sched_set_tensor_backend(sched, ggml_graph_node(a.graph, i), backends[i % 2]);
    }
    CHECK(ggml_backend_sched_alloc_graph(sched, a.graph), "not allocated");
    attention_fill_input(&a, 0);
    compute_scheduled(sched, a.graph);
    attention_keep_result(&a, &ours);
    CHECK(memcmp(&ours, &classic, sizeof(ours)) == 0, "other bits");
    attention_free(&a);
    ggml_backend_sched_free(sched);
    ggml_backend_free(backends[0]);
    ggml_backend_free(backends[1]);
}

// How many sources of nodes are copies that a scheduler has made of `tensor`.
static int copies_of(struct ggml_cgraph * graph, const struct ggml_tensor * tensor) {
    char part[GGML_MAX_NAME + 2];
    int  count = 0;
    snprintf(part, sizeof(part), "#%s#", tensor->name);
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        for (int j = 0; j < GGML_MAX_SRC; j++) {
            const struct ggml_tensor * source = ggml_graph_node(graph, i)->src[j];
            count += source != NULL && strstr(source->name, part) != NULL;
        }
    }
    return count;
}

// a is on the first backend, b on the second, and the reader of a after b is on either.
CASE(separate_backends_copy_nothing_for_it) {
    for (int reader = 0; reader < BACKENDS; reader++) {
        struct separate_backends separate;
        separate_backends_init(&separate, 1);
        ggml_backend_sched_t  sched = ggml_backend_sched_new(separate.backends, separate.types, BACKENDS, 64, false, true);
        struct ggml_context * ctx   = no_alloc_context(1u << 20);
        struct ggml_cgraph *  graph = ggml_new_graph(ctx);
        struct ggml_tensor *  x     = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 100);
        struct ggml_tensor *  y     = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 100);
        struct ggml_tensor *  a     = ggml_sqr(ctx, x);
        struct ggml_tensor *  b     = ggml_sqr(ctx, y);
        struct ggml_tensor *  c     = ggml_dependency(ctx, a, b);
        struct ggml_tensor *  d     = ggml_neg(ctx, c);
        ggml_set_name(a, "a");
        ggml_set_name(b, "b");
        ggml_set_input(x);
        ggml_set_input(y);
        ggml_set_output(d);
        ggml_build_forward_expand(graph, d);
        struct ggml_tensor * placed[] = { a, b, d };
        int                  where[]  = { 0, 1, reader };
        for (int i = 0; i < 3; i++) {
            ggml_backend_sched_set_tensor_backend(sched, placed[i], separate.backends[where[i]]);
        }
        CHECK(ggml_backend_sched_alloc_graph(sched, graph), "not allocated");
        float expected[100];
        set_values(x, 1);
        set_values(y, 2);
        for (int i = 0; i < 100; i++) {
            float value = ((float *) x->data)[i];
            expected[i] = -(value * value);
        }
        compute_scheduled(sched, graph);
        CHECK(c->src[1] == b && copies_of(graph, b) == 0, "b was copied");
        CHECK(copies_of(graph, a) == 0, "a was copied, and not what comes after b");
        CHECK(memcmp(d->data, expected, sizeof(expected)) == 0, "other values");
        ggml_free(ctx);
        ggml_backend_sched_free(sched);
        separate_backends_free(&separate);
    }
}

// The caches and what is copied into them are on one backend, attention is on the other.
CASE(caches_on_another_backend) {
    struct attention_result        classic = computed(COPIED_AND_EXPANDED, 1, false);
    static struct attention_result ours;
    struct separate_backends separate;
    separate_backends_init(&separate, 1);
    ggml_backend_sched_t sched = ggml_backend_sched_new(separate.backends, separate.types, BACKENDS, 256, false, true);
    struct attention     a     = attention_new(separate.types[1]);
    attention_fill(&a);
    attention_build(&a, COPIED, HEAD, false);
    for (int i = 0; i < ggml_graph_n_nodes(a.graph); i++) {
        struct ggml_tensor * node = ggml_graph_node(a.graph, i);
        if (node->op == GGML_OP_SOFT_MAX || node->op == GGML_OP_CONT || node->op == GGML_OP_SCALE) {
            ggml_backend_sched_set_tensor_backend(sched, node, separate.backends[0]);
        }
    }
    CHECK(ggml_backend_sched_alloc_graph(sched, a.graph), "not allocated");
    CHECK(ggml_backend_sched_get_n_splits(sched) > 2, "both backends work");
    attention_fill_input(&a, 0);
    compute_scheduled(sched, a.graph);
    attention_keep_result(&a, &ours);
    CHECK(memcmp(&ours, &classic, sizeof(ours)) == 0, "other bits");
    for (int i = 0; i < ATTENTION_LAYERS * 2; i++) {
        CHECK(copies_of(a.graph, a.rows[i / 2][i % 2]) == 0, "copy %d was copied", i);
    }
    attention_free(&a);
    ggml_backend_sched_free(sched);
    separate_backends_free(&separate);
}

// ---------------------------------------------------------------------------------------------------
// Gradients
// ---------------------------------------------------------------------------------------------------

#define ROWS 6
#define COLS 10

struct gradients {
    float of[2][ROWS * COLS];
};

// The loss is a sum over w * f(p), where f(p), permuted or not, is read directly or after something else.
static struct gradients gradients_of(bool with_dependency, bool permuted) {
    struct ggml_context *   ctx    = no_alloc_context(8u << 20);
    struct ggml_context *   keep   = no_alloc_context(1u << 20);
    struct ggml_cgraph *    graph  = ggml_new_graph_custom(ctx, 512, true);
    struct ggml_tensor *    p      = ggml_new_tensor_2d(keep, GGML_TYPE_F32, COLS, ROWS);
    struct ggml_tensor *    w      = ggml_new_tensor_2d(keep, GGML_TYPE_F32, permuted ? ROWS : COLS, permuted ? COLS : ROWS);
    ggml_set_param(p);
    ggml_set_param(w);
    ggml_backend_buffer_t kept  = ggml_backend_alloc_ctx_tensors_from_buft(keep, ggml_backend_cpu_buffer_type());
    struct ggml_tensor *  a     = ggml_sqr(ctx, p);
    struct ggml_tensor *  other = ggml_sqr(ctx, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 7));
    a                           = permuted ? ggml_permute(ctx, a, 1, 0, 2, 3) : a;
    a                           = with_dependency ? ggml_dependency(ctx, a, other) : a;
    struct ggml_tensor * loss   = ggml_sum(ctx, ggml_mul(ctx, w, permuted ? ggml_cont(ctx, a) : a));
    ggml_set_loss(loss);
    ggml_build_forward_expand(graph, loss);
    ggml_build_backward_expand(ctx, graph, NULL);
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        ggml_set_output(ggml_graph_node(graph, i));
    }
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(kept != NULL && ggml_gallocr_alloc_graph(galloc, graph), "not allocated");
    set_values(p, 1);
    set_values(w, 2);
    if (with_dependency) {
        set_values(other->src[0], 3);
    }
    ggml_graph_reset(graph);
    ggml_backend_t cpu = new_cpu(2);
    CHECK(ggml_backend_graph_compute(cpu, graph) == GGML_STATUS_SUCCESS, "not computed");
    struct gradients     gradients;
    struct ggml_tensor * inputs[] = { p, w };
    for (int i = 0; i < 2; i++) {
        struct ggml_tensor * gradient = ggml_graph_get_grad(graph, inputs[i]);
        CHECK(gradient != NULL && ggml_nbytes(gradient) == sizeof(gradients.of[i]), "no gradient %d", i);
        ggml_backend_tensor_get(gradient, gradients.of[i], 0, sizeof(gradients.of[i]));
    }
    ggml_backend_free(cpu);
    ggml_gallocr_free(galloc);
    ggml_backend_buffer_free(kept);
    ggml_free(keep);
    ggml_free(ctx);
    return gradients;
}

CASE(gradients_pass_through) {
    for (int permuted = 0; permuted < 2; permuted++) {
        struct gradients with    = gradients_of(true, permuted == 1);
        struct gradients without = gradients_of(false, permuted == 1);
        CHECK(memcmp(&with, &without, sizeof(with)) == 0, "other gradients, permuted %d", permuted);
        CHECK(with.of[0][0] != 0.0f, "there are gradients");
    }
}

// ---------------------------------------------------------------------------------------------------
// What it is
// ---------------------------------------------------------------------------------------------------

static void check_is(const struct ggml_tensor * view, const struct ggml_tensor * a) {
    bool same = view->type == a->type && memcmp(view->ne, a->ne, sizeof(a->ne)) == 0 &&
                memcmp(view->nb, a->nb, sizeof(a->nb)) == 0;
    const struct ggml_tensor * root = a->view_src != NULL ? a->view_src : a;
    CHECK(same && view->view_src == root && view->view_offs == a->view_offs && view->data == a->data, "%s is not %s",
          view->name, a->name);
}

CASE(any_tensor_has_one) {
    struct ggml_init_params params = { .mem_size = 1u << 20 };
    struct ggml_context *   ctx    = ggml_init(params);
    struct ggml_tensor *    b      = ggml_sqr(ctx, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 3));
    struct ggml_tensor *    root   = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, 8, 6, 4, 2);
    struct ggml_tensor *    plain[] = {
        root,
        ggml_permute(ctx, root, 2, 0, 1, 3),
        ggml_view_2d(ctx, root, 3, 2, root->nb[1], 20),
        ggml_new_tensor_2d(ctx, GGML_TYPE_Q4_0, 64, 3),
        ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 0, 3),
        ggml_new_tensor_1d(ctx, GGML_TYPE_I8, 1),
    };
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        struct ggml_tensor * view = ggml_dependency(ctx, plain[i], b);
        CHECK(view != NULL, "%zu: %s", i, lastuse_last_error());
        check_is(view, plain[i]);
        struct ggml_tensor * again = ggml_dependency(ctx, view, view->src[0]);
        CHECK(again != NULL, "%zu, again: %s", i, lastuse_last_error());
        check_is(again, plain[i]);
    }
    ggml_free(ctx);
}

CASE(after_itself_is_refused) {
    struct log_capture    log;
    struct ggml_context * ctx = no_alloc_context(1u << 20);
    struct ggml_tensor *  a   = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 3);
    size_t                used = ggml_used_mem(ctx);
    log_capture_start(&log);
    CHECK(ggml_dependency(ctx, a, a) == NULL, "not refused");
    log_capture_stop();
    CHECK(strstr(lastuse_last_error(), "a and b are the same") != NULL, "the error is: %s", lastuse_last_error());
    CHECK(log_capture_has(&log, "a and b are the same"), "the log does not contain it");
    CHECK(ggml_used_mem(ctx) == used, "something was made");
    ggml_free(ctx);
}
