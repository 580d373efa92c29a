// Functions of lastuse, weak: the program also links and runs where ggml's own allocator is the only one.
#pragma once

#include "ggml-alloc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

const char * lastuse_version(void) __attribute__((weak));
bool         lastuse_enabled(void) __attribute__((weak));
uint64_t     lastuse_plan_count(void) __attribute__((weak));
size_t       lastuse_gallocr_lower_bound(ggml_gallocr_t galloc, int buffer_id) __attribute__((weak));

static inline bool lastuse_is_allocating(void) {
    return lastuse_version != NULL && lastuse_enabled != NULL && lastuse_enabled();
}
