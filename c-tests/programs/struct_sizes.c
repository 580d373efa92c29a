// runs: ggml-0.26
//
// Structs that begin with struct_size, in the size of an older version, in that of this one and in that of a later one:
// fields that the caller's version lacks count as zeros, and no byte is written that it does not have, nor one that
// lastuse does not know.
//
//   struct_sizes <case>

#include <stddef.h>
#include <stdint.h>

#include "cases.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "lastuse.h"
#include "reports.h"

#define LATER 64 // bytes that a later version has more
#define OTHER 0xaa // what memory of others holds

static struct ggml_context * ctx;

static struct ggml_cgraph * a_graph(void) {
    struct ggml_tensor * x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    ggml_set_input(x);
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 64, true);
    ggml_build_forward_expand(graph, ggml_sum(ctx, ggml_sqr(ctx, ggml_neg(ctx, x))));
    return graph;
}

static struct ggml_cgraph * a_training_graph(void) {
    struct ggml_tensor * weight = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    ggml_set_param(weight);
    struct ggml_tensor * loss = ggml_sum(ctx, ggml_sqr(ctx, weight));
    ggml_set_output(loss);
    ggml_set_loss(loss);
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 64, true);
    ggml_build_forward_expand(graph, loss);
    ggml_build_backward_expand(ctx, graph, NULL);
    return graph;
}

// Fills the fields of an argument: `all` is a whole struct of zeros.
typedef void (*fill_fn)(void * all);

// Calls a function with the struct. Returns whether it has succeeded.
typedef bool (*use_fn)(void * given);

struct sized {
    const char * name;
    size_t       size;  // of this version
    size_t       least; // with the fields that `fill` sets and `use` reads
    fill_fn      fill;  // NULL: nothing
    use_fn       use;
};

static bool use_recompute_params(void * given) {
    return lastuse_graph_recompute(ctx, a_training_graph(), given, NULL);
}

static void fill_recompute_params(void * all) {
    ((struct lastuse_recompute_params *) all)->budget = SIZE_MAX;
    ((struct lastuse_recompute_params *) all)->buft   = ggml_backend_cpu_buffer_type();
}

static bool use_recompute_report(void * given) {
    struct lastuse_recompute_params params = { .struct_size = sizeof(params) };
    fill_recompute_params(&params);
    return lastuse_graph_recompute(ctx, a_training_graph(), &params, given) &&
           ((struct lastuse_recompute_report *) given)->size_before > 0;
}

static bool use_tiling_params(void * given) {
    return lastuse_graph_tile(ctx, a_graph(), given, NULL);
}

static void fill_tiling_params(void * all) {
    ((struct lastuse_tiling_params *) all)->budget = SIZE_MAX;
    ((struct lastuse_tiling_params *) all)->buft   = ggml_backend_cpu_buffer_type();
}

static bool use_tiling_report(void * given) {
    struct lastuse_tiling_params params = { .struct_size = sizeof(params) };
    fill_tiling_params(&params);
    return lastuse_graph_tile(ctx, a_graph(), &params, given) && ((struct lastuse_tiling_report *) given)->size_before > 0;
}

static void fill_steps_params(void * all) {
    ((struct lastuse_steps_params *) all)->n_steps = 2;
    ((struct lastuse_steps_params *) all)->backend = new_cpu(1);
}

static bool use_steps_params(void * given) {
    struct lastuse_steps * steps = lastuse_steps_new(a_graph(), given);
    bool                   done  = steps != NULL && lastuse_steps_report(steps, 1, &(struct lastuse_step_report){ .struct_size = 16 });
    lastuse_steps_free(steps);
    return done;
}

static struct lastuse_steps * some_steps(void) {
    struct lastuse_steps_params params = { .struct_size = sizeof(params) };
    fill_steps_params(&params);
    return lastuse_steps_new(a_graph(), &params);
}

static bool use_step_report(void * given) {
    return lastuse_steps_report(some_steps(), 0, given) && ((struct lastuse_step_report *) given)->total_size > 0;
}

static bool use_offload_params(void * given) {
    struct lastuse_offload * offload = lastuse_offload_new(given);
    lastuse_offload_free(offload);
    return offload != NULL;
}

static bool use_offload_device(void * given) {
    return lastuse_offload_add_device(lastuse_offload_new(NULL), given) == 0;
}

static void fill_offload_device(void * all) {
    ((struct lastuse_offload_device *) all)->name   = "cpu";
    ((struct lastuse_offload_device *) all)->budget = 100000;
}

static bool use_offload_memory(void * given) {
    struct lastuse_offload *      offload = lastuse_offload_new(NULL);
    struct lastuse_offload_device device    = { .struct_size = sizeof(device) };
    fill_offload_device(&device);
    return lastuse_offload_add_device(offload, &device) == 0 &&
           lastuse_offload_add_graph(offload, a_graph()) == 0 && lastuse_offload_solve(offload) &&
           lastuse_offload_device_report(offload, 0, given) &&
           ((struct lastuse_offload_memory *) given)->budget == 100000;
}

static void fill_offload_item(void * all) {
    ((struct lastuse_offload_item *) all)->name  = "weight";
    ((struct lastuse_offload_item *) all)->bytes = 100;
}

static bool use_offload_item(void * given) {
    return lastuse_offload_add_item(lastuse_offload_new(NULL), given) == 0;
}

static bool use_context_params(void * given) {
    struct ggml_context * made = lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, given);
    lastuse_context_free(made);
    return made != NULL;
}

static bool use_copies_report(void * given) {
    return copies_removed(a_graph(), ggml_backend_cpu_buffer_type(), given) == 0;
}

static bool use_reorder_report(void * given) {
    return !is_reordered(a_graph(), ggml_backend_cpu_buffer_type(), 0, given) &&
           ((struct lastuse_reorder_report *) given)->lower_bound_before > 0;
}

static bool use_stats(void * given) {
    return lastuse_stats_report(given);
}

static bool use_guard_params(void * given) {
    struct lastuse_guard * guard = lastuse_guard_new(given);
    lastuse_guard_free(guard);
    return guard != NULL;
}

#define SIZED(name, after, fill) \
    { #name, sizeof(struct lastuse_##name), offsetof(struct lastuse_##name, after), fill, use_##name }

// With the first field that is not used here.
static const struct sized STRUCTS[] = {
    SIZED(recompute_params, retained, fill_recompute_params),
    SIZED(recompute_report, size_after, NULL),
    SIZED(tiling_params, retained, fill_tiling_params),
    SIZED(tiling_report, size_after, NULL),
    SIZED(steps_params, sched, fill_steps_params),
    SIZED(step_report, first_node, NULL),
    SIZED(offload_params, whole_layers, NULL),
    SIZED(offload_device, reserve, fill_offload_device),
    SIZED(offload_memory, weights_size, NULL),
    SIZED(offload_item, kind, fill_offload_item),
    SIZED(context_params, address_space, NULL),
    SIZED(copies_report, removed, NULL),
    SIZED(reorder_report, lower_bound_after, NULL),
    SIZED(stats, plans, NULL),
    SIZED(guard_params, callback, NULL),
};

#define N_STRUCTS (sizeof(STRUCTS) / sizeof(STRUCTS[0]))

static bool is_other(const unsigned char * bytes, size_t start, size_t end) {
    while (start < end && bytes[start] == OTHER) {
        start++;
    }
    return start >= end;
}

// Uses a struct of `size` bytes, as a caller of that version has it.
static void use_with_size(const struct sized * it, size_t size) {
    static _Alignas(16) unsigned char all[512], given[512];
    size_t                            known = size < it->size ? size : it->size;
    memset(all, 0, sizeof(all));
    memset(given, OTHER, sizeof(given));
    if (it->fill != NULL) {
        it->fill(all);
    }
    memcpy(all, &size, sizeof(size));
    memcpy(given, all, known);
    ctx = no_alloc_context(1024 * 1024);
    CHECK(it->use(given), "%s of %zu bytes: %s", it->name, size, lastuse_last_error());
    ggml_free(ctx);
    CHECK(memcmp(given, &size, sizeof(size)) == 0, "%s of %zu bytes: another size", it->name, size);
    CHECK(is_other(given, known, sizeof(given)), "%s of %zu bytes: others are written", it->name, size);
}

CASE(smaller_ones_are_completed_with_zeros) {
    for (size_t i = 0; i < N_STRUCTS; i++) {
        CHECK(STRUCTS[i].least < STRUCTS[i].size, "%s has no field more", STRUCTS[i].name);
        for (size_t size = STRUCTS[i].least; size < STRUCTS[i].size; size += 8) {
            use_with_size(&STRUCTS[i], size);
        }
    }
}

CASE(larger_ones_are_used_as_far_as_they_are_known) {
    for (size_t i = 0; i < N_STRUCTS; i++) {
        use_with_size(&STRUCTS[i], STRUCTS[i].size);
        use_with_size(&STRUCTS[i], STRUCTS[i].size + LATER);
    }
}
