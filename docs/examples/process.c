// Whether lastuse is in use, and what it has done. Explained in docs/api.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include <stdio.h>
#include <string.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

void example_of_lastuse_version(struct ggml_context * ctx, ggml_backend_t backend) {
    printf("lastuse %s\n", lastuse_version());
    GGML_ASSERT(strchr(lastuse_version(), '.') != NULL);
}

void example_of_lastuse_enabled(struct ggml_context * ctx, ggml_backend_t backend) {
    printf("graphs are planned by %s\n", lastuse_enabled() ? "lastuse" : "ggml's own allocator");
}

void example_of_lastuse_last_error(struct ggml_context * ctx, ggml_backend_t backend) {
    struct ggml_tensor * rows = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8);
    GGML_ASSERT(ggml_dependency(ctx, rows, rows) == NULL); // no tensor depends on itself
    GGML_ASSERT(strncmp(lastuse_last_error(), "ggml_dependency: ", 17) == 0);
}

void example_of_lastuse_stats_report(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
    ggml_set_input(input);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_sum(ctx, ggml_sqr(ctx, input)));

    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    GGML_ASSERT(ggml_gallocr_reserve(galloc, graph));
    struct lastuse_stats reserved = { sizeof(reserved) };
    struct lastuse_stats stats    = { sizeof(stats) };
    bool is_enabled = lastuse_stats_report(&reserved);
    GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
    if (is_enabled && lastuse_stats_report(&stats)) {
        GGML_ASSERT(stats.plans == reserved.plans); // the graph matches the cached plan
        printf("%zu allocators hold %.1f MiB\n", stats.allocators, (double) stats.bytes / (1024 * 1024));
    }
    ggml_gallocr_free(galloc);
}
