// The common part of programs that decode: the clock, and greedy sampling.

#pragma once

#include "llama.h"

#include <time.h>

static inline double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

// Seconds that this process has computed: what other programs take of the processor is not in it. With one thread that
// is the time that passes on a machine that does nothing else.
static inline double processor_seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

static inline llama_token most_likely_token(const float * logits, int32_t vocab_size) {
    llama_token best = 0;
    for (llama_token token = 1; token < vocab_size; token++) {
        if (logits[token] > logits[best]) {
            best = token;
        }
    }
    return best;
}
