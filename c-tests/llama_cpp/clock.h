// Times in nanoseconds.
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t nanoseconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

// For qsort().
static inline int compare_times(const void * a, const void * b) {
    const uint64_t left  = *(const uint64_t *) a;
    const uint64_t right = *(const uint64_t *) b;
    return (left > right) - (left < right);
}
