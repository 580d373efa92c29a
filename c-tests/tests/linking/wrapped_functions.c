// A plugin with a ggml inside that calls each function that the guard wraps, and checks that its own ggml has answered.

#include <dlfcn.h>

#include "check.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

enum { COUNT = 64 };

int plan_graphs(void);

// Buffers begin with pointers to functions of the library that made them.
static void check_and_free(ggml_backend_buffer_t buffer, const char * function) {
    CHECK(buffer != NULL, "%s", function);
    void ** words = (void **) buffer;
    Dl_info own, made;
    CHECK(dladdr((void *) (size_t) plan_graphs, &own) != 0, "this code is loaded");
    void * first = words[0] != NULL ? words[0] : words[1];
    CHECK(dladdr(first, &made) != 0 && made.dli_fbase == own.dli_fbase, "%s: by %s", function, made.dli_fname);
    ggml_backend_buffer_free(buffer);
}

static int shown;

static bool show(struct ggml_tensor * t, bool ask, void * user_data) {
    (void) t;
    (void) user_data;
    shown += ask ? 0 : 1;
    return true;
}

static float first_of(struct ggml_tensor * t) {
    float value;
    ggml_backend_tensor_get(t, &value, 0, sizeof(value));
    return value;
}

int plan_graphs(void) {
    ggml_backend_t             cpu    = ggml_backend_cpu_init();
    ggml_backend_buffer_type_t type   = ggml_backend_get_default_buffer_type(cpu);
    void *                     memory = aligned_alloc(4096, 4096);
    check_and_free(ggml_backend_buft_alloc_buffer(type, 4096), "ggml_backend_buft_alloc_buffer");
    check_and_free(ggml_backend_alloc_buffer(cpu, 4096), "ggml_backend_alloc_buffer");
    check_and_free(ggml_backend_cpu_buffer_from_ptr(memory, 4096), "ggml_backend_cpu_buffer_from_ptr");
    ggml_backend_dev_t device = ggml_backend_get_device(cpu);
    check_and_free(ggml_backend_dev_buffer_from_host_ptr(device, memory, 4096, 4096), "ggml_backend_dev_buffer_from_host_ptr");

    struct ggml_context * ctx   = no_alloc_context(1 << 20);
    struct ggml_tensor *  input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, COUNT);
    ggml_set_input(input);
    struct ggml_tensor * sum = ggml_sum(ctx, ggml_sqr(ctx, ggml_add(ctx, input, ggml_neg(ctx, ggml_sqr(ctx, input)))));
    ggml_set_output(sum);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, sum);
    float values[COUNT];
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float) i / COUNT;
    }

    ggml_backend_sched_t sched = ggml_backend_sched_new(&cpu, NULL, 1, 64, false, false);
    ggml_backend_sched_set_eval_callback(sched, show, NULL);
    CHECK(ggml_backend_sched_reserve(sched, graph), "the graph is not reserved");
    CHECK(ggml_backend_sched_alloc_graph(sched, graph), "the graph has no memory");
    ggml_backend_tensor_set(input, values, 0, sizeof(values));
    CHECK(ggml_backend_sched_graph_compute(sched, graph) == GGML_STATUS_SUCCESS, "it is computed");
    printf("sum=%.9g\n", (double) first_of(sum));
    ggml_backend_tensor_set(input, values, 0, sizeof(values));
    CHECK(ggml_backend_sched_graph_compute_async(sched, graph) == GGML_STATUS_SUCCESS, "it is computed");
    ggml_backend_sched_synchronize(sched);
    printf("sum=%.9g\nshown=%d\n", (double) first_of(sum), shown);
    ggml_backend_tensor_set(input, values, 0, sizeof(values));
    CHECK(ggml_backend_graph_compute(cpu, graph) == GGML_STATUS_SUCCESS, "it is computed");
    printf("sum=%.9g\n", (double) first_of(sum));
    ggml_backend_tensor_set(input, values, 0, sizeof(values));
    CHECK(ggml_backend_graph_compute_async(cpu, graph) == GGML_STATUS_SUCCESS, "it is computed");
    ggml_backend_synchronize(cpu);
    printf("sum=%.9g\nggml=%s\n", (double) first_of(sum), ggml_version());
    ggml_backend_sched_free(sched);
    ggml_free(ctx);
    ggml_backend_free(cpu);
    free(memory);
    return 0;
}
