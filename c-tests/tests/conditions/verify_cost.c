// The cost of verification: times of a small transformer, medians in microseconds.
//
//   verify_cost [layers [tokens]]

#include <time.h>

#include "check.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "lastuse.h"
#include "transformer.h"

#define RUNS 9

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec * 1e6 + (double) time.tv_nsec / 1e3;
}

static int by_size(const void * a, const void * b) {
    double x = *(const double *) a;
    double y = *(const double *) b;
    return (x > y) - (x < y);
}

struct subject {
    ggml_backend_t cpu;
    ggml_gallocr_t galloc;
    struct built   built;
};

static void allocate(struct subject s) {
    CHECK(ggml_gallocr_alloc_graph(s.galloc, s.built.graph), "allocated");
}

static void verify(struct subject s) {
    CHECK(lastuse_graph_verify(s.built.graph), "%s", lastuse_last_error());
}

static void compute(struct subject s) {
    CHECK(ggml_backend_graph_compute(s.cpu, s.built.graph) == GGML_STATUS_SUCCESS, "computed");
}

static void compute_guarded(struct subject s) {
    CHECK(lastuse_graph_compute_guarded(s.cpu, s.built.graph) == GGML_STATUS_SUCCESS, "computed");
}

static void measure(const char * what, void (*run)(struct subject), struct subject s) {
    double times[RUNS];
    for (int i = 0; i < RUNS; i++) {
        double start = now();
        run(s);
        times[i] = now() - start;
    }
    qsort(times, RUNS, sizeof(times[0]), by_size);
    printf("%s=%.1f\n", what, times[RUNS / 2]);
}

int main(int argc, char ** argv) {
    CHECK(argc == 3, "LAYERS TOKENS");
    struct shape shape = { .layers = atoi(argv[1]), .tokens = atoi(argv[2]), .past = 8 };
    struct subject   s     = { .cpu    = new_cpu(1),
                               .galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type()),
                               .built  = transformer_new(shape) };
    allocate(s);
    set_leaf_values(s.built.graph, 1);
    printf("nodes=%d\n", s.built.graph->n_nodes);
    printf("compute_buffer_bytes=%zu\n", ggml_gallocr_get_buffer_size(s.galloc, 0));
    measure("verify", verify, s);
    measure("compute", compute, s);
    measure("compute_guarded", compute_guarded, s);
    ggml_gallocr_free(s.galloc);

    CHECK(lastuse_set("verify", "plan"), "a known word");
    s.galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    built_free(s.built);
    s.built = transformer_new(shape);
    allocate(s);
    measure("alloc_graph_again_with_plan", allocate, s);
    built_free(s.built);
    ggml_gallocr_free(s.galloc);
    ggml_backend_free(s.cpu);
    return 0;
}
