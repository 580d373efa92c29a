// runs: ggml-0.28
//
// Operations and functions that ggml has since 0.28, under guard: values that they leave out are not a fault, and their
// writes are known.

#include "cases.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "lastuse.h"
#include "separate_backends.h"

struct placed {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  out;
    ggml_gallocr_t        galloc;
    ggml_backend_t        cpu;
};

static struct placed place(struct ggml_context * ctx, struct ggml_tensor * out) {
    CHECK(lastuse_set("verify", "memory"), "%s", lastuse_last_error());
    struct placed p = { .ctx = ctx, .graph = ggml_new_graph(ctx), .out = out, .cpu = new_cpu(1) };
    ggml_set_output(out);
    ggml_build_forward_expand(p.graph, out);
    p.galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(p.galloc, p.graph), "allocated");
    return p;
}

// Computes it unguarded and guarded, with equal values of the leafs. Returns the result.
static float * compute_twice(const struct placed * p, void (*set_ids)(const struct placed * p)) {
    size_t  size   = ggml_nbytes(p->out);
    float * result = malloc(size);
    CHECK(result != NULL, "out of memory");
    for (int guarded = 0; guarded < 2; guarded++) {
        set_leaf_values(p->graph, 1);
        if (set_ids != NULL) {
            set_ids(p);
        }
        enum ggml_status status = guarded == 1 ? lastuse_graph_compute_guarded(p->cpu, p->graph)
                                               : ggml_backend_graph_compute(p->cpu, p->graph);
        CHECK(status == GGML_STATUS_SUCCESS, "status %d", (int) status);
        CHECK(guarded == 0 || memcmp(result, p->out->data, size) == 0, "another result under guard");
        memcpy(result, p->out->data, size);
    }
    return result;
}

static void placed_free(struct placed * p) {
    ggml_gallocr_free(p->galloc);
    ggml_backend_free(p->cpu);
    ggml_free(p->ctx);
}

// Every second id is -1: it selects nothing.
static void skip_half(const struct placed * p) {
    struct ggml_tensor * ids = ggml_get_tensor(p->ctx, "ids");
    for (int64_t i = 0; i < ggml_nelements(ids); i++) {
        ((int32_t *) ids->data)[i] = i % 2 == 0 ? -1 : (int32_t) (i % 3);
    }
}

static struct ggml_tensor * new_ids(struct ggml_context * ctx, int64_t used, int64_t tokens) {
    struct ggml_tensor * ids = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, used, tokens);
    ggml_set_name(ids, "ids");
    ggml_set_input(ids);
    return ids;
}

CASE(ids_of_minus_one) {
    struct ggml_context * ctx     = no_alloc_context(1 << 20);
    struct ggml_tensor *  ids     = new_ids(ctx, 2, 5);
    struct ggml_tensor *  experts = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 8, 4, 3);
    struct ggml_tensor *  x       = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 8, 2, 5);
    struct ggml_tensor *  biases  = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 4, 3);
    struct ggml_tensor *  product = ggml_mul_mat_id(ctx, experts, x, ids);
    struct placed         p       = place(ctx, ggml_add_id(ctx, product, biases, ids));
    float *               result  = compute_twice(&p, skip_half);
    for (int row = 0; row < 10; row++) {
        const float * values  = result + (size_t) row * 4;
        bool          is_zero = values[0] == 0.0f && values[1] == 0.0f && values[2] == 0.0f && values[3] == 0.0f;
        CHECK(is_zero == (row % 2 == 0), "row %d", row);
    }
    free(result);
    placed_free(&p);
}

// One token and three slots: the slots of earlier tokens are not written
CASE(unwritten_slots) {
    enum { SIZE = 4, HEADS = 2, SLOTS = 3 };
    struct ggml_context * ctx   = no_alloc_context(1 << 20);
    struct ggml_tensor *  q     = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, SIZE, HEADS, 1, 1);
    struct ggml_tensor *  k     = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, SIZE, HEADS, 1, 1);
    struct ggml_tensor *  v     = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, SIZE, HEADS, 1, 1);
    struct ggml_tensor *  g     = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, 1, HEADS, 1, 1);
    struct ggml_tensor *  beta  = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, 1, HEADS, 1, 1);
    struct ggml_tensor *  state = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, SIZE, SIZE, HEADS, 1);
    // The memory before it is not zero.
    struct ggml_tensor *  far = ggml_scale(ctx, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 1024), 100.0f);
    struct ggml_tensor *  sum = ggml_sum(ctx, far);
    struct ggml_tensor *  net = ggml_gated_delta_net(ctx, ggml_add(ctx, q, sum), k, v, g, beta, state, SLOTS);
    int64_t               written = SIZE * HEADS + SIZE * SIZE * HEADS; // the result, and the first slot
    CHECK(ggml_nelements(net) == written + (SLOTS - 1) * SIZE * SIZE * HEADS, "another layout");
    struct placed p      = place(ctx, ggml_scale(ctx, ggml_view_1d(ctx, net, written, 0), 2.0f));
    float *       result = compute_twice(&p, NULL);
    for (int64_t i = 0; i < written; i++) {
        CHECK(result[i] > -1e6f && result[i] < 1e6f, "element %d is %g", (int) i, (double) result[i]);
    }
    free(result);
    placed_free(&p);
}

static struct ggml_tensor * new_top_k_mask(struct ggml_context * ctx) {
    struct ggml_tensor * mask = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 16, 4);
    ggml_set_name(mask, "mask");
    return ggml_top_k_mask(ctx, mask, new_ids(ctx, 3, 4), NULL, NULL, NULL);
}

CASE(top_k_mask) {
    struct ggml_context * ctx    = no_alloc_context(1 << 20);
    struct placed         p      = place(ctx, ggml_scale(ctx, ggml_soft_max(ctx, new_top_k_mask(ctx)), 2.0f));
    float *               result = compute_twice(&p, skip_half);
    float                 sum    = 0.0f;
    for (int i = 0; i < 64; i++) {
        sum += result[i];
    }
    CHECK(sum > 7.99f && sum < 8.01f, "the rows add up to %g", (double) sum);
    free(result);
    placed_free(&p);
}

static void pass_if_mask_is_named(const char * message) {
    bool is_named = strstr(message, "(TOP_K_MASK), has written 4 bytes outside of its result") != NULL &&
                    strstr(message, "\"mask\" (NONE)") != NULL;
    printf("%s\n", message);
    fflush(stdout);
    _Exit(is_named ? 0 : 1); // not exit(): leaks do not matter here
}

// The operation writes no source: it is known, and not taken for one that may write everything
CASE(top_k_mask_may_not_write_its_sources) {
    struct ggml_context *  ctx   = no_alloc_context(1 << 20);
    struct ggml_tensor *   out   = new_top_k_mask(ctx);
    struct placed          p     = place(ctx, out);
    struct lastuse_guard * guard = lastuse_guard_new(NULL);
    CHECK(guard != NULL, "%s", lastuse_last_error());
    set_leaf_values(p.graph, 1);
    CHECK(lastuse_guard_eval(out, true, guard), "it is to be computed alone");
    ((float *) ggml_get_tensor(ctx, "mask")->data)[5] += 1.0f;
    ggml_set_abort_callback(pass_if_mask_is_named);
    lastuse_guard_eval(out, false, guard);
    CHECK(false, "nothing was found");
}

// Inputs are set, results are read, and tensors are copied several at a time, between runs under guard
CASE(several_tensors_at_once) {
    struct ggml_context * ctx  = no_alloc_context(1 << 20);
    struct ggml_tensor *  a    = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8);
    struct ggml_tensor *  b    = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8);
    struct ggml_tensor *  sum  = ggml_add(ctx, a, b);
    struct ggml_tensor *  twin = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8);
    ggml_set_input(a);
    ggml_set_input(b);
    struct placed         p         = place(ctx, sum);
    ggml_backend_buffer_t buffer    = ggml_backend_alloc_buffer(p.cpu, 64);
    size_t                size      = 8 * sizeof(float);
    const size_t          offsets[] = { 0, 0 }, sizes[] = { size, size }, data_offsets[] = { 0, size };
    CHECK(ggml_backend_tensor_alloc(buffer, twin, ggml_backend_buffer_get_base(buffer)) == GGML_STATUS_SUCCESS, "placed");
    for (int run = 0; run < 3; run++) {
        float inputs[16], results[16];
        for (int i = 0; i < 16; i++) {
            inputs[i] = (float) (i + run);
        }
        struct ggml_tensor * ab[] = { a, b };
        ggml_backend_tensor_set_n(ab, inputs, offsets, sizes, data_offsets, 2);
        CHECK(lastuse_graph_compute_guarded(p.cpu, p.graph) == GGML_STATUS_SUCCESS, "run %d", run);
        const struct ggml_tensor * from[] = { sum };
        struct ggml_tensor *       to[]   = { twin };
        ggml_backend_tensor_copy_n(from, to, 1);
        const struct ggml_tensor * both[] = { sum, twin };
        ggml_backend_tensor_get_n(both, results, offsets, sizes, data_offsets, 2);
        for (int i = 0; i < 16; i++) {
            float expected = (float) (2 * (i % 8) + 8 + 2 * run);
            CHECK(results[i] == expected, "run %d: %g instead of %g", run, (double) results[i], (double) expected);
        }
    }
    ggml_backend_buffer_free(buffer);
    placed_free(&p);
}

struct experts {
    struct ggml_tensor * bank; // on the first backend, marked as weights, written while the graph runs
    float                next; // the value written into it
    int                  calls;
};

// Writes the bank before the first node of the split that reads it
static bool fill_bank(ggml_backend_t backend, const struct ggml_tensor * src, struct ggml_tensor * dst,
                      struct ggml_cgraph * graph, void * user_data) {
    (void) backend;
    (void) src;
    (void) dst;
    (void) graph;
    struct experts * experts = user_data;
    float            values[64];
    for (int i = 0; i < 64; i++) {
        values[i] = experts->next;
    }
    ggml_backend_tensor_set(experts->bank, values, 0, sizeof(values));
    experts->calls++;
    return false; // and the weight is copied as always
}

static struct ggml_tensor * new_weight(struct ggml_context * ctx, ggml_backend_buffer_type_t type, int64_t rows) {
    struct ggml_tensor *  weight = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, rows);
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(type, ggml_nbytes(weight));
    CHECK(buffer != NULL, "no buffer");
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    CHECK(ggml_backend_tensor_alloc(buffer, weight, ggml_backend_buffer_get_base(buffer)) == GGML_STATUS_SUCCESS, "placed");
    ggml_backend_tensor_memset(weight, 0, 0, ggml_nbytes(weight));
    return weight;
}

// As a cache of experts: a scheduler's callback writes into a buffer of weights while a graph runs
CASE(weights_are_written_while_a_graph_runs) {
    static struct separate_backends separate;
    CHECK(lastuse_set("verify", "weights"), "%s", lastuse_last_error());
    separate_backends_init(&separate, 1);
    struct ggml_context * ctx     = no_alloc_context(1 << 20);
    struct experts        experts = { .bank = new_weight(ctx, separate.types[0], 8) };
    struct ggml_tensor *  slots   = new_weight(ctx, separate.types[1], 1);
    struct ggml_tensor *  x       = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8);
    ggml_set_input(x);
    struct ggml_tensor * early = ggml_sqr(ctx, x);
    struct ggml_tensor * out   = ggml_mul_mat(ctx, experts.bank, ggml_add(ctx, early, slots));
    ggml_set_output(out);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, out);

    ggml_backend_sched_t sched = ggml_backend_sched_new(separate.backends, separate.types, BACKENDS, 64, false, false);
    for (int i = 0; i < graph->n_nodes; i++) {
        ggml_backend_sched_set_tensor_backend(sched, graph->nodes[i], separate.backends[graph->nodes[i] == early]);
    }
    struct lastuse_guard_params params = { .struct_size = sizeof(params), .words = "weights" };
    struct lastuse_guard *      guard  = lastuse_guard_new(&params);
    CHECK(guard != NULL, "%s", lastuse_last_error());
    ggml_backend_sched_set_eval_callback(sched, lastuse_guard_eval, guard);
    ggml_backend_sched_set_copy_callback(sched, fill_bank, &experts);
    CHECK(ggml_backend_sched_alloc_graph(sched, graph), "allocated");
    const float ones[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    for (int run = 1; run < 4; run++) {
        experts.next = (float) run;
        ggml_backend_tensor_set(x, ones, 0, sizeof(ones));
        CHECK(ggml_backend_sched_graph_compute(sched, graph) == GGML_STATUS_SUCCESS, "run %d", run);
        CHECK(experts.calls == run, "the callback was called %d times", experts.calls);
        float results[8];
        ggml_backend_tensor_get(out, results, 0, sizeof(results));
        for (int i = 0; i < 8; i++) {
            CHECK(results[i] == 8.0f * (float) run, "run %d: %g", run, (double) results[i]);
        }
    }
    ggml_backend_sched_free(sched);
    lastuse_guard_free(guard);
    ggml_backend_buffer_free(experts.bank->buffer);
    ggml_backend_buffer_free(slots->buffer);
    ggml_free(ctx);
    separate_backends_free(&separate);
}
