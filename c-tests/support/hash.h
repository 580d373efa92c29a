// A hash of bytes: FNV-1a with 64 bits.
#pragma once

#include <stddef.h>
#include <stdint.h>

static inline uint64_t fnv1a_64(uint64_t hash, const void * data, size_t size) {
    const uint8_t * bytes = data;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001B3);
    }
    return hash;
}

static const uint64_t FNV1A_64_START = UINT64_C(0xCBF29CE484222325);
