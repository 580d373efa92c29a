// Random graphs in turns through two to five allocators of one arena, on the CPU: each result is what it is in memory of its own, and
// together the allocators take the bytes of the largest.
#pragma once

#include <stdint.h>

#include "ggml-backend.h"

// Returns the number of turns.
uint64_t shared_turns(ggml_backend_t cpu, uint64_t seed);
