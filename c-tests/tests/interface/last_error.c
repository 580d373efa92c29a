// Every function that fails sets lastuse_last_error: never is it the reason of an earlier call. Each case makes another function
// fail first. The last case is for a process that has switched lastuse off.
//
//   last_error <case>

#include <stdlib.h>

#include "cases.h"
#include "computing.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "lastuse.h"
#include "reports.h"

static struct ggml_context * a_context(void) {
    return no_alloc_context(1024 * 1024);
}

static struct ggml_tensor * a_tensor(struct ggml_context * ctx) {
    return ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
}

static struct ggml_cgraph * graph_of(struct ggml_context * ctx, struct ggml_tensor * t) {
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 64, false);
    ggml_set_output(t);
    ggml_build_forward_expand(graph, t);
    return graph;
}

static struct ggml_cgraph * a_graph(void) {
    struct ggml_context * ctx = a_context();
    struct ggml_tensor *  x   = a_tensor(ctx);
    ggml_set_input(x);
    return graph_of(ctx, ggml_add(ctx, ggml_sqr(ctx, x), ggml_neg(ctx, x)));
}

// Its tensors add up to more than can be addressed.
static struct ggml_cgraph * a_huge_graph(void) {
    struct ggml_context * ctx = a_context();
    struct ggml_tensor *  x   = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, (int64_t) 1 << 60);
    struct ggml_cgraph *  graph = ggml_new_graph_custom(ctx, 64, false);
    for (int i = 0; i < 6; i++) {
        struct ggml_tensor * kept = ggml_scale(ctx, x, (float) i);
        ggml_set_output(kept);
        ggml_build_forward_expand(graph, kept);
    }
    return graph;
}

static ggml_gallocr_t an_allocator(void) {
    return ggml_gallocr_new(ggml_backend_cpu_buffer_type());
}

static ggml_backend_buffer_t a_buffer(void) {
    return ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), 4096);
}

// A buffer type without memory for any buffer.
static ggml_backend_buffer_type_t a_full_type(void) {
    static struct dummy_buft dummy;
    dummy_buft_init(&dummy, "full", 64, 0);
    dummy.allocs_left = 0;
    return dummy_buft_type(&dummy);
}

static ggml_backend_sched_t a_scheduler(void) {
    ggml_backend_t cpu = new_cpu(1);
    return ggml_backend_sched_new(&cpu, NULL, 1, 64, false, false);
}

static bool stops(void * user_data) {
    (void) user_data;
    return true;
}

// A backend that computes nothing.
static ggml_backend_t a_stopped_backend(void) {
    ggml_backend_t cpu = new_cpu(1);
    ggml_backend_cpu_set_abort_callback(cpu, stops, NULL);
    return cpu;
}

// Makes the last error one of another function.
static void fail_otherwise(const char * function) {
    if (strcmp(function, "lastuse_set") == 0) {
        lastuse_gallocr_set(an_allocator(), "rules", "nonsense");
    } else {
        lastuse_set("verify", "nonsense");
    }
    CHECK(strncmp(lastuse_last_error(), function, strlen(function)) != 0, "it is %s", lastuse_last_error());
}

static void check_error_of(const char * function) {
    size_t length = strlen(function);
    CHECK(strncmp(lastuse_last_error(), function, length) == 0 && strlen(lastuse_last_error()) > length + 2,
          "%s has left \"%s\"", function, lastuse_last_error());
}

// A failing call: `is_failed` has its value as `result`.
#define FAILS(function, type, call, is_failed)                   \
    do {                                                         \
        fail_otherwise(#function);                               \
        type result = call;                                      \
        CHECK(is_failed, "%s has not failed", #function);        \
        check_error_of(#function);                               \
    } while (0)

#define FAILS_WITH_FALSE(function, ...) FAILS(function, bool, function(__VA_ARGS__), !result)
#define FAILS_WITH_NULL(function, ...)  FAILS(function, void *, function(__VA_ARGS__), result == NULL)
#define FAILS_WITH_MINUS_1(function, ...) FAILS(function, int, function(__VA_ARGS__), result == -1)

// A case, named after the function.
#define FAILING(function) CASE(function##_fails)

FAILING(ggml_backend_alloc_ctx_tensors) {
    struct ggml_context * ctx = a_context();
    ggml_new_tensor_1d(ctx, GGML_TYPE_I8, (int64_t) 1 << 50);
    FAILS_WITH_NULL(ggml_backend_alloc_ctx_tensors, ctx, new_cpu(1));
}

FAILING(ggml_backend_alloc_ctx_tensors_from_buft) {
    struct ggml_context * ctx = a_context();
    a_tensor(ctx);
    FAILS_WITH_NULL(ggml_backend_alloc_ctx_tensors_from_buft, ctx, a_full_type());
}

FAILING(ggml_dependency) {
    struct ggml_context * ctx = a_context();
    struct ggml_tensor *  t   = a_tensor(ctx);
    FAILS_WITH_NULL(ggml_dependency, ctx, t, t);
}

FAILING(ggml_gallocr_alloc_graph) {
    ggml_backend_buffer_type_t two[2] = { ggml_backend_cpu_buffer_type(), a_full_type() };
    FAILS(ggml_gallocr, bool, ggml_gallocr_alloc_graph(ggml_gallocr_new(a_full_type()), a_graph()), !result);
    FAILS_WITH_FALSE(ggml_gallocr_alloc_graph, ggml_gallocr_new_n(two, 2), a_graph()); // never reserved
}

FAILING(ggml_gallocr_reserve) {
    FAILS_WITH_FALSE(ggml_gallocr_reserve, ggml_gallocr_new(a_full_type()), a_graph());
}

FAILING(ggml_gallocr_reserve_n) {
    FAILS_WITH_FALSE(ggml_gallocr_reserve_n, ggml_gallocr_new(a_full_type()), a_graph(), NULL, NULL);
}

FAILING(ggml_tallocr_alloc) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", 64, 0);
    struct ggml_tallocr tallocr = ggml_tallocr_new(ggml_backend_buft_alloc_buffer(dummy_buft_type(&dummy), 4096));
    dummy.inits_left            = 0;
    FAILS(ggml_tallocr_alloc, int, (int) ggml_tallocr_alloc(&tallocr, a_tensor(a_context())), result != GGML_STATUS_SUCCESS);
}

FAILING(lastuse_accounting_json) {
    FAILS_WITH_NULL(lastuse_accounting_json, false);
}

FAILING(lastuse_buffer_note) {
    FAILS_WITH_FALSE(lastuse_buffer_note, a_buffer(), 1, false);
}

FAILING(lastuse_buffer_note_free) {
    FAILS_WITH_FALSE(lastuse_buffer_note_free, a_buffer());
}

FAILING(lastuse_context_free) {
    FAILS(lastuse_context_free, bool, (lastuse_context_free(a_context()), true), result);
}

FAILING(lastuse_context_new) {
    FAILS_WITH_NULL(lastuse_context_new, (enum lastuse_context_kind) 7, NULL);
}

FAILING(lastuse_context_realize) {
    FAILS_WITH_FALSE(lastuse_context_realize, NULL);
}

FAILING(lastuse_gallocr_explain) {
    FAILS_WITH_NULL(lastuse_gallocr_explain, an_allocator(), a_huge_graph());
}

FAILING(lastuse_gallocr_set) {
    FAILS_WITH_FALSE(lastuse_gallocr_set, an_allocator(), "rules", "nonsense");
    FAILS_WITH_FALSE(lastuse_gallocr_set, an_allocator(), "effort", "much");
    FAILS_WITH_FALSE(lastuse_gallocr_set, an_allocator(), "retain", "*");
    CHECK(strstr(lastuse_last_error(), "retain is set for the process, by lastuse_set; expected rules, effort") != NULL,
          "%s", lastuse_last_error());
}

FAILING(lastuse_graph_compute_guarded) {
    struct ggml_cgraph * graph = a_graph();
    CHECK(ggml_gallocr_alloc_graph(an_allocator(), graph), "not allocated");
    FAILS(lastuse_graph_compute_guarded, int, lastuse_graph_compute_guarded(a_stopped_backend(), graph),
          result != GGML_STATUS_SUCCESS);
}

FAILING(lastuse_graph_dump) {
    CHECK(lastuse_set("dump_dir", "/proc"), "%s", lastuse_last_error()); // where no file can be created
    CHECK(lastuse_set("dump", "*"), "%s", lastuse_last_error());
    struct ggml_cgraph * graph = a_graph();
    CHECK(ggml_gallocr_alloc_graph(an_allocator(), graph), "not allocated");
    FAILS_WITH_FALSE(lastuse_graph_dump, graph, NULL);
}

FAILING(lastuse_graph_measure) {
    ggml_backend_buffer_type_t type = ggml_backend_cpu_buffer_type();
    size_t                     size;
    FAILS_WITH_FALSE(lastuse_graph_measure, NULL, 0, &type, 1, NULL, NULL, &size, NULL);
    FAILS_WITH_FALSE(lastuse_graph_remove_copies, a_graph(), NULL, NULL);
}

FAILING(lastuse_graph_recompute) {
    struct lastuse_recompute_params params = { .struct_size = sizeof(params), .budget = 1 };
    params.buft                            = ggml_backend_cpu_buffer_type();
    FAILS_WITH_FALSE(lastuse_graph_recompute, a_context(), a_graph(), &params, NULL);
}

FAILING(lastuse_graph_reorder) {
    FAILS_WITH_FALSE(lastuse_graph_reorder, a_huge_graph(), NULL, NULL);
}

FAILING(lastuse_graph_tile) {
    struct lastuse_tiling_params params = { .struct_size = sizeof(params), .budget = 1 };
    params.buft                        = ggml_backend_cpu_buffer_type();
    FAILS_WITH_FALSE(lastuse_graph_tile, a_context(), a_graph(), &params, NULL);
}

FAILING(lastuse_graph_verify) {
    struct ggml_cgraph * graph = a_graph();
    CHECK(ggml_gallocr_alloc_graph(an_allocator(), graph), "not allocated");
    ggml_graph_node(graph, 1)->data = ggml_graph_node(graph, 0)->data; // before it is read
    FAILS_WITH_FALSE(lastuse_graph_verify, graph);
}

static bool is_in_guard;

static bool calls_guard(struct ggml_tensor * t, bool ask, void * guard) {
    is_in_guard = true;
    FAILS_WITH_FALSE(lastuse_guard_eval, t, ask, *(struct lastuse_guard **) guard);
    FAILS(lastuse_guard_free, bool, (lastuse_guard_free(*(struct lastuse_guard **) guard), true), result);
    return true;
}

// A guard that is in use neither checks nor is freed.
FAILING(lastuse_guard_eval) {
    struct lastuse_guard *      guard;
    struct lastuse_guard_params params = { .struct_size = sizeof(params), .callback = calls_guard, .user_data = &guard };
    struct ggml_context *       ctx    = a_context();
    guard = lastuse_guard_new(&params);
    CHECK(lastuse_guard_eval(ggml_neg(ctx, a_tensor(ctx)), true, guard) && is_in_guard, "the callback was not called");
    lastuse_guard_free(guard);
}

FAILING(lastuse_guard_new) {
    struct lastuse_guard_params params = { .struct_size = sizeof(params), .words = "nonsense" };
    FAILS_WITH_NULL(lastuse_guard_new, &params);
}

FAILING(lastuse_offload_add_item) {
    struct lastuse_offload_item item = { .struct_size = sizeof(item) };
    FAILS_WITH_MINUS_1(lastuse_offload_add_item, lastuse_offload_new(NULL), &item);
}

FAILING(lastuse_offload_apply) {
    ggml_backend_t       cpu   = new_cpu(1);
    ggml_backend_sched_t sched = ggml_backend_sched_new(&cpu, NULL, 1, 64, false, true);
    FAILS_WITH_FALSE(lastuse_offload_apply, lastuse_offload_new(NULL), 0, sched);
}

FAILING(lastuse_offload_buffer_ids) {
    FAILS_WITH_FALSE(lastuse_offload_buffer_ids, lastuse_offload_new(NULL), 0, NULL, NULL);
}

FAILING(lastuse_offload_item_report) {
    struct lastuse_offload_place place = { .struct_size = sizeof(place) };
    FAILS_WITH_FALSE(lastuse_offload_item_report, lastuse_offload_new(NULL), 0, &place);
}

FAILING(lastuse_offload_device_report) {
    struct lastuse_offload_memory memory = { .struct_size = sizeof(memory) };
    FAILS_WITH_FALSE(lastuse_offload_device_report, lastuse_offload_new(NULL), 0, &memory);
}

FAILING(lastuse_gallocr_share) {
    struct lastuse_arena * arena = lastuse_arena_new(ggml_backend_cpu_buffer_type());
    FAILS_WITH_FALSE(lastuse_gallocr_share, ggml_gallocr_new(a_full_type()), arena);
}

FAILING(lastuse_offload_new) {
    struct lastuse_offload_params params = { .struct_size = sizeof(params), .order = (enum lastuse_offload_order) 99 };
    FAILS_WITH_NULL(lastuse_offload_new, &params);
}

FAILING(lastuse_offload_solve) {
    FAILS_WITH_FALSE(lastuse_offload_solve, lastuse_offload_new(NULL));
}

// The reason names the setting, and what is expected.
FAILING(lastuse_sched_explain) {
    FAILS_WITH_NULL(lastuse_sched_explain, a_scheduler(), a_huge_graph());
}

FAILING(lastuse_sched_measure) {
    size_t size = 0;
    FAILS_WITH_FALSE(lastuse_sched_measure, a_scheduler(), a_huge_graph(), &size, NULL);
}

static void set_fails(const char * name, const char * value, const char * expected) {
    FAILS_WITH_FALSE(lastuse_set, name, value);
    CHECK(strstr(lastuse_last_error(), name) != NULL && strstr(lastuse_last_error(), expected) != NULL,
          "%s is not in: %s", expected, lastuse_last_error());
}

FAILING(lastuse_set) {
    set_fails("rules", "nonsense", "unknown rule \"nonsense\"");
    set_fails("effort", "much", "expected a whole number");
    set_fails("verify", "nonsense", "expected off, plan, memory, weights, no-custom");
    set_fails("reorder", "perhaps", "expected on, 1, true, yes, off");
    set_fails("budget", "40%", "expected a number of bytes");
    set_fails("recompute", "much", "\"much\" is not a budget");
    set_fails("retain", "\xff", "is not UTF-8");
    set_fails("capture", "/proc/nonexistent", "cannot write to the folder");
    CHECK(lastuse_set("dump_dir", "/proc/nonexistent"), "%s", lastuse_last_error());
    set_fails("dump", "*", "cannot write to the folder");
    set_fails("accounting", "/nonexistent/file.json", "cannot write to");
    set_fails("live", "/nonexistent/file.json", "cannot write to");
    set_fails("colour", "blue", "unknown setting \"colour\"; expected rules, effort, reorder, budget,");
    set_fails("log", "debug", "log is set by LASTUSE_LOG alone, which was read at the start; expected rules, effort");
}

// Names are those of the variables, in any case; NULL and "" are the default.
CASE(settings_are_accepted) {
    static const char * const values[][2] = {
        { "rules", "ggml" }, { "RULES", NULL },    { "effort", "1000" }, { "effort", "" },   { "reorder", "on" },
        { "reorder", "" },   { "budget", "2GiB" }, { "budget", "off" },  { "verify", NULL }, { "retain", "" },
        { "capture", NULL }, { "dump_dir", NULL }, { "dump", NULL },     { "accounting", "" },
        { "live", "" },
    };
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        CHECK(lastuse_set(values[i][0], values[i][1]), "%s", lastuse_last_error());
    }
}

static struct lastuse_steps * stopped_steps(void) {
    struct lastuse_steps_params params = { .struct_size = sizeof(params), .n_steps = 2, .backend = a_stopped_backend() };
    return lastuse_steps_new(a_graph(), &params); // without memory
}

FAILING(lastuse_steps_compute) {
    FAILS(lastuse_steps_compute, int, lastuse_steps_compute(stopped_steps()), result != GGML_STATUS_SUCCESS);
}

// The state that calls of a callback see.
struct seen {
    struct lastuse_steps *     steps;
    struct lastuse_offload * placement;
    int                        calls;
};

// Between two steps, and while one is computed, the program may only look at them.
static void look_at_steps(struct seen * seen) {
    struct lastuse_step_report report = { .struct_size = sizeof(report) };
    CHECK(lastuse_steps_report(seen->steps, 1, &report) && report.n_steps == 2, "%s", lastuse_last_error());
    FAILS(lastuse_steps_compute, int, lastuse_steps_compute(seen->steps), result == GGML_STATUS_FAILED);
    FAILS(lastuse_steps_free, bool, (lastuse_steps_free(seen->steps), true), result);
    seen->calls++;
}

static bool after_a_step(size_t step, void * user_data) {
    CHECK(step < 2, "step %zu", step);
    look_at_steps(user_data);
    return true;
}

static void in_a_step(struct ggml_tensor * dst, const struct ggml_tensor * a, int ith, int nth, void * user_data) {
    (void) nth;
    memcpy(dst->data, a->data, ggml_nbytes(dst));
    CHECK(ith == 0, "more than one thread");
    look_at_steps(user_data);
}

CASE(steps_are_used_in_callbacks) {
    struct seen                 seen   = { 0 };
    struct ggml_context *       ctx    = a_context();
    struct ggml_tensor *        x      = a_tensor(ctx);
    ggml_set_input(x);
    struct ggml_tensor *        copy   = ggml_map_custom1(ctx, ggml_sqr(ctx, x), in_a_step, 1, &seen);
    struct ggml_tensor *        sum    = ggml_sum(ctx, copy);
    struct lastuse_steps_params params = { .struct_size = sizeof(params), .n_steps = 2, .backend = new_cpu(1) };
    struct ggml_cgraph *        graph  = graph_of(ctx, sum);
    params.callback                    = after_a_step;
    params.user_data                   = &seen;
    seen.steps                         = lastuse_steps_new(graph, &params);
    CHECK(seen.steps != NULL, "%s", lastuse_last_error());
    CHECK(ggml_gallocr_alloc_graph(an_allocator(), graph), "%s", lastuse_last_error());
    for (int run = 1; run <= 2; run++) {
        float result = 0.0f;
        set_values(x, 7);
        CHECK(lastuse_steps_compute(seen.steps) == GGML_STATUS_SUCCESS, "%s", lastuse_last_error());
        ggml_backend_tensor_get(sum, &result, 0, sizeof(result));
        CHECK(result > 0.0f && seen.calls == 3 * run, "%g after %d calls", (double) result, seen.calls);
    }
    lastuse_steps_free(seen.steps);
}

static bool uses_placement(const int * devices, size_t n_items, size_t * sizes, size_t n_devices, void * user_data) {
    struct seen *                   seen   = user_data;
    struct lastuse_offload_device device = { .struct_size = sizeof(device) };
    struct lastuse_offload_item   item   = { .struct_size = sizeof(item), .name = "other", .bytes = 1 };
    CHECK(n_items == 1 && devices[0] == 0 && n_devices == 1, "%zu items on %zu devices", n_items, n_devices);
    sizes[0] = 64;
    FAILS_WITH_MINUS_1(lastuse_offload_add_device, seen->placement, &device);
    FAILS_WITH_MINUS_1(lastuse_offload_add_item, seen->placement, &item);
    FAILS_WITH_MINUS_1(lastuse_offload_add_graph, seen->placement, a_graph());
    FAILS_WITH_FALSE(lastuse_offload_solve, seen->placement);
    struct lastuse_offload_place place = { .struct_size = sizeof(place) };
    FAILS_WITH_FALSE(lastuse_offload_item_report, seen->placement, 0, &place); // nothing is placed yet
    FAILS(lastuse_offload_free, bool, (lastuse_offload_free(seen->placement), true), result);
    seen->calls++;
    return true;
}

CASE(a_placement_is_used_in_callbacks) {
    struct seen                     seen   = { 0 };
    struct lastuse_offload_params params = { .struct_size = sizeof(params), .callback = uses_placement };
    struct lastuse_offload_device host   = { .struct_size = sizeof(host), .budget = 1000 };
    struct lastuse_offload_item   item   = { .struct_size = sizeof(item), .name = "one", .bytes = 100 };
    struct lastuse_offload_memory memory = { .struct_size = sizeof(memory) };
    params.user_data                       = &seen;
    seen.placement                         = lastuse_offload_new(&params);
    CHECK(lastuse_offload_add_device(seen.placement, &host) == 0, "%s", lastuse_last_error());
    CHECK(lastuse_offload_add_item(seen.placement, &item) == 0, "%s", lastuse_last_error());
    CHECK(lastuse_offload_solve(seen.placement) && seen.calls > 0, "%s", lastuse_last_error());
    CHECK(lastuse_offload_device_report(seen.placement, 0, &memory) && memory.compute_size == 64, "another size");
    lastuse_offload_free(seen.placement);
}

FAILING(lastuse_steps_new) {
    struct lastuse_steps_params params = { .struct_size = sizeof(params) };
    FAILS_WITH_NULL(lastuse_steps_new, a_graph(), &params);
}

FAILING(lastuse_steps_report) {
    struct lastuse_step_report report = { .struct_size = sizeof(report) };
    FAILS_WITH_FALSE(lastuse_steps_report, stopped_steps(), 2, &report);
}

FAILING(lastuse_tensor_dedicate) {
    struct ggml_tallocr talloc = ggml_tallocr_new(a_buffer());
    FAILS_WITH_NULL(lastuse_tensor_dedicate, a_context(), a_tensor(a_context()), &talloc);
}

FAILING(lastuse_tensor_release) {
    FAILS_WITH_FALSE(lastuse_tensor_release, an_allocator(), a_tensor(a_context()));
}

FAILING(lastuse_tensor_retain) {
    struct ggml_tensor * t = a_tensor(a_context());
    FAILS_WITH_FALSE(lastuse_tensor_retain, an_allocator(), t, t);
}

FAILING(lastuse_tensor_set_output) {
    struct ggml_tensor * t = a_tensor(a_context());
    FAILS_WITH_NULL(lastuse_tensor_set_output, t, t);
}

// Functions that fail only where ggml's own allocator does the work. It is run with LASTUSE=off.
CASE(functions_of_a_process_without_lastuse_fail) {
    ggml_gallocr_t          galloc = an_allocator();
    struct lastuse_stats    stats  = { .struct_size = sizeof(stats) };
    struct ggml_tensor *    t      = a_tensor(a_context());
    FAILS_WITH_FALSE(lastuse_stats_report, &stats);
    FAILS_WITH_FALSE(lastuse_tensor_retain, galloc, t, NULL);
    FAILS_WITH_FALSE(lastuse_graph_reorder, a_graph(), NULL, NULL);
    FAILS_WITH_FALSE(lastuse_graph_dump_begin, a_graph());
    struct lastuse_gallocr_sizes sizes = { .struct_size = sizeof(sizes) };
    FAILS_WITH_FALSE(lastuse_gallocr_report, galloc, 0, &sizes);
    FAILS_WITH_FALSE(lastuse_gallocr_set, galloc, "effort", "1");
    FAILS_WITH_FALSE(lastuse_gallocr_trim, galloc);
    FAILS_WITH_NULL(lastuse_sched_allocator, a_scheduler());
    FAILS_WITH_NULL(lastuse_arena_new, ggml_backend_cpu_buffer_type());
    FAILS_WITH_FALSE(lastuse_set, "effort", "1");
    FAILS_WITH_FALSE(ggml_gallocr_reserve, ggml_gallocr_new(a_full_type()), a_graph());
    struct lastuse_tiling_params    tiling = { .struct_size = sizeof(tiling), .budget = 1 };
    struct lastuse_tiling_report    tiled  = { .struct_size = sizeof(tiled), .size_after = 1 };
    struct lastuse_recompute_params params = { .struct_size = sizeof(params), .budget = 1 };
    struct lastuse_recompute_report report = { .struct_size = sizeof(report), .size_after = 1 };
    FAILS_WITH_FALSE(lastuse_graph_tile, a_context(), a_graph(), &tiling, &tiled);
    FAILS_WITH_FALSE(lastuse_graph_recompute, a_context(), a_graph(), &params, &report);
    CHECK(tiled.size_after == 0 && report.size_after == 0, "a report has what it had before");
}
