// runs: ggml-0.26 ggml-0.9.5
//
// lastuse_steps_*: graphs computed in steps. The results are those of the whole graph, to the last bit, between the steps
// the program reads what they exchange, and the allocator takes the bytes that are reported.
//
//   steps <case> [first seed] [number of seeds]

#include "separate_backends.h"
#include "cases.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "lastuse.h"
#include "own_memory.h"
#include "random_graph.h"
#include "splitmix.h"
#include "training.h"
#include "transformer.h"
#include "upstream.h"

#define MOST_CUTS 16
#define ALIGNMENT 64

static struct lastuse_steps_params new_params(ggml_backend_t backend) {
    struct lastuse_steps_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    params.backend     = backend;
    return params;
}

static struct lastuse_steps * new_steps(struct ggml_cgraph * graph, const struct lastuse_steps_params * params) {
    struct lastuse_steps * steps = lastuse_steps_new(graph, params);
    CHECK(steps != NULL, "refused: %s", lastuse_last_error());
    return steps;
}

static void compute(struct lastuse_steps * steps) {
    CHECK(lastuse_steps_compute(steps) == GGML_STATUS_SUCCESS, "not computed: %s", lastuse_last_error());
}

static struct lastuse_step_report report_of(const struct lastuse_steps * steps, size_t step) {
    struct lastuse_step_report report;
    memset(&report, 0, sizeof(report));
    report.struct_size = sizeof(report);
    CHECK(lastuse_steps_report(steps, step, &report), "no step %zu: %s", step, lastuse_last_error());
    return report;
}

static size_t count_of(const struct lastuse_steps * steps) {
    return report_of(steps, 0).n_steps;
}

// With memory, in which the steps can be computed.
static struct lastuse_steps * allocated_steps(struct ggml_cgraph * graph, const struct lastuse_steps_params * params) {
    struct lastuse_steps * steps = new_steps(graph, params);
    CHECK(ggml_gallocr_alloc_graph(params->galloc, graph), "not allocated: %s", lastuse_last_error());
    return steps;
}

// Some nodes of the graph, in order, but not the last one.
static size_t random_cuts(struct ggml_cgraph * graph, uint64_t * random, struct ggml_tensor ** cuts) {
    size_t n_cuts = 0;
    int    wanted = 1 + (int) (splitmix64(random) % 6);
    for (int i = 0; i + 1 < graph->n_nodes && n_cuts < MOST_CUTS; i++) {
        if (splitmix64(random) % (uint64_t) graph->n_nodes < (uint64_t) wanted) {
            cuts[n_cuts++] = graph->nodes[i];
        }
    }
    if (n_cuts == 0 && graph->n_nodes > 1) {
        cuts[n_cuts++] = graph->nodes[0];
    }
    return n_cuts;
}

// The numbers add up, and the steps cover the graph.
static void check_memory(const struct lastuse_steps * steps, const struct ggml_cgraph * graph) {
    struct lastuse_step_report first = report_of(steps, 0);
    size_t                     nodes = 0;
    for (size_t i = 0; i < first.n_steps; i++) {
        struct lastuse_step_report step = report_of(steps, i);
        CHECK(step.first_node == nodes && step.n_nodes > 0, "step %zu begins at %zu", i, step.first_node);
        CHECK(step.total_size == first.total_size && step.n_steps == first.n_steps, "step %zu has another graph", i);
        CHECK(step.crossing_size <= step.peak_size && step.peak_size <= step.total_size,
              "step %zu: %zu of %zu bytes cross, of %zu in all", i, step.crossing_size, step.peak_size, step.total_size);
        CHECK(i + 1 < first.n_steps || step.crossing_size == 0, "%zu bytes cross the end", step.crossing_size);
        nodes += step.n_nodes;
    }
    CHECK(nodes == (size_t) graph->n_nodes, "%zu of %d nodes", nodes, graph->n_nodes);
}

// Random graphs

struct random_case {
    struct random_graph_options options;
    bool                        chosen; // cuts are chosen by lastuse
    int                         threads;
};

static void check_random_graph(struct random_case what, uint64_t seed) {
    ggml_backend_t        cpu   = new_cpu(what.threads);
    struct random_graph   g     = random_graph_new(seed, what.options);
    struct random_graph   truth = random_graph_new(seed, what.options);
    ggml_backend_buffer_t own   = compute_in_own_memory(cpu, &truth);
    if (g.graph->n_nodes > 1) {
        struct dummy_buft dummy;
        dummy_buft_init(&dummy, "steps", ALIGNMENT, seed % 3 == 0 ? 8192 : 0);
        uint64_t                    random = seed;
        struct ggml_tensor *        cuts[MOST_CUTS];
        struct lastuse_steps_params params = new_params(cpu);
        params.galloc                      = ggml_gallocr_new(dummy_buft_type(&dummy));
        if (what.chosen) {
            size_t most    = g.graph->n_nodes < 9 ? (size_t) g.graph->n_nodes : 9;
            params.n_steps = 1 + splitmix64(&random) % most;
        } else {
            params.cuts   = cuts;
            params.n_cuts = random_cuts(g.graph, &random, cuts);
        }
        struct lastuse_steps * steps = allocated_steps(g.graph, &params);
        CHECK(count_of(steps) == (what.chosen ? params.n_steps : params.n_cuts + 1), "seed %llu: %zu steps",
              (unsigned long long) seed, count_of(steps));
        check_memory(steps, g.graph);
        for (int run = 0; run < 2; run++) {
            random_graph_set_data(&g);
            compute(steps);
            check_same_lists(g.outputs, truth.outputs, seed);
        }
        CHECK(dummy.peak_bytes == report_of(steps, 0).total_size, "seed %llu: %zu bytes are held, not %zu",
              (unsigned long long) seed, dummy.peak_bytes, report_of(steps, 0).total_size);
        lastuse_steps_free(steps);
        ggml_gallocr_free(params.galloc);
    }
    ggml_backend_buffer_free(own);
    random_graph_free(&truth);
    random_graph_free(&g);
    ggml_backend_free(cpu);
}

static void run_random_graphs(struct case_args args, struct random_case what, long long count) {
    uint64_t first = (uint64_t) case_number(args, 0, 1);
    for (uint64_t i = 0; i < (uint64_t) case_number(args, 1, count); i++) {
        check_random_graph(what, first + i);
    }
}

CASE_OF(random_graphs_with_random_cuts, run_random_graphs(args, (struct random_case){ .threads = 1 }, 400))
CASE_OF(random_graphs_with_two_threads, run_random_graphs(args, (struct random_case){ .threads = 2 }, 100))
CASE_OF(random_graphs_with_chosen_cuts,
        run_random_graphs(args, (struct random_case){ .threads = 1, .chosen = true }, 300))

CASE(random_graphs_with_copies_and_views) {
    struct random_graph_options options = { .copies = true, .output_views = true };
    run_random_graphs(args, (struct random_case){ .options = options, .threads = 1 }, 300);
}

CASE(random_graphs_with_alternatives) {
    struct random_graph_options options = { .alternatives = true };
    run_random_graphs(args, (struct random_case){ .options = options, .threads = 1 }, 200);
}

CASE(random_graphs_with_markers) {
    struct random_graph_options options = { .markers = true };
    run_random_graphs(args, (struct random_case){ .options = options, .threads = 1, .chosen = true }, 200);
}

// Training

static void check_same_training(const struct training * t, const struct training * plain) {
    for (int i = 0; i < TRAINING_WEIGHTS; i++) {
        check_same_bytes(t->weights[i], plain->weights[i], 0);
        check_same_bytes(t->moments[0][i], plain->moments[0][i], 0);
        check_same_bytes(t->moments[1][i], plain->moments[1][i], 0);
    }
    check_same_bytes(t->loss, plain->loss, 0);
}

static void train_in_steps(const struct training * plain, ggml_backend_t cpu, struct lastuse_steps_params params) {
    struct training      t      = training_new();
    uint64_t             random = params.n_cuts;
    struct ggml_tensor * cuts[MOST_CUTS];
    if (params.n_steps == 0) {
        params.cuts   = cuts;
        params.n_cuts = random_cuts(t.graph, &random, cuts);
    }
    params.galloc = params.sched == NULL ? ggml_gallocr_new(ggml_backend_cpu_buffer_type()) : NULL;
    struct lastuse_steps * steps = new_steps(t.graph, &params);
    if (params.sched == NULL) {
        CHECK(ggml_gallocr_alloc_graph(params.galloc, t.graph), "not allocated");
    } else {
        ggml_backend_sched_reset(params.sched);
        CHECK(ggml_backend_sched_alloc_graph(params.sched, t.graph), "not allocated");
    }
    training_set_data(&t);
    training_set_data(plain);
    for (int i = 0; i < 3; i++) {
        training_set_inputs(&t);
        compute(steps);
        training_run(plain, cpu, 1);
        check_same_training(&t, plain);
    }
    check_memory(steps, t.graph);
    lastuse_steps_free(steps);
    ggml_gallocr_free(params.galloc);
    training_free(&t);
}

CASE(training_has_the_same_weights_in_threads) {
    ggml_backend_t  cpu    = new_cpu(2);
    struct training plain  = training_new();
    ggml_gallocr_t  galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, plain.graph), "not allocated");
    for (size_t n_steps = 1; n_steps <= 8; n_steps++) {
        struct lastuse_steps_params params = new_params(cpu);
        params.n_steps                     = n_steps;
        train_in_steps(&plain, cpu, params);
    }
    for (size_t seed = 1; seed <= 10; seed++) {
        struct lastuse_steps_params params = new_params(cpu);
        params.n_cuts                      = seed;
        train_in_steps(&plain, cpu, params);
    }
    ggml_backend_sched_t sched = ggml_backend_sched_new(&cpu, NULL, 1, 4096, false, false);
    for (size_t n_steps = 1; n_steps <= 4; n_steps++) {
        struct lastuse_steps_params params = new_params(NULL);
        params.n_steps                     = n_steps;
        params.sched                       = sched;
        train_in_steps(&plain, cpu, params);
    }
    ggml_backend_sched_free(sched);
    ggml_gallocr_free(galloc);
    training_free(&plain);
    ggml_backend_free(cpu);
}

// Language models

static void check_transformer(struct shape shape, bool with_scheduler, size_t n_steps) {
    ggml_backend_t cpu    = new_cpu(1);
    struct built   plain  = transformer_new(shape);
    struct built   b      = transformer_new(shape);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, plain.graph), "not allocated");
    compute_with_values(cpu, plain.graph, 3);
    ggml_backend_sched_t        sched  = ggml_backend_sched_new(&cpu, NULL, 1, 4096, false, false);
    struct lastuse_steps_params params = new_params(with_scheduler ? NULL : cpu);
    params.sched                       = with_scheduler ? sched : NULL;
    params.galloc                      = with_scheduler ? NULL : ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    params.n_steps                     = n_steps;
    struct lastuse_steps * steps       = new_steps(b.graph, &params);
    CHECK(with_scheduler ? ggml_backend_sched_alloc_graph(sched, b.graph)
                         : ggml_gallocr_alloc_graph(params.galloc, b.graph), "not allocated");
    for (int run = 0; run < 2; run++) {
        set_leaf_values(b.graph, 3);
        compute(steps);
        check_same_outputs_of(plain.graph, b.graph, n_steps, "in steps");
    }
    check_memory(steps, b.graph);
    lastuse_steps_free(steps);
    ggml_backend_sched_free(sched);
    ggml_gallocr_free(params.galloc);
    ggml_gallocr_free(galloc);
    built_free(b);
    built_free(plain);
    ggml_backend_free(cpu);
}

CASE(transformers_have_the_same_outputs) {
    static const struct shape shapes[] = { { .layers = 2, .tokens = 1, .past = 32 },
                                           { .layers = 3, .tokens = 16, .past = 7 } };
    for (int shape = 0; shape < 2; shape++) {
        for (size_t n_steps = 1; n_steps <= 7; n_steps++) {
            check_transformer(shapes[shape], false, n_steps);
            check_transformer(shapes[shape], true, n_steps);
        }
    }
}

// Several backends

#define WIDTH_OF_MIXED 64
#define MIXED          80

struct mixed {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  inputs[2];
    struct ggml_tensor *  tensors[MIXED];
};

// A graph of operations on vectors, each of two of the tensors before it, with views and results in place.
static struct mixed mixed_new(uint64_t seed) {
    struct mixed m = { .ctx = no_alloc_context(1u << 20) };
    m.graph        = ggml_new_graph_custom(m.ctx, 512, false);
    for (int i = 0; i < 2; i++) {
        m.inputs[i] = ggml_new_tensor_1d(m.ctx, GGML_TYPE_F32, WIDTH_OF_MIXED);
        ggml_set_input(m.inputs[i]);
        m.tensors[i] = m.inputs[i];
    }
    m.tensors[2] = ggml_add(m.ctx, m.inputs[0], m.inputs[1]);
    for (int i = 3; i < MIXED; i++) {
        int                  back = i < 8 ? i : 8;
        struct ggml_tensor * a    = m.tensors[i - 1 - (int) (splitmix64(&seed) % (uint64_t) back)];
        struct ggml_tensor * b    = m.tensors[i - 1 - (int) (splitmix64(&seed) % (uint64_t) back)];
        switch (splitmix64(&seed) % 5) {
        case 0: m.tensors[i] = ggml_sin(m.ctx, a); break;
        case 1: m.tensors[i] = ggml_reshape_1d(m.ctx, ggml_scale(m.ctx, a, 0.5f), WIDTH_OF_MIXED); break;
        case 2: m.tensors[i] = ggml_mul(m.ctx, a, b); break;
        default: m.tensors[i] = ggml_add(m.ctx, a, b);
        }
        if (splitmix64(&seed) % 8 == 0) {
            ggml_set_output(m.tensors[i]);
        }
        ggml_build_forward_expand(m.graph, m.tensors[i]);
    }
    return m;
}

static void mixed_set_inputs(const struct mixed * m, uint64_t seed) {
    for (int i = 0; i < 2; i++) {
        set_values(m->inputs[i], seed + (uint64_t) i);
    }
}

static void check_same_mixed(const struct mixed * m, const struct mixed * truth, uint64_t seed) {
    for (int i = 2; i < MIXED; i++) {
        if ((m->tensors[i]->flags & GGML_TENSOR_FLAG_OUTPUT) != 0) {
            check_same_bytes(m->tensors[i], truth->tensors[i], seed);
        }
    }
    check_same_bytes(m->tensors[MIXED - 1], truth->tensors[MIXED - 1], seed);
}

// The callback

struct inspection {
    const struct mixed * m;
    const struct mixed * truth;
    const int *          ends;       // the last node of each step
    bool                 is_retained; // what a step has read of earlier ones can be read after it
    size_t               stop_after;
    size_t               calls;
    int                  compared;
};

static int position(const struct ggml_cgraph * graph, const struct ggml_tensor * t) {
    for (int i = 0; t != NULL && i < graph->n_nodes; i++) {
        if (graph->nodes[i] == t) {
            return i;
        }
    }
    return -1;
}

static const struct ggml_tensor * root_of(const struct ggml_tensor * t) {
    return t->view_src != NULL ? t->view_src : t;
}

// The last node that has a tensor in this memory as a source.
static int last_reader(const struct ggml_cgraph * graph, const struct ggml_tensor * root) {
    for (int i = graph->n_nodes - 1; i >= 0; i--) {
        for (int j = 0; j < GGML_MAX_SRC && graph->nodes[i]->src[j] != NULL; j++) {
            if (root_of(graph->nodes[i]->src[j]) == root) {
                return i;
            }
        }
    }
    return -1;
}

static bool inspect(size_t step, void * user_data) {
    struct inspection *        seen  = user_data;
    const struct ggml_cgraph * truth = seen->truth->graph;
    CHECK(step == seen->calls, "step %zu after %zu calls", step, seen->calls);
    seen->calls++;
    for (int i = 0; i <= seen->ends[step]; i++) {
        const struct ggml_tensor * root    = root_of(truth->nodes[i]);
        int                        begin   = step > 0 ? seen->ends[step - 1] + 1 : 0;
        int                        last    = last_reader(truth, root);
        bool                       crosses = position(truth, root) < begin && last >= begin && seen->is_retained;
        if (last > seen->ends[step] || crosses || (truth->nodes[i]->flags & GGML_TENSOR_FLAG_OUTPUT) != 0) {
            check_same_bytes(seen->m->graph->nodes[i], truth->nodes[i], step);
            seen->compared++;
        }
    }
    return step != seen->stop_after;
}

#define N_CUTS 3
static const int CUT_AT[N_CUTS] = { 19, 39, 59 };

static struct ggml_tensor ** cut_mixed(const struct mixed * m, struct lastuse_steps_params * params) {
    static struct ggml_tensor * cuts[N_CUTS];
    for (int i = 0; i < N_CUTS; i++) {
        cuts[i] = m->graph->nodes[CUT_AT[i]];
    }
    params->cuts     = cuts;
    params->n_cuts   = N_CUTS;
    params->callback = inspect;
    return cuts;
}

// Computes with every step as the last one, then all.
static void check_callbacks(struct lastuse_steps * steps, struct inspection * seen) {
    for (size_t stop = 0; stop <= N_CUTS; stop++) {
        seen->calls      = 0;
        seen->stop_after = stop;
        mixed_set_inputs(seen->m, 2);
        CHECK(lastuse_steps_compute(steps) == GGML_STATUS_ABORTED, "not stopped");
        CHECK(strstr(lastuse_last_error(), "the callback returned false after step") != NULL, "%s",
              lastuse_last_error());
        CHECK(seen->calls == stop + 1, "%zu calls", seen->calls);
    }
    seen->calls      = 0;
    seen->stop_after = SIZE_MAX;
    mixed_set_inputs(seen->m, 2);
    compute(steps);
    CHECK(seen->calls == N_CUTS + 1 && seen->compared > 80, "%zu calls, %d tensors seen", seen->calls, seen->compared);
    check_same_mixed(seen->m, seen->truth, 2);
}

static ggml_backend_buffer_t compute_truth(const struct mixed * truth, ggml_backend_t cpu) {
    ggml_backend_buffer_t own = upstream_ggml_backend_alloc_ctx_tensors(truth->ctx, cpu);
    mixed_set_inputs(truth, 2);
    CHECK(ggml_backend_graph_compute(cpu, truth->graph) == GGML_STATUS_SUCCESS, "not computed");
    return own;
}

CASE(callbacks_see_what_steps_exchange) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        ggml_backend_t              cpu    = new_cpu(1);
        struct mixed                m      = mixed_new(seed);
        struct mixed                truth  = mixed_new(seed);
        ggml_backend_buffer_t       own    = compute_truth(&truth, cpu);
        int                         ends[] = { CUT_AT[0], CUT_AT[1], CUT_AT[2], m.graph->n_nodes - 1 };
        struct inspection           seen   = { .m = &m, .truth = &truth, .ends = ends, .is_retained = true };
        struct lastuse_steps_params params = new_params(cpu);
        params.galloc                      = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        params.user_data                   = &seen;
        cut_mixed(&m, &params);
        struct lastuse_steps * steps = allocated_steps(m.graph, &params);
        check_callbacks(steps, &seen);
        // Inputs keep their values.
        seen.calls = 0;
        compute(steps);
        check_same_mixed(&m, &truth, seed);
        lastuse_steps_free(steps);
        ggml_gallocr_free(params.galloc);
        ggml_backend_buffer_free(own);
        ggml_free(m.ctx);
        ggml_free(truth.ctx);
        ggml_backend_free(cpu);
    }
}

// Backends that cannot read each other's memory: the scheduler copies, and calls back in its splits.
static void check_separate(uint64_t seed, bool with_assignments) {
    struct separate_backends separate;
    separate_backends_init(&separate, 1);
    struct mixed          m      = mixed_new(seed);
    struct mixed          truth  = mixed_new(seed);
    uint64_t              random = seed;
    ggml_backend_buffer_t own    = compute_truth(&truth, separate.cpu[0]);
    ggml_backend_sched_t  sched  =
        ggml_backend_sched_new(separate.backends, separate.types, BACKENDS, 512, false, false);
    for (int i = 0; i < m.graph->n_nodes; i++) {
        struct ggml_tensor * node = m.graph->nodes[i];
        if (with_assignments && node->view_src == NULL) {
            ggml_backend_t backend = separate.backends[splitmix64(&random) % BACKENDS];
            ggml_backend_sched_set_tensor_backend(sched, node, backend);
        }
    }
    int                         ends[] = { CUT_AT[0], CUT_AT[1], CUT_AT[2], m.graph->n_nodes - 1 };
    struct inspection           seen   = { .m = &m, .truth = &truth, .ends = ends, .is_retained = true };
    struct lastuse_steps_params params = new_params(NULL);
    params.sched                       = sched;
    params.user_data                   = &seen;
    cut_mixed(&m, &params);
    struct lastuse_steps * steps = new_steps(m.graph, &params);
    check_memory(steps, m.graph);
    CHECK(ggml_backend_sched_alloc_graph(sched, m.graph), "not allocated");
    check_callbacks(steps, &seen);
    CHECK(!with_assignments || (separate.dummies[0].peak_bytes > 0 && separate.dummies[1].peak_bytes > 0),
          "one backend does nothing");
    lastuse_steps_free(steps);
    for (int i = 0; i < m.graph->n_nodes; i++) {
        CHECK(m.graph->nodes[i]->flags == truth.graph->nodes[i]->flags, "%s is flagged still", m.graph->nodes[i]->name);
    }
    ggml_backend_sched_free(sched);
    ggml_backend_buffer_free(own);
    ggml_free(m.ctx);
    ggml_free(truth.ctx);
    separate_backends_free(&separate);
}

CASE(schedulers_with_two_backends) {
    uint64_t first = (uint64_t) case_number(args, 0, 1);
    for (uint64_t i = 0; i < (uint64_t) case_number(args, 1, 40); i++) {
        check_separate(first + i, false);
        check_separate(first + i, true);
    }
}

// Memory

// Without an allocator of lastuse nothing is retained, and the memory is any.
CASE(graphs_of_other_allocators) {
    ggml_backend_t        cpu    = new_cpu(1);
    struct mixed          m      = mixed_new(3);
    struct mixed          truth  = mixed_new(3);
    ggml_backend_buffer_t own    = compute_truth(&truth, cpu);
    int                   ends[] = { CUT_AT[0], CUT_AT[1], CUT_AT[2], m.graph->n_nodes - 1 };
    struct inspection     seen   = { .m = &m, .truth = &truth, .ends = ends };
    struct lastuse_steps_params params = new_params(cpu);
    params.user_data                   = &seen;
    cut_mixed(&m, &params);
    struct lastuse_steps * steps = new_steps(m.graph, &params);
    CHECK(lastuse_steps_compute(steps) == GGML_STATUS_FAILED, "computed without memory");
    CHECK(strstr(lastuse_last_error(), "the graph has no memory") != NULL, "%s", lastuse_last_error());
    ggml_backend_buffer_t other = upstream_ggml_backend_alloc_ctx_tensors(m.ctx, cpu);
    check_callbacks(steps, &seen);
    int nodes        = m.graph->n_nodes;
    m.graph->n_nodes = 5;
    CHECK(lastuse_steps_compute(steps) == GGML_STATUS_FAILED, "computed");
    CHECK(strstr(lastuse_last_error(), "which is not a node of the graph") != NULL, "%s", lastuse_last_error());
    m.graph->n_nodes = nodes;
    lastuse_steps_free(steps);
    ggml_backend_buffer_free(other);
    ggml_backend_buffer_free(own);
    ggml_free(m.ctx);
    ggml_free(truth.ctx);
    ggml_backend_free(cpu);
}

static size_t reserved(ggml_gallocr_t galloc, struct ggml_cgraph * graph) {
    size_t size = 0;
    ggml_gallocr_reserve_n_size(galloc, graph, NULL, NULL, &size);
    return size;
}

CASE(the_allocator_retains_until_the_steps_are_freed) {
    ggml_backend_t              cpu    = new_cpu(1);
    struct training             t      = training_new();
    struct lastuse_steps_params params = new_params(cpu);
    params.galloc                      = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    params.n_steps                     = 4;
    size_t before                      = reserved(params.galloc, t.graph);
    lastuse_tensor_retain(params.galloc, t.graph->nodes[2], NULL);
    size_t                 with_one = reserved(params.galloc, t.graph);
    struct lastuse_steps * steps    = new_steps(t.graph, &params);
    size_t                 total    = report_of(steps, 0).total_size;
    CHECK(reserved(params.galloc, t.graph) == total && total > before, "%zu bytes, and %zu before", total, before);
    lastuse_steps_free(steps);
    CHECK(reserved(params.galloc, t.graph) == with_one, "%zu bytes are retained", reserved(params.galloc, t.graph));
    ggml_gallocr_free(params.galloc);
    training_free(&t);
    ggml_backend_free(cpu);
}

static size_t crossing_of(struct lastuse_steps * steps) {
    size_t crossing = 0;
    for (size_t i = 0; i < count_of(steps); i++) {
        crossing += report_of(steps, i).crossing_size;
    }
    lastuse_steps_free(steps);
    return crossing;
}

CASE(chosen_cuts_let_few_bytes_cross) {
    ggml_backend_t  cpu = new_cpu(1);
    struct training t   = training_new();
    for (size_t n_steps = 2; n_steps <= 6; n_steps++) {
        struct ggml_tensor *        cuts[MOST_CUTS];
        struct lastuse_steps_params params = new_params(cpu);
        params.n_steps                     = n_steps;
        size_t chosen                      = crossing_of(new_steps(t.graph, &params));
        for (size_t i = 1; i < n_steps; i++) {
            cuts[i - 1] = t.graph->nodes[(size_t) t.graph->n_nodes * i / n_steps - 1];
        }
        params.n_steps = 0;
        params.n_cuts  = n_steps - 1;
        params.cuts    = cuts;
        size_t equal   = crossing_of(new_steps(t.graph, &params));
        CHECK(chosen <= equal, "%zu steps: %zu bytes, and %zu between equal ones", n_steps, chosen, equal);
    }
    training_free(&t);
    ggml_backend_free(cpu);
}

// Functions of the program, redirected results

static void negate(struct ggml_tensor * dst, const struct ggml_tensor * a, int ith, int nth, void * userdata) {
    (void) userdata;
    for (int64_t i = ith; i < ggml_nelements(dst); i += nth) {
        ((float *) dst->data)[i] = -((const float *) a->data)[i];
    }
}

CASE(functions_and_redirected_results) {
    ggml_backend_t cpu = new_cpu(2);
    for (size_t n_steps = 1; n_steps <= 5; n_steps++) {
        struct ggml_context * ctx   = no_alloc_context(1u << 20);
        struct ggml_cgraph *  graph = ggml_new_graph(ctx);
        struct ggml_tensor *  input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
        struct ggml_tensor *  room  = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 128);
        struct ggml_tensor *  half  = ggml_view_1d(ctx, room, 64, 64 * sizeof(float));
        struct ggml_tensor *  minus = ggml_map_custom1(ctx, input, negate, GGML_N_TASKS_MAX, NULL);
        struct ggml_tensor *  there = ggml_set_output(ggml_scale(ctx, minus, 2.0f), half);
        CHECK(there != NULL, "refused: %s", lastuse_last_error());
        struct ggml_tensor * both = ggml_dependency(ctx, room, there);
        struct ggml_tensor * last = ggml_map_custom1_inplace(ctx, ggml_scale(ctx, both, 3.0f), negate, 1, NULL);
        ggml_build_forward_expand(graph, last);
        CHECK(ggml_graph_n_nodes(graph) >= 5, "%d nodes", ggml_graph_n_nodes(graph));
        struct lastuse_steps_params params = new_params(cpu);
        params.galloc                      = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        params.n_steps                     = n_steps;
        struct lastuse_steps * steps       = allocated_steps(graph, &params);
        set_values(input, 1);
        set_values(room, 2);
        compute(steps);
        for (int i = 0; i < 64; i++) {
            float value = ((float *) input->data)[i];
            CHECK(((float *) last->data)[64 + i] == -(-value * 2.0f * 3.0f), "%d: another value", i);
        }
        lastuse_steps_free(steps);
        ggml_gallocr_free(params.galloc);
        ggml_free(ctx);
    }
    ggml_backend_free(cpu);
}

// A cast has itself as a source, and no other node reads these.
CASE(casts_that_no_node_reads_are_kept) {
    ggml_backend_t cpu = new_cpu(1);
    for (size_t n_steps = 1; n_steps <= 5; n_steps++) {
        struct ggml_context * ctx   = no_alloc_context(1u << 20);
        struct ggml_cgraph *  graph = ggml_new_graph(ctx);
        struct ggml_tensor *  input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
        struct ggml_tensor *  sum   = ggml_scale(ctx, input, 3.0f);
        struct ggml_tensor *  early = ggml_cast(ctx, ggml_scale(ctx, sum, 2.0f), GGML_TYPE_F16);
        struct ggml_tensor *  last  = ggml_cast(ctx, ggml_sqr(ctx, sum), GGML_TYPE_F16);
        ggml_build_forward_expand(graph, early);
        ggml_build_forward_expand(graph, last);
        CHECK(ggml_graph_n_nodes(graph) == 5, "%d nodes", ggml_graph_n_nodes(graph));
        struct lastuse_steps_params params = new_params(cpu);
        params.galloc                      = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        params.n_steps                     = n_steps;
        struct lastuse_steps * steps       = allocated_steps(graph, &params);
        set_values(input, 1);
        compute(steps);
        for (int i = 0; i < 64; i++) {
            float value = ((float *) input->data)[i] * 3.0f;
            CHECK(((ggml_fp16_t *) early->data)[i] == ggml_fp32_to_fp16(value * 2.0f), "%d: another value", i);
            CHECK(((ggml_fp16_t *) last->data)[i] == ggml_fp32_to_fp16(value * value), "%d: another square", i);
        }
        lastuse_steps_free(steps);
        ggml_gallocr_free(params.galloc);
        ggml_free(ctx);
    }
    ggml_backend_free(cpu);
}

// Mistakes

static void check_refused(struct ggml_cgraph * graph, const struct lastuse_steps_params * params, const char * why) {
    CHECK(lastuse_steps_new(graph, params) == NULL, "not refused: %s", why);
    CHECK(strstr(lastuse_last_error(), why) != NULL, "\"%s\" is not in \"%s\"", why, lastuse_last_error());
}

CASE(contradictory_requests) {
    ggml_backend_t              cpu    = new_cpu(1);
    struct mixed                m      = mixed_new(1);
    struct mixed                other  = mixed_new(2);
    ggml_backend_sched_t        sched  = ggml_backend_sched_new(&cpu, NULL, 1, 512, false, false);
    struct ggml_cgraph *        empty  = ggml_new_graph(m.ctx);
    struct lastuse_steps_params params = new_params(cpu);
    int                         n      = m.graph->n_nodes;
    struct ggml_tensor *        cuts[2];
    check_refused(m.graph, &params, "neither cuts nor n_steps");
    params.n_steps = (size_t) n + 1;
    check_refused(m.graph, &params, "which are fewer than the");
    params.n_steps = 1;
    check_refused(empty, &params, "the graph has no nodes");
    params.cuts   = cuts;
    params.n_cuts = 2;
    check_refused(m.graph, &params, "both cuts and n_steps");
    params.n_steps = 0;
    cuts[0]        = m.graph->nodes[3];
    cuts[1]        = m.graph->nodes[3];
    check_refused(m.graph, &params, "cut 1 is not at a later node than cut 0");
    cuts[1] = m.graph->nodes[2];
    check_refused(m.graph, &params, "cut 1 is not at a later node than cut 0");
    cuts[1] = m.graph->nodes[n - 1];
    check_refused(m.graph, &params, "cut 1 is at the last node");
    cuts[1] = other.graph->nodes[5];
    check_refused(m.graph, &params, "which is not a node of the graph");
    cuts[1] = m.inputs[0];
    check_refused(m.graph, &params, "which is not a node of the graph");
    params.n_cuts = 1;
    params.sched  = sched;
    check_refused(m.graph, &params, "both a backend and a scheduler");
    params.backend = NULL;
    params.galloc  = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    check_refused(m.graph, &params, "both a scheduler and an allocator");
    params.sched = NULL;
    check_refused(m.graph, &params, "neither a backend nor a scheduler");
    ggml_gallocr_free(params.galloc);

    params                           = new_params(cpu);
    params.n_steps                   = (size_t) n; // a step for each node
    struct lastuse_steps *     steps = new_steps(m.graph, &params);
    struct lastuse_step_report report;
    report.struct_size = sizeof(report);
    CHECK(!lastuse_steps_report(steps, (size_t) n, &report), "a step");
    CHECK(strstr(lastuse_last_error(), "there is no step") != NULL, "%s", lastuse_last_error());
    lastuse_steps_free(steps);
    lastuse_steps_free(NULL);
    ggml_backend_sched_free(sched);
    ggml_free(m.ctx);
    ggml_free(other.ctx);
    ggml_backend_free(cpu);
}
