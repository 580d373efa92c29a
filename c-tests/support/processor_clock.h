// The clock of programs whose speed is compared.

#pragma once

#include <time.h>

// Seconds that this process has computed: what other programs take of the processor is not in it.
static inline double processor_seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}
