// Graphs with the sequences of nodes that backends of GPUs compute by one kernel, run by ggml's scheduler on a device.
// Prints a hash over the results of each. A fused kernel reads its sources while it writes its result, so the hash shows
// whether a placement is one that fusion tolerates.

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "hash.h"
#include "log_errors.h"
#include "sequences.h"
#include "splitmix.h"

#define COUNT(array) ((int) (sizeof(array) / sizeof((array)[0])))

enum { EXIT_USAGE = 2, EXIT_NO_DEVICE = 3, MOST_NODES = 512 };

static const char usage[] =
    "usage: fusions DEVICE SEQUENCE VARIANT\n"
    "Computes a graph with a sequence of nodes that backends fuse, by ggml's scheduler; prints a hash of its results.\n"
    "A variant is a sum of:\n"
    "  1  the operand from outside comes first      2  it is an input of the graph, not a result\n"
    "  4  it is used again after the sequence       8  one row only\n"
    "Without arguments the sequences are listed, each with its variants.\n";

// Reals in [-0.5, 0.5), indices in rising order: experts, positions and rows of a cache.
static void set_values(struct ggml_tensor * t, uint64_t seed) {
    char *  data  = malloc(ggml_nbytes(t));
    int64_t count = ggml_nelements(t);
    CHECK(data != NULL, "out of memory");
    for (int64_t i = 0; i < count; i++) {
        uint64_t number = splitmix64(&seed);
        if (t->type == GGML_TYPE_F32) {
            ((float *) data)[i] = (float) (number >> 40) / (float) (1 << 24) - 0.5f;
        } else if (t->type == GGML_TYPE_I32) {
            ((int32_t *) data)[i] = (int32_t) (i % EXPERTS);
        } else {
            ((int64_t *) data)[i] = i + 3;
        }
    }
    ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
    free(data);
}

static void set_all_values(struct ggml_context * ctx, uint64_t seed) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t), seed++) {
        if (t->op == GGML_OP_NONE && t->view_src == NULL) {
            set_values(t, seed * 1000003);
        }
    }
}

static uint64_t hash_of(uint64_t hash, const struct ggml_tensor * t) {
    char * data = malloc(ggml_nbytes(t));
    CHECK(data != NULL, "out of memory");
    ggml_backend_tensor_get(t, data, 0, ggml_nbytes(t));
    hash = fnv1a_64(hash, data, ggml_nbytes(t));
    free(data);
    return hash;
}

// The sequence, then something that may be computed in the memory of its result, and what is kept.
static void build(struct scene * scene, const struct sequence * sequence) {
    struct ggml_tensor * fused = sequence->build(scene);
    ggml_build_forward_expand(scene->graph, fused);
    struct ggml_tensor * last = ggml_norm(scene->ctx, ggml_cont(scene->ctx, fused), 1e-5f);
    ggml_set_output(last);
    ggml_build_forward_expand(scene->graph, last);
    if (scene->kept != NULL) {
        struct ggml_tensor * again = ggml_scale(scene->ctx, scene->kept, 3.0f);
        ggml_set_output(again);
        ggml_build_forward_expand(scene->graph, again);
    }
    // Results that nothing names yet.
    for (struct ggml_tensor * t = ggml_get_first_tensor(scene->ctx); t != NULL; t = ggml_get_next_tensor(scene->ctx, t)) {
        if (t->flags & GGML_TENSOR_FLAG_OUTPUT) {
            ggml_build_forward_expand(scene->graph, t);
        }
    }
}

static uint64_t run(ggml_backend_t device, ggml_backend_t cpu, const struct sequence * sequence, unsigned variant) {
    struct scene scene = { .weights = no_alloc_context(64 * ggml_tensor_overhead()), .variant = variant };
    scene.ctx          = no_alloc_context(256 * ggml_tensor_overhead() + ggml_graph_overhead_custom(MOST_NODES, false));
    scene.graph        = ggml_new_graph_custom(scene.ctx, MOST_NODES, false);
    build(&scene, sequence);
    ggml_backend_buffer_t weights = ggml_backend_alloc_ctx_tensors(scene.weights, device);
    CHECK(weights != NULL || ggml_get_first_tensor(scene.weights) == NULL, "no memory for weights");
    if (weights != NULL) {
        ggml_backend_buffer_set_usage(weights, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    ggml_backend_t       backends[] = { device, cpu };
    ggml_backend_sched_t sched      = ggml_backend_sched_new(backends, NULL, 2, MOST_NODES, false, true);
    for (int i = 0; i < ggml_graph_n_nodes(scene.graph); i++) {
        // A view of an input is where the input is.
        struct ggml_tensor * node = ggml_graph_node(scene.graph, i);
        if (node->view_src == NULL) {
            ggml_backend_sched_set_tensor_backend(sched, node, device);
        }
    }
    CHECK(ggml_backend_sched_alloc_graph(sched, scene.graph), "%s is not allocated", sequence->name);
    set_all_values(scene.weights, 1);
    set_all_values(scene.ctx, 100);
    CHECK(ggml_backend_sched_graph_compute(sched, scene.graph) == GGML_STATUS_SUCCESS, "%s fails", sequence->name);
    uint64_t hash = FNV1A_64_START;
    for (struct ggml_tensor * t = ggml_get_first_tensor(scene.ctx); t != NULL; t = ggml_get_next_tensor(scene.ctx, t)) {
        hash = t->flags & GGML_TENSOR_FLAG_OUTPUT ? hash_of(hash, t) : hash;
    }
    ggml_backend_sched_free(sched);
    ggml_backend_buffer_free(weights);
    ggml_free(scene.ctx);
    ggml_free(scene.weights);
    return hash;
}

static const struct sequence * sequence_named(const char * name) {
    for (int i = 0; i < COUNT(SEQUENCES); i++) {
        if (strcmp(SEQUENCES[i].name, name) == 0) {
            return &SEQUENCES[i];
        }
    }
    return NULL;
}

// One row alone is enough for an operand that ends with the sequence.
static bool has_variant(const struct sequence * sequence, unsigned variant) {
    return (variant & ~sequence->variants) == 0 && (variant < 8 || variant == 8 || variant == 10);
}

static void list_sequences(void) {
    for (int i = 0; i < COUNT(SEQUENCES); i++) {
        printf("%s", SEQUENCES[i].name);
        for (unsigned variant = 0; variant < 16; variant++) {
            if (has_variant(&SEQUENCES[i], variant)) {
                printf(" %u", variant);
            }
        }
        printf("\n");
    }
}

int main(int argc, char ** argv) {
    if (argc == 1) {
        list_sequences();
        return EXIT_SUCCESS;
    }
    const struct sequence * sequence = argc == 4 ? sequence_named(argv[2]) : NULL;
    if (sequence == NULL) {
        fputs(usage, strcmp(argv[1], "--help") == 0 ? stdout : stderr);
        return strcmp(argv[1], "--help") == 0 ? EXIT_SUCCESS : EXIT_USAGE;
    }
    ggml_log_set(log_errors_only, NULL);
    ggml_backend_t device = ggml_backend_init_by_name(argv[1], NULL);
    if (device == NULL) {
        fprintf(stderr, "unknown device %s\n", argv[1]);
        return EXIT_NO_DEVICE;
    }
    ggml_backend_t cpu = ggml_backend_cpu_init();
    CHECK(cpu != NULL, "no CPU backend");
    printf("hash=%016" PRIx64 "\n", run(device, cpu, sequence, (unsigned) strtoul(argv[3], NULL, 10)));
    ggml_backend_free(cpu);
    ggml_backend_free(device);
    return EXIT_SUCCESS;
}
