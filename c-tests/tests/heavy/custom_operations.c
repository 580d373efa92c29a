// Graphs with functions of the program. ggml stores a pointer, a number of tasks and another pointer for them, with
// padding that it never initializes: graphs that differ only there are equal.
//
//   custom_operations <case>

#include "cases.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "lastuse.h"
#include "reports.h"

#define PADDING 3 // in op_params

static void map1(struct ggml_tensor * dst, const struct ggml_tensor * a, int ith, int nth, void * userdata) {
    (void) dst, (void) a, (void) ith, (void) nth, (void) userdata;
}

static void map2(struct ggml_tensor * dst, const struct ggml_tensor * a, const struct ggml_tensor * b, int ith, int nth,
                 void * userdata) {
    (void) b;
    map1(dst, a, ith, nth, userdata);
}

static void map3(struct ggml_tensor * dst, const struct ggml_tensor * a, const struct ggml_tensor * b,
                 const struct ggml_tensor * c, int ith, int nth, void * userdata) {
    (void) c;
    map2(dst, a, b, ith, nth, userdata);
}

static void custom(struct ggml_tensor * dst, int ith, int nth, void * userdata) {
    map1(dst, NULL, ith, nth, userdata);
}

// Memory that valgrind knows to be uninitialized, with `value` in it.
static void leave_uninitialized(struct ggml_tensor * tensor, int32_t value) {
    struct ggml_tensor copy = *tensor;
    int32_t *          raw  = malloc(sizeof(*raw));
    CHECK(raw != NULL, "no memory");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // on purpose
    memcpy(&copy.op_params[PADDING], raw, sizeof(*raw));
#pragma GCC diagnostic pop
    free(raw);
    // What is undefined stays undefined, whatever is added to it.
    copy.op_params[PADDING] ^= value;
    *tensor = copy;
}

// At the same addresses each time, with other bytes in the padding.
static struct ggml_cgraph * build(struct ggml_context * ctx, int32_t padding, void * userdata) {
    ggml_reset(ctx);
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 16, false);
    struct ggml_tensor * x     = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 4);
    ggml_set_input(x);
    struct ggml_tensor * one   = ggml_map_custom1(ctx, x, map1, 1, userdata);
    struct ggml_tensor * two   = ggml_map_custom2(ctx, one, x, map2, GGML_N_TASKS_MAX, userdata);
    struct ggml_tensor * three = ggml_map_custom3(ctx, two, one, x, map3, 1, userdata);
    struct ggml_tensor * same  = ggml_map_custom1_inplace(ctx, three, map1, 1, userdata);
    struct ggml_tensor * args[] = { same, two };
    ggml_build_forward_expand(graph, ggml_custom_4d(ctx, GGML_TYPE_F32, 64, 4, 1, 1, args, 2, custom, 1, userdata));
    CHECK(ggml_graph_n_nodes(graph) == 5, "%d nodes", ggml_graph_n_nodes(graph));
    for (int i = 0; i < 5; i++) {
        leave_uninitialized(ggml_graph_node(graph, i), padding);
    }
    return graph;
}

// A type whose sizes may depend on anything, so that graphs are compared by all fields of their tensors.
static size_t no_more(const struct ggml_tensor * tensor) {
    (void) tensor;
    return 0;
}

static void use_graphs(bool are_sizes_counted) {
    struct ggml_context * ctx = no_alloc_context(1u << 20);
    struct dummy_buft     dummy;
    dummy_buft_init(&dummy, "dummy", 64, 0);
    dummy.extra_bytes                    = no_more;
    ggml_backend_buffer_type_t types[] = { ggml_backend_cpu_buffer_type(), dummy_buft_type(&dummy) };
    for (int i = 0; i < 2; i++) {
        uint64_t       before = plans_made();
        ggml_gallocr_t galloc = ggml_gallocr_new(types[i]);
        int            userdata[2];
        CHECK(ggml_gallocr_reserve(galloc, build(ctx, 1, &userdata[0])), "not reserved");
        CHECK(ggml_gallocr_reserve(galloc, build(ctx, 2, &userdata[0])), "not reserved again");
        CHECK(plans_made() == before + 1, "a graph with other padding is planned again");
        for (int round = 3; round < 6; round++) {
            size_t queries = dummy.counts.get_alloc_size;
            CHECK(ggml_gallocr_alloc_graph(galloc, build(ctx, round, &userdata[0])), "not allocated");
            CHECK(!are_sizes_counted || dummy.counts.get_alloc_size == queries, "a graph with other padding is compared tensor by tensor");
        }
        CHECK(ggml_gallocr_alloc_graph(galloc, build(ctx, 6, NULL)), "not allocated without userdata");
        CHECK(ggml_gallocr_reserve(galloc, build(ctx, 7, &userdata[1])), "not reserved with other userdata");
        CHECK(i == 0 || plans_made() == before + 2, "the size may depend on the userdata");
        ggml_gallocr_free(galloc);
    }
    ggml_free(ctx);
}

CASE(graphs_are_recognized) {
    use_graphs(true);
}

// Verification asks for sizes, too.
CASE(graphs_are_used) {
    use_graphs(false);
}
