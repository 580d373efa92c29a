// An allocator under test, with the buffer types that it serves: lastuse and upstream's plan the same graphs in one
// process, and the outcomes are compared.
#pragma once

#include "check.h"
#include "dummy_buffer.h"
#include "random_graph.h"
#include "upstream.h"

#define MAX_BUFFERS 4
#define N_TYPES     3
#define MAX_CHUNKS  16

struct bench {
    const struct allocator_api * api;
    struct dummy_buft            types[N_TYPES];
    ggml_backend_buffer_type_t   bufts[MAX_BUFFERS]; // the last shares its type with the second
    int                          n_buffers;
    ggml_gallocr_t               galloc;
    struct log_capture           log;
};

struct outcome {
    bool   reserved;
    bool   allocated;
    size_t measured[MAX_BUFFERS]; // by reserve_n_size
    size_t held[MAX_BUFFERS];   // by get_buffer_size
};

// Buffer types whose buffers are address ranges without memory, and no allocator yet. `max_size` 0: buffers of any
// size.
void bench_prepare(struct bench * bench, const struct allocator_api * api, int n_buffers, size_t max_size);
// The allocator for these types.
void bench_open(struct bench * bench);
void bench_free(struct bench * bench);

// Both of the above, for both allocators.
void both_init(struct bench * ours, struct bench * theirs, int n_buffers, size_t max_size);
void both_free(struct bench * ours, struct bench * theirs);

// Measures, reserves and allocates. Reserving must not modify the graph.
struct outcome bench_plan(struct bench * bench, struct random_graph * g);

// The plan is right, every tensor is in a buffer of the right type, and every chunk is within its limit.
void bench_check_plan(const struct bench * bench, struct random_graph * g);
void bench_check_chunks(const struct bench * bench, const struct random_graph * g);

// Checks that return values and log lines are equal, and that no buffer is larger than upstream's.
void check_outcomes(uint64_t seed, const struct bench * ours, const struct outcome * a, const struct bench * theirs,
                   const struct outcome * b);
