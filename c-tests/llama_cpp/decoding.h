// What programs that decode have in common: the clock, and greedy sampling.

#pragma once

#include "llama.h"

#include <time.h>

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

static llama_token most_likely_token(const float * logits, int32_t vocab_size) {
    llama_token best = 0;
    for (llama_token token = 1; token < vocab_size; token++) {
        if (logits[token] > logits[best]) {
            best = token;
        }
    }
    return best;
}
