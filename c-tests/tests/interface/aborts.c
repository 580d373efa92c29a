// Mistakes that no return value can report: they end the program in ggml_abort(), with a message that names the wrong
// argument.
//
//   aborts <case> [lastuse|upstream]
//
// prints the message and exits with 43 when the program was aborted with a message that names the argument, with 44
// when the message does not name it, and with 1 when it was not aborted. Without a case it lists all, and with
// "upstream" alone those that ggml's own allocator checks too.

#include "check.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "lastuse.h"
#include "reports.h"
#include "upstream.h"

struct mistake {
    const char * name;
    const char * word; // that the message must contain
    bool         is_checked_upstream;
    void (*make)(const struct allocator_api * api);
    struct mistake * next;
};

static struct mistake *       mistakes;
static const struct mistake * made;

// A mistake that is made by a statement, on an allocator with the functions of `api`, and listed before main() runs.
#define LISTED_MISTAKE(name, word, is_checked_upstream, ...)                                \
    static void name(const struct allocator_api * api __attribute__((unused))) {            \
        __VA_ARGS__;                                                                        \
    }                                                                                       \
    __attribute__((constructor)) static void name##_is_listed(void) {                       \
        static struct mistake listed = { #name, word, is_checked_upstream, name, NULL };    \
        listed.next                  = mistakes;                                            \
        mistakes                     = &listed;                                             \
    }

#define MISTAKE(name, word, ...)         LISTED_MISTAKE(name, word, false, __VA_ARGS__)
#define MISTAKE_ON_BOTH(name, word, ...) LISTED_MISTAKE(name, word, true, __VA_ARGS__)

// Valid arguments

static ggml_backend_buffer_type_t a_type(void) {
    static struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", 64, 0);
    return dummy_buft_type(&dummy);
}

static ggml_gallocr_t an_allocator(const struct allocator_api * api) {
    return api->new(a_type());
}

static struct ggml_context * a_context(bool no_alloc) {
    struct ggml_init_params params  = { .mem_size = 1024 * 1024, .mem_buffer = NULL, .no_alloc = no_alloc };
    struct ggml_context *   context = ggml_init(params);
    ggml_new_tensor_1d(context, GGML_TYPE_F32, 1000);
    return context;
}

static struct ggml_tensor * a_tensor(void) {
    return ggml_get_first_tensor(a_context(true));
}

// One leaf and two nodes.
static struct ggml_cgraph * a_graph(void) {
    struct ggml_context * context = a_context(true);
    struct ggml_cgraph *  graph   = ggml_new_graph(context);
    ggml_build_forward_expand(graph, ggml_sqr(context, ggml_sqr(context, ggml_get_first_tensor(context))));
    return graph;
}

static struct ggml_tallocr a_talloc(void) {
    return ggml_tallocr_new(ggml_backend_buft_alloc_buffer(a_type(), 64));
}

static struct lastuse_offload * an_offload(void) {
    return lastuse_offload_new(NULL);
}

// Parameters with a size, and some more.
#define SIZED(type, ...) (&(struct type){ .struct_size = sizeof(struct type), __VA_ARGS__ })

#define TILING(...) SIZED(lastuse_tiling_params, __VA_ARGS__)
#define STEPS(...)  SIZED(lastuse_steps_params, .backend = ggml_backend_cpu_init(), __VA_ARGS__)

static struct lastuse_steps * some_steps(void) {
    return lastuse_steps_new(a_graph(), STEPS(.n_steps = 2));
}

// Buffers of tensors

static void reserve_with_ids(const struct allocator_api * api, int node_id, int leaf_id) {
    api->reserve_n(an_allocator(api), a_graph(), (int[]){ 0, node_id }, (int[]){ leaf_id });
}

// Of a node that is not computed in place of anything.
static void reserve_with_negative_id(const struct allocator_api * api) {
    struct ggml_context * context = a_context(true);
    struct ggml_cgraph *  graph   = ggml_new_graph(context);
    struct ggml_tensor *  source  = ggml_get_first_tensor(context);
    ggml_build_forward_expand(graph, ggml_concat(context, source, source, 0));
    api->reserve_n(an_allocator(api), graph, (int[]){ -1 }, (int[]){ 0 });
}

MISTAKE_ON_BOTH(negative_node_id, "buffer_id", reserve_with_negative_id(api))
MISTAKE_ON_BOTH(negative_leaf_id, "buffer_id", reserve_with_ids(api, 0, -1))
MISTAKE(too_large_node_id, "buffer_id", reserve_with_ids(api, 1, 0))
MISTAKE(too_large_leaf_id, "buffer_id", reserve_with_ids(api, 0, 1))
MISTAKE_ON_BOTH(size_of_negative_id, "buffer_id", api->get_buffer_size(an_allocator(api), -1))
MISTAKE_ON_BOTH(size_of_too_large_id, "buffer_id", api->get_buffer_size(an_allocator(api), 1))
MISTAKE(lower_bound_of_too_large_id, "buffer_id", lower_bound_of(an_allocator(api), 1))
MISTAKE(wanted_size_of_negative_id, "buffer_id", plan_size_of(an_allocator(api), -1))

// Memory for tensors without a graph

// Calls a function of lastuse, or ggml's own.
#define CALL(function, ...) (void) (api == &lastuse_api ? function(__VA_ARGS__) : upstream_##function(__VA_ARGS__))

static void overflow(const struct allocator_api * api) {
    ggml_backend_buffer_t buffer  = ggml_backend_buft_alloc_buffer(a_type(), 1024);
    bool                  ours    = api == &lastuse_api;
    struct ggml_tallocr   tallocr = ours ? ggml_tallocr_new(buffer) : upstream_ggml_tallocr_new(buffer);
    CALL(ggml_tallocr_alloc, &tallocr, a_tensor());
}

MISTAKE_ON_BOTH(tallocr_overflow, "not enough space in the buffer", overflow(api))
MISTAKE_ON_BOTH(context_with_memory, "no_alloc",
                CALL(ggml_backend_alloc_ctx_tensors_from_buft, a_context(false), a_type()))
MISTAKE_ON_BOTH(context_with_memory_measured, "no_alloc",
                CALL(ggml_backend_alloc_ctx_tensors_from_buft_size, a_context(false), a_type()))
MISTAKE_ON_BOTH(context_with_memory_on_backend, "no_alloc",
                CALL(ggml_backend_alloc_ctx_tensors, a_context(false), ggml_backend_cpu_init()))

// Allocators. The words are the names of parameters in ggml-alloc.h and lastuse.h, or name the element.

static void make(const struct allocator_api * api, ggml_backend_buffer_type_t first, ggml_backend_buffer_type_t second,
                 int count) {
    api->new_n((ggml_backend_buffer_type_t[]){ first, second }, count);
}

MISTAKE(null_type, "buffer type", api->new(NULL))
MISTAKE(null_types, "bufts", api->new_n(NULL, 2))
MISTAKE(null_among_types, "buffer type 1", make(api, a_type(), NULL, 2))
MISTAKE(no_types, "n_bufs", make(api, a_type(), NULL, 0))
MISTAKE(negative_number_of_types, "n_bufs", make(api, a_type(), NULL, -1))
MISTAKE(null_galloc_reserve, "galloc", api->reserve(NULL, a_graph()))
MISTAKE(null_galloc_reserve_n, "galloc", api->reserve_n(NULL, a_graph(), NULL, NULL))
MISTAKE(null_galloc_measure, "galloc", api->reserve_n_size(NULL, a_graph(), NULL, NULL, &(size_t){ 0 }))
MISTAKE(null_galloc_alloc, "galloc", api->alloc_graph(NULL, a_graph()))
MISTAKE(null_galloc_size, "galloc", api->get_buffer_size(NULL, 0))
MISTAKE(null_galloc_lower_bound, "galloc", lower_bound_of(NULL, 0))
MISTAKE(null_graph_reserve, "graph", api->reserve(an_allocator(api), NULL))
MISTAKE(null_graph_reserve_n, "graph", api->reserve_n(an_allocator(api), NULL, NULL, NULL))
MISTAKE(null_graph_measure, "graph", api->reserve_n_size(an_allocator(api), NULL, NULL, NULL, &(size_t){ 0 }))
MISTAKE(null_graph_alloc, "graph", api->alloc_graph(an_allocator(api), NULL))
MISTAKE(null_sizes, "sizes", api->reserve_n_size(an_allocator(api), a_graph(), NULL, NULL, NULL))

// Settings and reports

MISTAKE(null_galloc_to_set, "galloc", lastuse_gallocr_set(NULL, "rules", "all"))
MISTAKE(null_name_of_galloc, "name is NULL", lastuse_gallocr_set(an_allocator(api), NULL, "all"))
MISTAKE(null_name_of_process, "name is NULL", lastuse_set(NULL, "all"))
MISTAKE(null_report_of_galloc, "report is NULL", lastuse_gallocr_report(an_allocator(api), 0, NULL))
MISTAKE(null_report_of_process, "report is NULL", lastuse_stats_report(NULL))
MISTAKE(null_buffer_to_note, "buffer is NULL", lastuse_buffer_note(NULL, 0, false))
MISTAKE(null_buffer_to_note_free, "buffer is NULL", lastuse_buffer_note_free(NULL))
MISTAKE(null_graph_dump_begin, "graph", lastuse_graph_dump_begin(NULL))
MISTAKE(null_graph_dump, "graph", lastuse_graph_dump(NULL, NULL))

// Tensors

MISTAKE(null_allocator_to_retain, "galloc is NULL", lastuse_tensor_retain(NULL, ggml_graph_node(a_graph(), 0), NULL))
MISTAKE(null_tensor_to_retain, "t is NULL", lastuse_tensor_retain(an_allocator(api), NULL, NULL))
MISTAKE(null_tensor_to_retain_until, "t is NULL",
        lastuse_tensor_retain(an_allocator(api), NULL, ggml_graph_node(a_graph(), 0)))
MISTAKE(null_tensor_to_release, "t is NULL", lastuse_tensor_release(an_allocator(api), NULL))
MISTAKE(null_context_of_dependency, "ctx", ggml_dependency(NULL, a_tensor(), a_tensor()))
MISTAKE(null_tensor_of_dependency, "a is NULL", ggml_dependency(a_context(true), NULL, a_tensor()))
MISTAKE(null_tensor_before_dependency, "b is NULL", ggml_dependency(a_context(true), a_tensor(), NULL))
MISTAKE(null_result, "t is NULL", ggml_set_output(NULL, a_tensor()))
MISTAKE(null_place_of_result, "dst is NULL", ggml_set_output(a_tensor(), NULL))
MISTAKE(null_tensor_to_dedicate, "t is NULL",
        struct ggml_tallocr talloc = a_talloc(); lastuse_tensor_dedicate(a_context(true), NULL, &talloc))
MISTAKE(null_context_to_dedicate_in, "ctx is NULL",
        struct ggml_tallocr talloc = a_talloc(); lastuse_tensor_dedicate(NULL, a_tensor(), &talloc))
MISTAKE(null_talloc_to_dedicate_with, "talloc is NULL", lastuse_tensor_dedicate(a_context(true), a_tensor(), NULL))
MISTAKE(null_buffer_to_dedicate_in, "talloc->buffer is NULL",
        lastuse_tensor_dedicate(a_context(true), a_tensor(), &(struct ggml_tallocr){ 0 }))

// Passes

MISTAKE(null_graph_reorder, "graph", is_reordered(NULL, a_type(), 0, NULL))
MISTAKE(reorder_report_without_size, "struct_size",
        is_reordered(a_graph(), NULL, 0, &(struct lastuse_reorder_report){ 0 }))
MISTAKE(null_context_of_tile, "ctx", lastuse_graph_tile(NULL, a_graph(), TILING(), NULL))
MISTAKE(null_graph_to_tile, "graph", lastuse_graph_tile(a_context(true), NULL, TILING(), NULL))
MISTAKE(null_params_of_tile, "params", lastuse_graph_tile(a_context(true), a_graph(), NULL, NULL))
MISTAKE(tiling_params_without_size, "params->struct_size",
        lastuse_graph_tile(a_context(true), a_graph(), &(struct lastuse_tiling_params){ 0 }, NULL))
MISTAKE(tiling_report_without_size, "report->struct_size",
        lastuse_graph_tile(a_context(true), a_graph(), TILING(), &(struct lastuse_tiling_report){ 0 }))
MISTAKE(null_among_retained_of_tile, "params->retained[0]",
        lastuse_graph_tile(a_context(true), a_graph(),
                           TILING(.retained = &(struct ggml_tensor *){ NULL }, .n_retained = 1), NULL))
MISTAKE(null_graph_remove_copies, "graph", copies_removed(NULL, NULL, NULL))
MISTAKE(copies_report_without_size, "struct_size",
        copies_removed(a_graph(), NULL, &(struct lastuse_copies_report){ 0 }))

// Steps

MISTAKE(null_graph_in_steps, "graph is NULL", lastuse_steps_new(NULL, STEPS(.n_steps = 2)))
MISTAKE(null_params_of_steps, "params is NULL", lastuse_steps_new(a_graph(), NULL))
MISTAKE(steps_params_without_size, "params->struct_size",
        lastuse_steps_new(a_graph(), &(struct lastuse_steps_params){ .struct_size = 8 })) // none but the size itself
MISTAKE(null_cuts_of_steps, "params->cuts is NULL", lastuse_steps_new(a_graph(), STEPS(.n_cuts = 1)))
MISTAKE(null_among_cuts_of_steps, "params->cuts[0] is NULL",
        lastuse_steps_new(a_graph(), STEPS(.n_cuts = 1, .cuts = &(struct ggml_tensor *){ NULL })))
MISTAKE(null_steps_to_compute, "steps is NULL", lastuse_steps_compute(NULL))
MISTAKE(null_steps_to_report, "steps is NULL", lastuse_steps_report(NULL, 0, &(struct lastuse_step_report){ 0 }))
MISTAKE(null_report_of_a_step, "report is NULL", lastuse_steps_report(some_steps(), 0, NULL))
MISTAKE(step_report_without_size, "report->struct_size",
        lastuse_steps_report(some_steps(), 0, &(struct lastuse_step_report){ 0 }))

// Offload

MISTAKE(offload_params_without_size, "params->struct_size", lastuse_offload_new(&(struct lastuse_offload_params){ 0 }))
MISTAKE(null_offload_to_solve, "offload is NULL", lastuse_offload_solve(NULL))
MISTAKE(null_device_to_add, "device is NULL", lastuse_offload_add_device(an_offload(), NULL))
MISTAKE(device_without_size, "device->struct_size",
        lastuse_offload_add_device(an_offload(), &(struct lastuse_offload_device){ 0 }))
MISTAKE(null_item_to_add, "item is NULL", lastuse_offload_add_item(an_offload(), NULL))
MISTAKE(null_benefits_of_rows, "item->row_benefits is NULL",
        lastuse_offload_add_item(an_offload(), SIZED(lastuse_offload_item, .name = "rows", .bytes = 64, .n_rows = 4,
                                                     .row_bytes = 16)))
MISTAKE(null_graph_to_place, "graph is NULL", lastuse_offload_add_graph(an_offload(), NULL))
MISTAKE(null_memory_of_a_device, "report is NULL", lastuse_offload_device_report(an_offload(), 0, NULL))
MISTAKE(null_offload_of_an_item, "offload is NULL", device_of_item(NULL, 0))
MISTAKE(null_place_of_an_item, "report is NULL", lastuse_offload_item_report(an_offload(), 0, NULL))
MISTAKE(null_offload_of_buffer_ids, "offload is NULL", lastuse_offload_buffer_ids(NULL, 0, NULL, NULL))
MISTAKE(null_scheduler_to_apply_to, "sched is NULL", lastuse_offload_apply(an_offload(), 0, NULL))

// Verification

MISTAKE(null_graph_verify, "graph", lastuse_graph_verify(NULL))
MISTAKE(guard_params_without_size, "params->struct_size", lastuse_guard_new(&(struct lastuse_guard_params){ 0 }))
MISTAKE(null_tensor_of_guard, "t is NULL", lastuse_guard_eval(NULL, true, lastuse_guard_new(NULL)))
MISTAKE(null_guard, "guard is NULL", lastuse_guard_eval(a_tensor(), true, NULL))
MISTAKE(null_backend_compute_guarded, "backend", lastuse_graph_compute_guarded(NULL, a_graph()))
MISTAKE(null_graph_compute_guarded, "graph", lastuse_graph_compute_guarded(ggml_backend_cpu_init(), NULL))

static void print_and_exit(const char * message) {
    bool names_it = strstr(message, made->word) != NULL;
    printf("%s\n", message);
    if (!names_it) {
        printf("the message does not contain \"%s\"\n", made->word);
    }
    fflush(stdout);
    _Exit(names_it ? 43 : 44); // not exit(): leaks do not matter here
}

int main(int argc, char ** argv) {
    bool upstream = argc > 1 && strcmp(argv[argc - 1], "upstream") == 0;
    bool lists    = argc == 1 || (argc == 2 && upstream);
    for (const struct mistake * it = mistakes; it != NULL; it = it->next) {
        if (upstream && !it->is_checked_upstream) {
            continue;
        }
        if (lists) {
            printf("%s\n", it->name);
        } else if (strcmp(it->name, argv[1]) == 0) {
            made = it;
        }
    }
    if (lists) {
        return 2;
    }
    CHECK(made != NULL, "unknown case %s", argv[1]);
    ggml_set_abort_callback(print_and_exit);
    made->make(upstream ? &upstream_api : &lastuse_api);
    printf("%s did not end the program\n", made->name);
    return 1;
}
