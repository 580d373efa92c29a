// Links the passes over graphs of schedulers (LASTUSE_BUDGET, LASTUSE_RECOMPUTE, LASTUSE_REORDER) into a program on a static ggml, whose
// source stays as it is: it does what liblastuse_guard.so does for a shared ggml. Compile it with ggml's headers and lastuse.h, and
// link it with liblastuse.a and
//
//   -Wl,--wrap=ggml_backend_sched_new,--wrap=ggml_backend_sched_free,--wrap=ggml_backend_sched_reset
//   -Wl,--wrap=ggml_backend_sched_reserve,--wrap=ggml_backend_sched_alloc_graph
//   -Wl,--wrap=ggml_backend_sched_graph_compute,--wrap=ggml_backend_sched_graph_compute_async
//   -Wl,--wrap=ggml_backend_sched_set_eval_callback
//
// The linker then has calls of these functions arrive here. docs/tiling.md has what a program may rely on.

#include <pthread.h>
#include <stdlib.h>

#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

ggml_backend_sched_t __real_ggml_backend_sched_new(ggml_backend_t *, ggml_backend_buffer_type_t *, int, size_t, bool, bool);
void                 __real_ggml_backend_sched_free(ggml_backend_sched_t);
void                 __real_ggml_backend_sched_reset(ggml_backend_sched_t);
bool                 __real_ggml_backend_sched_reserve(ggml_backend_sched_t, struct ggml_cgraph *);
bool                 __real_ggml_backend_sched_alloc_graph(ggml_backend_sched_t, struct ggml_cgraph *);
enum ggml_status     __real_ggml_backend_sched_graph_compute(ggml_backend_sched_t, struct ggml_cgraph *);
enum ggml_status     __real_ggml_backend_sched_graph_compute_async(ggml_backend_sched_t, struct ggml_cgraph *);
void                 __real_ggml_backend_sched_set_eval_callback(ggml_backend_sched_t, ggml_backend_sched_eval_callback, void *);

// A scheduler that was made here.
struct known {
    ggml_backend_sched_t sched;
    size_t               room; // nodes and leafs
    bool                 op_offload;
    bool                 is_watched;   // by a callback of the program, which knows the nodes to expect
    bool                 is_allocated; // since it was reset
    struct known *       next;
};

static struct known *  all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Set while lastuse has a call: its own calls of ggml arrive here too.
static _Thread_local bool is_inside;

// NULL for a scheduler that was not made here, and for calls of lastuse. It lives as long as the scheduler, which one thread at a time uses.
static struct known * known_of(ggml_backend_sched_t sched) {
    pthread_mutex_lock(&lock);
    struct known * known = is_inside ? NULL : all;
    while (known != NULL && known->sched != sched) {
        known = known->next;
    }
    pthread_mutex_unlock(&lock);
    return known;
}

// False if the graph must not be computed.
static bool prepare(const struct known * known, struct ggml_cgraph * graph, bool reserves) {
    if (known == NULL || known->is_watched) {
        return true;
    }
    is_inside        = true;
    bool is_prepared = lastuse_sched_prepare(known->sched, graph, known->room, known->op_offload, reserves);
    is_inside        = false;
    return is_prepared;
}

static bool allocate(struct known * known, ggml_backend_sched_t sched, struct ggml_cgraph * graph) {
    bool is_prepared  = prepare(known, graph, false);
    bool is_allocated = is_prepared && __real_ggml_backend_sched_alloc_graph(sched, graph);
    if (is_prepared && !is_allocated) {
        lastuse_sched_restore(graph);
    }
    if (known != NULL) {
        known->is_allocated = is_allocated;
    }
    return is_allocated;
}

// Allocates a graph that is computed without being allocated before, as ggml would; a reset forgets the backends of nodes.
static bool allocate_to_compute(ggml_backend_sched_t sched, struct ggml_cgraph * graph) {
    struct known * known = known_of(sched);
    if (known == NULL || known->is_watched || known->is_allocated) {
        return true;
    }
    __real_ggml_backend_sched_reset(sched);
    return allocate(known, sched, graph);
}

ggml_backend_sched_t __wrap_ggml_backend_sched_new(ggml_backend_t * backends, ggml_backend_buffer_type_t * bufts, int n_backends,
                                                   size_t graph_size, bool parallel, bool op_offload) {
    size_t               room  = is_inside ? graph_size : lastuse_sched_room(graph_size);
    ggml_backend_sched_t sched = __real_ggml_backend_sched_new(backends, bufts, n_backends, room, parallel, op_offload);
    struct known *       known = sched == NULL || is_inside ? NULL : calloc(1, sizeof(*known));
    if (known != NULL) {
        known->sched      = sched;
        known->room       = room;
        known->op_offload = op_offload;
        pthread_mutex_lock(&lock);
        known->next = all;
        all         = known;
        pthread_mutex_unlock(&lock);
    }
    return sched;
}

void __wrap_ggml_backend_sched_free(ggml_backend_sched_t sched) {
    pthread_mutex_lock(&lock);
    struct known ** at = &all;
    while (*at != NULL && (*at)->sched != sched) {
        at = &(*at)->next;
    }
    struct known * known = *at;
    if (known != NULL) {
        *at = known->next;
    }
    pthread_mutex_unlock(&lock);
    free(known);
    lastuse_sched_forget(sched);
    __real_ggml_backend_sched_free(sched);
}

void __wrap_ggml_backend_sched_reset(ggml_backend_sched_t sched) {
    struct known * known = known_of(sched);
    if (known != NULL) {
        known->is_allocated = false;
    }
    __real_ggml_backend_sched_reset(sched);
}

bool __wrap_ggml_backend_sched_reserve(ggml_backend_sched_t sched, struct ggml_cgraph * graph) {
    struct known * known = known_of(sched);
    prepare(known, graph, true);
    bool is_reserved = __real_ggml_backend_sched_reserve(sched, graph);
    if (known != NULL) {
        known->is_allocated = false; // it was reset
        lastuse_sched_restore(graph);
    }
    return is_reserved;
}

bool __wrap_ggml_backend_sched_alloc_graph(ggml_backend_sched_t sched, struct ggml_cgraph * graph) {
    return allocate(known_of(sched), sched, graph);
}

enum ggml_status __wrap_ggml_backend_sched_graph_compute(ggml_backend_sched_t sched, struct ggml_cgraph * graph) {
    bool is_allocated = allocate_to_compute(sched, graph);
    return is_allocated ? __real_ggml_backend_sched_graph_compute(sched, graph) : GGML_STATUS_ALLOC_FAILED;
}

enum ggml_status __wrap_ggml_backend_sched_graph_compute_async(ggml_backend_sched_t sched, struct ggml_cgraph * graph) {
    bool is_allocated = allocate_to_compute(sched, graph);
    return is_allocated ? __real_ggml_backend_sched_graph_compute_async(sched, graph) : GGML_STATUS_ALLOC_FAILED;
}

void __wrap_ggml_backend_sched_set_eval_callback(ggml_backend_sched_t sched, ggml_backend_sched_eval_callback callback, void * user_data) {
    struct known * known = known_of(sched);
    if (known != NULL) {
        known->is_watched = callback != NULL;
    }
    __real_ggml_backend_sched_set_eval_callback(sched, callback, user_data);
}
