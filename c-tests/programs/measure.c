// runs: ggml-0.26
//
// lastuse_graph_measure returns the sizes that ggml_gallocr_reserve_n gets, and changes nothing.
//
//   measure <case> [first seed] [number of seeds]

#include "cases.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml.h"
#include "graph_fields.h"
#include "lastuse.h"
#include "random_graph.h"
#include "reports.h"
#include "transformer.h"
#include "upstream.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

#define ALIGNMENT   64
#define UNTOUCHED   12345 // the content of the outputs before a call

static size_t buffers_requested(const struct dummy_types * types) {
    size_t count = 0;
    for (int i = 0; i < DUMMY_TYPES; i++) {
        count += types->dummies[i].counts.alloc_buffer;
    }
    return count;
}

struct measured {
    size_t sizes[DUMMY_BUFFERS];
    size_t lower_bounds[DUMMY_BUFFERS];
};

static struct measured measure(struct ggml_cgraph * graph, const struct dummy_types * types, int n, const int * node_ids,
                               const int * leaf_ids) {
    struct measured measured = { { 0 }, { 0 } };
    CHECK(lastuse_graph_measure(&graph, 1, types->bufts, n, &node_ids, &leaf_ids, measured.sizes, measured.lower_bounds),
          "%s", lastuse_last_error());
    CHECK(buffers_requested(types) == 0, "measuring allocated %zu buffers", buffers_requested(types));
    return measured;
}

// Sizes of upstream may only be larger; 0 in ours is an id that repeats a type.
static void check_upstream(struct measured measured, struct ggml_cgraph * graph, struct dummy_types * types, int n,
                           const int * node_ids, const int * leaf_ids) {
    size_t         sizes[DUMMY_BUFFERS];
    ggml_gallocr_t galloc = upstream_ggml_gallocr_new_n(types->bufts, n);
    upstream_ggml_gallocr_reserve_n_size(galloc, graph, node_ids, leaf_ids, sizes);
    upstream_ggml_gallocr_free(galloc);
    for (int i = 0; i < n; i++) {
        CHECK(measured.sizes[i] <= sizes[i], "buffer %d: %zu bytes, and upstream's %zu", i, measured.sizes[i], sizes[i]);
    }
}

static void check_reserved(struct measured measured, struct ggml_cgraph * graph, struct dummy_types * types, int n,
                           const int * node_ids, const int * leaf_ids) {
    ggml_gallocr_t galloc = ggml_gallocr_new_n(types->bufts, n);
    CHECK(ggml_gallocr_reserve_n(galloc, graph, node_ids, leaf_ids), "not reserved");
    for (int i = 0; i < n; i++) {
        size_t size        = ggml_gallocr_get_buffer_size(galloc, i);
        size_t lower_bound = lower_bound_of(galloc, i);
        CHECK(measured.sizes[i] == size, "buffer %d: measured %zu bytes, reserved %zu", i, measured.sizes[i], size);
        CHECK(measured.lower_bounds[i] == lower_bound, "buffer %d: measured at least %zu bytes, reserved %zu", i,
              measured.lower_bounds[i], lower_bound);
    }
    ggml_gallocr_free(galloc);
}

// Measured and reserved

static void random_graphs(struct case_args args, int n, size_t max_size) {
    struct seeds seeds = seeds_from(args, 100);
    FOR_SEEDS(seed, seeds) {
        struct random_graph graph = random_graph_new(seed, (struct random_graph_options){ .n_buffers = n });
        struct dummy_types        types;
        dummy_types_init(&types, max_size);
        const int *     nodes    = graph.node_buffer_ids;
        const int *     leafs    = graph.leaf_buffer_ids;
        struct measured measured = measure(graph.graph, &types, n, nodes, leafs);
        check_upstream(measured, graph.graph, &types, n, nodes, leafs);
        check_reserved(measured, graph.graph, &types, n, nodes, leafs);
        random_graph_free(&graph);
    }
}

CASE_OF(one_type, random_graphs(args, 1, 0))
CASE_OF(several_types_of_which_one_repeats, random_graphs(args, DUMMY_BUFFERS, 0))
CASE_OF(chunks_are_added_up, random_graphs(args, 3, 16384))

// NULL has the same meaning as in ggml_gallocr_reserve_n.
CASE(null_ids_mean_the_first_type) {
    struct built built = transformer_new((struct shape){ .layers = 2, .tokens = 16, .past = 3 });
    struct dummy_types types;
    dummy_types_init(&types, 0);
    struct measured measured = measure(built.graph, &types, 2, NULL, NULL);
    CHECK(measured.sizes[0] > 0 && measured.sizes[1] == 0, "%zu and %zu bytes", measured.sizes[0], measured.sizes[1]);
    check_reserved(measured, built.graph, &types, 2, NULL, NULL);
    built_free(built);
}

CASE(lower_bounds_may_be_missing) {
    struct built built = transformer_new((struct shape){ .layers = 2, .tokens = 16, .past = 3 });
    struct dummy_types types;
    dummy_types_init(&types, 0);
    size_t size = 0;
    CHECK(lastuse_graph_measure(&built.graph, 1, types.bufts, 1, NULL, NULL, &size, NULL), "%s", lastuse_last_error());
    CHECK(size == measure(built.graph, &types, 1, NULL, NULL).sizes[0], "%zu bytes", size);
    built_free(built);
}

CASE(rules_of_the_process_count) {
    struct built built = transformer_new((struct shape){ .layers = 2, .tokens = 16, .past = 3 });
    struct dummy_types types;
    dummy_types_init(&types, 0);
    size_t with = measure(built.graph, &types, 1, NULL, NULL).sizes[0];
    CHECK(lastuse_set("rules", "none"), "a known word");
    struct measured without = measure(built.graph, &types, 1, NULL, NULL);
    CHECK(without.sizes[0] > with, "%zu bytes with sharing and %zu without", with, without.sizes[0]);
    check_reserved(without, built.graph, &types, 1, NULL, NULL);
    built_free(built);
}

CASE(empty_graph_needs_nothing) {
    struct built built = built_new(8, 1024);
    struct dummy_types types;
    dummy_types_init(&types, 0);
    struct measured measured = measure(built.graph, &types, 1, NULL, NULL);
    CHECK(measured.sizes[0] == 0 && measured.lower_bounds[0] == 0, "%zu bytes for nothing", measured.sizes[0]);
    built_free(built);
}

// Measuring changes nothing

static void * copy_of(struct ggml_context * ctx) {
    void * copy = malloc(ggml_get_mem_size(ctx));
    CHECK(copy != NULL, "no memory for a copy");
    return memcpy(copy, ggml_get_mem_buffer(ctx), ggml_get_mem_size(ctx));
}

static void check_unchanged(struct ggml_context * ctx, void * copy) {
    CHECK(memcmp(copy, ggml_get_mem_buffer(ctx), ggml_get_mem_size(ctx)) == 0, "a byte of the context changed");
    free(copy);
}

// Tensors, data and the graph itself: all bytes of both contexts.
CASE(nothing_changes) {
    struct built built   = transformer_new((struct shape){ .layers = 3, .tokens = 16, .past = 3 });
    void *       graph   = copy_of(built.ctx);
    void *       weights = copy_of(built.weights);
    struct dummy_types types;
    dummy_types_init(&types, 0);
    measure(built.graph, &types, 1, NULL, NULL);
    struct ggml_cgraph * twice[2] = { built.graph, built.graph };
    size_t               size     = 0;
    CHECK(lastuse_graph_measure(twice, 2, types.bufts, 1, NULL, NULL, &size, NULL), "%s",
          lastuse_last_error());
    check_unchanged(built.ctx, graph);
    check_unchanged(built.weights, weights);
    built_free(built);
}

// Weights that are not loaded yet: measuring neither counts them nor allocates memory for them.
CASE(tensors_of_contexts_take_none) {
    struct dummy_types types;
    dummy_types_init(&types, 0);
    struct lastuse_context_params params = { .struct_size = sizeof(params), .buft = types.bufts[0] };
    struct ggml_context *         weights = lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, &params);
    struct ggml_context *         ctx     = lastuse_context_new(LASTUSE_CONTEXT_DEFERRED, NULL);
    struct ggml_tensor *          weight  = ggml_new_tensor_2d(weights, GGML_TYPE_F32, 64, 1024);
    struct ggml_tensor *          input   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 2);
    ggml_set_input(input);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_mul_mat(ctx, weight, input));
    struct measured measured = measure(graph, &types, 1, NULL, NULL);
    CHECK(weight->data == NULL && weight->buffer == NULL, "measuring gave memory to a weight");
    CHECK(measured.sizes[0] < ggml_nbytes(weight), "%zu bytes: the weight was counted", measured.sizes[0]);
    check_reserved(measured, graph, &types, 1, NULL, NULL);
    lastuse_context_free(ctx);
    lastuse_context_free(weights);
}

// Another allocator, its plan and its buffer are left alone: the graph that it serves is still served.
CASE(allocators_are_left_alone) {
    struct shape shape  = { .layers = 2, .tokens = 16, .past = 3 };
    struct built built  = transformer_new(shape);
    struct built larger = transformer_new((struct shape){ .layers = 2, .tokens = 64, .past = 3 });
    struct dummy_types types;
    dummy_types_init(&types, 0);
    ggml_gallocr_t galloc = ggml_gallocr_new(types.bufts[0]);
    CHECK(ggml_gallocr_reserve(galloc, built.graph), "not reserved");
    size_t size = ggml_gallocr_get_buffer_size(galloc, 0);
    size_t more = 0;
    CHECK(lastuse_graph_measure(&larger.graph, 1, types.bufts, 1, NULL, NULL, &more, NULL), "%s", lastuse_last_error());
    CHECK(more > size, "%zu bytes for the larger graph, and %zu for the other", more, size);
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == size, "the buffer has another size");
    CHECK(ggml_gallocr_alloc_graph(galloc, built.graph), "not allocated");
    CHECK(types.dummies[0].counts.alloc_buffer == 1, "%zu buffers", types.dummies[0].counts.alloc_buffer);
    // Tensors with memory take none.
    CHECK(lastuse_graph_measure(&built.graph, 1, types.bufts, 1, NULL, NULL, &size, NULL) && size == 0, "%zu bytes", size);
    ggml_gallocr_free(galloc);
    built_free(larger);
    built_free(built);
}

// Several graphs

// Which of two graphs is larger differs from buffer to buffer.
CASE(largest_of_each_buffer) {
    enum { N_GRAPHS = 5, N_BUFFERS = 3 };
    struct dummy_types types;
    dummy_types_init(&types, 0);
    struct random_graph  randoms[N_GRAPHS];
    struct ggml_cgraph * graphs[N_GRAPHS];
    const int *          nodes[N_GRAPHS];
    const int *          leafs[N_GRAPHS];
    struct measured      largest = { { 0 }, { 0 } };
    int                  owners  = 0; // bit i: graph i is the largest of some buffer
    for (int i = 0; i < N_GRAPHS; i++) {
        randoms[i] = random_graph_new(700 + (uint64_t) i, (struct random_graph_options){ .n_buffers = N_BUFFERS });
        graphs[i]  = randoms[i].graph;
        nodes[i]   = randoms[i].node_buffer_ids;
        leafs[i]   = randoms[i].leaf_buffer_ids;
    }
    for (int buffer = 0; buffer < N_BUFFERS; buffer++) {
        int owner = 0;
        for (int i = 0; i < N_GRAPHS; i++) {
            struct measured one = measure(graphs[i], &types, N_BUFFERS, nodes[i], leafs[i]);
            if (one.sizes[buffer] > largest.sizes[buffer]) {
                largest.sizes[buffer] = one.sizes[buffer];
                owner                 = i;
            }
            if (one.lower_bounds[buffer] > largest.lower_bounds[buffer]) {
                largest.lower_bounds[buffer] = one.lower_bounds[buffer];
            }
        }
        owners |= 1 << owner;
    }
    CHECK((owners & (owners - 1)) != 0, "one graph is the largest everywhere: the test is too easy");
    struct measured many = { { 0 }, { 0 } };
    CHECK(lastuse_graph_measure(graphs, N_GRAPHS, types.bufts, N_BUFFERS, nodes, leafs, many.sizes, many.lower_bounds),
          "%s", lastuse_last_error());
    for (int buffer = 0; buffer < N_BUFFERS; buffer++) {
        CHECK(many.sizes[buffer] == largest.sizes[buffer], "buffer %d: %zu bytes, not %zu", buffer,
              many.sizes[buffer], largest.sizes[buffer]);
        CHECK(many.lower_bounds[buffer] == largest.lower_bounds[buffer], "buffer %d: at least %zu bytes, not %zu",
              buffer, many.lower_bounds[buffer], largest.lower_bounds[buffer]);
    }
    for (int i = 0; i < N_GRAPHS; i++) {
        random_graph_free(&randoms[i]);
    }
}

// A program that measures its graphs and reserves for them needs no larger buffer afterwards.
CASE(enough_for_all) {
    struct built prompt = transformer_new((struct shape){ .layers = 2, .tokens = 32, .past = 0 });
    struct built decode = transformer_new((struct shape){ .layers = 2, .tokens = 1, .past = 100 });
    struct dummy_types types;
    dummy_types_init(&types, 0);
    struct ggml_cgraph * graphs[] = { decode.graph, prompt.graph };
    size_t               size     = 0;
    CHECK(lastuse_graph_measure(graphs, 2, types.bufts, 1, NULL, NULL, &size, NULL), "%s", lastuse_last_error());
    ggml_gallocr_t galloc = ggml_gallocr_new(types.bufts[0]);
    CHECK(ggml_gallocr_reserve(galloc, decode.graph) && ggml_gallocr_reserve(galloc, prompt.graph), "not reserved");
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == size, "measured %zu bytes, reserved %zu", size,
          ggml_gallocr_get_buffer_size(galloc, 0));
    ggml_gallocr_free(galloc);
    built_free(decode);
    built_free(prompt);
}

// Refusals

// Checks a refusal: the reason is set, and no output was written.
static void check_refused(bool done, const char * why, const struct measured * outputs) {
    CHECK(!done, "%s: not refused", why);
    CHECK(strstr(lastuse_last_error(), why) != NULL, "'%s' does not contain '%s'", lastuse_last_error(), why);
    for (int i = 0; i < DUMMY_BUFFERS; i++) {
        CHECK(outputs->sizes[i] == UNTOUCHED && outputs->lower_bounds[i] == UNTOUCHED, "%s: buffer %d was written", why,
              i);
    }
}

static struct measured untouched(void) {
    struct measured measured;
    for (int i = 0; i < DUMMY_BUFFERS; i++) {
        measured.sizes[i]        = UNTOUCHED;
        measured.lower_bounds[i] = UNTOUCHED;
    }
    return measured;
}

CASE(bad_arguments_are_refused) {
    struct built         built = transformer_new((struct shape){ .layers = 1, .tokens = 4, .past = 1 });
    struct ggml_cgraph * graph = built.graph;
    struct dummy_types         types;
    dummy_types_init(&types, 0);
    ggml_backend_buffer_type_t holes[2] = { types.bufts[0], NULL };
    struct measured            out      = untouched();
    struct log_capture         log;
    log_capture_start(&log);
    check_refused(lastuse_graph_measure((struct ggml_cgraph *[]){ NULL }, 1, types.bufts, 1, NULL, NULL, out.sizes, out.lower_bounds),
                  "lastuse_graph_measure: graphs[0] is NULL", &out);
    check_refused(lastuse_graph_measure(&graph, 1, NULL, 1, NULL, NULL, out.sizes, out.lower_bounds), "bufts is NULL", &out);
    check_refused(lastuse_graph_measure(&graph, 1, holes, 2, NULL, NULL, out.sizes, out.lower_bounds), "bufts[1] is NULL",
                  &out);
    check_refused(lastuse_graph_measure(&graph, 1, types.bufts, 0, NULL, NULL, out.sizes, out.lower_bounds),
                  "n_bufs is 0, and at least 1 is needed", &out);
    check_refused(lastuse_graph_measure(&graph, 1, types.bufts, 1, NULL, NULL, NULL, out.lower_bounds), "sizes is NULL",
                  &out);
    CHECK(log.count == 5 && log_capture_has(&log, "lastuse_graph_measure: sizes is NULL\n"), "%d lines", log.count);
    log_capture_stop();
    built_free(built);
}

CASE(bad_ids_are_refused) {
    struct built built = transformer_new((struct shape){ .layers = 1, .tokens = 4, .past = 1 });
    struct dummy_types types;
    dummy_types_init(&types, 0);
    int *           nodes   = calloc((size_t) built.graph->n_nodes, sizeof(int));
    int *           leafs   = calloc((size_t) built.graph->n_leafs, sizeof(int));
    const int *     lists[] = { nodes, leafs };
    struct measured out     = untouched();
    nodes[3]              = 2;
    check_refused(lastuse_graph_measure(&built.graph, 1, types.bufts, 2, &lists[0], &lists[1], out.sizes, out.lower_bounds),
                  "graphs[0]: node_buffer_ids[3] is 2, and n_bufs is 2", &out);
    nodes[3] = 1;
    leafs[1] = -1;
    check_refused(lastuse_graph_measure(&built.graph, 1, types.bufts, 2, &lists[0], &lists[1], out.sizes, out.lower_bounds),
                  "graphs[0]: leaf_buffer_ids[1] is -1, and n_bufs is 2", &out);
    leafs[1] = 0;
    CHECK(lastuse_graph_measure(&built.graph, 1, types.bufts, 2, &lists[0], &lists[1], out.sizes, out.lower_bounds), "all is well");
    free(leafs);
    free(nodes);
    built_free(built);
}

// One bad graph among good ones: nothing is written.
CASE(bad_lists_of_graphs_are_refused) {
    struct built built = transformer_new((struct shape){ .layers = 1, .tokens = 4, .past = 1 });
    struct dummy_types types;
    dummy_types_init(&types, 0);
    struct ggml_cgraph * graphs[2] = { built.graph, NULL };
    int *                ids       = calloc((size_t) built.graph->n_nodes, sizeof(int));
    const int *          lists[2]  = { NULL, ids };
    struct measured      out       = untouched();
    check_refused(lastuse_graph_measure(NULL, 1, types.bufts, 1, NULL, NULL, out.sizes, out.lower_bounds),
                  "lastuse_graph_measure: graphs is NULL", &out);
    check_refused(lastuse_graph_measure(graphs, 0, types.bufts, 1, NULL, NULL, out.sizes, out.lower_bounds),
                  "n_graphs is 0, and at least 1 is needed", &out);
    check_refused(lastuse_graph_measure(graphs, 2, types.bufts, 1, NULL, NULL, out.sizes, out.lower_bounds),
                  "graphs[1] is NULL", &out);
    check_refused(lastuse_graph_measure(graphs, 1, NULL, 1, NULL, NULL, out.sizes, out.lower_bounds),
                  "bufts is NULL", &out);
    graphs[1] = built.graph;
    ids[0]    = 7;
    check_refused(lastuse_graph_measure(graphs, 2, types.bufts, 1, lists, NULL, out.sizes, out.lower_bounds),
                  "graphs[1]: node_buffer_ids[0] is 7, and n_bufs is 1", &out);
    ids[0] = 0;
    CHECK(lastuse_graph_measure(graphs, 2, types.bufts, 1, lists, NULL, out.sizes, out.lower_bounds), "all is well");
    free(ids);
    built_free(built);
}

// Graphs that ggml_gallocr_reserve refuses have no size: here the order of reading and writing the cache is undefined.
CASE(graphs_that_cannot_be_reserved_are_refused) {
    struct dummy_types types;
    dummy_types_init(&types, 0);
    struct built         built = built_new(16, 65536);
    struct ggml_tensor * cache = ggml_new_tensor_2d(built.weights, GGML_TYPE_F32, WIDTH, 8);
    struct ggml_tensor * slot  = ggml_view_2d(built.ctx, cache, WIDTH, 2, cache->nb[1], 0);
    struct ggml_tensor * rows  = project(built, new_input(built.ctx, WIDTH, 2), WIDTH);
    CHECK(ggml_set_output(rows, slot) != NULL, "%s", lastuse_last_error());
    ggml_build_forward_expand(built.graph, rows);
    ggml_build_forward_expand(built.graph, ggml_sum(built.ctx, cache));
    struct measured out = untouched();
    check_refused(lastuse_graph_measure(&built.graph, 1, types.bufts, 1, NULL, NULL, out.sizes, out.lower_bounds),
                  "lastuse_graph_measure: graphs[0]: ", &out);
    ggml_gallocr_t galloc = ggml_gallocr_new(types.bufts[0]);
    CHECK(!ggml_gallocr_reserve(galloc, built.graph), "the same graph is reserved");
    ggml_gallocr_free(galloc);
    built_free(built);
}

static size_t half_of_all_bytes(const struct ggml_tensor * tensor) {
    return tensor->op == GGML_OP_NONE ? SIZE_MAX / 2 - ggml_nbytes(tensor) : 0;
}

CASE(sizes_that_overflow_are_refused) {
    struct built built = transformer_new((struct shape){ .layers = 1, .tokens = 4, .past = 1 });
    struct dummy_types types;
    dummy_types_init(&types, 0);
    types.dummies[0].extra_bytes = half_of_all_bytes;
    struct measured out          = untouched();
    check_refused(lastuse_graph_measure(&built.graph, 1, types.bufts, 1, NULL, NULL, out.sizes, out.lower_bounds),
                  "bytes, more than can be addressed", &out);
    built_free(built);
}
