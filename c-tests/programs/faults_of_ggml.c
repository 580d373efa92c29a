// runs: ggml-0.26 faults
//
// What ggml's own allocator gets wrong, one case each: every case must pass on lastuse, and must show
// the fault on upstream, so that no case here tests something that was right anyway.
//
//   faults_of_ggml <case> lastuse|upstream
//
// exits 0 when all was right, and prints "fault shown: ..." and exits 42 when it was not. On upstream
// some cases end by a signal instead.
//
// Faults are shown by data where possible: the graph is built twice, once for the allocator and once with memory of
// its own for every tensor, and both must compute the same bytes.

#include "cases.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "lastuse.h"
#include "reports.h"
#include "upstream.h"

#include <stdarg.h>

#define WIDTH      64                      // floats in a row
#define ROW_BYTES  (WIDTH * sizeof(float)) // a multiple of every alignment used here
#define GRAPH_SIZE 4096                    // nodes at most

static void show_fault(const char * format, ...) {
    va_list args;
    va_start(args, format);
    printf("fault shown: ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    fflush(stdout);
    _Exit(42); // not exit(): leaks do not matter here
}

static void show_abort(const char * message) {
    show_fault("aborted: %s", message);
}

// The allocator that the command line names. From here on an abort is a fault, too.
static const struct allocator_api * api_of(struct case_args args) {
    CHECK(args.count == 1, "usage: faults <case> lastuse|upstream");
    bool upstream = strcmp(args.texts[0], "upstream") == 0;
    CHECK(upstream || strcmp(args.texts[0], "lastuse") == 0, "no allocator is called %s", args.texts[0]);
    ggml_set_abort_callback(show_abort);
    return upstream ? &upstream_api : &lastuse_api;
}

// Graphs

struct built {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
};

// Builds a case's graph. `second` asks for the graph that comes after the one that was planned for.
typedef void (*build_fn)(struct ggml_context * ctx, struct ggml_cgraph * graph, bool second);

static struct built build(build_fn fn, bool second, bool own_memory) {
    struct ggml_init_params params = {
        .mem_size   = 4 * 1024 * 1024,
        .mem_buffer = NULL,
        .no_alloc   = !own_memory,
    };
    struct built built;
    built.ctx   = ggml_init(params);
    built.graph = ggml_new_graph_custom(built.ctx, GRAPH_SIZE, false);
    fn(built.ctx, built.graph, second);
    return built;
}

static struct ggml_tensor * new_input(struct ggml_context * ctx, int64_t width, int64_t rows) {
    struct ggml_tensor * input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, width, rows);
    ggml_set_input(input);
    return input;
}

// A tensor whose memory is not the allocator's business.
static struct ggml_tensor * new_external(struct ggml_context * ctx) {
    static float         values[WIDTH * WIDTH];
    struct ggml_tensor * tensor = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, WIDTH);
    for (int i = 0; i < WIDTH * WIDTH; i++) {
        values[i] = (float) (i * 37 % 101 - 50) / 200.0f;
    }
    tensor->data = values;
    return tensor;
}

// A step that never runs in place, and whose result differs from `x` everywhere.
static struct ggml_tensor * mix(struct ggml_context * ctx, struct ggml_tensor * x) {
    return ggml_mul_mat(ctx, new_external(ctx), x);
}

// The last node of a graph, and an output.
static void end_with(struct ggml_cgraph * graph, struct ggml_tensor * out) {
    ggml_set_output(out);
    ggml_build_forward_expand(graph, out);
}

// Running them

// Whether the tensor is a result of the graph. memset() and memcmp() need an address even for 0 bytes.
static bool is_output(const struct ggml_tensor * tensor) {
    return (tensor->flags & GGML_TENSOR_FLAG_OUTPUT) != 0 && ggml_nbytes(tensor) > 0;
}

// Every input gets values that depend on its place in the context alone.
static void fill_inputs(struct built built) {
    uint32_t state = 1;
    for (struct ggml_tensor * t = ggml_get_first_tensor(built.ctx); t != NULL; t = ggml_get_next_tensor(built.ctx, t)) {
        if (!(t->flags & GGML_TENSOR_FLAG_INPUT)) {
            continue;
        }
        for (int64_t i = 0; i < ggml_nelements(t); i++) {
            state                  = state * 1664525u + 1013904223u;
            ((float *) t->data)[i] = (float) (state >> 8) / (1 << 23) - 1.0f;
        }
    }
}

// Fills outputs with `poison` before, so that an output that no node wrote differs.
static void compute(struct built built, int poison) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(built.ctx); t != NULL; t = ggml_get_next_tensor(built.ctx, t)) {
        if (is_output(t)) {
            memset(t->data, poison, ggml_nbytes(t));
        }
    }
    fill_inputs(built);
    ggml_backend_t backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backend, 1);
    CHECK(ggml_backend_graph_compute(backend, built.graph) == GGML_STATUS_SUCCESS, "the graph was not computed");
    ggml_backend_free(backend);
}

// Computes an allocated graph and shows a fault when an output differs from what it is when every
// tensor has its own memory.
static void expect_equal_outputs(struct built planned, build_fn fn, bool second) {
    struct built reference = build(fn, second, true);
    compute(planned, 0x55);
    compute(reference, 0xaa);
    struct ggml_tensor * ours   = ggml_get_first_tensor(planned.ctx);
    struct ggml_tensor * theirs = ggml_get_first_tensor(reference.ctx);
    int                  place  = 0;
    while (theirs != NULL) {
        if (is_output(theirs) && memcmp(ours->data, theirs->data, ggml_nbytes(theirs)) != 0) {
            show_fault("output %s, tensor %d of the graph, has wrong data", theirs->name, place);
        }
        ours   = ggml_get_next_tensor(planned.ctx, ours);
        theirs = ggml_get_next_tensor(reference.ctx, theirs);
        place++;
    }
    ggml_free(reference.ctx);
}

// Plans for the first graph, allocates the second: an allocator may return false when it needs a new plan, but it must
// not return true with a plan that is invalid for the second.
static void run_with_stale_plan(const struct allocator_api * api, build_fn fn) {
    struct built   first  = build(fn, false, false);
    struct built   second = build(fn, true, false);
    ggml_gallocr_t galloc = api->new(ggml_backend_cpu_buffer_type());
    CHECK(api->reserve(galloc, first.graph), "the first graph was not planned");
    CHECK(api->alloc_graph(galloc, second.graph), "one buffer type: a new plan is made when one is needed");
    expect_equal_outputs(second, fn, true);
    api->free(galloc);
    ggml_free(second.ctx);
    ggml_free(first.ctx);
}

static void run_with_fresh_plan(const struct allocator_api * api, build_fn fn) {
    struct built   built  = build(fn, false, false);
    ggml_gallocr_t galloc = api->new(ggml_backend_cpu_buffer_type());
    CHECK(api->alloc_graph(galloc, built.graph), "the graph was not allocated");
    expect_equal_outputs(built, fn, false);
    api->free(galloc);
    ggml_free(built.ctx);
}

// Cases that build a graph; `second` asks for the one that is allocated by the plan of the other.
#define PLAN_CASE(run_with, name)                                                                      \
    static void name##_graph(struct ggml_context * ctx, struct ggml_cgraph * graph, bool second);      \
    CASE(name) {                                                                                       \
        run_with(api_of(args), name##_graph);                                                          \
    }                                                                                                  \
    static void name##_graph(struct ggml_context * ctx, struct ggml_cgraph * graph, bool second __attribute__((unused)))

#define STALE_PLAN_CASE(name) PLAN_CASE(run_with_stale_plan, name)
#define FRESH_PLAN_CASE(name) PLAN_CASE(run_with_fresh_plan, name)

// A plan made for one graph, given to another with the same numbers of nodes and leafs. The smallest plan
// for the first is always one that is wrong for the second, so an allocator cannot be right by luck.

// ggml-org/llama.cpp#28448: only a source changes. Two rows are enough for the first graph: z takes the
// place of x, which the second graph still reads.
STALE_PLAN_CASE(stale_plan_wiring) {
    struct ggml_tensor * x = mix(ctx, new_input(ctx, WIDTH, 1));
    struct ggml_tensor * y = mix(ctx, x);
    struct ggml_tensor * z = mix(ctx, y);
    struct ggml_tensor * out = ggml_add(ctx, second ? x : y, z);
    ggml_set_output(out);
    ggml_build_forward_expand(graph, z);
    ggml_build_forward_expand(graph, out);
}

// Only a flag changes: the first result must now outlast its last reader.
STALE_PLAN_CASE(stale_plan_flags) {
    struct ggml_tensor * x = mix(ctx, new_input(ctx, WIDTH, 1));
    struct ggml_tensor * out = mix(ctx, mix(ctx, x));
    if (second) {
        ggml_set_output(x);
    }
    end_with(graph, out);
}

// Only the tensor behind a view changes. Again two rows are enough, and z takes the place of x.
STALE_PLAN_CASE(stale_plan_view_root) {
    struct ggml_tensor * in = new_input(ctx, WIDTH, 1);
    struct ggml_tensor * x = mix(ctx, in);
    struct ggml_tensor * y = mix(ctx, x);
    struct ggml_tensor * view = ggml_view_1d(ctx, second ? x : y, WIDTH, 0);
    struct ggml_tensor * z = mix(ctx, y);
    struct ggml_tensor * out = ggml_add(ctx, view, z);
    ggml_set_output(out);
    ggml_build_forward_expand(graph, y);
    ggml_build_forward_expand(graph, view);
    ggml_build_forward_expand(graph, z);
    ggml_build_forward_expand(graph, out);
}

// Only an op changes: the first may write over its source, the second moves elements to other places.
STALE_PLAN_CASE(stale_plan_op) {
    struct ggml_tensor * x = mix(ctx, new_external(ctx));
    struct ggml_tensor * out = second ? ggml_roll(ctx, x, 1, 1, 0, 0) : ggml_sqr(ctx, x);
    end_with(graph, out);
}

// Only a size changes, and becomes smaller: the sum was planned in place over `rows`, which is now a
// single row that every row of the sum needs.
STALE_PLAN_CASE(stale_plan_in_place_broadcast) {
    struct ggml_tensor * a = new_input(ctx, WIDTH, 4);
    struct ggml_tensor * external = new_external(ctx);
    struct ggml_tensor * first_rows = ggml_view_2d(ctx, external, WIDTH, second ? 1 : 4, external->nb[1], 0);
    struct ggml_tensor * rows = mix(ctx, first_rows);
    struct ggml_tensor * sum = ggml_add(ctx, a, rows);
    struct ggml_tensor * out = ggml_mul(ctx, sum, a); // a has a reader behind the sum
    end_with(graph, out);
}

// Only a leaf that no node reads changes: it becomes larger.
STALE_PLAN_CASE(stale_plan_unread_leaf_grew) {
    struct ggml_tensor * in = new_input(ctx, WIDTH, 4);
    struct ggml_tensor * unread = new_input(ctx, WIDTH, second ? 3 : 1);
    struct ggml_tensor * out = mix(ctx, in);
    ggml_set_output(out);
    ggml_build_forward_expand(graph, unread);
    ggml_build_forward_expand(graph, out);
}

// Only the owner of a leaf's memory changes: it had some, now it needs some.
STALE_PLAN_CASE(stale_plan_external_leaf) {
    struct ggml_tensor * out = mix(ctx, new_input(ctx, WIDTH, 1));
    struct ggml_tensor * unread = second ? ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, WIDTH) : new_external(ctx);
    ggml_set_input(unread);
    ggml_set_output(unread); // so that its values are compared, too
    ggml_set_output(out);
    ggml_build_forward_expand(graph, unread);
    ggml_build_forward_expand(graph, out);
}

// A plan without buffers

static void build_chain(struct ggml_context * ctx, struct ggml_cgraph * graph, bool second) {
    (void) second;
    struct ggml_tensor * out = mix(ctx, mix(ctx, mix(ctx, new_input(ctx, WIDTH, 4))));
    end_with(graph, out);
}

CASE(size_then_alloc) {
    const struct allocator_api * api    = api_of(args);
    struct built                 built  = build(build_chain, false, false);
    ggml_gallocr_t               galloc = api->new(ggml_backend_cpu_buffer_type());
    size_t                       size   = 0;
    api->reserve_n_size(galloc, built.graph, NULL, NULL, &size);
    CHECK(size >= 8 * ROW_BYTES, "a source and its result need more than %zu bytes", size);
    CHECK(api->alloc_graph(galloc, built.graph), "the graph was not allocated");
    expect_equal_outputs(built, build_chain, false);
    api->free(galloc);
    ggml_free(built.ctx);
}

CASE(failed_reserve_then_alloc) {
    const struct allocator_api * api   = api_of(args);
    struct built                 built = build(build_chain, false, false);
    struct dummy_buft            dummy;
    dummy_buft_init(&dummy, "dummy", 64, 0);
    ggml_gallocr_t galloc = api->new(dummy_buft_type(&dummy));

    dummy.allocs_left = 0;
    CHECK(!api->reserve(galloc, built.graph), "there was no memory to reserve");
    CHECK(!api->alloc_graph(galloc, built.graph), "there is still no memory");
    dummy.allocs_left = DUMMY_UNLIMITED;
    CHECK(api->alloc_graph(galloc, built.graph), "there is memory now");
    expect_equal_outputs(built, build_chain, false);

    api->free(galloc);
    CHECK(dummy.live_buffers == 0, "%zu buffers leaked", dummy.live_buffers);
    ggml_free(built.ctx);
}

// ggml-alloc does not report the required size.
CASE(wanted_size_after_failure) {
    const struct allocator_api * api   = api_of(args);
    struct built                 built = build(build_chain, false, false);
    struct dummy_buft            dummy;
    dummy_buft_init(&dummy, "dummy", 64, 0);
    ggml_gallocr_t galloc = api->new(dummy_buft_type(&dummy));

    dummy.allocs_left = 0;
    CHECK(!api->reserve(galloc, built.graph), "there was no memory to reserve");
    size_t reported = api == &upstream_api ? api->get_buffer_size(galloc, 0) : plan_size_of(galloc, 0);
    if (reported != dummy.last_requested) {
        show_fault("%zu bytes were requested, %zu are reported", dummy.last_requested, reported);
    }
    api->free(galloc);
    ggml_free(built.ctx);
}

// Limits

// Upstream's list of free blocks ends at 256 a chunk. Here 300 results become free with a live one
// between each two.
FRESH_PLAN_CASE(out_of_free_blocks) {
    enum { COUNT = 600 };
    struct ggml_tensor * in = new_input(ctx, WIDTH, 1);
    struct ggml_tensor * results[COUNT];
    for (int i = 0; i < COUNT; i++) {
        results[i] = ggml_scale(ctx, in, 1.0f / (float) (i + 1));
        ggml_build_forward_expand(graph, results[i]);
    }
    struct ggml_tensor * sum = ggml_sqr(ctx, in);
    for (int parity = 0; parity < 2; parity++) {
        for (int i = parity; i < COUNT; i += 2) {
            sum = ggml_add(ctx, sum, results[i]);
        }
    }
    end_with(graph, sum);
}

// The table of tensors is sized by the graph's lists. A part of a larger graph refers to more than it
// lists.
FRESH_PLAN_CASE(hash_set_full) {
    struct ggml_tensor * out = ggml_add(ctx, new_external(ctx), new_external(ctx));
    ggml_set_output(out);
    ggml_build_forward_expand(ggml_new_graph(ctx), out); // the larger graph
    ggml_graph_add_node(graph, out);
}

// Upstream takes the address NULL for "not placed yet", and a buffer without bytes starts there.
FRESH_PLAN_CASE(only_zero_sizes) {
    struct ggml_tensor * out = ggml_sqr(ctx, new_input(ctx, WIDTH, 0));
    end_with(graph, out);
}

// Views and markers

// A view at offset 0 with the layout of its root, whose only reader could write over it.
static void build_reshaped(struct ggml_context * ctx, struct ggml_cgraph * graph, bool second) {
    (void) second;
    struct ggml_tensor * x = mix(ctx, new_external(ctx));
    struct ggml_tensor * out = ggml_sqr(ctx, ggml_reshape_1d(ctx, x, WIDTH * WIDTH));
    end_with(graph, out);
}

CASE(in_place_through_view) {
    const struct allocator_api * api    = api_of(args);
    struct built                 built  = build(build_reshaped, false, false);
    ggml_gallocr_t               galloc = api->new(ggml_backend_cpu_buffer_type());
    CHECK(api->alloc_graph(galloc, built.graph), "the graph was not allocated");
    expect_equal_outputs(built, build_reshaped, false);
    size_t size   = api->get_buffer_size(galloc, 0);
    size_t needed = WIDTH * ROW_BYTES;
    if (size > needed) {
        show_fault("%zu bytes are used where %zu are enough", size, needed);
    }
    api->free(galloc);
    ggml_free(built.ctx);
}

// The output is a view; the tensor whose memory it is has no flag.
FRESH_PLAN_CASE(output_view) {
    struct ggml_tensor * x = mix(ctx, new_input(ctx, WIDTH, 1));
    struct ggml_tensor * view = ggml_view_1d(ctx, x, WIDTH, 0);
    struct ggml_tensor * out = mix(ctx, mix(ctx, view));
    view->flags |= GGML_TENSOR_FLAG_OUTPUT; // newer versions of ggml_set_output() flag the root, too
    end_with(graph, out);
}

// ggml-org/llama.cpp#27301: a marker that keeps `late` live comes before the node that computes `late`.
// Upstream gives `late` the memory of `early` there, and then `early`, which already holds its result,
// another place.
FRESH_PLAN_CASE(marker_before_producer) {
    struct ggml_tensor * early = mix(ctx, new_input(ctx, WIDTH, 1));
    struct ggml_tensor * rest = mix(ctx, mix(ctx, new_input(ctx, WIDTH, 1)));
    struct ggml_tensor * late = ggml_sqr(ctx, early);
    struct ggml_tensor * marker = ggml_view_tensor(ctx, late);
    marker->src[0] = late;
    struct ggml_tensor * out = ggml_concat(ctx, late, rest, 0);
    ggml_set_output(out);

    ggml_build_forward_expand(graph, early);
    ggml_graph_add_node(graph, marker);
    ggml_build_forward_expand(graph, rest);
    ggml_build_forward_expand(graph, out);
}
