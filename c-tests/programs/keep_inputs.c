// runs: ggml-0.26
//
// A program sets an input once and computes several times. Where ggml's own allocator leaves the input intact, so does
// lastuse in allocators that a program uses itself.
//
//   keep_inputs <case> [first seed] [number of seeds]

#include "cases.h"
#include "computing.h"
#include "fuzz.h"
#include "fuzz/ways.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "lastuse.h"
#include "plan_check.h"
#include "upstream.h"

#define N_IN      16
#define N_OUT     512
#define N_TOKENS  8
#define KEPT      49664
#define SMALLER   49152
#define RUNS      3

struct model {
    struct ggml_context *  ctx;
    struct ggml_context *  weights;
    struct ggml_cgraph *   graph;
    struct ggml_tensor *   x;
    struct ggml_tensor *   result;
    ggml_backend_buffer_t  buffer; // of the weights
};

// r = w x is kept for the last sum: best fit never uses the hole that x leaves.
static struct model model_new(int64_t tokens) {
    struct model m     = { .ctx = no_alloc_context(65536), .weights = no_alloc_context(65536) };
    struct ggml_tensor * w[3];
    for (int i = 0; i < 3; i++) {
        w[i] = ggml_new_tensor_2d(m.weights, GGML_TYPE_F32, i == 0 ? N_IN : N_OUT, N_OUT);
    }
    m.buffer = ggml_backend_alloc_ctx_tensors_from_buft(m.weights, ggml_backend_cpu_buffer_type());
    for (int i = 0; i < 3; i++) {
        set_values(w[i], (uint64_t) i);
    }
    m.x                    = ggml_new_tensor_2d(m.ctx, GGML_TYPE_F32, N_IN, tokens);
    struct ggml_tensor * r = ggml_mul_mat(m.ctx, w[0], m.x);
    struct ggml_tensor * h = ggml_gelu(m.ctx, ggml_mul_mat(m.ctx, w[1], r));
    m.result               = ggml_add(m.ctx, ggml_mul_mat(m.ctx, w[2], h), r);
    m.graph                = ggml_new_graph_custom(m.ctx, 64, false);
    ggml_set_input(m.x);
    ggml_set_output(m.result);
    ggml_build_forward_expand(m.graph, m.result);
    return m;
}

static void model_free(struct model m) {
    ggml_backend_buffer_free(m.buffer);
    ggml_free(m.ctx);
    ggml_free(m.weights);
}

static void compute(ggml_backend_t cpu, struct ggml_cgraph * graph) {
    CHECK(ggml_backend_graph_compute(cpu, graph) == GGML_STATUS_SUCCESS, "not computed");
}

// Sets x once. Returns whether each run has the result of the first.
static bool repeats(struct model m) {
    ggml_backend_t cpu   = new_cpu(1);
    size_t         size  = ggml_nbytes(m.result);
    void *         first = malloc(size);
    bool           same  = true;
    CHECK(first != NULL, "out of memory");
    set_values(m.x, 7);
    for (int run = 0; run < RUNS; run++) {
        compute(cpu, m.graph);
        if (run == 0) {
            memcpy(first, m.result->data, size);
        }
        same = same && memcmp(first, m.result->data, size) == 0;
    }
    free(first);
    ggml_backend_free(cpu);
    return same;
}

static void check_kept(ggml_gallocr_t galloc, struct model m, bool is_kept, const char * what) {
    size_t expected = is_kept ? KEPT : SMALLER;
    size_t size     = ggml_gallocr_get_buffer_size(galloc, 0);
    CHECK_PLAN(m.graph, "%s", what);
    CHECK(size == expected, "%s: %zu bytes, not %zu", what, size, expected);
    CHECK(repeats(m) == is_kept, "%s: results are %s", what, is_kept ? "not equal" : "equal");
    ggml_gallocr_free(galloc);
    model_free(m);
}

CASE(set_once_and_computed_again) {
    struct model   m        = model_new(N_TOKENS);
    ggml_gallocr_t upstream = upstream_ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(upstream_ggml_gallocr_alloc_graph(upstream, m.graph), "upstream allocates it");
    CHECK(upstream_ggml_gallocr_get_buffer_size(upstream, 0) == KEPT, "upstream takes other bytes");
    CHECK(repeats(m), "upstream overwrites x");
    upstream_ggml_gallocr_free(upstream);
    model_free(m);

    m                     = model_new(N_TOKENS);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, m.graph), "not allocated");
    check_kept(galloc, m, true, "lastuse");
}

// Each begins as a scheduler does not.
CASE(each_direct_use) {
    ggml_backend_buffer_type_t type     = ggml_backend_cpu_buffer_type();
    int                        ids[64]  = { 0 };
    for (int way = 0; way < 5; way++) {
        struct model   m      = model_new(N_TOKENS);
        ggml_gallocr_t galloc = way == 0 ? ggml_gallocr_new(type) : ggml_gallocr_new_n(&type, 1);
        bool           done   = way == 0   ? ggml_gallocr_reserve_n(galloc, m.graph, ids, ids)
                                : way == 1 ? ggml_gallocr_reserve(galloc, m.graph)
                                : way == 2 ? ggml_gallocr_reserve_n(galloc, m.graph, NULL, NULL)
                                           : true;
        if (way == 3) {
            size_t size = 0;
            ggml_gallocr_reserve_n_size(galloc, m.graph, NULL, NULL, &size);
            CHECK(size == KEPT, "measured %zu bytes", size);
        }
        CHECK(done && ggml_gallocr_alloc_graph(galloc, m.graph), "way %d: not allocated", way);
        check_kept(galloc, m, true, "direct use");
    }
    struct model   m      = model_new(N_TOKENS);
    ggml_gallocr_t galloc = ggml_gallocr_new_n(&type, 1);
    CHECK(ggml_gallocr_reserve_n(galloc, m.graph, ids, ids) && ggml_gallocr_alloc_graph(galloc, m.graph), "not allocated");
    check_kept(galloc, m, false, "with buffer ids");
    m = model_new(N_TOKENS);
    size_t size = 0;
    CHECK(lastuse_graph_measure(&m.graph, 1, &type, 1, NULL, NULL, &size, NULL) && size == KEPT, "measured %zu", size);
    model_free(m);
}

CASE(a_word_switches_it) {
    static const struct {
        const char * rules;
        bool         is_kept;
    } words[] = {
        { "default", true },        { "ggml", true },           { "all", true },
        { "none,in-place", true },  { "no-keep-inputs", false }, { "ggml,no-keep-inputs", false },
        { "no-keep-inputs,keep-inputs", true }, { "no-keep-inputs,default", true }, { "gpu:no-keep-inputs", true },
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct model   m      = model_new(N_TOKENS);
        ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        CHECK(lastuse_gallocr_set(galloc, "rules", words[i].rules), "%s is known", words[i].rules);
        CHECK(ggml_gallocr_alloc_graph(galloc, m.graph), "not allocated");
        check_kept(galloc, m, words[i].is_kept, words[i].rules);
    }
}

// Programs with a scheduler set their inputs before each run.
CASE(schedulers_need_the_word) {
    struct model m = model_new(N_TOKENS);
    CHECK(size_in_scheduler(m.graph) == SMALLER, "%zu bytes", size_in_scheduler(m.graph));
    CHECK(lastuse_set("rules", "keep-inputs"), "the rule is known");
    CHECK(size_in_scheduler(m.graph) == KEPT, "%zu bytes with the rule", size_in_scheduler(m.graph));
    model_free(m);
    // One backend: nothing is reserved before the first graph is allocated.
    for (int i = 0; i < 2; i++) {
        CHECK(lastuse_set("rules", i == 0 ? "default" : "keep-inputs"), "the rule is known");
        m                          = model_new(N_TOKENS);
        ggml_backend_t       cpu   = new_cpu(1);
        ggml_backend_sched_t sched = ggml_backend_sched_new(&cpu, NULL, 1, 256, false, false);
        CHECK(ggml_backend_sched_alloc_graph(sched, m.graph), "not allocated");
        size_t size = ggml_backend_sched_get_buffer_size(sched, cpu);
        CHECK(size == (i == 0 ? SMALLER : KEPT), "%zu bytes", size);
        ggml_backend_sched_free(sched);
        ggml_backend_free(cpu);
        model_free(m);
    }
}

// The plan of a large graph serves a much smaller one, or that one gets its own: in ggml's memory x is intact.
CASE(smaller_graphs_keep_theirs) {
    for (int64_t tokens = 1; tokens <= N_TOKENS; tokens++) {
        struct model   large  = model_new(N_TOKENS);
        struct model   small  = model_new(tokens);
        ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        CHECK(ggml_gallocr_reserve(galloc, large.graph), "not reserved");
        CHECK(ggml_gallocr_alloc_graph(galloc, small.graph), "not allocated");
        CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == KEPT, "the buffer has grown");
        CHECK_PLAN(small.graph, "%d tokens", (int) tokens);
        CHECK(repeats(small), "%d tokens: results are not equal", (int) tokens);
        ggml_gallocr_free(galloc);
        model_free(large);
        model_free(small);
    }
}

enum setting { ONCE, EACH_TIME, KEPT_BY_RULE };

// The messages about inputs of a graph that is computed several times under guard.
static int messages(ggml_backend_t cpu, enum setting setting) {
    static struct log_capture log;
    struct model              m      = model_new(N_TOKENS);
    ggml_gallocr_t            galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    int                       count  = 0;
    CHECK(lastuse_gallocr_set(galloc, "rules", setting == KEPT_BY_RULE ? "keep-inputs" : "no-keep-inputs"), "known");
    CHECK(ggml_gallocr_alloc_graph(galloc, m.graph), "not allocated");
    ggml_set_name(m.x, "the input");
    log_capture_start(&log);
    for (int run = 0; run < RUNS; run++) {
        if (run == 0 || setting == EACH_TIME) {
            set_values(m.x, (uint64_t) run);
        }
        CHECK(lastuse_graph_compute_guarded(cpu, m.graph) == GGML_STATUS_SUCCESS, "%s", lastuse_last_error());
    }
    log_capture_stop();
    for (int i = 0, found = 0; i < log.count && i < LOG_CAPTURE_LINES; i++) {
        found = strstr(log.lines[i], "\"the input\"") != NULL;
        CHECK(!found || strstr(log.lines[i], "(MUL_MAT)") != NULL || strstr(log.lines[i], "(ADD)") != NULL,
              "no node is named: %s", log.lines[i]);
        CHECK(!found || strstr(log.lines[i], "keep-inputs") != NULL, "no rule is named: %s", log.lines[i]);
        count += found;
    }
    ggml_gallocr_free(galloc);
    model_free(m);
    return count;
}

CASE(a_guard_names_inputs_that_are_not_set_again) {
    ggml_backend_t cpu = new_cpu(1);
    CHECK(messages(cpu, ONCE) == 1, "not named once");
    CHECK(messages(cpu, EACH_TIME) == 0, "an input that is set again is named");
    CHECK(messages(cpu, KEPT_BY_RULE) == 0, "an input that is kept is named");
    ggml_backend_free(cpu);
}

CASE(random_graphs) {
    ggml_backend_t cpu   = new_cpu(1);
    struct seeds   seeds = seeds_from(args, 400);
    FOR_SEEDS(seed, seeds) {
        uint64_t random = (uint64_t) seed;
        fuzz_repeated(cpu, (uint64_t) seed, &random);
    }
    ggml_backend_free(cpu);
}
