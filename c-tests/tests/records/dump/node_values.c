// A library to preload into a program with a shared ggml: computes each graph node by node, and writes the elements of
// every node to a file before the next node runs. So the values of all tensors are known without lastuse.
//
//   NODE_VALUES_DIR/<run>-<node>.bin

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "ggml-backend.h"
#include "graph_fields.h"

static int runs;

// The next definition of a function, which is ggml's.
static void * next(const char * name) {
    void * function = dlsym(RTLD_NEXT, name);
    if (function == NULL) {
        fprintf(stderr, "node_values: %s is missing\n", name);
        abort();
    }
    return function;
}

static void write_elements(const struct ggml_tensor * t, FILE * file) {
    size_t size = ggml_type_size(t->type);
    char * copy = malloc(ggml_nbytes(t) + 1);
    ggml_backend_tensor_get(t, copy, 0, ggml_nbytes(t));
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        int64_t at[4] = { i % t->ne[0], i / t->ne[0] % t->ne[1], i / (t->ne[0] * t->ne[1]) % t->ne[2],
                          i / (t->ne[0] * t->ne[1] * t->ne[2]) };
        size_t offset = (size_t) at[0] * t->nb[0] + (size_t) at[1] * t->nb[1] + (size_t) at[2] * t->nb[2] +
                        (size_t) at[3] * t->nb[3];
        fwrite(copy + offset, size, 1, file);
    }
    free(copy);
}

static void write_values(const struct ggml_tensor * t, int node) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/%d-%d.bin", getenv("NODE_VALUES_DIR"), runs, node);
    FILE * file = fopen(path, "wb");
    if (file == NULL) {
        perror(path);
        abort();
    }
    write_elements(t, file);
    fclose(file);
}

enum ggml_status ggml_backend_graph_compute(ggml_backend_t backend, struct ggml_cgraph * graph) {
    enum ggml_status (*compute)(ggml_backend_t, struct ggml_cgraph *) = next("ggml_backend_graph_compute");
    runs++;
    for (int i = 0; i < graph->n_nodes; i++) {
        struct ggml_cgraph one    = ggml_graph_view(graph, i, i + 1);
        enum ggml_status   status = compute(backend, &one);
        if (status != GGML_STATUS_SUCCESS) {
            return status;
        }
        write_values(graph->nodes[i], i);
    }
    return GGML_STATUS_SUCCESS;
}

static bool write_node(struct ggml_tensor * t, bool ask, void * user_data) {
    const struct ggml_cgraph * graph = user_data;
    for (int i = 0; !ask && i < graph->n_nodes; i++) {
        if (graph->nodes[i] == t) {
            write_values(t, i);
        }
    }
    return true; // each node is computed alone
}

enum ggml_status ggml_backend_sched_graph_compute(ggml_backend_sched_t sched, struct ggml_cgraph * graph) {
    enum ggml_status (*compute)(ggml_backend_sched_t, struct ggml_cgraph *) = next("ggml_backend_sched_graph_compute");
    runs++;
    ggml_backend_sched_set_eval_callback(sched, write_node, graph);
    return compute(sched, graph);
}
