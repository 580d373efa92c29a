// Times of the same call of both allocators.

#pragma once

#include "allocators.h"

#include <inttypes.h>
#include <stdint.h>
#include <time.h>

enum { MAX_SAMPLES = 4096 };

struct samples {
    const char * name;
    uint64_t     nanoseconds[BOTH][MAX_SAMPLES];
    size_t       count[BOTH];
};

static uint64_t nanoseconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

static void add_sample(struct samples * samples, int which, uint64_t nanoseconds) {
    if (samples->count[which] < MAX_SAMPLES) {
        samples->nanoseconds[which][samples->count[which]++] = nanoseconds;
    }
}

static int compare_times(const void * a, const void * b) {
    const uint64_t left  = *(const uint64_t *) a;
    const uint64_t right = *(const uint64_t *) b;
    return (left > right) - (left < right);
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
