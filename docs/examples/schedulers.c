// Graphs on a scheduler: what they need, and passes that change them before the scheduler gets them. Explained in docs/api.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include <stdio.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

void example_of_lastuse_sched_allocator(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_backend_sched_t sched  = ggml_backend_sched_new(&backend, NULL, 1, 64, false, false);
    ggml_gallocr_t       galloc = lastuse_sched_allocator(sched); // NULL if lastuse is off
    if (galloc != NULL) {
        GGML_ASSERT(lastuse_gallocr_set(galloc, "rules", "ggml")); // for this scheduler alone
    }
    ggml_backend_sched_free(sched); // and the allocator
}

// What a graph needs on each backend, before anything is allocated.
void example_of_lastuse_sched_measure(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_backend_sched_t sched = ggml_backend_sched_new(&backend, NULL, 1, 64, false, false);
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 64, false);
    ggml_set_input(input);
    ggml_build_forward_expand(graph, ggml_sum(ctx, ggml_sqr(ctx, input)));
    size_t size, lower_bound; // a list if there are several backends
    if (lastuse_sched_measure(sched, graph, &size, &lower_bound)) {
        GGML_ASSERT(size >= lower_bound && lower_bound >= ggml_nbytes(input));
        GGML_ASSERT(ggml_backend_sched_get_buffer_size(sched, backend) == 0);
        GGML_ASSERT(ggml_backend_sched_reserve(sched, graph));
        GGML_ASSERT(ggml_backend_sched_get_buffer_size(sched, backend) == size);
    }
    ggml_backend_sched_free(sched);
}

void example_of_lastuse_sched_explain(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_backend_sched_t sched = ggml_backend_sched_new(&backend, NULL, 1, 64, false, false);
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 64, false);
    ggml_set_input(input);
    ggml_build_forward_expand(graph, ggml_sum(ctx, ggml_sqr(ctx, input)));
    char * text = lastuse_sched_explain(sched, graph);
    if (text != NULL) {
        puts(text);
    }
    lastuse_string_free(text);
    ggml_backend_sched_free(sched);
}

// A scheduler for graphs of 64 nodes and leafs. More, if a budget is set.
void example_of_lastuse_sched_room(struct ggml_context * ctx, ggml_backend_t backend) {
    size_t               room  = lastuse_sched_room(64);
    ggml_backend_sched_t sched = ggml_backend_sched_new(&backend, NULL, 1, room, false, true);
    ggml_backend_sched_free(sched);
}

void example_of_lastuse_sched_prepare(struct ggml_context * ctx, ggml_backend_t backend) {
    size_t               room  = lastuse_sched_room(64);
    ggml_backend_sched_t sched = ggml_backend_sched_new(&backend, NULL, 1, room, false, true);
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 64, false);
    ggml_set_input(input);
    ggml_build_forward_expand(graph, ggml_sum(ctx, input));
    GGML_ASSERT(lastuse_sched_prepare(sched, graph, room, true, false)); // before it is allocated or computed
    GGML_ASSERT(ggml_backend_sched_alloc_graph(sched, graph));
    lastuse_sched_forget(sched);
    ggml_backend_sched_free(sched);
}

void example_of_lastuse_sched_restore(struct ggml_context * ctx, ggml_backend_t backend) {
    size_t               room  = lastuse_sched_room(64);
    ggml_backend_sched_t sched = ggml_backend_sched_new(&backend, NULL, 1, room, false, true);
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 64, false);
    ggml_set_input(input);
    ggml_build_forward_expand(graph, ggml_sum(ctx, input));
    lastuse_sched_prepare(sched, graph, room, true, true);
    GGML_ASSERT(ggml_backend_sched_reserve(sched, graph));
    lastuse_sched_restore(graph);
    GGML_ASSERT(ggml_graph_n_nodes(graph) == 1);
    lastuse_sched_forget(sched);
    ggml_backend_sched_free(sched);
}

void example_of_lastuse_sched_forget(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_backend_sched_t sched = ggml_backend_sched_new(&backend, NULL, 1, lastuse_sched_room(64), false, false);
    lastuse_sched_forget(sched); // another scheduler may be made at the same address
    ggml_backend_sched_free(sched);
}
