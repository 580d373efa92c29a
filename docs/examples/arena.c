// Memory that allocators share. Explained in docs/arena.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

void example_of_lastuse_arena_new(struct ggml_context * ctx, ggml_backend_t backend) {
    struct lastuse_arena * arena = lastuse_arena_new(ggml_backend_get_default_buffer_type(backend));
    GGML_ASSERT((arena != NULL) == lastuse_enabled());
    lastuse_arena_free(arena);
}

void example_of_lastuse_arena_free(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_backend_buffer_type_t type   = ggml_backend_get_default_buffer_type(backend);
    struct lastuse_arena *     arena  = lastuse_arena_new(type);
    ggml_gallocr_t             galloc = ggml_gallocr_new(type);
    lastuse_gallocr_share(galloc, arena);
    lastuse_arena_free(arena); // galloc keeps its memory
    ggml_gallocr_free(galloc);
}

void example_of_lastuse_arena_turn(struct ggml_context * ctx, ggml_backend_t backend) {
    lastuse_set("arena", "shared");
    ggml_backend_sched_t scheds[2];
    for (int i = 0; i < 2; i++) {
        scheds[i] = ggml_backend_sched_new(&backend, NULL, 1, 64, false, false);
    }
    ggml_set_no_alloc(ctx, true); // these tensors will be in compute buffers
    for (int i = 0; i < 2; i++) {
        struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
        struct ggml_cgraph * graph = ggml_new_graph(ctx);
        ggml_set_input(input);
        ggml_build_forward_expand(graph, ggml_sum(ctx, input));
        lastuse_arena_turn(scheds[i], ggml_backend_sched_synchronize); // the graph of the other one has been computed
        GGML_ASSERT(ggml_backend_sched_alloc_graph(scheds[i], graph)); // ... its inputs set, computed, and its results read
    }
    for (int i = 0; i < 2; i++) {
        lastuse_arena_turn(scheds[i], NULL); // it is not waited for any more
        ggml_backend_sched_free(scheds[i]);
    }
    lastuse_set("arena", "off");
}

void example_of_lastuse_arena_discard(struct ggml_context * ctx, ggml_backend_t backend) {
    lastuse_set("arena", "shared");
    ggml_backend_sched_t sched = ggml_backend_sched_new(&backend, NULL, 1, 64, false, false);
    ggml_set_no_alloc(ctx, true); // these tensors will be in compute buffers
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_set_input(input);
    ggml_build_forward_expand(graph, ggml_sum(ctx, input));
    lastuse_arena_turn(sched, ggml_backend_sched_synchronize);
    GGML_ASSERT(ggml_backend_sched_alloc_graph(sched, graph)); // only to see whether there is memory for it
    ggml_backend_sched_reset(sched);
    lastuse_arena_discard(sched); // the next graph, of any scheduler, may replace its memory
    lastuse_arena_turn(sched, NULL);
    ggml_backend_sched_free(sched);
    lastuse_set("arena", "off");
}

void example_of_lastuse_gallocr_share(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // these tensors will be in compute buffers
    struct ggml_cgraph * graphs[2];
    for (int i = 0; i < 2; i++) {
        struct ggml_tensor * input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 512, i == 0 ? 256 : 64);
        ggml_set_input(input);
        graphs[i] = ggml_new_graph(ctx);
        ggml_build_forward_expand(graphs[i], ggml_sum(ctx, ggml_sqr(ctx, input)));
    }

    ggml_backend_buffer_type_t type  = ggml_backend_get_default_buffer_type(backend);
    struct lastuse_arena *     arena = lastuse_arena_new(type);
    ggml_gallocr_t             target = ggml_gallocr_new(type);
    ggml_gallocr_t             draft  = ggml_gallocr_new(type);
    bool                       is_shared = lastuse_gallocr_share(target, arena) && lastuse_gallocr_share(draft, arena);
    GGML_ASSERT(ggml_gallocr_alloc_graph(target, graphs[0])); // ... its inputs set, computed, and its results read
    GGML_ASSERT(ggml_gallocr_alloc_graph(draft, graphs[1]));  // in the memory of the first
    if (is_shared) {
        GGML_ASSERT(ggml_gallocr_get_buffer_size(draft, 0) == 0);
    }
    ggml_gallocr_free(draft);
    ggml_gallocr_free(target);
    lastuse_arena_free(arena);
}
