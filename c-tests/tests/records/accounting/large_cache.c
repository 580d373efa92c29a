// A program that does not use lastuse: a graph writes to the first cells of a large cache, and the caches and buffers are freed
// before it exits. Prints the bytes of the cache.

#include "check.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

enum { WIDTH = 256, CELLS = 131072, USED = 1024 };

int main(void) {
    ggml_backend_t        backend = ggml_backend_cpu_init();
    struct ggml_context * caches  = no_alloc_context(2 * ggml_tensor_overhead());
    struct ggml_tensor *  cache   = ggml_set_name(ggml_new_tensor_2d(caches, GGML_TYPE_F16, WIDTH, CELLS), "cache_k_l0");
    ggml_backend_buffer_t kept    = ggml_backend_alloc_ctx_tensors(caches, backend);
    ggml_backend_buffer_clear(kept, 0);

    struct ggml_context * ctx   = no_alloc_context(8 * ggml_tensor_overhead() + ggml_graph_overhead());
    struct ggml_tensor *  rows  = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, USED);
    struct ggml_tensor *  cells = ggml_view_2d(ctx, cache, WIDTH, USED, cache->nb[1], 0);
    struct ggml_cgraph *  graph = ggml_new_graph(ctx);
    ggml_set_input(rows);
    ggml_build_forward_expand(graph, ggml_cpy(ctx, rows, cells));
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    CHECK(ggml_gallocr_alloc_graph(galloc, graph), "not allocated");
    memset(rows->data, 0, ggml_nbytes(rows));
    CHECK(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS, "not computed");
    printf("cache=%zu\nused=%zu\n", ggml_nbytes(cache), USED * cache->nb[1]);

    ggml_gallocr_free(galloc);
    ggml_backend_buffer_free(kept);
    ggml_free(ctx);
    ggml_free(caches);
    ggml_backend_free(backend);
    return 0;
}
