// A program that does not use lastuse, and keeps a graph while its allocator takes other memory for a larger one.
//
//   kept_graphs anew      builds and allocates the first graph anew before it is computed again: right
//   kept_graphs computed  computes it where it was, in memory that was freed
//   kept_graphs set       sets its input there
//   kept_graphs batch     sets its input there by ggml_backend_tensor_set_n, which only newer ggmls have
//   kept_graphs weights   computes a graph whose weights were freed

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

struct kept {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  x;
    struct ggml_tensor *  out;
};

static void require(bool condition, const char * what) {
    if (!condition) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

static struct ggml_context * new_context(void) {
    return ggml_init((struct ggml_init_params){ .mem_size = 1 << 20, .no_alloc = true });
}

static struct kept build(ggml_gallocr_t galloc, struct ggml_tensor * weight, int64_t width) {
    struct kept k = { .ctx = new_context() };
    k.x           = ggml_new_tensor_1d(k.ctx, GGML_TYPE_F32, width);
    ggml_set_name(k.x, "x");
    ggml_set_input(k.x);
    k.out = ggml_add(k.ctx, ggml_sqr(k.ctx, k.x), weight);
    ggml_set_name(k.out, "out");
    ggml_set_output(k.out);
    k.graph = ggml_new_graph(k.ctx);
    ggml_build_forward_expand(k.graph, k.out);
    require(ggml_gallocr_alloc_graph(galloc, k.graph), "not allocated");
    return k;
}

static float first_result(ggml_backend_t cpu, struct kept k, float value) {
    ggml_backend_tensor_set(k.x, &value, 0, sizeof(value));
    require(ggml_backend_graph_compute(cpu, k.graph) == GGML_STATUS_SUCCESS, "not computed");
    float result;
    ggml_backend_tensor_get(k.out, &result, 0, sizeof(result));
    return result;
}

int main(int argc, char ** argv) {
    const char *          mode    = argc > 1 ? argv[1] : "";
    ggml_backend_t        cpu     = ggml_backend_cpu_init();
    ggml_gallocr_t        galloc  = ggml_gallocr_new(ggml_backend_get_default_buffer_type(cpu));
    struct ggml_context * weights = new_context();
    struct ggml_tensor *  weight  = ggml_new_tensor_1d(weights, GGML_TYPE_F32, 1);
    ggml_set_name(weight, "weight");
    ggml_backend_buffer_t buffer = ggml_backend_alloc_buffer(cpu, 64);
    require(ggml_backend_tensor_alloc(buffer, weight, ggml_backend_buffer_get_base(buffer)) == GGML_STATUS_SUCCESS, "no weight");
    ggml_backend_tensor_memset(weight, 0, 0, ggml_nbytes(weight));
    struct kept small = build(galloc, weight, 64);
    float       value = 3.0f;
    printf("%g\n", (double) first_result(cpu, small, value));
    if (strcmp(mode, "weights") == 0) {
        ggml_backend_buffer_free(buffer);
        ggml_backend_graph_compute(cpu, small.graph);
        return 0;
    }
    struct kept large = build(galloc, weight, 1 << 20);
    printf("%g\n", (double) first_result(cpu, large, 4.0f));
    if (strcmp(mode, "anew") == 0) {
        ggml_free(small.ctx);
        small = build(galloc, weight, 64);
        printf("%g\n", (double) first_result(cpu, small, 5.0f));
    } else if (strcmp(mode, "computed") == 0) {
        ggml_backend_graph_compute(cpu, small.graph);
    } else if (strcmp(mode, "set") == 0) {
        ggml_backend_tensor_set(small.x, &value, 0, sizeof(value));
    }
#ifdef HAS_BATCHES
    if (strcmp(mode, "batch") == 0) {
        const size_t zeros[2] = { 0, 0 }, sizes[2] = { sizeof(value), sizeof(value) };
        ggml_backend_tensor_set_n((struct ggml_tensor *[]){ large.x, small.x }, &value, zeros, sizes, zeros, 2);
    }
#endif
    ggml_gallocr_free(galloc);
    ggml_backend_buffer_free(buffer);
    ggml_free(small.ctx);
    ggml_free(large.ctx);
    ggml_free(weights);
    ggml_backend_free(cpu);
    return 0;
}
