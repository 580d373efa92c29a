// A program that does not use lastuse: random graphs with large intermediates on a scheduler, as llama.cpp uses one. Each is reserved,
// has the nodes that it had, is built anew, allocated, computed, and computed again without a call that allocates it. After a reset
// another one is computed without being allocated first, under a callback, which sees the nodes of the program.
//
//   tiled_scheduler <number of seeds> [number of backends] [pipeline|device]
//
// Two backends cannot read each other's memory. The program assigns nodes to both, and what is added has to be where the whole
// would be. With `device`, the first one is a GPU for ggml: it writes no gaps. It prints a line for each seed: the hash of its results, and the bytes of the compute buffer of each
// backend.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "hash.h"
#include "large_graph.h"
#include "separate_backends.h"

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

// The first, the second and the last third of the nodes that the program has built are on the first, the second and the first backend.
// Beside a device, the CPU computes the last node. Tiles have the names of their nodes, which begin with their numbers.
static bool has_device;

static ggml_backend_t backend_for(const struct ggml_tensor * t, int nodes, ggml_backend_t * devices) {
    return has_device ? devices[atoi(t->name) == nodes - 1] : devices[atoi(t->name) * 3 / nodes % 2];
}

static int tiles_on_device;

static bool is_view(const struct ggml_tensor * t) {
    return t->op == GGML_OP_NONE || t->op == GGML_OP_RESHAPE || t->op == GGML_OP_VIEW || t->op == GGML_OP_PERMUTE ||
           t->op == GGML_OP_TRANSPOSE;
}

static void assign(ggml_backend_sched_t sched, const struct large_graph * g, ggml_backend_t * devices) {
    struct ggml_cgraph * graph = g->graph;
    int                  nodes = ggml_graph_n_nodes(graph);
    for (int i = 0; i < g->n_leafs && has_device; i++) {
        ggml_backend_sched_set_tensor_backend(sched, g->leafs[i], devices[0]);
    }
    for (int i = 0; i < nodes; i++) {
        struct ggml_tensor * t = ggml_graph_node(graph, i);
        ggml_format_name(t, "%d", i);
        if (!is_view(t)) {
            ggml_backend_sched_set_tensor_backend(sched, t, backend_for(t, nodes, devices));
        }
    }
}

static void expect_assigned(ggml_backend_sched_t sched, struct ggml_cgraph * graph, int nodes, ggml_backend_t * devices) {
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        struct ggml_tensor * t = ggml_graph_node(graph, i);
        CHECK(is_view(t) || ggml_backend_sched_get_tensor_backend(sched, t) == backend_for(t, nodes, devices),
              "%s is computed by another backend", t->name);
    }
}

static enum ggml_backend_dev_type is_gpu(ggml_backend_dev_t dev) {
    (void) dev;
    return GGML_BACKEND_DEVICE_TYPE_GPU;
}

// Counts the products of tiles on a device. None is written with gaps.
static void expect_packed(ggml_backend_sched_t sched, struct ggml_cgraph * graph, ggml_backend_t device) {
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        struct ggml_tensor * t = ggml_graph_node(graph, i);
        if (!is_view(t) && ggml_backend_sched_get_tensor_backend(sched, t) == device) {
            CHECK(ggml_is_contiguous(t) && t->view_offs % 64 == 0, "%s is written with gaps", t->name);
            tiles_on_device += strstr(t->name, "(tile") != NULL ? 1 : 0;
        }
    }
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
    int                      seeds = argc > 1 ? atoi(argv[1]) : 1;
    int                      count = argc > 2 ? atoi(argv[2]) : 1;
    bool                     parallel = argc > 3 && strcmp(argv[3], "pipeline") == 0; // with a copy of each input for each run
    struct separate_backends separate;
    has_device = argc > 3 && strcmp(argv[3], "device") == 0;
    separate_backends_init_n(&separate, count, 1);
    separate.dummies[0].is_device = has_device;
    separate.devices[0].iface.get_type = has_device ? is_gpu : separate.devices[0].iface.get_type;
    ggml_backend_t *             devices = count > 1 ? separate.backends : separate.cpu;
    ggml_backend_buffer_type_t * types   = count > 1 ? separate.types : NULL;
    for (int seed = 0; seed < seeds; seed++) {
        ggml_backend_sched_t sched    = ggml_backend_sched_new(devices, types, count, LARGE_GRAPH_NODES, parallel, true);
        struct large_graph   reserved = large_graph_new((uint64_t) seed);
        int                  nodes    = ggml_graph_n_nodes(reserved.graph);
        if (count > 1) {
            assign(sched, &reserved, devices);
        }
        CHECK(ggml_backend_sched_reserve(sched, reserved.graph), "seed %d: not reserved", seed);
        CHECK(ggml_graph_n_nodes(reserved.graph) == nodes, "seed %d: other nodes after it was reserved", seed);
        struct large_graph used = large_graph_new((uint64_t) seed);
        if (count > 1) {
            assign(sched, &used, devices);
        }
        CHECK(ggml_backend_sched_alloc_graph(sched, used.graph), "seed %d: not allocated", seed);
        if (count > 1) {
            expect_assigned(sched, used.graph, nodes, devices);
        }
        if (has_device) {
            expect_packed(sched, used.graph, devices[0]);
        }
        large_graph_set(&used);
        uint64_t first = computed(sched, &used);
        size_t   bytes = ggml_backend_sched_get_buffer_size(sched, devices[0]);
        size_t   other = count > 1 ? ggml_backend_sched_get_buffer_size(sched, devices[1]) : 0;
        large_graph_set(&used);
        CHECK(computed(sched, &used) == first, "seed %d: other results when computed again", seed);
        ggml_backend_sched_reset(sched);
        struct large_graph next    = large_graph_new((uint64_t) seed);
        if (count > 1) {
            computed(sched, &next); // of inputs that are not set
            large_graph_set(&next);
            CHECK(computed(sched, &next) == first, "seed %d: other results after it was allocated by computing", seed);
        } else {
            struct watched watched = { .graph = &next };
            ggml_backend_sched_set_eval_callback(sched, watch, &watched);
            CHECK(computed(sched, &next) == first, "seed %d: other results when allocated by computing", seed);
            CHECK(watched.shown == ggml_graph_n_nodes(next.graph) && watched.shown == nodes, "seed %d: %d of %d nodes are shown",
                  seed, watched.shown, nodes);
        }
        printf("%d: %016llx %zu %zu\n", seed, (unsigned long long) first, bytes, other);
        ggml_backend_sched_free(sched);
        large_graph_free(next);
        large_graph_free(used);
        large_graph_free(reserved);
    }
    fprintf(stderr, "tiles on the device: %d\n", tiles_on_device);
    separate_backends_free(&separate);
    return 0;
}
