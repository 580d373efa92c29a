// A scheduler with copies of inputs that take turns, on one backend: an input of the program lies in a buffer of the
// program, and the graph is built anew for each step. ggml's own allocator crashes at the second step: the leaf that was
// planned has become one that the program owns, and a copy has taken its place.
//
//   rotating_copies <case>

#include "cases.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"

#define STEPS 12

CASE(inputs_of_the_program_are_computed) {
    ggml_backend_t       cpu   = new_cpu(1);
    ggml_backend_sched_t sched = ggml_backend_sched_new(&cpu, NULL, 1, 64, true, true);
    for (int step = 0; step < STEPS; step++) {
        struct ggml_context * inputs = no_alloc_context(4 * ggml_tensor_overhead());
        struct ggml_context * ctx    = no_alloc_context(64 * ggml_tensor_overhead() + ggml_graph_overhead());
        struct ggml_tensor *  x      = ggml_new_tensor_1d(inputs, GGML_TYPE_F32, 64);
        ggml_set_input(x);
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(inputs, cpu);
        struct ggml_tensor *  y      = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
        ggml_set_input(y);
        struct ggml_tensor * sum   = ggml_sum(ctx, ggml_sqr(ctx, ggml_add(ctx, x, y)));
        struct ggml_cgraph * graph = ggml_new_graph(ctx);
        ggml_set_output(sum);
        ggml_build_forward_expand(graph, sum);
        ggml_backend_sched_reset(sched);
        CHECK(ggml_backend_sched_alloc_graph(sched, graph), "step %d: not allocated", step);
        set_values(x, (uint64_t) step);
        set_values(y, (uint64_t) step + 100);
        float expected = 0.0f, found = 0.0f;
        for (int i = 0; i < 64; i++) {
            float one = ((float *) x->data)[i] + ((float *) y->data)[i];
            expected += one * one;
        }
        CHECK(ggml_backend_sched_graph_compute(sched, graph) == GGML_STATUS_SUCCESS, "step %d: not computed", step);
        ggml_backend_tensor_get(sum, &found, 0, sizeof(found));
        CHECK(found - expected < 1e-3f && expected - found < 1e-3f, "step %d: %g, not %g", step, (double) found, (double) expected);
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
        ggml_free(inputs);
    }
    ggml_backend_sched_free(sched);
    ggml_backend_free(cpu);
}
