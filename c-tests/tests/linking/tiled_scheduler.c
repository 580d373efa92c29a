// A program that does not use lastuse: random graphs with large intermediates on a scheduler, as llama.cpp uses one. Each is reserved,
// has the nodes that it had, is built anew, allocated, computed, and computed again without a call that allocates it. After a reset
// another one is computed without being allocated first, under a callback, which sees the nodes of the program.
//
//   tiled_scheduler <number of seeds> [number of backends]
//
// prints a line for each seed: the hash of its results, and the bytes of the compute buffer.

#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "hash.h"
#include "large_graph.h"

static uint64_t results(const struct large_graph * g) {
    uint64_t hash = FNV1A_64_START;
    for (int i = 0; i < g->n_results; i++) {
        hash = fnv1a_64(hash, g->results[i]->data, ggml_nbytes(g->results[i]));
    }
    return hash;
}

static uint64_t computed(ggml_backend_sched_t sched, struct large_graph * g) {
    CHECK(ggml_backend_sched_graph_compute(sched, g->graph) == GGML_STATUS_SUCCESS, "not computed");
    return results(g);
}

// A graph whose inputs are set before its first node is computed, and how many nodes were shown.
struct watched {
    struct large_graph * graph;
    int                  set;
    int                  shown;
};

static bool watch(struct ggml_tensor * t, bool ask, void * user_data) {
    (void) t;
    struct watched * watched = user_data;
    if (watched->set++ == 0) {
        large_graph_set(watched->graph);
    }
    watched->shown += ask ? 1 : 0;
    return true;
}

int main(int argc, char ** argv) {
    int            seeds     = argc > 1 ? atoi(argv[1]) : 1;
    int            count     = argc > 2 ? atoi(argv[2]) : 1;
    ggml_backend_t devices[] = { ggml_backend_cpu_init(), ggml_backend_cpu_init() };
    ggml_backend_t cpu       = devices[0];
    for (int seed = 0; seed < seeds; seed++) {
        ggml_backend_sched_t sched    = ggml_backend_sched_new(devices, NULL, count, LARGE_GRAPH_NODES, false, true);
        struct large_graph   reserved = large_graph_new((uint64_t) seed);
        int                  nodes    = ggml_graph_n_nodes(reserved.graph);
        CHECK(ggml_backend_sched_reserve(sched, reserved.graph), "seed %d: not reserved", seed);
        CHECK(ggml_graph_n_nodes(reserved.graph) == nodes, "seed %d: other nodes after it was reserved", seed);
        struct large_graph used = large_graph_new((uint64_t) seed);
        CHECK(ggml_backend_sched_alloc_graph(sched, used.graph), "seed %d: not allocated", seed);
        large_graph_set(&used);
        uint64_t first = computed(sched, &used);
        size_t   bytes = ggml_backend_sched_get_buffer_size(sched, cpu);
        large_graph_set(&used);
        CHECK(computed(sched, &used) == first, "seed %d: other results when computed again", seed);
        ggml_backend_sched_reset(sched);
        struct large_graph next    = large_graph_new((uint64_t) seed);
        struct watched     watched = { .graph = &next };
        ggml_backend_sched_set_eval_callback(sched, watch, &watched);
        CHECK(computed(sched, &next) == first, "seed %d: other results when allocated by computing", seed);
        CHECK(watched.shown == ggml_graph_n_nodes(next.graph) && watched.shown == nodes, "seed %d: %d of %d nodes are shown", seed,
              watched.shown, nodes);
        printf("%d: %016llx %zu\n", seed, (unsigned long long) first, bytes);
        ggml_backend_sched_free(sched);
        large_graph_free(next);
        large_graph_free(used);
        large_graph_free(reserved);
    }
    ggml_backend_free(devices[1]);
    ggml_backend_free(devices[0]);
    return 0;
}
