// runs: ggml-0.26
//
// Graphs that ggml's builders do not make: with memory that is set and cleared, with tensors that are listed
// twice, with very many live tensors.

#include "cases.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-impl.h"
#include "ggml.h"
#include "upstream.h"

#include <limits.h>
#include <sys/resource.h>

static struct ggml_context * new_context(size_t n_tensors) {
    size_t tensors = n_tensors * ggml_tensor_overhead();
    return no_alloc_context(tensors + ggml_graph_overhead_custom(n_tensors, false) + 1024 * 1024);
}

// add(y, get_rows(x, i)): the nodes are equal whatever the number of rows of x. x is in its own memory when
// `data` is not NULL.
static struct ggml_cgraph * graph_on_rows(struct ggml_context * ctx, int64_t rows, void * data) {
    struct ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, rows);
    struct ggml_tensor * i = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 2);
    struct ggml_tensor * y = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 2);
    x->data                = data;
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_add(ctx, y, ggml_get_rows(ctx, x, i)));
    return graph;
}

static void check_disjoint_leafs(struct ggml_cgraph * graph) {
    for (int a = 0; a < graph->n_leafs; a++) {
        for (int b = 0; b < a; b++) {
            const char * start_a = graph->leafs[a]->data;
            const char * start_b = graph->leafs[b]->data;
            bool apart = start_a + ggml_nbytes(graph->leafs[a]) <= start_b ||
                         start_b + ggml_nbytes(graph->leafs[b]) <= start_a;
            CHECK(apart, "leafs %d and %d share bytes", a, b);
        }
    }
}

// The size of a tensor that came with memory was not compared; once it needs memory it must be.
CASE(tensor_that_had_memory_is_measured) {
    static float          own[64 * 6];
    struct ggml_context * ctx    = new_context(64);
    ggml_gallocr_t        galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_reserve(galloc, graph_on_rows(ctx, 4, NULL)), "not reserved");
    CHECK(ggml_gallocr_alloc_graph(galloc, graph_on_rows(ctx, 6, own)), "not allocated with own memory");
    struct ggml_cgraph * larger = graph_on_rows(ctx, 6, NULL);
    CHECK(ggml_gallocr_alloc_graph(galloc, larger), "not allocated");
    check_disjoint_leafs(larger);
    ggml_gallocr_free(galloc);
    ggml_free(ctx);
}

// mul(neg(x), y) with the leafs x and y, or with x in both places.
static struct ggml_cgraph * graph_with_leafs(struct ggml_context * ctx, bool twice) {
    struct ggml_tensor * x     = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    struct ggml_tensor * y     = twice ? x : ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    struct ggml_tensor * first = ggml_neg(ctx, x);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    graph->leafs[0]            = x;
    graph->leafs[1]            = y;
    graph->nodes[0]            = first;
    graph->nodes[1]            = ggml_mul(ctx, first, y);
    graph->n_leafs             = 2;
    graph->n_nodes             = 2;
    return graph;
}

// The plan for two tensors is not the plan for one that is in both places: x and neg(x) would share memory.
CASE(tensor_listed_twice_is_planned) {
    struct ggml_context * ctx    = new_context(64);
    ggml_gallocr_t        galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_reserve(galloc, graph_with_leafs(ctx, false)), "not reserved");
    struct ggml_cgraph * twice = graph_with_leafs(ctx, true);
    CHECK(ggml_gallocr_alloc_graph(galloc, twice), "not allocated without a reservation");
    CHECK(twice->leafs[0]->data != twice->nodes[0]->data, "the stale plan was accepted");
    twice = graph_with_leafs(ctx, true);
    CHECK(ggml_gallocr_reserve(galloc, twice), "not reserved with a tensor listed twice");
    CHECK(ggml_gallocr_alloc_graph(galloc, twice), "not allocated with a tensor listed twice");
    CHECK(twice->leafs[0]->data != twice->nodes[0]->data, "x and neg(x) share memory");
    ggml_gallocr_free(galloc);
    ggml_free(ctx);
}

// Everything is live at the end, as in training: planning must not take memory or time for every pair.
CASE(very_many_live_tensors) {
    enum { COUNT = 40000 };
    struct ggml_context * ctx   = new_context(COUNT + 1);
    struct ggml_cgraph *  graph = ggml_new_graph_custom(ctx, COUNT, false);
    struct ggml_tensor *  x     = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    for (int i = 0; i < COUNT - 1; i++) {
        struct ggml_tensor * sum = ggml_sum(ctx, x);
        ggml_set_output(sum);
        ggml_build_forward_expand(graph, sum);
    }
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_reserve(galloc, graph), "not reserved");
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    CHECK(usage.ru_maxrss < 400 * 1024, "planning %d tensors took %ld KiB", (int) COUNT, usage.ru_maxrss);
    ggml_gallocr_free(galloc);
    ggml_free(ctx);
}

static void compute_nothing(struct ggml_tensor * dst, int ith, int nth, void * userdata) {
    (void) dst, (void) ith, (void) nth, (void) userdata;
}

// Each node reads the nine tensors before it, as many as ggml lets a program's function read: they are live at once.
CASE(nodes_with_all_sources) {
    enum { COUNT = 300, SOURCES = GGML_MAX_SRC - 1, BYTES = 256 };
    struct ggml_context * ctx   = new_context(COUNT + 1);
    struct ggml_cgraph *  graph = ggml_new_graph_custom(ctx, COUNT, false);
    struct ggml_tensor *  latest[SOURCES];
    struct ggml_tensor *  x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, BYTES / sizeof(float));
    for (int i = 0; i < SOURCES; i++) {
        latest[i] = x;
    }
    for (int i = 0; i < COUNT; i++) {
        struct ggml_tensor * node = ggml_custom_4d(ctx, GGML_TYPE_F32, BYTES / sizeof(float), 1, 1, 1, latest, SOURCES,
                                                   compute_nothing, 1, NULL);
        ggml_build_forward_expand(graph, node);
        latest[i % SOURCES] = node;
    }
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, graph), "not allocated");
    size_t size = ggml_gallocr_get_buffer_size(galloc, 0);
    CHECK(size == (SOURCES + 1) * BYTES, "%zu bytes for %d live tensors", size, SOURCES + 1);
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct ggml_tensor * node = graph->nodes[i];
        for (int s = 0; s < SOURCES; s++) {
            CHECK(node->src[s]->data != node->data, "node %d shares bytes with its source %d", i, s);
        }
    }
    ggml_gallocr_free(galloc);
    ggml_free(ctx);
}

// Its buffer has no bytes, so it has no address; ggml aborts on a view of a tensor without one.
CASE(view_of_an_empty_tensor_is_left_alone) {
    struct ggml_context * ctx   = new_context(16);
    struct ggml_tensor *  empty = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 0);
    struct ggml_cgraph *  graph = ggml_new_graph_custom(ctx, 16, false);
    ggml_build_forward_expand(graph, ggml_sqr(ctx, ggml_view_1d(ctx, empty, 0, 0)));
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, graph), "not allocated");
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == 0, "nothing needs memory");
    ggml_gallocr_free(galloc);
    ggml_free(ctx);
}

// Anything may follow ggml's table of names: 255 is far beyond its end, and 256 far beyond that of lastuse's table.
CASE(unknown_operations_are_not_in_place) {
    for (unsigned op = 0; op < 1000; op++) {
        CHECK(ggml_op_can_inplace(op) == upstream_ggml_op_can_inplace(op), "operation %u", op);
    }
    const unsigned others[] = { 1u << 16, INT_MAX, 1u << 31, UINT_MAX };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        CHECK(!ggml_op_can_inplace(others[i]), "operation %u", others[i]);
    }
}
