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

static int compare_ratios(const void * a, const void * b) {
    const double left  = *(const double *) a;
    const double right = *(const double *) b;
    return (left > right) - (left < right);
}

// Time of lastuse divided by that of ggml's own allocator, for calls that were made one after the other. A machine is
// faster or slower for milliseconds, so the ratio of the medians would vary more.
static double median_ratio(const struct samples * samples) {
    static double ratios[MAX_SAMPLES];
    const size_t  count = samples->count[GGML] < samples->count[LASTUSE] ? samples->count[GGML] : samples->count[LASTUSE];
    for (size_t i = 0; i < count; i++) {
        ratios[i] = (double) samples->nanoseconds[LASTUSE][i] / (double) samples->nanoseconds[GGML][i];
    }
    qsort(ratios, count, sizeof(double), compare_ratios);
    return ratios[count / 2];
}

// One line: the name, the medians of ggml's own allocator and of lastuse in nanoseconds, and the median of the ratio.
static void print_samples(struct samples * samples) {
    if (samples->count[GGML] > 0 && samples->count[LASTUSE] > 0) {
        const double ratio = median_ratio(samples); // before the times are sorted
        printf("%s=%" PRIu64 " %" PRIu64 " %.4f\n", samples->name, median_time(samples, GGML),
               median_time(samples, LASTUSE), ratio);
    }
}
