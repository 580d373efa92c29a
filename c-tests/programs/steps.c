// runs: ggml-0.26 ggml-0.9.5
//
// lastuse_steps_*: graphs computed step by step. The results are those of the whole graph, to the last bit, and buffer
// types are asked for the bytes that are reported.
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

static struct lastuse_steps_memory memory_of(const struct lastuse_steps * steps) {
    struct lastuse_steps_memory memory;
    memset(&memory, 0, sizeof(memory));
    memory.struct_size = sizeof(memory);
    lastuse_steps_report(steps, &memory);
    return memory;
}

static struct lastuse_step_memory memory_of_step(const struct lastuse_steps * steps, int step) {
    struct lastuse_step_memory memory;
    memset(&memory, 0, sizeof(memory));
    memory.struct_size = sizeof(memory);
    CHECK(lastuse_steps_step_report(steps, step, &memory), "no step %d: %s", step, lastuse_last_error());
    return memory;
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
    struct lastuse_steps_memory all   = memory_of(steps);
    size_t                      most  = 0;
    int                         nodes = 0;
    CHECK(all.n_steps == lastuse_steps_step_count(steps), "%d steps", all.n_steps);
    for (int i = 0; i < all.n_steps; i++) {
        struct lastuse_step_memory step = memory_of_step(steps, i);
        CHECK(step.first_node == nodes && step.n_nodes > 0, "step %d begins at %d", i, step.first_node);
        nodes += step.n_nodes;
        size_t total = step.compute_size + step.crossing_size;
        most         = total > most ? total : most;
    }
    CHECK(nodes == graph->n_nodes, "%d of %d nodes", nodes, graph->n_nodes);
    CHECK(all.peak_size == all.kept_size + most, "%zu bytes, and %zu + %zu", all.peak_size, all.kept_size, most);
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
        params.buft                        = dummy_buft_type(&dummy);
        if (what.chosen) {
            size_t most    = g.graph->n_nodes < 9 ? (size_t) g.graph->n_nodes : 9;
            params.n_steps = 1 + splitmix64(&random) % most;
        } else {
            params.cuts   = cuts;
            params.n_cuts = random_cuts(g.graph, &random, cuts);
        }
        struct lastuse_steps * steps = new_steps(g.graph, &params);
        size_t                 n     = (size_t) lastuse_steps_step_count(steps);
        CHECK(n == (what.chosen ? params.n_steps : params.n_cuts + 1), "seed %llu: %zu steps",
              (unsigned long long) seed, n);
        check_memory(steps, g.graph);
        for (int run = 0; run < 2; run++) {
            random_graph_set_data(&g);
            compute(steps);
            check_same_lists(g.outputs, truth.outputs, seed);
        }
        struct lastuse_steps_memory memory = memory_of(steps);
        CHECK(dummy.peak_bytes == memory.peak_size, "seed %llu: %zu bytes were held, not %zu",
              (unsigned long long) seed, dummy.peak_bytes, memory.peak_size);
        CHECK(dummy.live_bytes == memory.kept_size, "seed %llu: %zu bytes are held, not %zu",
              (unsigned long long) seed, dummy.live_bytes, memory.kept_size);
        lastuse_steps_free(steps);
        CHECK(dummy.live_buffers == 0, "seed %llu: %zu buffers are left", (unsigned long long) seed,
              dummy.live_buffers);
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

CASE(random_graphs_with_random_cuts) {
    run_random_graphs(args, (struct random_case){ .threads = 1 }, 400);
}

CASE(random_graphs_with_two_threads) {
    run_random_graphs(args, (struct random_case){ .threads = 2 }, 100);
}

CASE(random_graphs_with_chosen_cuts) {
    run_random_graphs(args, (struct random_case){ .threads = 1, .chosen = true }, 300);
}

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
    struct training     t      = training_new();
    uint64_t            random = params.n_cuts;
    struct ggml_tensor * cuts[MOST_CUTS];
    if (params.n_steps == 0) {
        params.cuts   = cuts;
        params.n_cuts = random_cuts(t.graph, &random, cuts);
    }
    struct lastuse_steps * steps = new_steps(t.graph, &params);
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
    params.n_steps                     = n_steps;
    struct lastuse_steps * steps       = new_steps(b.graph, &params);
    for (int run = 0; run < 2; run++) {
        set_leaf_values(b.graph, 3);
        compute(steps);
        check_same_outputs_of(b.graph, plain.graph, n_steps, "in steps");
    }
    check_memory(steps, b.graph);
    lastuse_steps_free(steps);
    ggml_backend_sched_free(sched);
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

// Backends that cannot read each other's memory: the scheduler copies, and what crosses lies where it is computed.
static void check_separate(uint64_t seed, bool with_assignments, size_t n_steps) {
    struct separate_backends separate;
    separate_backends_init(&separate, 1);
    struct mixed         m      = mixed_new(seed);
    struct mixed         truth  = mixed_new(seed);
    uint64_t             random = seed;
    ggml_gallocr_t       galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    ggml_backend_sched_t sched  =
        ggml_backend_sched_new(separate.backends, separate.types, BACKENDS, 512, false, false);
    CHECK(ggml_gallocr_alloc_graph(galloc, truth.graph), "not allocated");
    for (int i = 0; i < m.graph->n_nodes; i++) {
        struct ggml_tensor * node = m.graph->nodes[i];
        if (with_assignments && node->view_src == NULL) {
            ggml_backend_t backend = separate.backends[splitmix64(&random) % BACKENDS];
            ggml_backend_sched_set_tensor_backend(sched, node, backend);
        }
    }
    struct ggml_tensor *        cuts[MOST_CUTS];
    struct lastuse_steps_params params = new_params(NULL);
    params.sched                       = sched;
    params.n_steps                     = n_steps;
    if (n_steps == 0) {
        params.cuts   = cuts;
        params.n_cuts = random_cuts(m.graph, &random, cuts);
    }
    struct lastuse_steps * steps = new_steps(m.graph, &params);
    check_memory(steps, m.graph);
    for (int run = 0; run < 3; run++) {
        mixed_set_inputs(&m, seed + (uint64_t) run);
        mixed_set_inputs(&truth, seed + (uint64_t) run);
        compute(steps);
        CHECK(ggml_backend_graph_compute(separate.cpu[0], truth.graph) == GGML_STATUS_SUCCESS, "not computed");
        check_same_mixed(&m, &truth, seed);
    }
    size_t live = separate.dummies[0].live_bytes + separate.dummies[1].live_bytes;
    size_t held = ggml_backend_sched_get_buffer_size(sched, separate.backends[0]) +
                  ggml_backend_sched_get_buffer_size(sched, separate.backends[1]);
    CHECK(live == memory_of(steps).kept_size + held, "seed %llu: %zu bytes are held, not %zu",
          (unsigned long long) seed, live, memory_of(steps).kept_size + held);
    CHECK(!with_assignments || (separate.dummies[0].peak_bytes > 0 && separate.dummies[1].peak_bytes > 0),
          "one backend does nothing");
    lastuse_steps_free(steps);
    live = separate.dummies[0].live_bytes + separate.dummies[1].live_bytes;
    CHECK(live == held, "%zu bytes are left", live - held);
    ggml_backend_sched_free(sched);
    ggml_gallocr_free(galloc);
    ggml_free(m.ctx);
    ggml_free(truth.ctx);
    separate_backends_free(&separate);
}

CASE(schedulers_with_two_backends) {
    uint64_t first = (uint64_t) case_number(args, 0, 1);
    for (uint64_t i = 0; i < (uint64_t) case_number(args, 1, 60); i++) {
        check_separate(first + i, false, i % 5);
        check_separate(first + i, true, i % 5);
    }
}

CASE(a_scheduler_is_free_between_runs) {
    ggml_backend_t              cpu    = new_cpu(1);
    struct mixed                m      = mixed_new(4);
    struct mixed                other  = mixed_new(5);
    struct mixed                truth  = mixed_new(4);
    ggml_backend_sched_t        sched  = ggml_backend_sched_new(&cpu, NULL, 1, 512, false, false);
    ggml_gallocr_t              galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    struct lastuse_steps_params params = new_params(NULL);
    params.sched                       = sched;
    params.n_steps                     = 4;
    struct lastuse_steps * steps       = new_steps(m.graph, &params);
    CHECK(ggml_gallocr_alloc_graph(galloc, truth.graph), "not allocated");
    mixed_set_inputs(&truth, 9);
    CHECK(ggml_backend_graph_compute(cpu, truth.graph) == GGML_STATUS_SUCCESS, "not computed");
    mixed_set_inputs(&m, 9); // inputs keep their values
    for (int run = 0; run < 3; run++) {
        ggml_backend_sched_reset(sched);
        if (run > 0) {
            other = mixed_new(5);
        }
        CHECK(ggml_backend_sched_alloc_graph(sched, other.graph), "another graph is not allocated");
        mixed_set_inputs(&other, 1);
        CHECK(ggml_backend_sched_graph_compute(sched, other.graph) == GGML_STATUS_SUCCESS, "not computed");
        ggml_free(other.ctx);
        compute(steps);
        check_same_mixed(&m, &truth, 4);
    }
    lastuse_steps_free(steps);
    ggml_backend_sched_free(sched);
    ggml_gallocr_free(galloc);
    ggml_free(m.ctx);
    ggml_free(truth.ctx);
    ggml_backend_free(cpu);
}

// Memory

static size_t peak_with(size_t n_steps, ggml_backend_t cpu) {
    struct training             t      = training_new();
    struct lastuse_steps_params params = new_params(cpu);
    params.n_steps                     = n_steps;
    struct lastuse_steps *      steps  = new_steps(t.graph, &params);
    struct lastuse_steps_memory memory = memory_of(steps);
    CHECK(memory.whole_size > 0, "the whole graph takes nothing");
    lastuse_steps_free(steps);
    training_free(&t);
    return memory.peak_size;
}

// The peak of the chosen cuts, and of many others.
CASE(chosen_cuts_have_a_low_peak) {
    ggml_backend_t cpu = new_cpu(1);
    for (size_t n_steps = 2; n_steps <= 4; n_steps++) {
        size_t chosen = peak_with(n_steps, cpu);
        for (uint64_t seed = 0; seed < 40; seed++) {
            struct training      t = training_new();
            struct ggml_tensor * cuts[4];
            uint64_t             random = seed;
            int                  first  = 0;
            int                  nodes  = t.graph->n_nodes;
            for (size_t i = 0; i + 1 < n_steps; i++) {
                int room = nodes - 1 - first - (int) (n_steps - i);
                first += (int) (splitmix64(&random) % (uint64_t) room);
                cuts[i] = t.graph->nodes[first++];
            }
            struct lastuse_steps_params params = new_params(cpu);
            params.cuts                        = cuts;
            params.n_cuts                      = n_steps - 1;
            struct lastuse_steps * steps       = new_steps(t.graph, &params);
            CHECK(memory_of(steps).peak_size >= chosen, "seed %llu: %zu bytes in %zu steps, %zu chosen",
                  (unsigned long long) seed, memory_of(steps).peak_size, n_steps, chosen);
            lastuse_steps_free(steps);
            training_free(&t);
        }
    }
    ggml_backend_free(cpu);
}

CASE(one_step_takes_what_the_graph_takes) {
    ggml_backend_t              cpu    = new_cpu(1);
    struct training             t      = training_new();
    struct lastuse_steps_params params = new_params(cpu);
    params.n_steps                     = 1;
    struct lastuse_steps *      steps  = new_steps(t.graph, &params);
    struct lastuse_steps_memory memory = memory_of(steps);
    struct lastuse_step_memory  step   = memory_of_step(steps, 0);
    CHECK(step.crossing_size == 0 && step.n_nodes == t.graph->n_nodes, "something crosses");
    CHECK(memory.peak_size >= memory.whole_size && memory.peak_size <= memory.whole_size + memory.kept_size,
          "%zu bytes in one step, %zu at once", memory.peak_size, memory.whole_size);
    lastuse_steps_free(steps);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    // The inputs of steps are set before each run.
    CHECK(lastuse_gallocr_set(galloc, "rules", "no-keep-inputs") || !lastuse_enabled(), "%s", lastuse_last_error());
    CHECK(ggml_gallocr_alloc_graph(galloc, t.graph), "the graph cannot be allocated afterwards");
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == memory.whole_size || !lastuse_enabled(), "another size");
    ggml_gallocr_free(galloc);
    training_free(&t);
    ggml_backend_free(cpu);
}

// The callback

struct inspection {
    const struct mixed *   m;
    const struct mixed *   truth;
    struct lastuse_steps * steps;
    int                    calls;
    int                    stop_after;
    int                    compared;
};

static bool inspect(int step, void * user_data) {
    struct inspection * seen = user_data;
    CHECK(step == seen->calls, "step %d after %d calls", step, seen->calls);
    seen->calls++;
    for (int i = 0; i < seen->m->graph->n_nodes; i++) {
        struct ggml_tensor * node  = seen->m->graph->nodes[i];
        struct ggml_tensor * other = seen->truth->graph->nodes[i];
        // Outside of the compute buffer, whose usage tells.
        if (node->buffer != NULL && node->buffer->usage != GGML_BACKEND_BUFFER_USAGE_COMPUTE && i < 20 * (step + 1)) {
            check_same_bytes(node, other, (uint64_t) step);
            seen->compared++;
        }
    }
    return step != seen->stop_after;
}

CASE(callbacks_see_what_crosses) {
    ggml_backend_t        cpu   = new_cpu(1);
    struct mixed          m     = mixed_new(7);
    struct mixed          truth = mixed_new(7);
    ggml_backend_buffer_t own   = upstream_ggml_backend_alloc_ctx_tensors(truth.ctx, cpu);
    mixed_set_inputs(&truth, 2);
    CHECK(ggml_backend_graph_compute(cpu, truth.graph) == GGML_STATUS_SUCCESS, "not computed");
    struct ggml_tensor *        cuts[3] = { m.graph->nodes[19], m.graph->nodes[39], m.graph->nodes[59] };
    struct inspection           seen    = { .m = &m, .truth = &truth, .stop_after = -1 };
    struct lastuse_steps_params params  = new_params(cpu);
    params.cuts                         = cuts;
    params.n_cuts                       = 3;
    params.callback                     = inspect;
    params.user_data                    = &seen;
    struct lastuse_steps * steps        = new_steps(m.graph, &params);
    mixed_set_inputs(&m, 2);
    compute(steps);
    CHECK(seen.calls == 4 && seen.compared > 4, "%d calls, %d tensors seen", seen.calls, seen.compared);
    for (int stop = 0; stop < 4; stop++) {
        seen.calls      = 0;
        seen.stop_after = stop;
        CHECK(lastuse_steps_compute(steps) == GGML_STATUS_ABORTED, "not stopped");
        CHECK(strstr(lastuse_last_error(), "the callback returned false after step") != NULL, "%s",
              lastuse_last_error());
        CHECK(seen.calls == stop + 1, "%d calls", seen.calls);
    }
    seen.calls      = 0;
    seen.stop_after = -1;
    compute(steps);
    check_same_mixed(&m, &truth, 7);
    lastuse_steps_free(steps);
    ggml_backend_buffer_free(own);
    ggml_free(m.ctx);
    ggml_free(truth.ctx);
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
    ggml_backend_t        cpu   = new_cpu(2);
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
    for (size_t n_steps = 1; n_steps <= (size_t) ggml_graph_n_nodes(graph); n_steps++) {
        struct lastuse_steps_params params = new_params(cpu);
        params.n_steps                     = n_steps;
        struct lastuse_steps * steps       = new_steps(graph, &params);
        set_values(input, 1);
        set_values(room, 2);
        compute(steps);
        for (int i = 0; i < 64; i++) {
            float value = ((float *) input->data)[i];
            CHECK(((float *) last->data)[64 + i] == -(-value * 2.0f * 3.0f), "%d: another value", i);
        }
        lastuse_steps_free(steps);
        CHECK(input->data == NULL && last->data == NULL && there->data == NULL, "memory is left");
    }
    ggml_free(ctx);
    ggml_backend_free(cpu);
}

// A cast has itself as a source, and no other node reads these.
CASE(casts_that_no_node_reads_are_kept) {
    ggml_backend_t        cpu   = new_cpu(1);
    struct ggml_context * ctx   = no_alloc_context(1u << 20);
    struct ggml_cgraph *  graph = ggml_new_graph(ctx);
    struct ggml_tensor *  input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    struct ggml_tensor *  sum   = ggml_scale(ctx, input, 3.0f);
    struct ggml_tensor *  early = ggml_cast(ctx, ggml_scale(ctx, sum, 2.0f), GGML_TYPE_F16);
    struct ggml_tensor *  last  = ggml_cast(ctx, ggml_sqr(ctx, sum), GGML_TYPE_F16);
    ggml_build_forward_expand(graph, early);
    ggml_build_forward_expand(graph, last);
    for (size_t n_steps = 1; n_steps <= (size_t) ggml_graph_n_nodes(graph); n_steps++) {
        struct lastuse_steps_params params = new_params(cpu);
        params.n_steps                     = n_steps;
        struct lastuse_steps * steps       = new_steps(graph, &params);
        set_values(input, 1);
        compute(steps);
        CHECK(last->buffer != NULL && early->buffer != NULL, "%zu steps: a cast has no memory", n_steps);
        for (int i = 0; i < 64; i++) {
            float value = ((float *) input->data)[i] * 3.0f;
            CHECK(((ggml_fp16_t *) early->data)[i] == ggml_fp32_to_fp16(value * 2.0f), "%d: another value", i);
            CHECK(((ggml_fp16_t *) last->data)[i] == ggml_fp32_to_fp16(value * value), "%d: another square", i);
        }
        lastuse_steps_free(steps);
    }
    ggml_free(ctx);
    ggml_backend_free(cpu);
}

// Mistakes

static void check_refused(struct ggml_cgraph * graph, const struct lastuse_steps_params * params, const char * why) {
    CHECK(lastuse_steps_new(graph, params) == NULL, "not refused: %s", why);
    CHECK(strstr(lastuse_last_error(), why) != NULL, "\"%s\" is not in \"%s\"", why, lastuse_last_error());
    for (int i = 0; i < graph->n_nodes; i++) {
        CHECK(graph->nodes[i]->data == NULL && graph->nodes[i]->buffer == NULL, "%s: %s has memory", why,
              graph->nodes[i]->name);
    }
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
    params.n_steps = 2;
    check_refused(empty, &params, "the graph has no nodes");
    params.cuts   = cuts;
    params.n_cuts = 2;
    check_refused(m.graph, &params, "both cuts and n_steps");
    params.n_steps = 0;
    cuts[0]        = m.graph->nodes[3];
    cuts[1]        = m.graph->nodes[3];
    check_refused(m.graph, &params, "cut 1 is at the same node as cut 0");
    cuts[1] = m.graph->nodes[2];
    check_refused(m.graph, &params, "cut 1 is at an earlier node than cut 0");
    cuts[1] = m.graph->nodes[n - 1];
    check_refused(m.graph, &params, "cut 1 is after the last node");
    cuts[1] = other.graph->nodes[5];
    check_refused(m.graph, &params, "which is not a node of the graph");
    cuts[1] = m.inputs[0];
    check_refused(m.graph, &params, "which is not a node of the graph");
    params.n_cuts = 1;
    params.sched  = sched;
    check_refused(m.graph, &params, "both a backend and a scheduler");
    params.backend = NULL;
    params.buft    = ggml_backend_cpu_buffer_type();
    check_refused(m.graph, &params, "both a scheduler and a buffer type");
    params.sched = NULL;
    params.buft  = NULL;
    check_refused(m.graph, &params, "neither a backend nor a scheduler");

    params                       = new_params(cpu);
    params.n_steps               = (size_t) n; // a step for each node
    struct lastuse_steps *     steps = new_steps(m.graph, &params);
    struct lastuse_step_memory memory;
    memory.struct_size = sizeof(memory);
    CHECK(!lastuse_steps_step_report(steps, n, &memory) && !lastuse_steps_step_report(steps, -1, &memory), "a step");
    CHECK(strstr(lastuse_last_error(), "there is no step -1; there are") != NULL, "%s", lastuse_last_error());
    lastuse_steps_free(steps);
    lastuse_steps_free(NULL);
    ggml_backend_sched_free(sched);
    ggml_free(m.ctx);
    ggml_free(other.ctx);
    ggml_backend_free(cpu);
}

CASE(an_allocated_graph_is_refused) {
    ggml_backend_t              cpu    = new_cpu(1);
    struct mixed                m      = mixed_new(1);
    ggml_gallocr_t              galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    struct lastuse_steps_params params = new_params(cpu);
    params.n_steps                     = 2;
    CHECK(ggml_gallocr_alloc_graph(galloc, m.graph), "not allocated");
    CHECK(lastuse_steps_new(m.graph, &params) == NULL, "not refused");
    CHECK(strstr(lastuse_last_error(), "lies in a compute buffer already") != NULL, "%s", lastuse_last_error());
    ggml_gallocr_free(galloc);
    ggml_free(m.ctx);
    ggml_backend_free(cpu);
}

CASE(memory_runs_out) {
    ggml_backend_t              cpu    = new_cpu(1);
    struct mixed                m      = mixed_new(1);
    struct mixed                truth  = mixed_new(1);
    ggml_gallocr_t              galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    struct lastuse_steps_params params = new_params(cpu);
    struct dummy_buft           dummy;
    dummy_buft_init(&dummy, "small", ALIGNMENT, 0);
    params.n_steps    = 3;
    params.buft       = dummy_buft_type(&dummy);
    dummy.allocs_left = 0;
    check_refused(m.graph, &params, "failed to allocate small buffer of size");
    dummy.allocs_left = DUMMY_UNLIMITED;
    dummy.inits_left  = 1;
    check_refused(m.graph, &params, "failed to initialize tensor");
    CHECK(dummy.live_buffers == 0 && m.inputs[0]->data == NULL, "memory is left");
    dummy.inits_left             = DUMMY_UNLIMITED;
    struct lastuse_steps * steps = new_steps(m.graph, &params);
    CHECK(ggml_gallocr_alloc_graph(galloc, truth.graph), "not allocated");
    mixed_set_inputs(&truth, 8);
    mixed_set_inputs(&m, 8);
    CHECK(ggml_backend_graph_compute(cpu, truth.graph) == GGML_STATUS_SUCCESS, "not computed");
    size_t kept = dummy.live_bytes;
    for (long left = 0; left < 64; left++) {
        dummy.allocs_left    = left;
        enum ggml_status now = (enum ggml_status) lastuse_steps_compute(steps);
        CHECK(dummy.live_bytes == kept, "%zu bytes are left", dummy.live_bytes - kept);
        if (now == GGML_STATUS_SUCCESS) {
            break;
        }
        CHECK(left < 63 && now == GGML_STATUS_ALLOC_FAILED, "status %d", (int) now);
        CHECK(strstr(lastuse_last_error(), "failed to allocate small buffer") != NULL, "%s", lastuse_last_error());
    }
    dummy.allocs_left = DUMMY_UNLIMITED;
    for (long left = 0; left < 8; left++) {
        dummy.inits_left = left;
        CHECK(lastuse_steps_compute(steps) == GGML_STATUS_ALLOC_FAILED, "computed");
        CHECK(dummy.live_bytes == kept, "%zu bytes are left", dummy.live_bytes - kept);
    }
    dummy.inits_left = DUMMY_UNLIMITED;
    compute(steps);
    check_same_mixed(&m, &truth, 1);
    lastuse_steps_free(steps);
    ggml_gallocr_free(galloc);
    ggml_free(m.ctx);
    ggml_free(truth.ctx);
    ggml_backend_free(cpu);
}
