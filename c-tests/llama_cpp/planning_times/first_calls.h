// The first calls of a process.

#pragma once

#include "allocators.h"
#include "planned_graph.h"
#include "samples.h"
#include "tensor_memory.h"

struct first_calls {
    bool     reserves; // or else asks for the size
    uint64_t new_nanoseconds;
};

static ggml_gallocr_t time_first_new(struct first_calls * times, const struct allocator_functions * functions,
                                     ggml_backend_buffer_type_t * bufts, int n_bufs) {
    const uint64_t begin = nanoseconds_now();
    ggml_gallocr_t galloc = functions->new_n(bufts, n_bufs);
    times->new_nanoseconds = nanoseconds_now() - begin;
    return galloc;
}

static void print_first_call(const char * name, uint64_t begin) {
    printf("%s=%" PRIu64 "\n", name, nanoseconds_now() - begin);
}

// Plans the first graph, gives it memory if that was reserved, and ends the program: nothing after that is the first of
// its kind.
static void time_first_calls(const struct first_calls * times, const struct allocator_functions * functions,
                             ggml_gallocr_t galloc, struct planned_graph planned) {
    struct graph_memory memory = { 0 };
    pretend_addresses(&memory, planned.graph);
    printf("new=%" PRIu64 "\n", times->new_nanoseconds);
    uint64_t begin = nanoseconds_now();
    if (!times->reserves) {
        size_t size = 0;
        measure(functions, galloc, planned, &size);
        print_first_call("plan", begin);
        exit(EXIT_SUCCESS);
    }
    stop_unless(reserve(functions, galloc, planned), "reserve a graph");
    print_first_call("plan", begin);
    begin = nanoseconds_now();
    stop_unless(functions->alloc_graph(galloc, planned.graph), "allocate a graph");
    print_first_call("alloc", begin);
    exit(EXIT_SUCCESS);
}
