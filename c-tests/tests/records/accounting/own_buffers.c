// A program that does not use lastuse: it has weights in its own memory, a cache, a compute buffer and a buffer of
// outputs, all in a buffer type that counts the requested bytes, and frees everything before it exits.
//
//   own_buffers [kill]
//
// prints the largest sum of bytes that were asked for, and those of its own memory. With "kill" it ends by a signal.

#include "check.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"

#include <signal.h>

#define WIDTH 128

static float memory[WIDTH * WIDTH + 32];

int main(int argc, char ** argv) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "counting", 64, 0);
    ggml_backend_buffer_type_t type = dummy_buft_type(&dummy);
    ggml_backend_buffer_free(ggml_backend_buft_alloc_buffer(type, 4000));

    struct ggml_context * tensors = no_alloc_context(4 * ggml_tensor_overhead());
    struct ggml_context * caches  = no_alloc_context(4 * ggml_tensor_overhead());
    struct ggml_context * ctx     = no_alloc_context(16 * ggml_tensor_overhead() + ggml_graph_overhead());
    struct ggml_tensor *  weight  = ggml_set_name(ggml_new_tensor_2d(tensors, GGML_TYPE_F32, WIDTH, WIDTH), "weight");
    struct ggml_tensor *  cache   = ggml_set_name(ggml_new_tensor_1d(caches, GGML_TYPE_F32, WIDTH + 3), "cache_k_l0");
    size_t                start   = (64 - (size_t) memory % 64) % 64;
    ggml_backend_buffer_t mapped  = ggml_backend_cpu_buffer_from_ptr((char *) memory + start, WIDTH * WIDTH * sizeof(float));
    ggml_backend_tensor_alloc(mapped, weight, ggml_backend_buffer_get_base(mapped));
    ggml_backend_buffer_set_usage(mapped, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_buffer_t kept    = ggml_backend_alloc_ctx_tensors_from_buft(caches, type);
    ggml_backend_buffer_t outputs = ggml_backend_buft_alloc_buffer(type, 777);

    struct ggml_tensor * input = ggml_set_name(ggml_new_tensor_1d(ctx, GGML_TYPE_F32, WIDTH), "input");
    ggml_set_input(input);
    struct ggml_tensor * x     = ggml_set_name(ggml_mul_mat(ctx, weight, input), "x");
    struct ggml_tensor * slot  = ggml_view_1d(ctx, cache, WIDTH, 0);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_set_name(ggml_cpy(ctx, x, slot), "write"));
    ggml_gallocr_t galloc = ggml_gallocr_new(type);
    CHECK(ggml_gallocr_alloc_graph(galloc, graph), "not allocated");
    printf("asked=%zu\nmapped=%zu\nkv=%zu\n", dummy.live_bytes, ggml_nbytes(weight), ggml_nbytes(cache));
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "kill") == 0) {
        raise(SIGKILL);
    }

    ggml_gallocr_free(galloc);
    ggml_backend_buffer_free(outputs);
    ggml_backend_buffer_free(kept);
    ggml_backend_buffer_free(mapped);
    CHECK(dummy.live_bytes == 0, "all is freed");
    ggml_free(ctx);
    ggml_free(caches);
    ggml_free(tensors);
    return 0;
}
