// One random graph tried in one of several ways. A finding ends the process with a message, a
// crash or an abort.
#pragma once

#include <stdint.h>

#include "ggml-backend.h"

enum fuzz_kind {
    FUZZ_PLANNED,   // planned by lastuse and by upstream: equal outcomes, never larger, validated
    FUZZ_REPLANNED, // one allocator for a graph that changes: no stale plan is used
    FUZZ_COMPUTED,  // computed, and compared bit for bit with the graph in its own memory
    FUZZ_SHARED,    // two to five graphs computed in turns in one arena, and compared so
    FUZZ_KINDS,
};

// In percent.
struct fuzz_shares {
    long long computed;
    long long shared;
};

// The way depends on the seed alone, so that a seed reproduces a finding.
enum fuzz_kind fuzz_kind_of(uint64_t seed, struct fuzz_shares shares);

// `cpu` computes, in one thread. Returns the number of turns that graphs took in an arena.
uint64_t fuzz_graph(ggml_backend_t cpu, uint64_t seed, enum fuzz_kind kind);
