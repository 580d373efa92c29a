#include "late_backend.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "graph_fields.h"

static struct late_step * new_step(ggml_backend_t backend) {
    struct late_backend * late = (struct late_backend *) backend;
    CHECK(late->n_steps < MOST_LATE, "%d steps before a synchronization", late->n_steps);
    struct late_step * step = &late->steps[late->n_steps++];
    memset(step, 0, sizeof(*step));
    return step;
}

// The list of nodes is the scheduler's, which may change it.
static enum ggml_status compute_later(ggml_backend_t backend, struct ggml_cgraph * graph) {
    struct late_step * step = new_step(backend);
    size_t             size = (size_t) graph->n_nodes * sizeof(*graph->nodes);
    step->n_nodes           = graph->n_nodes;
    step->nodes             = malloc(size + 1);
    CHECK(step->nodes != NULL, "out of memory");
    memcpy(step->nodes, graph->nodes, size);
    return GGML_STATUS_SUCCESS;
}

static void get_later(ggml_backend_t backend, const struct ggml_tensor * t, void * data, size_t offset, size_t size) {
    struct late_step * step = new_step(backend);
    step->tensor            = *t;
    step->data              = data;
    step->offset            = offset;
    step->size              = size;
}

static void do_all(ggml_backend_t backend) {
    struct late_backend * late = (struct late_backend *) backend;
    for (int i = 0; i < late->n_steps; i++) {
        struct late_step * step = &late->steps[i];
        if (step->nodes == NULL) {
            memcpy(step->data, (const char *) step->tensor.data + step->offset, step->size);
            continue;
        }
        struct ggml_cgraph graph = { .n_nodes = step->n_nodes, .nodes = step->nodes };
        CHECK(ggml_backend_graph_compute(late->cpu, &graph) == GGML_STATUS_SUCCESS, "not computed");
        free(step->nodes);
    }
    late->n_steps = 0;
}

void late_backend_init(struct late_backend * late, ggml_backend_t cpu, ggml_backend_dev_t device) {
    memset(late, 0, sizeof(*late));
    late->cpu                            = cpu;
    late->backend                        = *cpu;
    late->backend.device                 = device;
    late->backend.iface.graph_compute    = compute_later;
    late->backend.iface.get_tensor_async = get_later;
    late->backend.iface.synchronize      = do_all;
}
