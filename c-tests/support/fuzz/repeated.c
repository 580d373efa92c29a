// A graph computed several times, and its inputs set once: as far as no node writes over them in the memory that upstream
// planned, results are those of the same graph in its own memory.

#include "computing.h"
#include "graph_fields.h"
#include "lastuse.h"
#include "own_memory.h"
#include "plan_check.h"
#include "ways.h"

#define RUNS 3

static bool overlap(const struct ggml_tensor * a, const struct ggml_tensor * b) {
    const char * x = a->data;
    const char * y = b->data;
    return a->buffer == b->buffer && x < y + ggml_nbytes(b) && y < x + ggml_nbytes(a);
}

static const struct ggml_tensor * root_of(const struct ggml_tensor * t) {
    return t->view_src != NULL ? t->view_src : t;
}

static bool is_read(const struct ggml_cgraph * graph, const struct ggml_tensor * input) {
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct ggml_tensor * node = graph->nodes[i];
        for (int s = 0; s < GGML_MAX_SRC && node->op != GGML_OP_NONE && is_computed(graph, node); s++) {
            if (node->src[s] != NULL && root_of(node->src[s]) == input) {
                return true;
            }
        }
    }
    return false;
}

// Whether no node writes over the input, except into views of it.
static bool is_intact(const struct ggml_cgraph * graph, const struct ggml_tensor * input) {
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct ggml_tensor * node   = graph->nodes[i];
        bool                       writes = node->op != GGML_OP_NONE && !is_view_op(node) && is_computed(graph, node);
        if (writes && root_of(node) != input && overlap(node, input)) {
            return false;
        }
    }
    return true;
}

// Upstream aborts for a result without bytes that is alone in its buffer.
static bool has_empty_result(const struct ggml_cgraph * graph) {
    for (int i = 0; i < graph->n_nodes; i++) {
        if (ggml_is_empty(graph->nodes[i]) && graph->nodes[i]->view_src == NULL) {
            return true;
        }
    }
    return false;
}

static void open(struct bench * bench, const struct allocator_api * api, int n_buffers, size_t max_size) {
    bench_prepare(bench, api, n_buffers, max_size);
    for (int i = 0; i < N_TYPES; i++) {
        bench->types[i].imaginary = false;
    }
    put_on_cpu(bench);
    bench_open(bench);
}

static void place(struct bench * bench, struct random_graph * g) {
    bool reserved = g->node_buffer_ids == NULL ||
                    bench->api->reserve_n(bench->galloc, g->graph, g->node_buffer_ids, g->leaf_buffer_ids);
    CHECK(reserved && bench->api->alloc_graph(bench->galloc, g->graph), "seed %llu: %s does not allocate",
          (unsigned long long) g->seed, bench->api->name);
}

// Returns whether all inputs that are read are intact in upstream's memory; those that are hold what they hold in memory
// of their own.
static bool check_inputs(const struct random_graph * ours, const struct random_graph * theirs,
                         const struct random_graph * truth) {
    bool all = true;
    for (int i = 0; i < theirs->inputs.count; i++) {
        const struct ggml_tensor * input = theirs->inputs.items[i];
        if (input->buffer != NULL && is_read(theirs->graph, input)) {
            bool intact = is_intact(theirs->graph, input);
            all         = all && intact;
            if (intact) {
                check_same_bytes(ours->inputs.items[i], truth->inputs.items[i], ours->seed);
            }
        }
    }
    return all;
}

static void compute_again(ggml_backend_t cpu, const struct random_graph * g) {
    CHECK(ggml_backend_graph_compute(cpu, g->graph) == GGML_STATUS_SUCCESS, "seed %llu: not computed again",
          (unsigned long long) g->seed);
}

static void check_runs(ggml_backend_t cpu, struct random_graph * ours, const struct random_graph * theirs,
                       struct random_graph * truth) {
    compute_graph(cpu, ours);
    ggml_backend_buffer_t buffer = compute_in_own_memory(cpu, truth);
    bool                  all    = check_inputs(ours, theirs, truth);
    for (int run = 1; run < RUNS && all; run++) {
        compute_again(cpu, ours);
        compute_again(cpu, truth);
        check_same_lists(ours->outputs, truth->outputs, ours->seed);
        check_same_lists(ours->weights, truth->weights, ours->seed);
    }
    ggml_backend_buffer_free(buffer);
}

void fuzz_repeated(ggml_backend_t cpu, uint64_t seed, uint64_t * random) {
    struct random_graph_options options = draw_options(random);
    options.n_buffers                   = draw_n_buffers(random);
    options.markers                     = random_chance(random, 20);
    size_t              max_size        = draw_max_size(random);
    struct random_graph ours            = random_graph_new(seed, options);
    struct random_graph theirs          = random_graph_new(seed, options);
    struct random_graph truth           = random_graph_new(seed, options);
    struct bench        bench;
    struct bench        upstream;
    open(&bench, &lastuse_api, options.n_buffers, max_size);
    open(&upstream, &upstream_api, options.n_buffers, max_size);
    if (options.n_buffers > 1) {
        // Such an allocator may be that of a scheduler.
        CHECK(lastuse_gallocr_set(bench.galloc, "rules", "keep-inputs"), "the rule is known");
    } else if (random_chance(random, 40)) {
        set_some_rules(bench.galloc, random);
    }
    if (!has_empty_result(theirs.graph)) {
        place(&bench, &ours);
        place(&upstream, &theirs);
        CHECK_PLAN(ours.graph, "seed %llu", (unsigned long long) seed);
        // Inputs that an invalid plan leaves intact say nothing.
        if (plan_check(theirs.graph) == NULL) {
            check_runs(cpu, &ours, &theirs, &truth);
        }
    }
    random_graph_free(&ours);
    random_graph_free(&theirs);
    random_graph_free(&truth);
    both_free(&bench, &upstream);
}
