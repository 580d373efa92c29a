// Contexts whose schedulers compute on one device that is late, each with a backend of its own, in turns.
#pragma once

#include "chains.h"
#include "late_backend.h"
#include "separate_backends.h"

// Called when the program goes on with a scheduler, and with NULL before it sets an input of a graph that is computed again.
typedef void (*begin_turn_fn)(ggml_backend_sched_t sched);

struct late_context {
    struct late_backend  device;
    ggml_backend_sched_t sched;
    struct chain         chain; // that of the latest graph
    float *              result;
    float                expected; // 0: nothing was computed
    int64_t              rows;
};

static inline void late_context_init(struct late_context * it, struct separate_backends * separate, int64_t rows) {
    late_backend_init(&it->device, separate->cpu[0], &separate->devices[0]);
    ggml_backend_t backends[] = { &it->device.backend, separate->backends[1] };
    it->sched                 = ggml_backend_sched_new(backends, separate->types, 2, 256, false, false);
    it->chain                 = (struct chain) { 0 };
    it->rows                  = rows;
    it->expected              = 0.0f;
    it->result                = calloc((size_t) rows * CHAIN_COLUMNS, sizeof(float));
    CHECK(it->result != NULL, "out of memory");
}

static inline size_t late_context_bytes(const struct late_context * it) {
    return ggml_backend_sched_get_buffer_size(it->sched, (ggml_backend_t) &it->device);
}

// Returns the number of wrong elements of the latest result, after everything was computed.
static inline size_t late_context_wrong(struct late_context * it) {
    ggml_backend_sched_synchronize(it->sched);
    size_t wrong = 0;
    for (int64_t i = 0; it->expected != 0.0f && i < it->rows * CHAIN_COLUMNS; i++) {
        wrong += it->result[i] == it->expected ? 0 : 1;
    }
    return wrong;
}

static inline void is_freed(ggml_backend_t backend) {
    (void) backend;
    CHECK(false, "a backend is used after it was freed");
}

// Its backend is freed before its scheduler, as in llama.cpp.
static inline void late_context_free(struct late_context * it) {
    it->device.backend.iface.synchronize = is_freed;
    ggml_backend_sched_free(it->sched);
    ggml_free(it->chain.ctx);
    free(it->result);
}

// Allocates a graph: on an input, or on a view of a tensor of another graph.
static inline void late_context_allocate(struct late_context * it, begin_turn_fn begin_turn, struct ggml_tensor * source) {
    begin_turn(it->sched);
    ggml_backend_sched_synchronize(it->sched);
    ggml_free(it->chain.ctx);
    it->chain = new_chain(source, it->rows);
    ggml_backend_sched_reset(it->sched);
    for (int i = 0; i < ggml_graph_n_nodes(it->chain.graph); i++) {
        ggml_backend_sched_set_tensor_backend(it->sched, ggml_graph_node(it->chain.graph, i), (ggml_backend_t) &it->device);
    }
    CHECK(ggml_backend_sched_alloc_graph(it->sched, it->chain.graph), "refused");
}

// Computes on the device without waiting for it: a graph that is allocated, or the latest one again.
static inline void late_context_turn(struct late_context * it, begin_turn_fn begin_turn, bool anew, float value) {
    if (anew || it->chain.ctx == NULL) {
        late_context_allocate(it, begin_turn, NULL);
    } else {
        begin_turn(NULL);
    }
    set_input_to(it->chain.input, value);
    begin_turn(it->sched);
    CHECK(ggml_backend_sched_graph_compute_async(it->sched, it->chain.graph) == GGML_STATUS_SUCCESS, "not computed");
    ggml_backend_tensor_get_async((ggml_backend_t) &it->device, it->chain.result, it->result, 0,
                                  ggml_nbytes(it->chain.result));
    it->expected = truth_of(value);
}
