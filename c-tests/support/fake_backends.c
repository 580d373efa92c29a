#include "fake_backends.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml-backend-impl.h"
#include "ggml-impl.h"

#define MOST_BACKENDS 16
#define MOST_TYPES    24
#define USAGES        2
#define BUFFER_BYTES  64 // nothing is ever read or written

// ggml's interface of backends has had a second argument for optimizations since this version.
#define HAS_ALLOC_DEPS (GGML_BACKEND_API_VERSION >= 3)

struct fake_backends {
    struct fake_setup          setup;
    struct dummy_buft          types[MOST_TYPES];
    ggml_backend_buffer_t      buffers[MOST_TYPES][USAGES];
    struct ggml_backend_device devices[MOST_BACKENDS];
    struct ggml_backend        structs[MOST_BACKENDS];
    ggml_backend_t             backends[MOST_BACKENDS];
    ggml_backend_buffer_type_t bufts[MOST_BACKENDS];
    char                       names[MOST_BACKENDS][16];
    ggml_backend_sched_t       sched;
    struct ggml_context *      ctx; // of graphs without nodes
};

// ---------------------------------------------------------------------------------------------------
// Memory that the scheduler would have allocated
// ---------------------------------------------------------------------------------------------------

static _Thread_local struct {
    struct ggml_cgraph * graph;
    const int *          node_ids;
    const int *          leaf_ids;
} seen;

// Called by the scheduler in place of ggml's own function.
bool ggml_gallocr_reserve_n(ggml_gallocr_t galloc, struct ggml_cgraph * graph, const int * node_ids, const int * leaf_ids) {
    (void) galloc;
    seen.graph    = graph;
    seen.node_ids = node_ids;
    seen.leaf_ids = leaf_ids;
    return false;
}

// ---------------------------------------------------------------------------------------------------
// The interface of a backend
// ---------------------------------------------------------------------------------------------------

static int index_of(ggml_backend_dev_t dev) {
    const struct fake_backends * fake = dev->context;
    return (int) (dev - fake->devices);
}

static bool in_table(const uint8_t * table, ggml_backend_dev_t dev, const struct ggml_tensor * tensor) {
    const struct fake_backends * fake = dev->context;
    CHECK(tensor->extra != NULL, "%s is a tensor of the scheduler", tensor->name);
    size_t id = (size_t) (uintptr_t) tensor->extra - 1;
    return table[(size_t) index_of(dev) * (size_t) fake->setup.n_tensors + id] != 0;
}

static bool device_supports_op(ggml_backend_dev_t dev, const struct ggml_tensor * op) {
    const struct fake_backends * fake = dev->context;
    return in_table(fake->setup.supports_ops, dev, op);
}

static bool device_offload_op(ggml_backend_dev_t dev, const struct ggml_tensor * op) {
    const struct fake_backends * fake = dev->context;
    return in_table(fake->setup.offloads_ops, dev, op);
}

static bool device_supports_buft(ggml_backend_dev_t dev, ggml_backend_buffer_type_t buft) {
    const struct fake_backends * fake = dev->context;
    for (int type = 0; type < fake->setup.n_types; type++) {
        if (buft == &fake->types[type].type) {
            return fake->setup.supports_types[index_of(dev) * fake->setup.n_types + type] != 0;
        }
    }
    CHECK(false, "the scheduler knows no other buffer type");
    return false;
}

static enum ggml_backend_dev_type device_type(ggml_backend_dev_t dev) {
    const struct fake_backends * fake = dev->context;
    bool                         last = index_of(dev) == fake->setup.n_backends - 1;
    return last ? GGML_BACKEND_DEVICE_TYPE_CPU : GGML_BACKEND_DEVICE_TYPE_GPU;
}

static const char * backend_name(ggml_backend_t backend) {
    const struct fake_backends * fake = backend->context;
    return fake->names[backend - fake->structs];
}

// Exchanges neighbours that do not use each other, every third time; and keeps the tensor two nodes before.
static bool can_swap(const struct ggml_tensor * first, const struct ggml_tensor * second) {
    bool is_source = second->view_src != NULL || first->view_src != NULL;
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        is_source = is_source || second->src[i] == first || first->src[i] == second;
    }
    return !is_source;
}

static void swap_nodes(struct ggml_cgraph * graph) {
    for (int i = 0; i + 1 < graph->n_nodes; i += 3) {
        struct ggml_tensor * first = graph->nodes[i];
        if (can_swap(first, graph->nodes[i + 1])) {
            graph->nodes[i]     = graph->nodes[i + 1];
            graph->nodes[i + 1] = first;
        }
    }
}

#if HAS_ALLOC_DEPS
static void backend_optimize(ggml_backend_t backend, struct ggml_cgraph * graph,
                             struct ggml_backend_graph_optimize_params * params) {
    (void) backend;
    swap_nodes(graph);
    for (int i = 2; i < graph->n_nodes; i += 4) {
        params->add_alloc_dep(params->user_data, graph->nodes[i - 2], graph->nodes[i]);
        params->add_alloc_dep(params->user_data, graph->nodes[i - 1], graph->nodes[i]);
        params->add_alloc_dep(params->user_data, graph->nodes[i - 2], graph->nodes[i]);
    }
}
#else
static void backend_optimize(ggml_backend_t backend, struct ggml_cgraph * graph) {
    (void) backend;
    swap_nodes(graph);
}
#endif

// ---------------------------------------------------------------------------------------------------
// Functions for callers
// ---------------------------------------------------------------------------------------------------

static void init_type(struct fake_backends * fake, int type) {
    struct dummy_buft * dummy = &fake->types[type];
    dummy_buft_init(dummy, "fake", fake->setup.alignments[type], 0);
    dummy->imaginary   = true;
    dummy->extra_bytes = fake->setup.pads_rows[type] ? dummy_row_padding : NULL;
    if (!fake->setup.is_host[type]) {
        dummy->type.iface.is_host = NULL;
    }
}

static void init_backend(struct fake_backends * fake, int backend) {
    bool last = backend == fake->setup.n_backends - 1;
    snprintf(fake->names[backend], sizeof(fake->names[backend]), last ? "CPU" : "GPU%d", backend);
    struct ggml_backend_device * device = &fake->devices[backend];
    device->context                     = fake;
    device->iface.supports_op           = device_supports_op;
    device->iface.supports_buft         = device_supports_buft;
    device->iface.offload_op            = device_offload_op;
    device->iface.get_type              = device_type;
    struct ggml_backend * backend_struct = &fake->structs[backend];
    backend_struct->context              = fake;
    backend_struct->device               = device;
    backend_struct->iface.get_name       = backend_name;
    backend_struct->iface.graph_optimize = fake->setup.optimizes ? backend_optimize : NULL;
    fake->backends[backend]              = backend_struct;
    fake->bufts[backend]                 = &fake->types[fake->setup.backend_types[backend]].type;
}

static void log_nothing(enum ggml_log_level level, const char * text, void * user_data) {
    (void) level;
    (void) text;
    (void) user_data;
}

struct fake_backends * fake_backends_new(const struct fake_setup * setup, struct ggml_tensor ** tensors) {
    CHECK(setup->n_types <= MOST_TYPES && setup->n_backends <= MOST_BACKENDS, "fewer of each");
    struct fake_backends * fake = calloc(1, sizeof(*fake));
    CHECK(fake != NULL, "out of memory");
    ggml_log_set(log_nothing, NULL); // the scheduler reports that it could not allocate
    fake->setup = *setup;
    for (int type = 0; type < setup->n_types; type++) {
        init_type(fake, type);
    }
    for (int backend = 0; backend < setup->n_backends; backend++) {
        init_backend(fake, backend);
    }
    for (int id = 0; id < setup->n_tensors; id++) {
        tensors[id]->extra = (void *) (uintptr_t) (id + 1);
    }
    fake->ctx   = no_alloc_context(4 * ggml_graph_overhead());
    size_t room = 2 * (size_t) setup->n_tensors + 16;
    fake->sched = ggml_backend_sched_new(fake->backends, fake->bufts, setup->n_backends, room, setup->parallel,
                                         setup->op_offload);
    // Each graph uses the next copy.
    for (int copy = 0; copy < setup->current_copy; copy++) {
        ggml_backend_sched_alloc_graph(fake->sched, ggml_new_graph(fake->ctx));
        ggml_backend_sched_reset(fake->sched);
    }
    return fake;
}

void fake_backends_free(struct fake_backends * fake) {
    ggml_backend_sched_free(fake->sched);
    for (int type = 0; type < fake->setup.n_types; type++) {
        for (int usage = 0; usage < USAGES; usage++) {
            ggml_backend_buffer_free(fake->buffers[type][usage]);
        }
    }
    ggml_free(fake->ctx);
    free(fake);
}

void fake_backends_place(struct fake_backends * fake, struct ggml_tensor * tensor, int type, bool is_weight) {
    ggml_backend_buffer_t * buffer = &fake->buffers[type][is_weight];
    if (*buffer == NULL) {
        *buffer = ggml_backend_buft_alloc_buffer(&fake->types[type].type, BUFFER_BYTES);
        CHECK(*buffer != NULL, "no buffer");
        ggml_backend_buffer_set_usage(*buffer, is_weight ? GGML_BACKEND_BUFFER_USAGE_WEIGHTS : GGML_BACKEND_BUFFER_USAGE_ANY);
    }
    tensor->buffer = *buffer;
    tensor->data   = ggml_backend_buffer_get_base(*buffer);
}

void fake_backends_assign(struct fake_backends * fake, struct ggml_tensor * tensor, int backend) {
    ggml_backend_sched_set_tensor_backend(fake->sched, tensor, fake->backends[backend]);
}

bool fake_backends_schedule(struct fake_backends * fake, struct ggml_cgraph * graph) {
    memset(&seen, 0, sizeof(seen));
    // Fails, since nothing is reserved.
    bool done = ggml_backend_sched_alloc_graph(fake->sched, graph);
    return !done && seen.graph != NULL && seen.node_ids != NULL && seen.leaf_ids != NULL;
}

int fake_backends_backend(struct fake_backends * fake, struct ggml_tensor * tensor) {
    ggml_backend_t backend = ggml_backend_sched_get_tensor_backend(fake->sched, tensor);
    return backend != NULL ? (int) (backend - fake->structs) : -1;
}

int fake_backends_splits(struct fake_backends * fake) {
    return ggml_backend_sched_get_n_splits(fake->sched);
}

int fake_backends_copies(struct fake_backends * fake) {
    return ggml_backend_sched_get_n_copies(fake->sched);
}

struct ggml_cgraph * fake_backends_graph(struct fake_backends * fake) {
    (void) fake;
    return seen.graph;
}

const int * fake_backends_node_ids(struct fake_backends * fake) {
    (void) fake;
    return seen.node_ids;
}

const int * fake_backends_leaf_ids(struct fake_backends * fake) {
    (void) fake;
    return seen.leaf_ids;
}

ggml_backend_buffer_type_t fake_backends_type(struct fake_backends * fake, int backend) {
    return fake->bufts[backend];
}
