// runs: ggml-0.26 ggml-0.9.5
//
// Copies in graphs made by hand: which are removed, which stay and why, and that results do not change.
//
//   copies_by_hand <case>

#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "computing.h"
#include "copies_report.h"
#include "dummy_buffer.h"
#include "lastuse.h"
#include "plan_check.h"
#include "reports.h"
#include "transformer.h"
#include "upstream.h"

#define ROWS 6

// The parts of a graph: an input, a matrix, and a cache with more rows than any test writes.
struct parts {
    struct built         b;
    struct ggml_tensor * x;      // [WIDTH, ROWS]
    struct ggml_tensor * matrix; // [WIDTH, WIDTH]
    struct ggml_tensor * cache;  // [WIDTH, 4*ROWS]
};

static struct parts parts_new(void) {
    struct parts p = { .b = built_new(256, 1 << 20) };
    p.x            = new_input(p.b.ctx, WIDTH, ROWS);
    p.matrix       = ggml_new_tensor_2d(p.b.weights, GGML_TYPE_F32, WIDTH, WIDTH);
    p.cache        = ggml_new_tensor_2d(p.b.weights, GGML_TYPE_F32, WIDTH, 4 * ROWS);
    set_values(p.matrix, 1);
    set_values(p.cache, 2);
    return p;
}

// The results of a graph are the cache and the returned tensor, which may be NULL.
typedef struct ggml_tensor * (*build_graph)(struct parts p);

static struct ggml_tensor * product(struct parts p) {
    return ggml_mul_mat(p.b.ctx, p.matrix, p.x);
}

// Rows of the cache.
static struct ggml_tensor * slots(struct parts p, int first, int rows) {
    return ggml_view_2d(p.b.ctx, p.cache, WIDTH, rows, p.cache->nb[1], (size_t) first * p.cache->nb[1]);
}

static void add(struct parts p, struct ggml_tensor * t) {
    ggml_build_forward_expand(p.b.graph, t);
}

static struct parts graph_of(build_graph build, struct ggml_tensor ** result) {
    struct parts p = parts_new();
    *result        = build(p);
    if (*result != NULL) {
        ggml_set_output(*result);
        add(p, *result);
    }
    return p;
}

static void compute(ggml_backend_t cpu, struct parts p, const struct allocator_api * allocator, void ** kept) {
    ggml_gallocr_t galloc = allocator->new(ggml_backend_cpu_buffer_type());
    CHECK(allocator->alloc_graph(galloc, p.b.graph), "not allocated");
    if (allocator == &lastuse_api) {
        CHECK_PLAN(p.b.graph, "%s", allocator->name);
    }
    if (p.x->data != NULL) {
        set_values(p.x, 3); // not every graph reads it
    }
    CHECK(ggml_backend_graph_compute(cpu, p.b.graph) == GGML_STATUS_SUCCESS, "not computed");
    *kept = galloc;
}

static void check_same(const struct ggml_tensor * a, const struct ggml_tensor * b, const char * what) {
    CHECK(ggml_nbytes(a) == ggml_nbytes(b) && memcmp(a->data, b->data, ggml_nbytes(a)) == 0, "%s: %s differs", what,
          a->name);
}

// Removes what can be removed of a graph, and computes it with and without, on both allocators.
static struct lastuse_copies_report compare(build_graph build) {
    const struct allocator_api * allocators[] = { &lastuse_api, &upstream_api };
    struct lastuse_copies_report report       = { 0 };
    ggml_backend_t               cpu          = new_cpu(1);
    for (int i = 0; i < 2; i++) {
        struct ggml_tensor * expected = NULL;
        struct ggml_tensor * found  = NULL;
        void *               first  = NULL;
        void *               second = NULL;
        struct parts         given   = graph_of(build, &expected);
        struct parts         without = graph_of(build, &found);
        report                       = remove_copies(without.b.graph, ggml_backend_cpu_buffer_type());
        compute(cpu, given, &lastuse_api, &first);
        compute(cpu, without, allocators[i], &second);
        check_same(without.cache, given.cache, allocators[i]->name);
        if (expected != NULL) {
            check_same(found, expected, allocators[i]->name);
        }
        ggml_gallocr_free(first);
        allocators[i]->free(second);
        built_free(given.b);
        built_free(without.b);
    }
    ggml_backend_free(cpu);
    return report;
}

#define CHECK_ALL_REMOVED(build, count)                                                                    \
    do {                                                                                                   \
        struct lastuse_copies_report r = compare(build);                                                   \
        CHECK((int) r.removed == (count) && left_of(&r) == 0, "%d removed, %d left", (int) r.removed, left_of(&r));    \
    } while (0)

#define CHECK_ONE_LEFT(build, reason)                                                                      \
    do {                                                                                                   \
        struct lastuse_copies_report r = compare(build);                                                   \
        CHECK(r.reason == 1 && left_of(&r) == 1, "%d of %d left for it", (int) r.reason, left_of(&r));     \
    } while (0)

// Removed

static struct ggml_tensor * into_cache(struct parts p) {
    add(p, ggml_cpy(p.b.ctx, product(p), slots(p, ROWS, ROWS)));
    return ggml_scale(p.b.ctx, p.cache, 2.0f);
}

// The heads of rows that are rotated each, into a cache of one dimension.
static struct ggml_tensor * heads_into_cache(struct parts p) {
    struct ggml_tensor * heads = ggml_reshape_3d(p.b.ctx, product(p), WIDTH / 4, 4, ROWS);
    struct ggml_tensor * place = ggml_new_tensor_1d(p.b.ctx, GGML_TYPE_I32, ROWS);
    ggml_set_input(place);
    heads = ggml_scale(p.b.ctx, heads, 0.5f);
    add(p, ggml_cpy(p.b.ctx, ggml_reshape_2d(p.b.ctx, heads, WIDTH, ROWS),
                    ggml_view_1d(p.b.ctx, p.cache, WIDTH * ROWS, ROWS * p.cache->nb[1])));
    return NULL;
}

static struct ggml_tensor * turned_into_cache(struct parts p) {
    struct ggml_tensor * heads = ggml_reshape_3d(p.b.ctx, product(p), WIDTH / 4, 4, ROWS);
    heads                      = ggml_mul(p.b.ctx, heads, heads);
    struct ggml_tensor * turned = ggml_permute(p.b.ctx, heads, 0, 2, 1, 3);
    add(p, ggml_cpy(p.b.ctx, turned, ggml_view_3d(p.b.ctx, p.cache, WIDTH / 4, ROWS, 4, p.cache->nb[1] / 4,
                                                  ROWS * p.cache->nb[1] / 4, 2 * p.cache->nb[1])));
    return NULL;
}

static struct ggml_tensor * continuous(struct parts p) {
    return ggml_cont_1d(p.b.ctx, product(p), WIDTH * ROWS);
}

static struct ggml_tensor * turned_and_continuous(struct parts p) {
    struct ggml_tensor * heads = ggml_reshape_3d(p.b.ctx, product(p), WIDTH / 4, 4, ROWS);
    heads                      = ggml_mul(p.b.ctx, heads, heads);
    return ggml_cont_2d(p.b.ctx, ggml_permute(p.b.ctx, heads, 0, 2, 1, 3), WIDTH / 4 * ROWS, 4);
}

static struct ggml_tensor * duplicate(struct parts p) {
    return ggml_sqr(p.b.ctx, ggml_dup(p.b.ctx, product(p)));
}

static struct ggml_tensor * joined(struct parts p) {
    struct ggml_tensor * both = ggml_concat(p.b.ctx, product(p), ggml_sqr(p.b.ctx, p.x), 1);
    return ggml_sum_rows(p.b.ctx, ggml_scale(p.b.ctx, both, 2.0f));
}

static struct ggml_tensor * joined_side_by_side(struct parts p) {
    struct ggml_tensor * both = ggml_concat(p.b.ctx, ggml_add(p.b.ctx, p.x, p.x), ggml_mul(p.b.ctx, p.x, p.x), 0);
    return ggml_sqr(p.b.ctx, both);
}

// The result itself is joined, and nothing reads it.
static struct ggml_tensor * joined_at_the_end(struct parts p) {
    return ggml_concat(p.b.ctx, product(p), ggml_sqr(p.b.ctx, p.x), 1);
}

static struct ggml_tensor * joined_into_cache(struct parts p) {
    struct ggml_tensor * two   = ggml_concat(p.b.ctx, product(p), ggml_sqr(p.b.ctx, p.x), 1);
    struct ggml_tensor * three = ggml_concat(p.b.ctx, two, ggml_scale(p.b.ctx, p.x, 3.0f), 1);
    add(p, ggml_cpy(p.b.ctx, three, slots(p, 1, 3 * ROWS)));
    return NULL;
}

static struct ggml_tensor * state_updated(struct parts p) {
    struct ggml_tensor * state = slots(p, 0, ROWS);
    add(p, ggml_cpy(p.b.ctx, ggml_add(p.b.ctx, state, p.x), state));
    return NULL;
}

// Both are computed before either is copied, into one cache.
static struct ggml_tensor * two_into_one_cache(struct parts p) {
    struct ggml_tensor * first  = product(p);
    struct ggml_tensor * second = ggml_sqr(p.b.ctx, p.x);
    add(p, first);
    add(p, second);
    add(p, ggml_cpy(p.b.ctx, first, slots(p, 0, ROWS)));
    add(p, ggml_cpy(p.b.ctx, second, slots(p, ROWS, ROWS)));
    return NULL;
}

// Into memory that an allocator gives.
static struct ggml_tensor * into_a_result(struct parts p) {
    struct ggml_tensor * wide = ggml_repeat_4d(p.b.ctx, p.x, WIDTH, 2 * ROWS, 1, 1);
    add(p, wide);
    struct ggml_tensor * half = ggml_view_2d(p.b.ctx, wide, WIDTH, ROWS, wide->nb[1], ROWS * wide->nb[1]);
    add(p, ggml_cpy(p.b.ctx, product(p), half));
    return ggml_sqr(p.b.ctx, wide);
}

CASE(copies_are_removed) {
    CHECK_ALL_REMOVED(into_cache, 1);
    CHECK_ALL_REMOVED(heads_into_cache, 1);
    CHECK_ALL_REMOVED(turned_into_cache, 1);
    CHECK_ALL_REMOVED(continuous, 1);
    CHECK_ALL_REMOVED(turned_and_continuous, 1);
    CHECK_ALL_REMOVED(duplicate, 1);
    CHECK_ALL_REMOVED(joined, 1);
    CHECK_ALL_REMOVED(joined_side_by_side, 1);
    CHECK_ALL_REMOVED(joined_at_the_end, 1);
    CHECK_ALL_REMOVED(joined_into_cache, 3);
    CHECK_ALL_REMOVED(state_updated, 1);
    CHECK_ALL_REMOVED(two_into_one_cache, 2);
    CHECK_ALL_REMOVED(into_a_result, 1);
}

// Left

static struct ggml_tensor * converted(struct parts p) {
    return ggml_cast(p.b.ctx, product(p), GGML_TYPE_F16);
}

static struct ggml_tensor * copied_input(struct parts p) {
    add(p, ggml_cpy(p.b.ctx, p.x, slots(p, 0, ROWS)));
    return NULL;
}

static struct ggml_tensor * read_by_others(struct parts p) {
    struct ggml_tensor * rows = product(p);
    add(p, ggml_cpy(p.b.ctx, rows, slots(p, 0, ROWS)));
    return ggml_sqr(p.b.ctx, rows);
}

static struct ggml_tensor * an_output(struct parts p) {
    struct ggml_tensor * rows = product(p);
    ggml_set_output(rows);
    add(p, ggml_cpy(p.b.ctx, rows, slots(p, 0, ROWS)));
    return NULL;
}

static struct ggml_tensor * a_part(struct parts p) {
    struct ggml_tensor * rows = product(p);
    add(p, ggml_cpy(p.b.ctx, ggml_view_2d(p.b.ctx, rows, WIDTH, 2, rows->nb[1], rows->nb[1]), slots(p, 0, 2)));
    return NULL;
}

static struct ggml_tensor * transposed(struct parts p) {
    struct ggml_tensor * columns = ggml_view_2d(p.b.ctx, p.cache, ROWS, WIDTH, 4 * ROWS * sizeof(float), 0);
    add(p, ggml_cpy(p.b.ctx, ggml_transpose(p.b.ctx, product(p)), columns));
    return NULL;
}

static struct ggml_tensor * read_between(struct parts p) {
    struct ggml_tensor * rows = product(p);
    add(p, rows);
    struct ggml_tensor * old = ggml_sqr(p.b.ctx, p.cache);
    add(p, old);
    add(p, ggml_cpy(p.b.ctx, rows, slots(p, 0, ROWS)));
    return old;
}

static struct ggml_tensor * written_between(struct parts p) {
    struct ggml_tensor * rows = product(p);
    add(p, rows);
    add(p, ggml_scale_inplace(p.b.ctx, slots(p, 0, ROWS), 3.0f));
    add(p, ggml_cpy(p.b.ctx, rows, slots(p, 1, ROWS)));
    return NULL;
}

// ggml's CPU backend fuses both: it would write rows of the cache before it has read the next.
static struct ggml_tensor * fused(struct parts p) {
    struct ggml_tensor * norm = ggml_rms_norm(p.b.ctx, slots(p, 0, ROWS), 1e-5f);
    struct ggml_tensor * by   = ggml_view_1d(p.b.ctx, p.matrix, WIDTH, 0);
    add(p, ggml_cpy(p.b.ctx, ggml_mul(p.b.ctx, norm, by), slots(p, 1, ROWS)));
    return NULL;
}

static struct ggml_tensor * overlapping(struct parts p) {
    struct ggml_tensor * moved = ggml_scale(p.b.ctx, slots(p, 0, ROWS), 2.0f);
    add(p, ggml_cpy(p.b.ctx, moved, slots(p, 1, ROWS)));
    return NULL;
}

static void custom(struct ggml_tensor * dst, const struct ggml_tensor * a, int ith, int nth, void * cache) {
    (void) nth;
    if (ith == 0) {
        memcpy(dst->data, a->data, ggml_nbytes(dst));
        memcpy(dst->data, ((struct ggml_tensor *) cache)->data, sizeof(float));
    }
}

// A function of the program reads the cache, which is none of its sources.
static struct ggml_tensor * function_between(struct parts p) {
    struct ggml_tensor * rows = product(p);
    add(p, rows);
    struct ggml_tensor * custom_node = ggml_map_custom1(p.b.ctx, p.x, custom, 1, p.cache);
    add(p, custom_node);
    add(p, ggml_cpy(p.b.ctx, rows, slots(p, 0, ROWS)));
    return custom_node;
}

static struct ggml_tensor * slot_taken(struct parts p) {
    struct ggml_tensor * rows  = product(p);
    rows->src[GGML_MAX_SRC - 2] = p.x;
    add(p, ggml_cpy(p.b.ctx, rows, slots(p, 0, ROWS)));
    return NULL;
}

static struct ggml_tensor * joined_with_an_input(struct parts p) {
    return ggml_concat(p.b.ctx, product(p), p.x, 1);
}

// The first operand is small and early, the second late and large: in between something larger is live.
static struct ggml_tensor * joined_over_a_peak(struct parts p) {
    struct ggml_tensor * early = ggml_sqr(p.b.ctx, ggml_view_2d(p.b.ctx, p.x, WIDTH, 1, p.x->nb[1], 0));
    add(p, early);
    struct ggml_tensor * wide = ggml_repeat_4d(p.b.ctx, p.x, WIDTH, 9 * ROWS, 1, 1);
    struct ggml_tensor * sum  = ggml_sum(p.b.ctx, ggml_mul_mat(p.b.ctx, p.matrix, wide));
    add(p, sum);
    struct ggml_tensor * late = ggml_repeat_4d(p.b.ctx, sum, WIDTH, 9 * ROWS, 1, 1);
    return ggml_sum(p.b.ctx, ggml_concat(p.b.ctx, early, late, 1));
}

CASE(copies_are_left) {
    CHECK_ONE_LEFT(converted, left_type);
    CHECK_ONE_LEFT(copied_input, left_producer);
    CHECK_ONE_LEFT(an_output, left_producer);
    CHECK_ONE_LEFT(joined_with_an_input, left_producer);
    CHECK_ONE_LEFT(read_by_others, left_readers);
    CHECK_ONE_LEFT(a_part, left_part);
    CHECK_ONE_LEFT(transposed, left_layout);
    CHECK_ONE_LEFT(read_between, left_order);
    CHECK_ONE_LEFT(written_between, left_order);
    CHECK_ONE_LEFT(fused, left_order);
    CHECK_ONE_LEFT(function_between, left_order);
    CHECK_ONE_LEFT(overlapping, left_overlap);
    CHECK_ONE_LEFT(slot_taken, left_slot);
    CHECK_ONE_LEFT(joined_over_a_peak, left_peak);
}

CASE(memory_that_is_not_known_is_left_alone) {
    struct ggml_tensor * result = NULL;
    struct parts         p      = graph_of(joined, &result);
    CHECK(remove_copies(p.b.graph, NULL).left_memory == 1, "a concatenation in unknown memory was removed");
    built_free(p.b);
    p = graph_of(turned_and_continuous, &result);
    CHECK(remove_copies(p.b.graph, NULL).left_layout == 1, "an unknown device would write rows in another order");
    built_free(p.b);
    p = graph_of(continuous, &result);
    CHECK(remove_copies(p.b.graph, NULL).removed == 1, "the copy is not a view of its source");
    built_free(p.b);
}

CASE(allocated_graph_is_left_alone) {
    struct ggml_tensor * result = NULL;
    ggml_backend_t       cpu    = new_cpu(1);
    void *               galloc = NULL;
    struct parts         p      = graph_of(joined_into_cache, &result);
    compute(cpu, p, &lastuse_api, &galloc);
    struct lastuse_copies_report r = remove_copies(p.b.graph, ggml_backend_cpu_buffer_type());
    CHECK((int) r.removed == 0 && (int) r.left_memory == 3, "%d removed, %d left", (int) r.removed, (int) r.left_memory);
    CHECK(ggml_backend_graph_compute(cpu, p.b.graph) == GGML_STATUS_SUCCESS, "not computed");
    ggml_gallocr_free(galloc);
    built_free(p.b);
    ggml_backend_free(cpu);
}

// Everything has the memory of its context, as in programs without an allocator.
CASE(memory_of_a_context_is_written) {
    struct ggml_init_params params = { .mem_size = 1 << 20, .mem_buffer = NULL, .no_alloc = false };
    float                   sums[2];
    for (int round = 0; round < 2; round++) {
        struct ggml_context * ctx   = ggml_init(params);
        struct ggml_tensor *  x     = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, ROWS);
        struct ggml_tensor *  cache = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, 2 * ROWS);
        set_values(x, 5);
        set_values(cache, 6);
        struct ggml_tensor * both  = ggml_concat(ctx, ggml_sqr(ctx, x), ggml_cont(ctx, ggml_scale(ctx, x, 3.0f)), 1);
        struct ggml_tensor * again = ggml_cont_1d(ctx, ggml_scale(ctx, both, 0.5f), 2 * WIDTH * ROWS);
        struct ggml_cgraph * graph = ggml_new_graph(ctx);
        ggml_build_forward_expand(graph, ggml_cpy(ctx, again, cache));
        if (round == 1) {
            CHECK(remove_copies(graph, NULL).removed == 4, "a copy stays");
        }
        CHECK(ggml_graph_compute_with_ctx(ctx, graph, 1) == GGML_STATUS_SUCCESS, "not computed");
        sums[round] = 0.0f;
        for (int i = 0; i < 2 * WIDTH * ROWS; i++) {
            sums[round] += (float) (i + 1) * ((float *) cache->data)[i];
        }
        ggml_free(ctx);
    }
    CHECK(memcmp(&sums[0], &sums[1], sizeof(float)) == 0, "%f and %f", (double) sums[0], (double) sums[1]);
}

// A cache on a device that has neither the matrix nor the CPU's kernels.
CASE(producers_stay_on_their_device) {
    struct dummy_buft device;
    dummy_buft_init(&device, "device", 32, 0);
    struct built         b      = built_new(64, 1 << 16);
    struct ggml_tensor * x      = new_input(b.ctx, WIDTH, ROWS);
    struct ggml_tensor * matrix = ggml_new_tensor_2d(b.weights, GGML_TYPE_F32, WIDTH, WIDTH);
    struct ggml_tensor * cache  = ggml_new_tensor_2d(b.ctx, GGML_TYPE_F32, WIDTH, 4 * ROWS);
    ggml_backend_buffer_t there = ggml_backend_buft_alloc_buffer(dummy_buft_type(&device), ggml_nbytes(cache));
    ggml_backend_buffer_t here  = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), 1 << 16);
    device.type.iface.is_host   = NULL;
    ggml_backend_tensor_alloc(there, cache, ggml_backend_buffer_get_base(there));
    matrix->buffer = here;

    struct ggml_tensor * rows = ggml_view_2d(b.ctx, cache, WIDTH, ROWS, cache->nb[1], 0);
    ggml_build_forward_expand(b.graph, ggml_cpy(b.ctx, ggml_mul_mat(b.ctx, matrix, x), rows));
    struct lastuse_copies_report r = remove_copies(b.graph, NULL);
    CHECK((int) r.left_device == 1, "%d", (int) r.left_device);
    ggml_backend_buffer_free(there);
    ggml_backend_buffer_free(here);
    built_free(b);
}

CASE(odd_graphs_are_left_alone) {
    struct parts p = parts_new();
    CHECK(remove_copies(p.b.graph, NULL).removed == 0, "an empty graph has changed");
    struct ggml_tensor * rows = product(p);
    add(p, ggml_cpy(p.b.ctx, ggml_view_2d(p.b.ctx, rows, WIDTH, 0, rows->nb[1], 0), slots(p, 0, 0)));
    CHECK(remove_copies(p.b.graph, NULL).removed == 0, "a copy of nothing was removed");
    add(p, ggml_cpy(p.b.ctx, ggml_sqr(p.b.ctx, p.x), slots(p, 0, ROWS)));
    p.b.graph->nodes[p.b.graph->n_nodes++] = p.b.graph->nodes[0];
    CHECK(copies_removed(p.b.graph, NULL, NULL) == 0, "a graph that lists a node twice has changed");
    p.b.graph->n_nodes--;
    CHECK(copies_removed(p.b.graph, NULL, NULL) == 1, "the report may be missing");
    built_free(p.b);
}

// A network, with or without explicit in-place operations.
static struct built network(bool in_place) {
    struct built         b = built_new(128, 1 << 20);
    struct ggml_tensor * x = new_input(b.ctx, WIDTH, 64);
    struct ggml_tensor * bias = ggml_new_tensor_2d(b.weights, GGML_TYPE_F32, WIDTH, 64);
    for (int layer = 0; layer < 3; layer++) {
        struct ggml_tensor * y = project(b, x, WIDTH);
        if (in_place) {
            y = ggml_scale_inplace(b.ctx, y, 0.5f);
            y = ggml_add_inplace(b.ctx, y, bias);
            y = ggml_rms_norm_inplace(b.ctx, y, 1e-5f);
            y = ggml_silu_inplace(b.ctx, y);
            y = ggml_mul_inplace(b.ctx, y, bias);
            y = ggml_soft_max_inplace(b.ctx, y);
            x = ggml_sub_inplace(b.ctx, y, x);
        } else {
            y = ggml_scale(b.ctx, y, 0.5f);
            y = ggml_add(b.ctx, y, bias);
            y = ggml_rms_norm(b.ctx, y, 1e-5f);
            y = ggml_silu(b.ctx, y);
            y = ggml_mul(b.ctx, y, bias);
            y = ggml_soft_max(b.ctx, y);
            x = ggml_sub(b.ctx, y, x);
        }
    }
    ggml_build_forward_expand(b.graph, x);
    return b;
}

static size_t size_of(struct built b) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_reserve(galloc, b.graph), "not reserved");
    size_t size = ggml_gallocr_get_buffer_size(galloc, 0);
    ggml_gallocr_free(galloc);
    built_free(b);
    return size;
}

CASE(explicit_in_place_changes_no_size) {
    size_t with    = size_of(network(true));
    size_t without = size_of(network(false));
    CHECK(with == without && with > 0, "%zu bytes with in-place nodes, %zu without", with, without);
    printf("%zu bytes\n", with);
}
