// Both allocators in turn, on the same live graph.

#pragma once

#include "allocators.h"
#include "planned_graph.h"
#include "samples.h"
#include "tensor_memory.h"

enum { MOST_TYPES = 16 };

struct in_turn {
    struct allocator_functions functions[BOTH];
    long long                  rounds;
    // The buffer types of llama.cpp's allocator.
    ggml_backend_buffer_type_t types[MOST_TYPES];
    int                        n_types;
    // Those that serve the program, as llama.cpp's own would.
    ggml_gallocr_t serving[BOTH];

    struct graph_memory memory;
    struct samples      size;    // reserve_n_size
    struct samples      reserve; // of a graph that is new to the allocator, with the buffer allocated
    struct samples      first;   // alloc_graph after that
    struct samples      again;   // alloc_graph of the same graph
    struct samples      rebuilt; // alloc_graph of graphs that llama.cpp has built since
};

static void prepare_in_turn(struct in_turn * times, const char * lastuse_path, long long rounds) {
    times->functions[GGML]    = allocator_functions_of(RTLD_NEXT);
    times->functions[LASTUSE] = load_allocator(lastuse_path);
    times->rounds             = rounds;
    times->size.name          = "size";
    times->reserve.name       = "reserve";
    times->first.name         = "alloc-first";
    times->again.name         = "alloc-again";
    times->rebuilt.name       = "alloc-rebuilt";
}

// To be called with the buffer types of the allocator that llama.cpp makes.
static void note_types(struct in_turn * times, ggml_backend_buffer_type_t * types, int count) {
    stop_unless(count <= MOST_TYPES, "have that many buffer types");
    memcpy(times->types, types, (size_t) count * sizeof(*types));
    times->n_types = count;
}

static ggml_gallocr_t new_allocator(struct in_turn * times, int which) {
    return times->functions[which].new_n(times->types, times->n_types);
}

static void planned_sizes(struct in_turn * times, int which, struct planned_graph planned, size_t * sizes) {
    ggml_gallocr_t galloc = new_allocator(times, which);
    measure(&times->functions[which], galloc, planned, sizes);
    times->functions[which].free(galloc);
}

// Whether an allocator needs no less in any buffer than `sizes`.
static bool needs_as_much(struct in_turn * times, int which, struct planned_graph planned, const size_t * sizes) {
    size_t needed[MOST_TYPES];
    planned_sizes(times, which, planned, needed);
    bool is_enough = true;
    for (int i = 0; i < times->n_types; i++) {
        is_enough = is_enough && needed[i] >= sizes[i];
    }
    return is_enough;
}

// A node for which both allocators need no less memory when it is an output: so the graph becomes another one, whose
// buffers are large enough.
static struct ggml_tensor * other_output(struct in_turn * times, struct planned_graph planned) {
    size_t sizes[BOTH][MOST_TYPES];
    planned_sizes(times, GGML, planned, sizes[GGML]);
    planned_sizes(times, LASTUSE, planned, sizes[LASTUSE]);
    for (int i = 0; i < planned.graph->n_nodes; i++) {
        struct ggml_tensor * node = planned.graph->nodes[i];
        if (node->view_src != NULL || node->data != NULL || (node->flags & GGML_TENSOR_FLAG_OUTPUT) != 0) {
            continue;
        }
        node->flags |= GGML_TENSOR_FLAG_OUTPUT;
        const bool is_enough = needs_as_much(times, GGML, planned, sizes[GGML])
            && needs_as_much(times, LASTUSE, planned, sizes[LASTUSE]);
        node->flags &= ~GGML_TENSOR_FLAG_OUTPUT;
        if (is_enough) {
            return node;
        }
    }
    stop_unless(false, "plan another graph as large");
    return NULL;
}

// Returns the time that an allocator takes for a graph; `*done` tells whether it allocated the graph.
static uint64_t allocation_time(struct in_turn * times, int which, ggml_gallocr_t galloc, struct ggml_cgraph * graph,
                                bool * done) {
    const uint64_t begin = nanoseconds_now();
    *done                = times->functions[which].alloc_graph(galloc, graph);
    const uint64_t time  = nanoseconds_now() - begin;
    put_back_memory(&times->memory);
    return time;
}

static void time_allocation(struct in_turn * times, struct samples * samples, int which, ggml_gallocr_t galloc,
                            struct ggml_cgraph * graph) {
    bool           done;
    const uint64_t time = allocation_time(times, which, galloc, graph, &done);
    stop_unless(done, "allocate a graph");
    add_sample(samples, which, time);
}

// All calls of a new allocator for a graph that is new to it.
static void time_new_allocator(struct in_turn * times, int which, struct planned_graph planned,
                               struct ggml_tensor * other) {
    const struct allocator_functions * functions = &times->functions[which];
    ggml_gallocr_t galloc = new_allocator(times, which);
    other->flags |= GGML_TENSOR_FLAG_OUTPUT;
    stop_unless(reserve(functions, galloc, planned), "reserve another graph");
    other->flags &= ~GGML_TENSOR_FLAG_OUTPUT;

    size_t   sizes[MOST_TYPES];
    uint64_t begin = nanoseconds_now();
    measure(functions, galloc, planned, sizes);
    add_sample(&times->size, which, nanoseconds_now() - begin);
    begin = nanoseconds_now();
    const bool done = reserve(functions, galloc, planned);
    add_sample(&times->reserve, which, nanoseconds_now() - begin);
    stop_unless(done, "reserve a graph");

    time_allocation(times, &times->first, which, galloc, planned.graph);
    time_allocation(times, &times->again, which, galloc, planned.graph);
    functions->free(galloc);
}

// To be called with the graphs that llama.cpp reserves memory for. The first one, that of a prompt, is timed.
static void time_planning(struct in_turn * times, struct planned_graph planned) {
    pretend_addresses(&times->memory, planned.graph);
    note_memory(&times->memory, planned.graph);
    const bool is_first = times->serving[GGML] == NULL;
    if (is_first) {
        printf("nodes=%d\n", planned.graph->n_nodes);
        struct ggml_tensor * other = other_output(times, planned);
        for (long long round = 0; round < times->rounds; round++) {
            time_new_allocator(times, (int) (round % BOTH), planned, other);
            time_new_allocator(times, (int) ((round + 1) % BOTH), planned, other);
        }
    }
    for (int which = 0; which < BOTH; which++) {
        if (is_first) {
            times->serving[which] = new_allocator(times, which);
        }
        stop_unless(reserve(&times->functions[which], times->serving[which], planned), "reserve a graph");
    }
}

// To be called with the graphs that llama.cpp allocates.
static void time_rebuilt(struct in_turn * times, struct ggml_cgraph * graph) {
    pretend_addresses(&times->memory, graph);
    note_memory(&times->memory, graph);
    const int first = (int) (times->rebuilt.count[GGML] % BOTH);
    uint64_t  time[BOTH];
    bool      done[BOTH];
    for (int i = 0; i < BOTH; i++) {
        const int which = i == 0 ? first : 1 - first;
        time[which]     = allocation_time(times, which, times->serving[which], graph, &done[which]);
    }
    stop_unless(done[LASTUSE] || !done[GGML], "allocate a graph that ggml's own allocates");
    // llama.cpp's scheduler reserves memory for one that is refused.
    if (done[GGML]) {
        add_sample(&times->rebuilt, GGML, time[GGML]);
        add_sample(&times->rebuilt, LASTUSE, time[LASTUSE]);
    }
}

// To be called with the graphs that llama.cpp reserves memory for while it computes.
static void reserve_again(struct in_turn * times, struct planned_graph planned) {
    pretend_addresses(&times->memory, planned.graph);
    for (int which = 0; which < BOTH; which++) {
        stop_unless(reserve(&times->functions[which], times->serving[which], planned), "reserve a graph again");
    }
}

static void print_times_in_turn(struct in_turn * times) {
    print_samples(&times->size);
    print_samples(&times->reserve);
    print_samples(&times->first);
    print_samples(&times->again);
    print_samples(&times->rebuilt);
}
