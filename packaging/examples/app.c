// A program on ggml that uses lastuse: prints which allocator serves it, and the bytes of its compute buffer.

#include <stdio.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

int main(void) {
    struct ggml_init_params size   = { .mem_size = 1 << 20, .no_alloc = true };
    struct ggml_context *   ctx    = ggml_init(size);
    struct ggml_tensor *    x      = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 64);
    struct ggml_tensor *    wide   = ggml_repeat_4d(ctx, x, 64, 4096, 1, 1);
    struct ggml_cgraph *    graph  = ggml_new_graph(ctx);
    ggml_gallocr_t          galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    ggml_set_input(x);
    ggml_build_forward_expand(graph, ggml_sum(ctx, ggml_sqr(ctx, wide)));
    int failed = !ggml_gallocr_reserve(galloc, graph);
    printf("allocator=%s\nversion=%s\nbytes=%zu\n", lastuse_enabled() ? "lastuse" : "ggml", lastuse_version(),
           ggml_gallocr_get_buffer_size(galloc, 0));
    ggml_gallocr_free(galloc);
    ggml_free(ctx);
    return failed;
}
