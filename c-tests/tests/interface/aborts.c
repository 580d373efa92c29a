// Mistakes that no return value can report: they end the program in ggml_abort(), with a message that names the wrong
// argument.
//
//   aborts <case> [lastuse|upstream]
//
// prints the message and exits with 43 when the program was aborted with a message that names the argument, with 44
// when the message does not name it, and with 1 when it was not aborted. Upstream checks only what the first table
// lists.

#include "check.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "lastuse.h"
#include "reports.h"
#include "upstream.h"

struct abort_case {
    const char * name;
    const char * word; // that the message must contain
    void (*run)(const struct allocator_api * api);
};

#define MISTAKE(function, word) { #function, word, function }

static const struct abort_case * running;

static void print_and_exit(const char * message) {
    bool names_it = strstr(message, running->word) != NULL;
    printf("%s\n", message);
    if (!names_it) {
        printf("the message does not contain \"%s\"\n", running->word);
    }
    fflush(stdout);
    _Exit(names_it ? 43 : 44); // not exit(): leaks do not matter here
}

// Valid arguments

static struct dummy_buft * a_dummy(void) {
    static struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", 64, 0);
    return &dummy;
}

static ggml_gallocr_t an_allocator(const struct allocator_api * api) {
    return api->new(dummy_buft_type(a_dummy()));
}

static struct ggml_context * a_context(bool no_alloc) {
    struct ggml_init_params params  = { .mem_size = 1024 * 1024, .mem_buffer = NULL, .no_alloc = no_alloc };
    struct ggml_context *   context = ggml_init(params);
    ggml_new_tensor_1d(context, GGML_TYPE_F32, 1000);
    return context;
}

// One leaf and two nodes.
static struct ggml_cgraph * a_graph(void) {
    struct ggml_context * context = a_context(true);
    struct ggml_cgraph *  graph   = ggml_new_graph(context);
    ggml_build_forward_expand(graph, ggml_sqr(context, ggml_sqr(context, ggml_get_first_tensor(context))));
    return graph;
}

static void reserve_with_ids(const struct allocator_api * api, int node_id, int leaf_id) {
    int node_ids[2] = { 0, node_id };
    int leaf_ids[1] = { leaf_id };
    api->reserve_n(an_allocator(api), a_graph(), node_ids, leaf_ids);
}

// Both

static void negative_node_id(const struct allocator_api * api) {
    struct ggml_context * context = a_context(true);
    struct ggml_cgraph *  graph   = ggml_new_graph(context);
    struct ggml_tensor *  source  = ggml_get_first_tensor(context);
    ggml_build_forward_expand(graph, ggml_concat(context, source, source, 0)); // not in place of anything
    int node_ids[1] = { -1 };
    int leaf_ids[1] = { 0 };
    api->reserve_n(an_allocator(api), graph, node_ids, leaf_ids);
}

static void negative_leaf_id(const struct allocator_api * api) {
    reserve_with_ids(api, 0, -1);
}

static void size_of_negative_id(const struct allocator_api * api) {
    api->get_buffer_size(an_allocator(api), -1);
}

static void size_of_too_large_id(const struct allocator_api * api) {
    api->get_buffer_size(an_allocator(api), 1);
}

static void tallocr_overflow(const struct allocator_api * api) {
    ggml_backend_buffer_t buffer  = ggml_backend_buft_alloc_buffer(dummy_buft_type(a_dummy()), 1024);
    struct ggml_tensor *  tensor  = ggml_get_first_tensor(a_context(true));
    bool                  ours    = api == &lastuse_api;
    struct ggml_tallocr   tallocr = ours ? ggml_tallocr_new(buffer) : upstream_ggml_tallocr_new(buffer);
    if (ours) {
        ggml_tallocr_alloc(&tallocr, tensor);
    } else {
        upstream_ggml_tallocr_alloc(&tallocr, tensor);
    }
}

static void context_with_memory(const struct allocator_api * api) {
    struct ggml_context *      context = a_context(false);
    ggml_backend_buffer_type_t type    = dummy_buft_type(a_dummy());
    if (api == &lastuse_api) {
        ggml_backend_alloc_ctx_tensors_from_buft(context, type);
    } else {
        upstream_ggml_backend_alloc_ctx_tensors_from_buft(context, type);
    }
}

static void context_with_memory_measured(const struct allocator_api * api) {
    struct ggml_context *      context = a_context(false);
    ggml_backend_buffer_type_t type    = dummy_buft_type(a_dummy());
    if (api == &lastuse_api) {
        ggml_backend_alloc_ctx_tensors_from_buft_size(context, type);
    } else {
        upstream_ggml_backend_alloc_ctx_tensors_from_buft_size(context, type);
    }
}

static void context_with_memory_on_backend(const struct allocator_api * api) {
    struct ggml_context * context = a_context(false);
    ggml_backend_t        backend = ggml_backend_cpu_init();
    if (api == &lastuse_api) {
        ggml_backend_alloc_ctx_tensors(context, backend);
    } else {
        upstream_ggml_backend_alloc_ctx_tensors(context, backend);
    }
}

static const struct abort_case both_cases[] = {
    MISTAKE(negative_node_id, "buffer_id"),
    MISTAKE(negative_leaf_id, "buffer_id"),
    MISTAKE(size_of_negative_id, "buffer_id"),
    MISTAKE(size_of_too_large_id, "buffer_id"),
    MISTAKE(tallocr_overflow, "not enough space in the buffer"),
    MISTAKE(context_with_memory, "no_alloc"),
    MISTAKE(context_with_memory_measured, "no_alloc"),
    MISTAKE(context_with_memory_on_backend, "no_alloc"),
};

// lastuse only

static void too_large_node_id(const struct allocator_api * api) {
    reserve_with_ids(api, 1, 0);
}

static void too_large_leaf_id(const struct allocator_api * api) {
    reserve_with_ids(api, 0, 1);
}

static void null_galloc_reserve(const struct allocator_api * api) {
    api->reserve(NULL, a_graph());
}

static void null_galloc_reserve_n(const struct allocator_api * api) {
    api->reserve_n(NULL, a_graph(), NULL, NULL);
}

static void null_galloc_measure(const struct allocator_api * api) {
    size_t size = 0;
    api->reserve_n_size(NULL, a_graph(), NULL, NULL, &size);
}

static void null_galloc_alloc(const struct allocator_api * api) {
    api->alloc_graph(NULL, a_graph());
}

static void null_galloc_size(const struct allocator_api * api) {
    api->get_buffer_size(NULL, 0);
}

static void null_galloc_lower_bound(const struct allocator_api * api) {
    (void) api;
    lower_bound_of(NULL, 0);
}

static void null_report_of_galloc(const struct allocator_api * api) {
    lastuse_gallocr_report(an_allocator(api), 0, NULL);
}

static void null_galloc_to_set(const struct allocator_api * api) {
    (void) api;
    lastuse_gallocr_set(NULL, "rules", "all");
}

static void null_name_of_galloc(const struct allocator_api * api) {
    lastuse_gallocr_set(an_allocator(api), NULL, "all");
}

static void null_name_of_process(const struct allocator_api * api) {
    (void) api;
    lastuse_set(NULL, "all");
}

static void null_report_of_process(const struct allocator_api * api) {
    (void) api;
    lastuse_stats_report(NULL);
}

static void lower_bound_of_too_large_id(const struct allocator_api * api) {
    lower_bound_of(an_allocator(api), 1);
}

static void wanted_size_of_negative_id(const struct allocator_api * api) {
    plan_size_of(an_allocator(api), -1);
}

static void null_graph_reserve(const struct allocator_api * api) {
    api->reserve(an_allocator(api), NULL);
}

static void null_graph_reserve_n(const struct allocator_api * api) {
    api->reserve_n(an_allocator(api), NULL, NULL, NULL);
}

static void null_graph_measure(const struct allocator_api * api) {
    size_t size = 0;
    api->reserve_n_size(an_allocator(api), NULL, NULL, NULL, &size);
}

static void null_graph_alloc(const struct allocator_api * api) {
    api->alloc_graph(an_allocator(api), NULL);
}

static void null_allocator_to_retain(const struct allocator_api * api) {
    (void) api;
    lastuse_tensor_retain(NULL, ggml_graph_node(a_graph(), 0), NULL);
}

static void null_tensor_to_retain(const struct allocator_api * api) {
    lastuse_tensor_retain(an_allocator(api), NULL, NULL);
}

static void null_tensor_to_retain_until(const struct allocator_api * api) {
    lastuse_tensor_retain(an_allocator(api), NULL, ggml_graph_node(a_graph(), 0));
}

static void null_tensor_to_release(const struct allocator_api * api) {
    lastuse_tensor_release(an_allocator(api), NULL);
}

static void null_sizes(const struct allocator_api * api) {
    api->reserve_n_size(an_allocator(api), a_graph(), NULL, NULL, NULL);
}

static void null_type(const struct allocator_api * api) {
    api->new(NULL);
}

static void null_types(const struct allocator_api * api) {
    api->new_n(NULL, 2);
}

static void null_among_types(const struct allocator_api * api) {
    ggml_backend_buffer_type_t types[2] = { dummy_buft_type(a_dummy()), NULL };
    api->new_n(types, 2);
}

static void no_types(const struct allocator_api * api) {
    ggml_backend_buffer_type_t types[1] = { dummy_buft_type(a_dummy()) };
    api->new_n(types, 0);
}

static void negative_number_of_types(const struct allocator_api * api) {
    ggml_backend_buffer_type_t types[1] = { dummy_buft_type(a_dummy()) };
    api->new_n(types, -1);
}

static void null_graph_reorder(const struct allocator_api * api) {
    (void) api;
    is_reordered(NULL, dummy_buft_type(a_dummy()), 0, NULL);
}

static void reorder_report_without_size(const struct allocator_api * api) {
    (void) api;
    struct lastuse_reorder_report report = { 0 };
    is_reordered(a_graph(), NULL, 0, &report);
}

static struct lastuse_tiling_params tiling_params(void) {
    return (struct lastuse_tiling_params){ .struct_size = sizeof(struct lastuse_tiling_params) };
}

static void null_context_of_tile(const struct allocator_api * api) {
    (void) api;
    struct lastuse_tiling_params params = tiling_params();
    lastuse_graph_tile(NULL, a_graph(), &params, NULL);
}

static void null_graph_to_split(const struct allocator_api * api) {
    (void) api;
    struct lastuse_tiling_params params = tiling_params();
    lastuse_graph_tile(a_context(true), NULL, &params, NULL);
}

static void null_params_of_tile(const struct allocator_api * api) {
    (void) api;
    lastuse_graph_tile(a_context(true), a_graph(), NULL, NULL);
}

static void tiling_params_without_size(const struct allocator_api * api) {
    (void) api;
    struct lastuse_tiling_params params = tiling_params();
    params.struct_size                 = 0;
    lastuse_graph_tile(a_context(true), a_graph(), &params, NULL);
}

static void tiling_report_without_size(const struct allocator_api * api) {
    (void) api;
    struct lastuse_tiling_params params = tiling_params();
    struct lastuse_tiling_report report = { 0 };
    lastuse_graph_tile(a_context(true), a_graph(), &params, &report);
}

static void null_among_retained_of_tile(const struct allocator_api * api) {
    (void) api;
    struct lastuse_tiling_params params   = tiling_params();
    struct ggml_tensor *        retained = NULL;
    params.retained                      = &retained;
    params.n_retained                    = 1;
    lastuse_graph_tile(a_context(true), a_graph(), &params, NULL);
}

static struct ggml_tensor * a_tensor(void) {
    return ggml_get_first_tensor(a_context(true));
}

static void null_context_of_dependency(const struct allocator_api * api) {
    (void) api;
    ggml_dependency(NULL, a_tensor(), a_tensor());
}

static void null_tensor_of_dependency(const struct allocator_api * api) {
    (void) api;
    ggml_dependency(a_context(true), NULL, a_tensor());
}

static void null_tensor_before_dependency(const struct allocator_api * api) {
    (void) api;
    ggml_dependency(a_context(true), a_tensor(), NULL);
}

static void null_result(const struct allocator_api * api) {
    (void) api;
    ggml_set_output(NULL, a_tensor());
}

static void null_place_of_result(const struct allocator_api * api) {
    (void) api;
    ggml_set_output(a_tensor(), NULL);
}

static void null_tensor_to_dedicate(const struct allocator_api * api) {
    (void) api;
    struct ggml_tallocr talloc = ggml_tallocr_new(ggml_backend_buft_alloc_buffer(dummy_buft_type(a_dummy()), 64));
    lastuse_tensor_dedicate(no_alloc_context(1u << 16), NULL, &talloc);
}

static void null_talloc_to_dedicate_with(const struct allocator_api * api) {
    (void) api;
    lastuse_tensor_dedicate(no_alloc_context(1u << 16), a_tensor(), NULL);
}

static void null_buffer_to_dedicate_in(const struct allocator_api * api) {
    (void) api;
    struct ggml_tallocr talloc = { 0 };
    lastuse_tensor_dedicate(no_alloc_context(1u << 16), a_tensor(), &talloc);
}

static void null_context_to_dedicate_in(const struct allocator_api * api) {
    (void) api;
    struct ggml_tallocr talloc = ggml_tallocr_new(ggml_backend_buft_alloc_buffer(dummy_buft_type(a_dummy()), 64));
    lastuse_tensor_dedicate(NULL, a_tensor(), &talloc);
}

static struct lastuse_steps_params steps_params(void) {
    struct lastuse_steps_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    params.backend     = ggml_backend_cpu_init();
    params.n_steps     = 2;
    return params;
}

static struct lastuse_steps * some_steps(void) {
    struct lastuse_steps_params params = steps_params();
    return lastuse_steps_new(a_graph(), &params);
}

static void null_graph_in_steps(const struct allocator_api * api) {
    (void) api;
    struct lastuse_steps_params params = steps_params();
    lastuse_steps_new(NULL, &params);
}

static void null_params_of_steps(const struct allocator_api * api) {
    (void) api;
    lastuse_steps_new(a_graph(), NULL);
}

static void steps_params_without_size(const struct allocator_api * api) {
    (void) api;
    struct lastuse_steps_params params = steps_params();
    params.struct_size                 = 8; // none but the size itself
    lastuse_steps_new(a_graph(), &params);
}

static void null_cuts_of_steps(const struct allocator_api * api) {
    (void) api;
    struct lastuse_steps_params params = steps_params();
    params.n_steps                     = 0;
    params.n_cuts                      = 1;
    lastuse_steps_new(a_graph(), &params);
}

static void null_among_cuts_of_steps(const struct allocator_api * api) {
    (void) api;
    struct ggml_tensor *        cut    = NULL;
    struct lastuse_steps_params params = steps_params();
    params.n_steps                     = 0;
    params.n_cuts                      = 1;
    params.cuts                        = &cut;
    lastuse_steps_new(a_graph(), &params);
}

static void null_steps_to_compute(const struct allocator_api * api) {
    (void) api;
    lastuse_steps_compute(NULL);
}

static void null_steps_to_report(const struct allocator_api * api) {
    (void) api;
    lastuse_steps_report(NULL, 0, &(struct lastuse_step_report){ 0 });
}

static void null_report_of_a_step(const struct allocator_api * api) {
    (void) api;
    lastuse_steps_report(some_steps(), 0, NULL);
}

static void step_report_without_size(const struct allocator_api * api) {
    (void) api;
    lastuse_steps_report(some_steps(), 0, &(struct lastuse_step_report){ 0 });
}

static struct lastuse_offload * a_placement(void) {
    return lastuse_offload_new(NULL);
}

static void placement_params_without_size(const struct allocator_api * api) {
    (void) api;
    struct lastuse_offload_params params = { 0 };
    lastuse_offload_new(&params);
}

static void null_placement_to_solve(const struct allocator_api * api) {
    (void) api;
    lastuse_offload_solve(NULL);
}

static void null_device_to_add(const struct allocator_api * api) {
    (void) api;
    lastuse_offload_add_device(a_placement(), NULL);
}

static void device_without_size(const struct allocator_api * api) {
    (void) api;
    struct lastuse_offload_device device = { 0 };
    lastuse_offload_add_device(a_placement(), &device);
}

static void null_item_to_add(const struct allocator_api * api) {
    (void) api;
    lastuse_offload_add_item(a_placement(), NULL);
}

static void null_benefits_of_rows(const struct allocator_api * api) {
    (void) api;
    struct lastuse_offload_item item = { 0 };
    item.struct_size                   = sizeof(item);
    item.name                          = "rows";
    item.bytes                         = 64;
    item.n_rows                        = 4;
    item.row_bytes                     = 16;
    lastuse_offload_add_item(a_placement(), &item);
}

static void null_graph_to_place(const struct allocator_api * api) {
    (void) api;
    lastuse_offload_add_graph(a_placement(), NULL);
}

static void null_memory_of_a_device(const struct allocator_api * api) {
    (void) api;
    lastuse_offload_device_report(a_placement(), 0, NULL);
}

static void null_placement_of_an_item(const struct allocator_api * api) {
    (void) api;
    device_of_item(NULL, 0);
}

static void null_place_of_an_item(const struct allocator_api * api) {
    (void) api;
    lastuse_offload_item_report(lastuse_offload_new(NULL), 0, NULL);
}

static void null_placement_of_buffer_ids(const struct allocator_api * api) {
    (void) api;
    lastuse_offload_buffer_ids(NULL, 0, NULL, NULL);
}

static void null_scheduler_to_apply_to(const struct allocator_api * api) {
    (void) api;
    lastuse_offload_apply(a_placement(), 0, NULL);
}

static void null_buffer_to_note(const struct allocator_api * api) {
    (void) api;
    lastuse_buffer_note(NULL, 0, false);
}

static void null_buffer_to_note_free(const struct allocator_api * api) {
    (void) api;
    lastuse_buffer_note_free(NULL);
}

static void null_graph_remove_copies(const struct allocator_api * api) {
    (void) api;
    copies_removed(NULL, NULL, NULL);
}

static void copies_report_without_size(const struct allocator_api * api) {
    (void) api;
    struct lastuse_copies_report report = { 0 };
    copies_removed(a_graph(), NULL, &report);
}

static void null_graph_verify(const struct allocator_api * api) {
    (void) api;
    lastuse_graph_verify(NULL);
}

static void guard_params_without_size(const struct allocator_api * api) {
    (void) api;
    struct lastuse_guard_params params = { 0 };
    lastuse_guard_new(&params);
}

static void null_tensor_of_guard(const struct allocator_api * api) {
    (void) api;
    lastuse_guard_eval(NULL, true, lastuse_guard_new(NULL));
}

static void null_guard(const struct allocator_api * api) {
    (void) api;
    lastuse_guard_eval(a_tensor(), true, NULL);
}

static void null_backend_compute_guarded(const struct allocator_api * api) {
    (void) api;
    lastuse_graph_compute_guarded(NULL, a_graph());
}

static void null_graph_compute_guarded(const struct allocator_api * api) {
    (void) api;
    lastuse_graph_compute_guarded(ggml_backend_cpu_init(), NULL);
}

static void null_graph_dump_begin(const struct allocator_api * api) {
    (void) api;
    lastuse_graph_dump_begin(NULL);
}

static void null_graph_dump(const struct allocator_api * api) {
    (void) api;
    lastuse_graph_dump(NULL, NULL);
}

// The words are the names of parameters in ggml-alloc.h and lastuse.h, or name the element.
static const struct abort_case lastuse_cases[] = {
    MISTAKE(too_large_node_id, "buffer_id"),
    MISTAKE(too_large_leaf_id, "buffer_id"),
    MISTAKE(null_galloc_reserve, "galloc"),
    MISTAKE(null_galloc_reserve_n, "galloc"),
    MISTAKE(null_galloc_measure, "galloc"),
    MISTAKE(null_galloc_alloc, "galloc"),
    MISTAKE(null_galloc_size, "galloc"),
    MISTAKE(null_galloc_lower_bound, "galloc"),
    MISTAKE(null_report_of_galloc, "report is NULL"),
    MISTAKE(null_report_of_process, "report is NULL"),
    MISTAKE(null_galloc_to_set, "galloc"),
    MISTAKE(null_name_of_galloc, "name is NULL"),
    MISTAKE(null_name_of_process, "name is NULL"),
    MISTAKE(lower_bound_of_too_large_id, "buffer_id"),
    MISTAKE(wanted_size_of_negative_id, "buffer_id"),
    MISTAKE(null_graph_reserve, "graph"),
    MISTAKE(null_graph_reserve_n, "graph"),
    MISTAKE(null_graph_measure, "graph"),
    MISTAKE(null_graph_alloc, "graph"),
    MISTAKE(null_graph_reorder, "graph"),
    MISTAKE(reorder_report_without_size, "struct_size"),
    MISTAKE(null_context_of_tile, "ctx"),
    MISTAKE(null_graph_to_split, "graph"),
    MISTAKE(null_params_of_tile, "params"),
    MISTAKE(tiling_params_without_size, "params->struct_size"),
    MISTAKE(tiling_report_without_size, "report->struct_size"),
    MISTAKE(null_among_retained_of_tile, "params->retained[0]"),
    MISTAKE(null_context_of_dependency, "ctx"),
    MISTAKE(null_tensor_of_dependency, "a is NULL"),
    MISTAKE(null_tensor_before_dependency, "b is NULL"),
    MISTAKE(null_result, "t is NULL"),
    MISTAKE(null_place_of_result, "dst is NULL"),
    MISTAKE(null_tensor_to_dedicate, "t is NULL"),
    MISTAKE(null_talloc_to_dedicate_with, "talloc is NULL"),
    MISTAKE(null_buffer_to_dedicate_in, "talloc->buffer is NULL"),
    MISTAKE(null_context_to_dedicate_in, "ctx is NULL"),
    MISTAKE(null_graph_in_steps, "graph is NULL"),
    MISTAKE(null_params_of_steps, "params is NULL"),
    MISTAKE(steps_params_without_size, "params->struct_size"),
    MISTAKE(null_cuts_of_steps, "params->cuts is NULL"),
    MISTAKE(null_among_cuts_of_steps, "params->cuts[0] is NULL"),
    MISTAKE(null_steps_to_compute, "steps is NULL"),
    MISTAKE(null_steps_to_report, "steps is NULL"),
    MISTAKE(null_report_of_a_step, "report is NULL"),
    MISTAKE(step_report_without_size, "report->struct_size"),
    MISTAKE(placement_params_without_size, "params->struct_size"),
    MISTAKE(null_placement_to_solve, "offload is NULL"),
    MISTAKE(null_device_to_add, "device is NULL"),
    MISTAKE(device_without_size, "device->struct_size"),
    MISTAKE(null_item_to_add, "item is NULL"),
    MISTAKE(null_benefits_of_rows, "item->row_benefits is NULL"),
    MISTAKE(null_graph_to_place, "graph is NULL"),
    MISTAKE(null_memory_of_a_device, "report is NULL"),
    MISTAKE(null_placement_of_an_item, "offload is NULL"),
    MISTAKE(null_place_of_an_item, "report is NULL"),
    MISTAKE(null_placement_of_buffer_ids, "offload is NULL"),
    MISTAKE(null_scheduler_to_apply_to, "sched is NULL"),
    MISTAKE(null_buffer_to_note, "buffer is NULL"),
    MISTAKE(null_buffer_to_note_free, "buffer is NULL"),
    MISTAKE(null_graph_remove_copies, "graph"),
    MISTAKE(copies_report_without_size, "struct_size"),
    MISTAKE(null_graph_verify, "graph"),
    MISTAKE(guard_params_without_size, "params->struct_size"),
    MISTAKE(null_tensor_of_guard, "t is NULL"),
    MISTAKE(null_guard, "guard is NULL"),
    MISTAKE(null_backend_compute_guarded, "backend"),
    MISTAKE(null_graph_compute_guarded, "graph"),
    MISTAKE(null_graph_dump_begin, "graph"),
    MISTAKE(null_graph_dump, "graph"),
    MISTAKE(null_allocator_to_retain, "galloc is NULL"),
    MISTAKE(null_tensor_to_retain, "t is NULL"),
    MISTAKE(null_tensor_to_retain_until, "t is NULL"),
    MISTAKE(null_tensor_to_release, "t is NULL"),
    MISTAKE(null_sizes, "sizes"),
    MISTAKE(null_type, "buffer type"),
    MISTAKE(null_types, "bufts"),
    MISTAKE(null_among_types, "buffer type 1"),
    MISTAKE(no_types, "n_bufs"),
    MISTAKE(negative_number_of_types, "n_bufs"),
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const struct abort_case * find(const struct abort_case * cases, size_t count, const char * name) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(cases[i].name, name) == 0) {
            return &cases[i];
        }
    }
    return NULL;
}

static void list(const struct abort_case * cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        printf("%s\n", cases[i].name);
    }
}

// Without arguments: lists all cases. With the argument "upstream": lists those that upstream has.
int main(int argc, char ** argv) {
    bool upstream = argc > 1 && strcmp(argv[argc - 1], "upstream") == 0;
    if (argc == 1 || (argc == 2 && upstream)) {
        list(both_cases, COUNT(both_cases));
        list(lastuse_cases, upstream ? 0 : COUNT(lastuse_cases));
        return 2;
    }
    running = find(both_cases, COUNT(both_cases), argv[1]);
    if (running == NULL && !upstream) {
        running = find(lastuse_cases, COUNT(lastuse_cases), argv[1]);
    }
    CHECK(running != NULL, "unknown case %s", argv[1]);
    ggml_set_abort_callback(print_and_exit);
    running->run(upstream ? &upstream_api : &lastuse_api);
    printf("%s did not end the program\n", running->name);
    return 1;
}
