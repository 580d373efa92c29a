// runs: ggml-0.26 ggml-0.9.5
//
// Graphs without the copies that need not be made: the results must be equal to the last bit, on any allocator and with
// the scheduler, and leave the same in their own memory.
//
//   copies_of_random_graphs <case> [first seed] [number of seeds]

#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "computing.h"
#include "copies_report.h"
#include "lastuse.h"
#include "own_memory.h"
#include "plan_check.h"
#include "random_graph.h"
#include "reports.h"
#include "transformer.h"
#include "upstream.h"

// The outcome for all copies of a case.
struct totals {
    struct lastuse_copies_report sum;
    int                          copies;
};

static void add_report(struct totals * totals, struct lastuse_copies_report r) {
    struct lastuse_copies_report * sum = &totals->sum;
    sum->bytes_removed += r.bytes_removed;
    sum->removed += (int) r.removed;
    sum->left_type += (int) r.left_type;
    sum->left_producer += (int) r.left_producer;
    sum->left_readers += (int) r.left_readers;
    sum->left_part += (int) r.left_part;
    sum->left_layout += (int) r.left_layout;
    sum->left_order += (int) r.left_order;
    sum->left_overlap += (int) r.left_overlap;
    sum->left_memory += (int) r.left_memory;
    sum->left_device += (int) r.left_device;
    sum->left_slot += (int) r.left_slot;
    sum->left_peak += (int) r.left_peak;
    totals->copies += (int) r.removed + left_of(&r);
}

static void print_totals(const struct totals * totals) {
    const struct lastuse_copies_report * r = &totals->sum;
    printf("%d of %d copies removed, %zu bytes; left: type %d, producer %d, readers %d, part %d, layout %d, order %d, "
           "overlap %d, memory %d, device %d, slot %d, peak %d\n",
           (int) r->removed, totals->copies, r->bytes_removed, (int) r->left_type, (int) r->left_producer, (int) r->left_readers, (int) r->left_part,
           (int) r->left_layout, (int) r->left_order, (int) r->left_overlap, (int) r->left_memory, (int) r->left_device, (int) r->left_slot, (int) r->left_peak);
}

// How a graph of a case is made and run.
struct setting {
    struct random_graph_options  options;
    const struct allocator_api * allocator;
    int                          n_threads;
    bool                         is_unknown; // the type of the compute buffer is not given
    bool                         reorders;   // afterwards the order of the nodes is changed
    bool                         schedules;  // by ggml_backend_sched, with lastuse in it
};

// Memory of one graph: an allocator, or a scheduler.
struct memory {
    const struct allocator_api * allocator;
    ggml_gallocr_t               galloc;
    ggml_backend_sched_t         sched;
};

static struct memory allocate(ggml_backend_t cpu, struct random_graph * g, struct setting setting) {
    struct memory memory = { .allocator = setting.allocator };
    if (setting.schedules) {
        memory.sched = ggml_backend_sched_new(&cpu, NULL, 1, 4096, false, false);
        for (int i = 0; i < g->graph->n_leafs; i++) {
            // those without readers would have no backend
            ggml_backend_sched_set_tensor_backend(memory.sched, g->graph->leafs[i], cpu);
        }
        CHECK(ggml_backend_sched_alloc_graph(memory.sched, g->graph), "seed %lld: not allocated", (long long) g->seed);
        return memory;
    }
    memory.galloc = setting.allocator->new(ggml_backend_cpu_buffer_type());
    CHECK(setting.allocator->alloc_graph(memory.galloc, g->graph), "seed %lld: not allocated", (long long) g->seed);
    if (setting.allocator == &lastuse_api) {
        CHECK_PLAN(g->graph, "seed %lld", (long long) g->seed);
    }
    return memory;
}

static void memory_free(struct memory memory) {
    if (memory.sched != NULL) {
        ggml_backend_sched_free(memory.sched);
    } else {
        memory.allocator->free(memory.galloc);
    }
}

// Twice: the state after the first run must not affect the second.
static void compute(ggml_backend_t cpu, const struct memory * memory, struct random_graph * g) {
    for (int round = 0; round < 2; round++) {
        random_graph_set_data(g);
        enum ggml_status status = memory->sched != NULL
            ? ggml_backend_sched_graph_compute(memory->sched, g->graph)
            : ggml_backend_graph_compute(cpu, g->graph);
        CHECK(status == GGML_STATUS_SUCCESS, "seed %lld: status %d", (long long) g->seed, (int) status);
    }
}

// The graph as it was built, on lastuse, and without the copies.
static struct lastuse_copies_report compare(ggml_backend_t cpu, long long seed, struct setting setting) {
    struct random_graph given   = random_graph_new((uint64_t) seed, setting.options);
    struct random_graph without = random_graph_new((uint64_t) seed, setting.options);

    ggml_backend_buffer_type_t   buft   = setting.is_unknown ? NULL : ggml_backend_cpu_buffer_type();
    struct lastuse_copies_report report = remove_copies(without.graph, buft);
    struct lastuse_copies_report again  = { .struct_size = sizeof(again) };
    CHECK(copies_removed(without.graph, buft, &again) == 0, "seed %lld: some are found later", seed);
    if (setting.reorders) {
        is_reordered(without.graph, buft, 100000, NULL);
    }
    struct memory first  = allocate(cpu, &given, (struct setting){ .allocator = &lastuse_api });
    struct memory second = allocate(cpu, &without, setting);
    compute(cpu, &first, &given);
    compute(cpu, &second, &without);
    check_same_lists(without.outputs, given.outputs, (uint64_t) seed);
    check_same_lists(without.weights, given.weights, (uint64_t) seed);
    memory_free(first);
    memory_free(second);
    random_graph_free(&given);
    random_graph_free(&without);
    return report;
}

static struct totals run(struct case_args args, long long count, struct setting setting) {
    ggml_backend_t cpu    = new_cpu(setting.n_threads > 0 ? setting.n_threads : 1);
    struct seeds   seeds = seeds_from(args, count);
    struct totals  totals = { 0 };
    FOR_SEEDS(seed, seeds) {
        add_report(&totals, compare(cpu, seed, setting));
    }
    print_totals(&totals);
    CHECK((int) totals.sum.removed * 20 > totals.copies || seeds.count < 20, "only %d of %d copies", (int) totals.sum.removed,
          totals.copies);
    ggml_backend_free(cpu);
    return totals;
}

CASE_OF(random_graphs, run(args, 500, (struct setting){ .allocator = &lastuse_api }))
CASE_OF(random_graphs_on_upstreams_allocator, run(args, 300, (struct setting){ .allocator = &upstream_api }))
CASE_OF(random_graphs_in_threads, run(args, 30, (struct setting){ .allocator = &lastuse_api, .n_threads = 2 }))
CASE_OF(large_random_graphs,
        run(args, 60, (struct setting){ .allocator = &lastuse_api, .options = { .n_steps = 200 } }))
CASE_OF(random_graphs_in_another_order, run(args, 200, (struct setting){ .allocator = &lastuse_api, .reorders = true }))
CASE_OF(random_graphs_by_scheduler, run(args, 200, (struct setting){ .allocator = &lastuse_api, .schedules = true }))
CASE_OF(random_graphs_for_unknown_memory,
        run(args, 200, (struct setting){ .allocator = &lastuse_api, .is_unknown = true }))
CASE_OF(graphs_of_copies, run(args, 500, (struct setting){ .allocator = &lastuse_api, .options = { .copies = true } }))
CASE_OF(graphs_of_copies_on_upstreams_allocator,
        run(args, 300, (struct setting){ .allocator = &upstream_api, .options = { .copies = true } }))
CASE_OF(graphs_of_copies_in_threads,
        run(args, 30, (struct setting){ .allocator = &lastuse_api, .n_threads = 2, .options = { .copies = true } }))
CASE_OF(graphs_of_copies_by_scheduler,
        run(args, 200, (struct setting){ .allocator = &lastuse_api, .schedules = true, .options = { .copies = true } }))
CASE_OF(graphs_of_copies_in_another_order,
        run(args, 200, (struct setting){ .allocator = &lastuse_api, .reorders = true, .options = { .copies = true } }))
CASE_OF(random_graphs_with_output_views,
        run(args, 200, (struct setting){ .allocator = &lastuse_api, .options = { .output_views = true } }))
CASE_OF(markers, run(args, 200, (struct setting){ .allocator = &lastuse_api, .options = { .markers = true } }))

CASE(alternatives) {
    run(args, 200, (struct setting){ .allocator = &lastuse_api, .options = { .alternatives = true, .copies = true } });
}
