// runs: ggml-0.26 ggml-0.9.5 ggml-0.28
//
// Correct graphs pass every kind of verification with unchanged results; lastuse_graph_verify names each fault.
//
//   verify <case> [first seed] [number of seeds]

#include "cases.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "ggml-backend-impl.h"
#include "lastuse.h"
#include "random_graph.h"
#include "transformer.h"
#include "upstream.h"

// Random graphs

struct setting {
    int                         n_threads;
    bool                        schedules; // by ggml_backend_sched with a guard; else by lastuse_graph_compute_guarded
    struct random_graph_options options;
};

static ggml_backend_buffer_t compute_truth(ggml_backend_t cpu, const struct random_graph * g) {
    ggml_backend_buffer_t buffer = upstream_ggml_backend_alloc_ctx_tensors(g->ctx, cpu);
    for (struct ggml_tensor * t = ggml_get_first_tensor(g->ctx); t != NULL; t = ggml_get_next_tensor(g->ctx, t)) {
        if (t->view_src != NULL && t->buffer == NULL) {
            ggml_backend_view_init(t);
        }
    }
    random_graph_set_data(g);
    CHECK(ggml_backend_graph_compute(cpu, g->graph) == GGML_STATUS_SUCCESS, "the truth is computed");
    return buffer;
}

static void check_same_results(const struct random_graph * g, const struct random_graph * truth) {
    for (int i = 0; i < g->outputs.count; i++) {
        const struct ggml_tensor * t     = g->outputs.items[i];
        size_t                     size  = ggml_nbytes(t);
        const struct ggml_tensor * other = truth->outputs.items[i];
        CHECK(size == 0 || memcmp(t->data, other->data, size) == 0, "seed %llu: %s has a wrong value",
              (unsigned long long) g->seed, t->name);
    }
}

static bool count_nodes(struct ggml_tensor * t, bool ask, void * user_data) {
    (void) t;
    int * counts = user_data;
    counts[ask ? 0 : 1]++;
    return counts[0] % 2 == 0; // selects every second node
}

// Twice: the second time the guard knows the graph.
static void schedule(ggml_backend_t cpu, const struct random_graph * g, const struct random_graph * truth) {
    int                         counts[2] = { 0 };
    struct lastuse_guard_params params    = { .struct_size    = sizeof(params),
                                              .callback           = count_nodes,
                                              .user_data = counts };
    struct lastuse_guard *      guard     = lastuse_guard_new(&params);
    CHECK(guard != NULL, "%s", lastuse_last_error());
    ggml_backend_sched_t sched = ggml_backend_sched_new(&cpu, NULL, 1, 4096, false, false);
    for (int i = 0; i < g->graph->n_leafs; i++) {
        ggml_backend_sched_set_tensor_backend(sched, g->graph->leafs[i], cpu);
    }
    ggml_backend_sched_set_eval_callback(sched, lastuse_guard_eval, guard);
    CHECK(ggml_backend_sched_alloc_graph(sched, g->graph), "seed %llu: not allocated", (unsigned long long) g->seed);
    ggml_backend_buffer_t buffer = compute_truth(cpu, truth);
    for (int run = 0; run < 2; run++) {
        random_graph_set_data(g);
        CHECK(ggml_backend_sched_graph_compute(sched, g->graph) == GGML_STATUS_SUCCESS, "it is computed");
        check_same_results(g, truth);
    }
    CHECK(counts[0] == 2 * g->graph->n_nodes, "the next callback is called before %d nodes", counts[0]);
    CHECK(counts[1] == counts[0] / 2, "and after %d, which it selected", counts[1]);
    ggml_backend_buffer_free(buffer);
    ggml_backend_sched_free(sched);
    lastuse_guard_free(guard);
}

static void compute_guarded(ggml_backend_t cpu, const struct random_graph * g, const struct random_graph * truth) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, g->graph), "seed %llu: not allocated", (unsigned long long) g->seed);
    CHECK(lastuse_graph_verify(g->graph), "seed %llu: %s", (unsigned long long) g->seed, lastuse_last_error());
    ggml_backend_buffer_t buffer = compute_truth(cpu, truth);
    random_graph_set_data(g);
    CHECK(lastuse_graph_compute_guarded(cpu, g->graph) == GGML_STATUS_SUCCESS, "seed %llu", (unsigned long long) g->seed);
    check_same_results(g, truth);
    ggml_backend_buffer_free(buffer);
    ggml_gallocr_free(galloc);
}

static void run(struct case_args args, int count, struct setting setting) {
    long long first = case_number(args, 0, 1);
    long long end   = first + case_number(args, 1, count);
    CHECK(lastuse_set("verify", "memory"), "%s", lastuse_last_error());
    ggml_backend_t cpu = new_cpu(setting.n_threads);
    for (long long seed = first; seed < end; seed++) {
        struct random_graph g     = random_graph_new((uint64_t) seed, setting.options);
        struct random_graph truth = random_graph_new((uint64_t) seed, setting.options);
        if (setting.schedules) {
            schedule(cpu, &g, &truth);
        } else {
            compute_guarded(cpu, &g, &truth);
        }
        random_graph_free(&g);
        random_graph_free(&truth);
    }
    ggml_backend_free(cpu);
}

CASE_OF(one_thread, run(args, 200, (struct setting){ .n_threads = 1 }))
CASE_OF(two_threads, run(args, 40, (struct setting){ .n_threads = 2 }))
CASE_OF(markers, run(args, 100, (struct setting){ .n_threads = 1, .options = { .markers = true } }))
CASE_OF(copies, run(args, 100, (struct setting){ .n_threads = 1, .options = { .copies = true } }))
CASE_OF(scheduler, run(args, 60, (struct setting){ .n_threads = 1, .schedules = true }))

// Graphs on ggml's own allocator are verified too
CASE(upstream_allocator) {
    for (long long seed = case_number(args, 0, 1); seed < case_number(args, 1, 200); seed++) {
        struct random_graph g      = random_graph_new((uint64_t) seed, (struct random_graph_options){ 0 });
        ggml_gallocr_t      galloc = upstream_ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        CHECK(upstream_ggml_gallocr_alloc_graph(galloc, g.graph), "seed %lld: not allocated", seed);
        CHECK(lastuse_graph_verify(g.graph), "seed %lld: %s", seed, lastuse_last_error());
        upstream_ggml_gallocr_free(galloc);
        random_graph_free(&g);
    }
}

// Plans of several buffers, and of graphs that cannot be computed, are simulated when they are allocated
CASE(oddities) {
    CHECK(lastuse_set("verify", "plan"), "%s", lastuse_last_error());
    struct random_graph_options options = {
        .markers = true, .early_markers = true, .split_copies = true, .unlisted_leafs = true,
    };
    for (long long seed = case_number(args, 0, 1); seed < case_number(args, 1, 300); seed++) {
        struct random_graph g      = random_graph_new((uint64_t) seed, options);
        ggml_gallocr_t      galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        CHECK(ggml_gallocr_alloc_graph(galloc, g.graph), "seed %lld was not allocated", seed);
        CHECK(ggml_gallocr_alloc_graph(galloc, g.graph), "seed %lld was not allocated again", seed);
        ggml_gallocr_free(galloc);
        random_graph_free(&g);
    }
}

// A new tensor is not mistaken for a freed one whose address, buffer and data it has

static char fixed_memory[1 << 16] __attribute__((aligned(64)));

static ggml_backend_buffer_t alloc_fixed(ggml_backend_buffer_type_t type, size_t size) {
    CHECK(size <= sizeof(fixed_memory), "a small graph");
    ggml_backend_buffer_t buffer = ggml_backend_cpu_buffer_from_ptr(fixed_memory, size);
    buffer->buft                 = type;
    return buffer;
}

static struct ggml_cgraph * alloc_small_graph(ggml_gallocr_t galloc, struct ggml_context * ctx, struct ggml_tensor * x) {
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_scale(ctx, ggml_sin(ctx, x), 2.0f));
    CHECK(ggml_gallocr_alloc_graph(galloc, graph), "not allocated");
    return graph;
}

CASE(other_tensor_at_the_same_address) {
    enum { TRIES = 1000 };
    CHECK(lastuse_set("verify", "memory"), "%s", lastuse_last_error());
    struct ggml_backend_buffer_type type = *ggml_backend_cpu_buffer_type();
    type.iface.alloc_buffer              = alloc_fixed;
    static char             memory[1 << 18];
    struct ggml_init_params params = { .mem_size = sizeof(memory), .mem_buffer = memory, .no_alloc = true };
    struct ggml_context *   ctx    = ggml_init(params);
    struct ggml_tensor *    x      = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 1000);
    ggml_gallocr_t          galloc = ggml_gallocr_new(&type);
    alloc_small_graph(galloc, ctx, x);
    const struct ggml_tensor first = *x;
    ggml_gallocr_free(galloc);
    ggml_free(ctx);

    ctx                         = ggml_init(params);
    struct ggml_tensor *  other = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 10, 10);
    ggml_backend_buffer_t buffers[TRIES];
    int                   n = 0;
    do {
        CHECK(n < TRIES, "what was freed is handed out again");
        buffers[n] = ggml_backend_cpu_buffer_from_ptr(fixed_memory, sizeof(fixed_memory));
    } while (buffers[n++] != first.buffer);
    CHECK(other == x && ggml_backend_tensor_alloc(first.buffer, other, first.data) == GGML_STATUS_SUCCESS, "the same place");
    galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(lastuse_graph_verify(alloc_small_graph(galloc, ctx, other)), "%s", lastuse_last_error());
    ggml_gallocr_free(galloc);
    while (n > 0) {
        ggml_backend_buffer_free(buffers[--n]);
    }
    ggml_free(ctx);
}

// Faults are named

struct chain {
    struct built         built;
    ggml_gallocr_t       galloc;
    struct ggml_tensor * x;
    struct ggml_tensor * y;
    struct ggml_tensor * first;  // reads x
    struct ggml_tensor * second; // reads first and y
    struct ggml_tensor * last;   // reads second and first
};

static struct ggml_tensor * named(struct ggml_tensor * t, const char * name) {
    ggml_set_name(t, name);
    return t;
}

static struct chain chain_new(void) {
    struct chain          c   = { .built = built_new(16, 65536) };
    struct ggml_context * ctx = c.built.ctx;
    c.x      = named(new_input(ctx, 8, 8), "x");
    c.y      = named(new_input(ctx, 8, 8), "y");
    c.first  = named(ggml_mul_mat(ctx, c.x, c.x), "first");
    c.second = named(ggml_mul_mat(ctx, c.first, c.y), "second");
    struct ggml_tensor * half = ggml_view_2d(ctx, c.second, 8, 4, c.second->nb[1], 4 * c.second->nb[1]);
    c.last   = named(ggml_mul_mat(ctx, half, c.first), "last");
    ggml_set_output(c.last);
    ggml_build_forward_expand(c.built.graph, c.last);
    c.galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(c.galloc, c.built.graph), "allocated");
    CHECK(lastuse_graph_verify(c.built.graph), "%s", lastuse_last_error());
    return c;
}

static void expect_wrong(struct chain c, const char * const * words) {
    CHECK(!lastuse_graph_verify(c.built.graph), "a fault is found");
    const char * error = lastuse_last_error();
    for (; *words != NULL; words++) {
        CHECK(strstr(error, *words) != NULL, "\"%s\" is missing in: %s", *words, error);
    }
    ggml_gallocr_free(c.galloc);
    built_free(c.built);
}

#define WORDS(...) ((const char * const[]){ __VA_ARGS__, NULL })

CASE(inputs_share_bytes) {
    struct chain c = chain_new();
    c.y->data      = (char *) c.x->data + 128;
    expect_wrong(c, WORDS("\"x\" (NONE)", "\"y\" (NONE)", "before the first step", "(128 bytes)", "CPU buffer"));
}

CASE(source_is_overwritten_while_it_is_read) {
    struct chain c = chain_new();
    c.first->data  = c.x->data;
    expect_wrong(c, WORDS("step 0, \"first\" (MUL_MAT)", "overwrites \"x\"", "(256 bytes)"));
}

CASE(value_is_overwritten_before_its_last_reader) {
    struct chain c = chain_new();
    c.first->data  = c.y->data;
    expect_wrong(c, WORDS("\"second\" (MUL_MAT)", "needs \"y\"", "\"first\" (MUL_MAT), which step 0 computes", "overwritten"));
}

CASE(tensor_beyond_the_end_of_its_buffer) {
    struct chain c    = chain_new();
    char *       base = ggml_backend_buffer_get_base(c.last->buffer);
    c.last->data      = base + ggml_backend_buffer_get_size(c.last->buffer) - 8;
    expect_wrong(c, WORDS("\"last\" (MUL_MAT)", "beyond the end"));
}

CASE(tensor_before_the_start_of_its_buffer) {
    struct chain c    = chain_new();
    char *       base = ggml_backend_buffer_get_base(c.last->buffer);
    c.last->data      = base - 4096;
    expect_wrong(c, WORDS("\"last\" (MUL_MAT)", "4096 bytes before the start"));
}

CASE(view_elsewhere) {
    struct chain c    = chain_new();
    struct ggml_tensor * view = c.last->src[0];
    view->data        = (char *) view->data + 32;
    expect_wrong(c, WORDS("(VIEW)", "\"second\"", "offset 128", "32 bytes behind"));
}

CASE(tensor_without_memory) {
    struct chain c   = chain_new();
    c.second->data   = NULL;
    c.second->buffer = NULL;
    expect_wrong(c, WORDS("\"second\"", "has no memory"));
}

CASE(result_is_lost) {
    struct chain c = chain_new();
    ggml_set_output(c.first);
    c.last->data = c.first->data;
    expect_wrong(c, WORDS("\"first\"", "\"last\""));
}

// Freed bytes are overwritten
CASE(freed_memory_is_overwritten) {
    struct chain c = chain_new();
    set_leaf_values(c.built.graph, 1);
    ggml_backend_t cpu = new_cpu(1);
    CHECK(lastuse_graph_compute_guarded(cpu, c.built.graph) == GGML_STATUS_SUCCESS, "it is computed");
    const unsigned char * bytes = c.second->data;
    for (int i = 0; i < 256; i++) {
        CHECK(bytes[i] == 0xfd, "byte %d of a dead result is %d", i, bytes[i]);
    }
    ggml_backend_free(cpu);
    ggml_gallocr_free(c.galloc);
    built_free(c.built);
}

static void write_elsewhere(struct ggml_tensor * dst, const struct ggml_tensor * a, int ith, int nth, void * user_data) {
    (void) nth;
    if (ith == 0) {
        memcpy(dst->data, a->data, ggml_nbytes(dst));
        *(float *) ((struct ggml_tensor *) user_data)->data = 7.0f;
    }
}

CASE(functions_of_the_program_may_be_trusted) {
    CHECK(lastuse_set("verify", "memory,no-custom"), "%s", lastuse_last_error());
    struct built         b = built_new(16, 65536);
    struct ggml_tensor * x = new_input(b.ctx, 8, 8);
    struct ggml_tensor * y = new_input(b.ctx, 8, 8);
    struct ggml_tensor * t = ggml_map_custom1(b.ctx, x, write_elsewhere, 1, y);
    ggml_build_forward_expand(b.graph, ggml_add(b.ctx, t, y));
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, b.graph), "allocated");
    set_leaf_values(b.graph, 1);
    ggml_backend_t cpu = new_cpu(1);
    CHECK(lastuse_graph_compute_guarded(cpu, b.graph) == GGML_STATUS_SUCCESS, "it is computed");
    ggml_backend_free(cpu);
    ggml_gallocr_free(galloc);
    built_free(b);
}

CASE(marked_weights_are_skipped_and_logged_once) {
    ggml_backend_t        cpu     = new_cpu(1);
    struct ggml_context * weights = no_alloc_context(4096);
    struct ggml_tensor *  weight  = ggml_new_tensor_2d(weights, GGML_TYPE_F32, 8, 8);
    ggml_backend_buffer_t buffer  = upstream_ggml_backend_alloc_ctx_tensors(weights, cpu);
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    struct built         b = built_new(16, 1024);
    struct ggml_tensor * x = ggml_mul_mat(b.ctx, weight, new_input(b.ctx, 8, 8));
    ggml_build_forward_expand(b.graph, ggml_mul_mat(b.ctx, weight, x));
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, b.graph), "allocated");
    struct log_capture log;
    set_leaf_values(b.graph, 1);
    for (int guarded = 0; guarded < 2; guarded++) {
        CHECK(lastuse_set("verify", guarded ? "weights" : "memory"), "%s", lastuse_last_error());
        log_capture_start(&log);
        CHECK(lastuse_graph_compute_guarded(cpu, b.graph) == GGML_STATUS_SUCCESS, "it is computed");
        log_capture_stop();
        int          index = 0;
        const char * line  = log_capture_next(&log, &index, "is not guarded: it is marked as weights");
        CHECK((line == NULL) == (guarded == 1), "%s", line != NULL ? line : "it is not logged");
        CHECK(log_capture_next(&log, &index, "is not guarded") == NULL, "it is logged twice");
    }
    ggml_gallocr_free(galloc);
    built_free(b);
    ggml_backend_buffer_free(buffer);
    ggml_free(weights);
    ggml_backend_free(cpu);
}

CASE(words) {
    CHECK(!lastuse_set("verify", "plan,memroy"), "a word is unknown");
    CHECK(strstr(lastuse_last_error(), "\"memroy\" is unknown; expected off, plan, memory") != NULL, "%s",
          lastuse_last_error());
    struct lastuse_guard_params params = { .struct_size = sizeof(params), .words = "wieghts" };
    CHECK(lastuse_guard_new(&params) == NULL, "a word is unknown");
    CHECK(strstr(lastuse_last_error(), "\"wieghts\"") != NULL, "%s", lastuse_last_error());
    lastuse_guard_free(NULL);
}

CASE(graphs_of_many_shapes_pass) {
    CHECK(lastuse_set("verify", "plan"), "%s", lastuse_last_error());
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    for (int tokens = 1; tokens < 6; tokens++) {
        for (int again = 0; again < 3; again++) {
            struct built b = transformer_new((struct shape){ .layers = 2, .tokens = tokens, .past = 3 });
            CHECK(ggml_gallocr_alloc_graph(galloc, b.graph), "allocated");
            CHECK(ggml_gallocr_alloc_graph(galloc, b.graph), "allocated again");
            built_free(b);
        }
    }
    ggml_gallocr_free(galloc);
}

// A graph that the program keeps is refused once its memory is freed, and right again after a new allocation
CASE(kept_graph_is_found_in_freed_memory) {
    CHECK(lastuse_set("verify", "memory"), "%s", lastuse_last_error());
    struct chain   c     = chain_new();
    struct built   large = built_new(16, 1024);
    struct ggml_tensor * x = new_input(large.ctx, 1024, 1024);
    ggml_build_forward_expand(large.graph, ggml_mul_mat(large.ctx, x, x));
    CHECK(ggml_gallocr_alloc_graph(c.galloc, large.graph), "allocated");
    CHECK(!lastuse_graph_verify(c.built.graph), "it is in freed memory");
    CHECK(strstr(lastuse_last_error(), "freed since") != NULL, "%s", lastuse_last_error());
    struct ggml_cgraph * graph = c.built.graph;
    for (int i = 0; i < graph->n_leafs + graph->n_nodes; i++) {
        struct ggml_tensor * t = i < graph->n_leafs ? graph->leafs[i] : graph->nodes[i - graph->n_leafs];
        t->data   = NULL;
        t->buffer = NULL;
    }
    CHECK(ggml_gallocr_alloc_graph(c.galloc, graph), "allocated again");
    CHECK(lastuse_graph_verify(graph), "%s", lastuse_last_error());
    built_free(large);
    ggml_gallocr_free(c.galloc);
    built_free(c.built);
}

// Allocators come and go, and with them buffers and tensors of the same addresses: nothing is taken for freed memory
CASE(memory_is_used_again) {
    struct built b = built_new(16, 65536);
    for (int round = 0; round < 60; round++) {
        CHECK(lastuse_set("verify", round % 3 == 2 ? "off" : "memory"), "%s", lastuse_last_error());
        ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        for (int graph = 0; graph < 4; graph++) {
            b = built_again(b);
            struct ggml_tensor * x = new_input(b.ctx, 64, 1 << (graph + round % 5));
            ggml_build_forward_expand(b.graph, ggml_sum(b.ctx, ggml_sqr(b.ctx, x)));
            CHECK(ggml_gallocr_alloc_graph(galloc, b.graph), "allocated");
            lastuse_guard_check_graph(b.graph);
        }
        ggml_gallocr_free(galloc);
        // The tensors of a context get the addresses of those before, and perhaps their memory.
        b = built_again(b);
        new_input(b.ctx, 64, 8 << round % 5);
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(b.ctx, ggml_backend_cpu_buffer_type());
        lastuse_guard_check_tensor(ggml_get_first_tensor(b.ctx), true);
        ggml_backend_buffer_free(buffer);
    }
    built_free(b);
}
