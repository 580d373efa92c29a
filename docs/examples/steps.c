// A graph that is computed in steps, each planned, run and freed before the next. Explained in docs/steps.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include <stdio.h>
#include <string.h>

#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

void example_of_lastuse_steps_new(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // these tensors get memory from lastuse_steps_new
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
    ggml_set_input(input);
    struct ggml_tensor * x = input;
    for (int i = 0; i < 8; i++) { x = ggml_sqr(ctx, ggml_scale(ctx, x, 0.5f)); }
    struct ggml_tensor * total = ggml_sum(ctx, x);
    ggml_set_output(total);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, total);

    struct lastuse_steps_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    params.n_steps     = 3;
    params.backend     = backend;
    struct lastuse_steps * steps = lastuse_steps_new(graph, &params);
    GGML_ASSERT(steps != NULL);
    float ones[4096], value;
    for (int i = 0; i < 4096; i++) { ones[i] = 1.0f; }
    for (int run = 0; run < 2; run++) {
        ggml_backend_tensor_set(input, ones, 0, sizeof(ones));
        GGML_ASSERT(lastuse_steps_compute(steps) == GGML_STATUS_SUCCESS);
        ggml_backend_tensor_get(total, &value, 0, sizeof(value));
        GGML_ASSERT(value >= 0.0f && value < 4096.0f);
    }
    lastuse_steps_free(steps);
    ggml_set_no_alloc(ctx, false);
}

void example_of_lastuse_steps_compute(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true);
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    struct ggml_tensor * x     = ggml_sqr(ctx, input);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_sum(ctx, x));
    struct lastuse_steps_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    params.cuts        = &x; // the first step ends with x
    params.n_cuts      = 1;
    params.backend     = backend;
    struct lastuse_steps * steps = lastuse_steps_new(graph, &params);
    ggml_backend_tensor_memset(input, 0, 0, ggml_nbytes(input));
    GGML_ASSERT(lastuse_steps_compute(steps) == GGML_STATUS_SUCCESS);
    lastuse_steps_free(steps);
    ggml_set_no_alloc(ctx, false);
}

void example_of_lastuse_steps_free(struct ggml_context * ctx, ggml_backend_t backend) {
    lastuse_steps_free(NULL);
}

void example_of_lastuse_steps_report(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true);
    struct ggml_tensor * x     = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 1024);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_sum(ctx, ggml_concat(ctx, ggml_sqr(ctx, x), x, 0)));
    struct lastuse_steps_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    params.n_steps     = 2;
    params.backend     = backend;
    struct lastuse_steps * steps = lastuse_steps_new(graph, &params);
    struct lastuse_steps_memory report;
    memset(&report, 0, sizeof(report));
    report.struct_size = sizeof(report);
    lastuse_steps_report(steps, &report);
    GGML_ASSERT(report.n_steps == 2 && report.peak_size > report.kept_size);
    printf("%zu bytes in steps, %zu at once\n", report.peak_size, report.whole_size);
    lastuse_steps_free(steps);
    ggml_set_no_alloc(ctx, false);
}

void example_of_lastuse_steps_step_report(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true);
    struct ggml_tensor * x     = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 1024);
    struct ggml_tensor * y     = ggml_sqr(ctx, x);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_sum(ctx, ggml_concat(ctx, y, x, 0)));
    struct lastuse_steps_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    params.cuts        = &y;
    params.n_cuts      = 1;
    params.backend     = backend;
    struct lastuse_steps * steps = lastuse_steps_new(graph, &params);
    struct lastuse_step_memory report;
    memset(&report, 0, sizeof(report));
    report.struct_size = sizeof(report);
    for (int i = 0; lastuse_steps_step_report(steps, i, &report); i++) {
        printf("step %d: %d nodes, %zu + %zu bytes\n", i, report.n_nodes, report.compute_size, report.crossing_size);
        GGML_ASSERT(report.crossing_size == ggml_nbytes(y)); // y is computed in the first and used in the second
    }
    lastuse_steps_free(steps);
    ggml_set_no_alloc(ctx, false);
}

void example_of_lastuse_steps_step_count(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_sum(ctx, ggml_sqr(ctx, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64))));
    struct lastuse_steps_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    params.n_steps     = 2;
    params.backend     = backend;
    struct lastuse_steps * steps = lastuse_steps_new(graph, &params);
    GGML_ASSERT(lastuse_steps_step_count(steps) == 2);
    lastuse_steps_free(steps);
    ggml_set_no_alloc(ctx, false);
}
