// Checks of plans, and of memory while graphs run. Explained in docs/verification.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include <stdio.h>
#include <string.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

void example_of_lastuse_graph_verify(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
    ggml_set_input(input);
    struct ggml_tensor * square = ggml_sqr(ctx, input);
    struct ggml_tensor * sum    = ggml_add(ctx, square, ggml_sum_rows(ctx, square));
    struct ggml_cgraph * graph  = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, sum);

    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
    GGML_ASSERT(lastuse_graph_verify(graph));
    sum->data = (char *) sum->data + 4; // the error
    GGML_ASSERT(!lastuse_graph_verify(graph));
    printf("%s\n", lastuse_last_error());
    ggml_gallocr_free(galloc);
}

void example_of_lastuse_guard_new(struct ggml_context * ctx, ggml_backend_t backend) {
    lastuse_set("verify", "memory"); // later schedulers inform guards which memory is free
    ggml_backend_sched_t sched = ggml_backend_sched_new(&backend, NULL, 1, GGML_DEFAULT_GRAPH_SIZE, false, true);
    lastuse_set("verify", "off");
    struct lastuse_guard * guard = lastuse_guard_new(NULL);
    GGML_ASSERT(guard != NULL);
    ggml_backend_sched_set_eval_callback(sched, lastuse_guard_eval, guard);

    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    ggml_set_input(input);
    struct ggml_tensor * sum = ggml_sum(ctx, ggml_sqr(ctx, input));
    ggml_set_output(sum);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, sum);
    GGML_ASSERT(ggml_backend_sched_alloc_graph(sched, graph));
    float ones[64];
    for (int i = 0; i < 64; i++) {
        ones[i] = 1.0f;
    }
    ggml_backend_tensor_set(input, ones, 0, sizeof(ones));
    GGML_ASSERT(ggml_backend_sched_graph_compute(sched, graph) == GGML_STATUS_SUCCESS);
    float result = 0.0f;
    ggml_backend_tensor_get(sum, &result, 0, sizeof(result));
    GGML_ASSERT(result == 64.0f);
    ggml_backend_sched_free(sched);
    lastuse_guard_free(guard);
}

void example_of_lastuse_guard_eval(struct ggml_context * ctx, ggml_backend_t backend) {
    struct lastuse_guard * guard = lastuse_guard_new(NULL);
    struct ggml_tensor * t = ggml_neg(ctx, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64));
    GGML_ASSERT(lastuse_guard_eval(t, true, guard));  // before t is computed: compute up to t
    GGML_ASSERT(lastuse_guard_eval(t, false, guard)); // after t: continue
    lastuse_guard_free(guard);
}

void example_of_lastuse_guard_free(struct ggml_context * ctx, ggml_backend_t backend) {
    struct lastuse_guard * guard = lastuse_guard_new(NULL);
    lastuse_guard_free(guard);
}

void example_of_lastuse_graph_compute_guarded(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    ggml_set_input(input);
    struct ggml_tensor * sum   = ggml_sum(ctx, ggml_sqr(ctx, input));
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, sum);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
    ggml_backend_tensor_memset(input, 0, 0, ggml_nbytes(input));
    GGML_ASSERT(lastuse_graph_compute_guarded(backend, graph) == GGML_STATUS_SUCCESS);
    ggml_gallocr_free(galloc);
}

void example_of_lastuse_guard_check_graph(struct ggml_context * ctx, ggml_backend_t backend) {
    lastuse_set("verify", "memory"); // later allocators record where they put tensors
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    lastuse_set("verify", "off");

    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_sum(ctx, input));
    GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
    lastuse_guard_check_graph(graph);        // before it is computed
    lastuse_guard_check_tensor(input, true); // before it is set
    ggml_gallocr_free(galloc);               // from here on, both would end in ggml's abort
}

void example_of_lastuse_guard_check_tensor(struct ggml_context * ctx, ggml_backend_t backend) {
    struct ggml_tensor * t = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64); // in memory of the context
    GGML_ASSERT(lastuse_guard_check_tensor(t, false) == NULL);           // in no buffer
}
