// A graph that is computed in steps, between which the program looks at values. Explained in docs/steps.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include <stdio.h>
#include <string.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

// Stops where a value is no number.
static bool is_finite(size_t step, void * user_data) {
    float value;
    ggml_backend_tensor_get((const struct ggml_tensor *) user_data, &value, 0, sizeof(value));
    printf("step %zu: %g\n", step, value);
    return value == value;
}

void example_of_lastuse_steps_new(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
    ggml_set_input(input);
    struct ggml_tensor * first = ggml_sqr(ctx, input);
    struct ggml_tensor * total = ggml_sum(ctx, ggml_sqr(ctx, ggml_scale(ctx, first, 0.5f)));
    ggml_set_output(total);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, total);

    struct lastuse_steps_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    params.cuts        = &first; // the first step ends with it
    params.n_cuts      = 1;
    params.backend     = backend;
    params.galloc      = lastuse_enabled() ? ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend)) : NULL;
    params.callback    = is_finite;
    params.user_data   = first; // what the second step reads can still be read after it
    struct lastuse_steps * steps = lastuse_steps_new(graph, &params);
    GGML_ASSERT(steps != NULL);
    if (params.galloc != NULL) {
        GGML_ASSERT(ggml_gallocr_alloc_graph(params.galloc, graph));
        float ones[4096], value;
        for (int i = 0; i < 4096; i++) { ones[i] = 1.0f; }
        ggml_backend_tensor_set(input, ones, 0, sizeof(ones));
        for (int run = 0; run < 2; run++) { // the input keeps its value
            GGML_ASSERT(lastuse_steps_compute(steps) == GGML_STATUS_SUCCESS);
            ggml_backend_tensor_get(total, &value, 0, sizeof(value));
            GGML_ASSERT(value == 1024.0f);
        }
    }
    lastuse_steps_free(steps);
    ggml_gallocr_free(params.galloc);
    ggml_set_no_alloc(ctx, false);
}

void example_of_lastuse_steps_compute(struct ggml_context * ctx, ggml_backend_t backend) {
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64); // ctx gives all tensors memory
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_sum(ctx, ggml_sqr(ctx, input)));
    ggml_set_zero(input);
    struct lastuse_steps_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    params.n_steps     = 2;
    params.backend     = backend;
    struct lastuse_steps * steps = lastuse_steps_new(graph, &params);
    GGML_ASSERT(lastuse_steps_compute(steps) == GGML_STATUS_SUCCESS);
    lastuse_steps_free(steps);
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
    struct lastuse_step_report report;
    memset(&report, 0, sizeof(report));
    report.struct_size = sizeof(report);
    for (size_t i = 0; lastuse_steps_report(steps, i, &report); i++) {
        printf("step %zu: %zu nodes, %zu of %zu bytes, %zu for the next one\n", i, report.n_nodes, report.peak_size,
               report.total_size, report.crossing_size);
        GGML_ASSERT(report.n_steps == 2 && report.peak_size <= report.total_size);
    }
    lastuse_steps_free(steps);
    ggml_set_no_alloc(ctx, false);
}
