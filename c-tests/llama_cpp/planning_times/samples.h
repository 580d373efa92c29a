// Times of the same call of both allocators.

#pragma once

#include "../clock.h"
#include "allocators.h"

#include <inttypes.h>
#include <stdint.h>

enum { MAX_SAMPLES = 4096 };

struct samples {
    const char * name;
    uint64_t     nanoseconds[BOTH][MAX_SAMPLES];
    size_t       count[BOTH];
};

static void add_sample(struct samples * samples, int which, uint64_t nanoseconds) {
    if (samples->count[which] < MAX_SAMPLES) {
        samples->nanoseconds[which][samples->count[which]++] = nanoseconds;
    }
}

static uint64_t median_time(struct samples * samples, int which) {
    qsort(samples->nanoseconds[which], samples->count[which], sizeof(uint64_t), compare_times);
    return samples->nanoseconds[which][samples->count[which] / 2];
}

// One line: the name, and the medians of ggml's own allocator and of lastuse in nanoseconds.
static void print_samples(struct samples * samples) {
    if (samples->count[GGML] > 0 && samples->count[LASTUSE] > 0) {
        printf("%s=%" PRIu64 " %" PRIu64 "\n", samples->name, median_time(samples, GGML), median_time(samples, LASTUSE));
    }
}
