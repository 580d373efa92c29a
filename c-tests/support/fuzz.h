// One random graph tried in one of several ways. A finding ends the process with a message, a
// crash or an abort.
#pragma once

#include <stdint.h>

#include "ggml-backend.h"

enum fuzz_kind {
    FUZZ_PLANNED,   // planned by lastuse and by upstream: equal outcomes, never larger, validated
    FUZZ_REPLANNED, // one allocator for a graph that changes: no stale plan is used
    FUZZ_COMPUTED,  // computed, and compared bit for bit with the graph in its own memory; some more in turns in an arena
    FUZZ_KINDS,
};

// The way depends on the seed alone, so that a seed reproduces a finding. `computed` is in percent.
enum fuzz_kind fuzz_kind_of(uint64_t seed, int computed);

// `cpu` computes, in one thread.
void fuzz_graph(ggml_backend_t cpu, uint64_t seed, enum fuzz_kind kind);
