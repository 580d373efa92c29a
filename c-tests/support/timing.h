// How long things take.
#pragma once

#include <stdlib.h>
#include <time.h>

static inline double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec * 1e6 + (double) now.tv_nsec * 1e-3;
}

static inline int compare_doubles(const void * a, const void * b) {
    const double x = *(const double *) a;
    const double y = *(const double *) b;
    return (x > y) - (x < y);
}

// Sorts the samples in place.
static inline double median(double * samples, int count) {
    qsort(samples, (size_t) count, sizeof(*samples), compare_doubles);
    return count % 2 == 1 ? samples[count/2] : (samples[count/2 - 1] + samples[count/2]) / 2;
}
