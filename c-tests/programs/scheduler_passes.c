// runs: ggml-0.26 ggml-0.9.5 LASTUSE_BUDGET=256K
//
// Programs that are linked with lastuse, on a scheduler: what a graph needs, before it is allocated; and budgets, in schedulers with
// and without room for added nodes.
//
//   scheduler_passes <case> [first seed] [number of seeds]

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "computing.h"
#include "large_graph.h"
#include "lastuse.h"
#include "separate_backends.h"

static struct separate_backends separate;

static ggml_backend_sched_t scheduler_for(size_t room) {
    separate_backends_init(&separate, 1);
    return ggml_backend_sched_new(separate.backends, separate.types, BACKENDS, room, false, true);
}

static void end(ggml_backend_sched_t sched) {
    lastuse_sched_forget(sched);
    ggml_backend_sched_free(sched);
    separate_backends_free(&separate);
}

// The first half of the nodes are on the first backend, the others on the second.
static void assign(ggml_backend_sched_t sched, struct ggml_cgraph * graph) {
    int nodes = ggml_graph_n_nodes(graph);
    for (int i = 0; i < nodes; i++) {
        ggml_backend_sched_set_tensor_backend(sched, ggml_graph_node(graph, i), separate.backends[i < nodes / 2 ? 0 : 1]);
    }
}

static size_t listed(struct ggml_cgraph * graph) {
    return (size_t) (graph->n_nodes + graph->n_leafs);
}

static void compute(ggml_backend_sched_t sched, struct large_graph * g) {
    CHECK(ggml_backend_sched_alloc_graph(sched, g->graph), "not allocated");
    large_graph_set(g);
    CHECK(ggml_backend_sched_graph_compute(sched, g->graph) == GGML_STATUS_SUCCESS, "not computed");
}

// What is measured is what a reservation takes, on each backend, and nothing is allocated meanwhile.
CASE(measured_graphs_take_what_was_measured) {
    FOR_SEEDS(seed, seeds_from(args, 20)) {
        ggml_backend_sched_t sched = scheduler_for(LARGE_GRAPH_NODES);
        struct large_graph   g     = large_graph_new((uint64_t) seed);
        size_t               sizes[BACKENDS], bounds[BACKENDS];
        assign(sched, g.graph);
        CHECK(lastuse_sched_measure(sched, g.graph, sizes, bounds), "%s", lastuse_last_error());
        CHECK(ggml_backend_sched_get_buffer_size(sched, separate.backends[0]) == 0, "seed %lld: memory was taken", seed);
        assign(sched, g.graph);
        char * text = lastuse_sched_explain(sched, g.graph);
        CHECK(text != NULL && strstr(text, "first") != NULL && strstr(text, "second") != NULL, "seed %lld: %s", seed, text);
        lastuse_string_free(text);
        assign(sched, g.graph);
        CHECK(ggml_backend_sched_reserve(sched, g.graph), "seed %lld: not reserved", seed);
        ggml_gallocr_t galloc = lastuse_sched_allocator(sched);
        for (int i = 0; i < BACKENDS; i++) {
            struct lastuse_gallocr_sizes held = { .struct_size = sizeof(held) };
            CHECK(ggml_backend_sched_get_buffer_size(sched, separate.backends[i]) == sizes[i] && bounds[i] <= sizes[i],
                  "seed %lld: backend %d has not %zu bytes", seed, i, sizes[i]);
            CHECK(lastuse_gallocr_report(galloc, i, &held) && held.size == sizes[i], "seed %lld: other bytes are reported", seed);
        }
        end(sched);
        large_graph_free(g);
    }
}

// Copies of results: the next graph gets the memory of these.
static void keep_results(const struct large_graph * g, uint8_t ** values) {
    for (int i = 0; i < g->n_results; i++) {
        values[i] = malloc(ggml_nbytes(g->results[i]));
        memcpy(values[i], g->results[i]->data, ggml_nbytes(g->results[i]));
    }
}

static void expect_results(const struct large_graph * g, uint8_t ** values, long long seed) {
    for (int i = 0; i < g->n_results; i++) {
        CHECK(memcmp(values[i], g->results[i]->data, ggml_nbytes(g->results[i])) == 0, "seed %lld: %s has other bytes", seed,
              g->results[i]->name);
    }
}

static void free_results(const struct large_graph * g, uint8_t ** values) {
    for (int i = 0; i < g->n_results; i++) {
        free(values[i]);
    }
}

// A scheduler that was made for the graph as it is has no room for tiles.
static void computes_with_room(struct case_args args, bool has_room) {
    int tiled = 0;
    FOR_SEEDS(seed, seeds_from(args, 20)) {
        struct large_graph   truth = large_graph_new((uint64_t) seed);
        struct large_graph   g     = large_graph_new((uint64_t) seed);
        size_t               size  = listed(g.graph);
        size_t               room  = has_room ? lastuse_sched_room(size) : size;
        ggml_backend_sched_t sched = scheduler_for(room);
        assign(sched, truth.graph);
        compute(sched, &truth);
        uint8_t * values[LARGE_GRAPH_RESULTS];
        keep_results(&truth, values);
        ggml_backend_sched_reset(sched);
        int nodes = ggml_graph_n_nodes(g.graph);
        assign(sched, g.graph);
        for (int i = 0; i < g.n_results; i++) {
            ggml_format_name(g.results[i], "result %d", i);
        }
        CHECK(lastuse_sched_prepare(sched, g.graph, room, true, false), "%s", lastuse_last_error());
        CHECK(listed(g.graph) <= room, "seed %lld: %zu nodes and leafs in room for %zu", seed, listed(g.graph), room);
        tiled += ggml_graph_n_nodes(g.graph) > nodes ? 1 : 0;
        // Programs find results by their names.
        for (int i = 0; i < g.n_results; i++) {
            CHECK(ggml_graph_get_tensor(g.graph, g.results[i]->name) == g.results[i], "seed %lld: no %s", seed, g.results[i]->name);
        }
        compute(sched, &g);
        expect_results(&g, values, seed);
        free_results(&truth, values);
        end(sched);
        large_graph_free(truth);
        large_graph_free(g);
    }
    CHECK((tiled > 5) == has_room, "%d graphs are in tiles", tiled);
}

LASTUSE_CASE(schedulers_with_room_compute_tiles) {
    computes_with_room(args, true);
}

LASTUSE_CASE(schedulers_without_room_compute_the_same) {
    computes_with_room(args, false);
}

#define MOST (192 * 1024)

// The graph on the first backend, with its inputs: no copy is too large.
static void assign_to_first(ggml_backend_sched_t sched, const struct large_graph * g) {
    for (int i = 0; i < g->n_leafs; i++) {
        ggml_backend_sched_set_tensor_backend(sched, g->leafs[i], separate.backends[0]);
    }
    for (int i = 0; i < ggml_graph_n_nodes(g->graph); i++) {
        ggml_backend_sched_set_tensor_backend(sched, ggml_graph_node(g->graph, i), separate.backends[0]);
    }
}

// A scheduler whose buffers have at most MOST bytes each.
static ggml_backend_sched_t limited_scheduler(void) {
    separate_backends_init(&separate, 1);
    for (int i = 0; i < BACKENDS; i++) {
        separate.dummies[i].max_size  = MOST;
        separate.dummies[i].is_strict = true;
    }
    size_t room = lastuse_sched_room(LARGE_GRAPH_NODES);
    return ggml_backend_sched_new(separate.backends, separate.types, BACKENDS, room, false, true);
}

static bool has_larger_tensor(struct ggml_cgraph * graph) {
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        struct ggml_tensor * t = ggml_graph_node(graph, i);
        if (t->view_src == NULL && ggml_nbytes(t) > MOST) {
            return true;
        }
    }
    return false;
}

static bool allocates_unprepared(uint64_t seed) {
    struct large_graph   g     = large_graph_new(seed);
    ggml_backend_sched_t sched = limited_scheduler();
    assign_to_first(sched, &g);
    bool done = ggml_backend_sched_alloc_graph(sched, g.graph);
    end(sched);
    large_graph_free(g);
    return done;
}

// What is too large for a buffer is computed in tiles, whatever the budget.
LASTUSE_CASE(tensors_fit_buffers_that_refuse_more) {
    int more = 0;
    FOR_SEEDS(seed, seeds_from(args, 40)) {
        if (allocates_unprepared((uint64_t) seed)) {
            continue;
        }
        struct large_graph   truth = large_graph_new((uint64_t) seed);
        ggml_backend_sched_t whole = scheduler_for(LARGE_GRAPH_NODES);
        compute(whole, &truth);
        uint8_t * values[LARGE_GRAPH_RESULTS];
        keep_results(&truth, values);
        end(whole);
        struct large_graph   g     = large_graph_new((uint64_t) seed);
        ggml_backend_sched_t sched = limited_scheduler();
        assign_to_first(sched, &g);
        CHECK(lastuse_sched_prepare(sched, g.graph, lastuse_sched_room(LARGE_GRAPH_NODES), true, false), "%s", lastuse_last_error());
        bool fits = !has_larger_tensor(g.graph);
        if (fits && ggml_backend_sched_alloc_graph(sched, g.graph)) {
            large_graph_set(&g);
            CHECK(ggml_backend_sched_graph_compute(sched, g.graph) == GGML_STATUS_SUCCESS, "not computed");
            expect_results(&g, values, seed);
            more++;
        }
        free_results(&truth, values);
        end(sched);
        large_graph_free(truth);
        large_graph_free(g);
    }
    CHECK(more > 3, "%d graphs that do not fit as they are", more);
}

// A scheduler that a thread frees at its very end, as llama.cpp does with a context of the thread.

static void free_at_the_end(void * sched) {
    size_t first = ggml_backend_sched_get_buffer_size(sched, separate.backends[0]);
    CHECK(first + ggml_backend_sched_get_buffer_size(sched, separate.backends[1]) > 0, "no memory");
    end(sched);
}

static pthread_key_t at_the_end;

static void * allocates(void * unused) {
    ggml_backend_sched_t sched = scheduler_for(LARGE_GRAPH_NODES);
    struct large_graph   g     = large_graph_new(1);
    CHECK(ggml_backend_sched_alloc_graph(sched, g.graph), "not allocated");
    CHECK(pthread_setspecific(at_the_end, sched) == 0, "no value of the thread");
    large_graph_free(g);
    return unused;
}

CASE(schedulers_are_freed_at_the_end_of_a_thread) {
    pthread_t thread;
    CHECK(pthread_key_create(&at_the_end, free_at_the_end) == 0, "no key");
    CHECK(pthread_create(&thread, NULL, allocates, NULL) == 0 && pthread_join(thread, NULL) == 0, "no thread");
}
