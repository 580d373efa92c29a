// runs: ggml-0.26 ggml-0.9.5 ggml-0.28
//
// Pipeline parallelism: a scheduler keeps four copies of each input that crosses backends, and its graphs read them in
// turns. ggml's own allocator serves all of them by the plan of the first, and refuses none.
//
//   pipeline <case>

#include "cases.h"
#include "computing.h"
#include "graph_fields.h"
#include "lastuse.h"
#include "reports.h"
#include "separate_backends.h"

#define NODES    8
#define RESERVED 64
#define TOKENS   60

// A scheduler on `separate` with copies for a pipeline. It ends the program when the allocator refuses a graph of a size
// that it has reserved memory for.
static ggml_backend_sched_t new_pipeline(struct separate_backends * separate, int count) {
    CHECK(setenv("GGML_SCHED_DEBUG_REALLOC", "1", 1) == 0, "no room in the environment");
    separate_backends_init_n(separate, count, 1);
    ggml_backend_sched_t sched =
        ggml_backend_sched_new(separate->backends, separate->types, count, RESERVED, true, false);
    CHECK(ggml_backend_sched_get_n_copies(sched) > 1, "the scheduler makes no copies");
    return sched;
}

struct chain {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  x;
    struct ggml_tensor *  y;
    struct ggml_tensor *  result;
};

// x + y + x + y + ..., computed on the backends one after the other.
static struct chain new_chain(ggml_backend_sched_t sched, struct separate_backends * separate, int64_t n) {
    struct chain chain = { .ctx = no_alloc_context(1 << 20) };
    chain.graph        = ggml_new_graph(chain.ctx);
    chain.x            = ggml_new_tensor_1d(chain.ctx, GGML_TYPE_F32, n);
    chain.y            = ggml_new_tensor_1d(chain.ctx, GGML_TYPE_F32, n);
    ggml_set_input(chain.x);
    ggml_set_input(chain.y);
    struct ggml_tensor * nodes[NODES];
    chain.result = chain.x;
    for (int i = 0; i < NODES; i++) {
        nodes[i]     = ggml_add(chain.ctx, chain.result, i % 2 == 0 ? chain.y : chain.x);
        chain.result = nodes[i];
    }
    ggml_set_output(chain.result);
    ggml_build_forward_expand(chain.graph, chain.result);
    ggml_backend_sched_reset(sched);
    for (int i = 0; i < NODES; i++) {
        ggml_backend_sched_set_tensor_backend(sched, nodes[i], separate->backends[i * separate->count / NODES]);
    }
    return chain;
}

static void compute_chain(ggml_backend_sched_t sched, struct chain * chain, int64_t n) {
    float values[RESERVED];
    for (int64_t i = 0; i < n; i++) {
        values[i] = (float) (n + i);
    }
    ggml_backend_tensor_set(chain->x, values, 0, ggml_nbytes(chain->x));
    ggml_backend_tensor_set(chain->y, values, 0, ggml_nbytes(chain->y));
    CHECK(ggml_backend_sched_graph_compute(sched, chain->graph) == GGML_STATUS_SUCCESS, "n = %d", (int) n);
    ggml_backend_tensor_get(chain->result, values, 0, ggml_nbytes(chain->result));
    for (int64_t i = 0; i < n; i++) {
        CHECK(values[i] == (float) (NODES + 1) * (float) (n + i), "n = %d: %g", (int) n, (double) values[i]);
    }
}

// Each wiring fits the plan of the reserved graph, so that none but that one is planned.
static void no_graph_is_refused(int count) {
    struct separate_backends separate;
    ggml_backend_sched_t     sched    = new_pipeline(&separate, count);
    struct chain             reserved = new_chain(sched, &separate, RESERVED);
    CHECK(ggml_backend_sched_reserve(sched, reserved.graph), "not reserved");
    ggml_free(reserved.ctx);
    size_t plans = (size_t) plans_made();
    for (int64_t n = 1; n <= TOKENS; n++) {
        struct chain chain = new_chain(sched, &separate, n);
        CHECK(ggml_backend_sched_alloc_graph(sched, chain.graph), "%d backends, n = %d: not allocated", count, (int) n);
        compute_chain(sched, &chain, n);
        ggml_free(chain.ctx);
    }
    plans = (size_t) plans_made() - plans;
    // With one buffer, graphs that are much smaller than the reserved one have their own plans.
    CHECK(count == 1 || plans == 0, "%d backends: %zu plans for graphs that the reserved plan fits", count, plans);
    ggml_backend_sched_free(sched);
    separate_backends_free(&separate);
}

CASE_OF(on_one_backend, no_graph_is_refused(1))
CASE_OF(on_two_backends, no_graph_is_refused(2))
CASE_OF(on_three_backends, no_graph_is_refused(3))

#define LEAFS 4

// Two buffers. With `is_stale`, the second node reads the input whose memory the plan of the other graph gives to the
// first node.
static struct ggml_cgraph * two_buffer_graph(struct ggml_context * ctx, int64_t n, bool is_stale,
                                             struct ggml_tensor ** leafs) {
    for (int i = 0; i < LEAFS; i++) {
        leafs[i] = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, n);
        ggml_set_input(leafs[i]);
    }
    struct ggml_tensor * first  = ggml_add(ctx, leafs[0], leafs[1]);
    struct ggml_tensor * second = ggml_concat(ctx, first, leafs[2], 0);
    struct ggml_tensor * third  = ggml_concat(ctx, second, leafs[is_stale ? 1 : 3], 0);
    struct ggml_tensor * last   = ggml_concat(ctx, third, leafs[is_stale ? 3 : 2], 0);
    struct ggml_cgraph * graph  = ggml_new_graph(ctx);
    // All leafs are listed in one order, whatever the wiring.
    for (int i = 0; i < LEAFS; i++) {
        ggml_build_forward_expand(graph, leafs[i]);
    }
    ggml_build_forward_expand(graph, last);
    return graph;
}

static void check_two_buffers(ggml_gallocr_t galloc, ggml_backend_t cpu, int64_t n, bool is_stale) {
    struct ggml_context * ctx = no_alloc_context(1 << 20);
    struct ggml_tensor *  leafs[LEAFS];
    struct ggml_cgraph *  graph = two_buffer_graph(ctx, n, is_stale, leafs);
    CHECK(ggml_gallocr_alloc_graph(galloc, graph), "n = %d: refused", (int) n);
    float values[5 * RESERVED];
    for (int i = 0; i < LEAFS; i++) {
        for (int64_t at = 0; at < n; at++) {
            values[at] = (float) (1 << i);
        }
        ggml_backend_tensor_set(leafs[i], values, 0, ggml_nbytes(leafs[i]));
    }
    CHECK(ggml_backend_graph_compute(cpu, graph) == GGML_STATUS_SUCCESS, "not computed");
    struct ggml_tensor * last = graph->nodes[graph->n_nodes - 1];
    ggml_backend_tensor_get(last, values, 0, ggml_nbytes(last));
    const float expected[] = { 3, 4, is_stale ? 2 : 8, is_stale ? 8 : 4 };
    for (int64_t at = 0; at < 4 * n; at++) {
        CHECK(values[at] == expected[at / n], "n = %d, element %d: %g", (int) n, (int) at, (double) values[at]);
    }
    ggml_free(ctx);
}

// ggml's own allocator compares sizes alone, and accepts another wiring although it may corrupt values. Here it is planned
// within the memory held, for the buffers of the reservation by position.
CASE(another_wiring_is_planned) {
    struct dummy_pair pair;
    dummy_pair_init(&pair, 64);
    ggml_backend_t        cpu    = new_cpu(1);
    ggml_gallocr_t        galloc = ggml_gallocr_new_n(pair.types, 2);
    struct ggml_context * ctx    = no_alloc_context(1 << 20);
    struct ggml_tensor *  leafs[LEAFS];
    struct ggml_cgraph *  graph      = two_buffer_graph(ctx, RESERVED, false, leafs);
    const int             node_ids[] = { 0, 1, 0, 1 };
    const int             leaf_ids[] = { 0, 1, 0, 1 };
    CHECK(graph->n_nodes == 4 && graph->n_leafs == LEAFS, "%d nodes, %d leafs", graph->n_nodes, graph->n_leafs);
    CHECK(ggml_gallocr_reserve_n(galloc, graph, node_ids, leaf_ids), "not reserved");
    size_t held = pair.dummies[0].live_bytes + pair.dummies[1].live_bytes;
    for (int64_t n = 1; n <= RESERVED / 2; n++) {
        check_two_buffers(galloc, cpu, n, n % 3 == 0);
    }
    CHECK(pair.dummies[0].live_bytes + pair.dummies[1].live_bytes == held, "memory was allocated");
    ggml_free(ctx);
    ggml_gallocr_free(galloc);
    ggml_backend_free(cpu);
}

// Flags the leafs as a scheduler flags copies of inputs, which keep their memory.
static struct ggml_cgraph * graph_of_copies(struct ggml_context * ctx, int64_t n, struct ggml_tensor ** leafs) {
    ggml_reset(ctx);
    struct ggml_cgraph * graph = two_buffer_graph(ctx, n, false, leafs);
    for (int i = 0; i < LEAFS; i++) {
        ggml_set_output(leafs[i]);
    }
    return graph;
}

// A pipeline may still compute the graph before when the next one is allocated, and the scheduler waits only if that is
// refused: copies of inputs stay where they are as long as it is not, whichever plans are remembered.
CASE(copies_stay_while_nothing_is_refused) {
    struct dummy_pair pair;
    dummy_pair_init(&pair, 64);
    ggml_gallocr_t        galloc = ggml_gallocr_new_n(pair.types, 2);
    struct ggml_context * ctx    = no_alloc_context(1 << 20);
    const int             node_ids[] = { 0, 1, 0, 1 };
    const int             leaf_ids[] = { 0, 1, 0, 1 };
    const int64_t         sizes[]    = { RESERVED, 1, RESERVED };
    struct ggml_tensor *  leafs[LEAFS];
    for (int i = 0; i < 3; i++) {
        CHECK(ggml_gallocr_reserve_n(galloc, graph_of_copies(ctx, sizes[i], leafs), node_ids, leaf_ids), "not reserved");
    }
    const void * places[LEAFS];
    CHECK(ggml_gallocr_alloc_graph(galloc, graph_of_copies(ctx, RESERVED, leafs)), "not allocated");
    for (int i = 0; i < LEAFS; i++) {
        places[i] = leafs[i]->data;
    }
    for (int64_t n = 1; n <= RESERVED; n++) {
        CHECK(ggml_gallocr_alloc_graph(galloc, graph_of_copies(ctx, n, leafs)), "n = %d: refused", (int) n);
        for (int i = 0; i < LEAFS; i++) {
            CHECK(leafs[i]->data == places[i], "n = %d: copy %d was moved", (int) n, i);
        }
    }
    ggml_gallocr_free(galloc);
    ggml_free(ctx);
}

// With other numbers of nodes, no buffer ids are known; larger graphs need memory that only a reservation allocates.
CASE(others_are_refused) {
    struct dummy_pair pair;
    dummy_pair_init(&pair, 64);
    ggml_gallocr_t        galloc = ggml_gallocr_new_n(pair.types, 2);
    struct ggml_context * ctx    = no_alloc_context(1 << 20);
    struct ggml_tensor *  leafs[LEAFS];
    const int             node_ids[] = { 0, 1, 0, 1 };
    const int             leaf_ids[] = { 0, 1, 0, 1 };
    struct ggml_cgraph *  graph      = two_buffer_graph(ctx, RESERVED, false, leafs);
    CHECK(ggml_gallocr_reserve_n(galloc, graph, node_ids, leaf_ids), "not reserved");
    CHECK(!ggml_gallocr_alloc_graph(galloc, two_buffer_graph(ctx, 4 * RESERVED, true, leafs)), "a larger graph");
    struct ggml_cgraph * longer = two_buffer_graph(ctx, 1, false, leafs);
    ggml_build_forward_expand(longer, ggml_sqr(ctx, longer->nodes[longer->n_nodes - 1]));
    CHECK(!ggml_gallocr_alloc_graph(galloc, longer), "a graph with more nodes");
    CHECK(ggml_gallocr_alloc_graph(galloc, two_buffer_graph(ctx, 1, true, leafs)), "one of the same size");
    ggml_gallocr_free(galloc);
    ggml_free(ctx);
}
