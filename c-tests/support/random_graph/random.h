// Deterministic random numbers: they depend on the state alone.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// splitmix64
static inline uint64_t next_random(uint64_t * state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z          = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z          = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// In [0, n).
static inline int64_t random_below(uint64_t * state, int64_t n) {
    return (int64_t) (next_random(state) % (uint64_t) n);
}

// In [low, high].
static inline int64_t random_between(uint64_t * state, int64_t low, int64_t high) {
    return low + random_below(state, high - low + 1);
}

static inline bool random_chance(uint64_t * state, int percent) {
    return random_below(state, 100) < percent;
}

// In [-1, 1).
static inline float random_unit(uint64_t * state) {
    return (float) (next_random(state) >> 40) / (float) (1 << 23) - 1.0f;
}
