// Plans graphs with functions that dlsym() finds in libraries of ggml, like an interpreter: dlsym_functions LIBRARY...
// Its calls of ggml-alloc.h go past a preloaded lastuse, and only what ggml itself calls comes to it.

#include <dlfcn.h>

#include "check.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"

// A pointer to the function of that name in the library.
#define LOOK_UP(name)                                                        \
    __typeof__(&name) look_up_##name = (__typeof__(&name)) dlsym(library, #name); \
    CHECK(look_up_##name != NULL, "%s", dlerror())

static size_t plan(const char * path) {
    void * library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL, "%s", dlerror());
    LOOK_UP(ggml_init);
    LOOK_UP(ggml_free);
    LOOK_UP(ggml_new_tensor_1d);
    LOOK_UP(ggml_set_input);
    LOOK_UP(ggml_new_graph);
    LOOK_UP(ggml_build_forward_expand);
    LOOK_UP(ggml_add);
    LOOK_UP(ggml_sqr);
    LOOK_UP(ggml_neg);
    LOOK_UP(ggml_backend_cpu_buffer_type);
    LOOK_UP(ggml_gallocr_new);
    LOOK_UP(ggml_gallocr_reserve);
    LOOK_UP(ggml_gallocr_alloc_graph);
    LOOK_UP(ggml_gallocr_get_buffer_size);
    LOOK_UP(ggml_gallocr_free);
    struct ggml_init_params params    = { .mem_size = 1 << 20, .mem_buffer = NULL, .no_alloc = true };
    struct ggml_context *   context   = look_up_ggml_init(params);
    struct ggml_tensor *    input     = look_up_ggml_new_tensor_1d(context, GGML_TYPE_F32, 1000);
    struct ggml_cgraph *    graph     = look_up_ggml_new_graph(context);
    ggml_gallocr_t          allocator = look_up_ggml_gallocr_new(look_up_ggml_backend_cpu_buffer_type());
    look_up_ggml_set_input(input);
    struct ggml_tensor * sum = look_up_ggml_add(context, look_up_ggml_sqr(context, input), look_up_ggml_neg(context, input));
    look_up_ggml_build_forward_expand(graph, sum);
    CHECK(look_up_ggml_gallocr_reserve(allocator, graph), "no memory is reserved");
    CHECK(look_up_ggml_gallocr_alloc_graph(allocator, graph), "the graph has no memory");
    size_t bytes = look_up_ggml_gallocr_get_buffer_size(allocator, 0);
    look_up_ggml_gallocr_free(allocator);
    look_up_ggml_free(context);
    return bytes;
}

int main(int argc, char ** argv) {
    for (int i = 1; i < argc; i++) {
        printf("bytes%d=%zu\n", i, plan(argv[i]));
    }
    return 0;
}
