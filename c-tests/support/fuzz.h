// One random graph tried in one of several ways. A finding ends the process with a message; so does what a finding may
// make of it: a crash or an abort.
#pragma once

#include <stdint.h>

#include "ggml-backend.h"

enum fuzz_kind {
    FUZZ_PLANNED,   // planned by lastuse and by upstream: the same answers, never larger, judged
    FUZZ_REPLANNED, // one allocator for a graph that changes: no stale plan is used
    FUZZ_COMPUTED,  // computed, and compared bit for bit with the graph in memory of its own
    FUZZ_KINDS,
};

// The seed decides, so that a seed alone reproduces what was found. `computed` is in percent.
enum fuzz_kind fuzz_kind_of(uint64_t seed, int computed);

// `cpu` computes, in one thread.
void fuzz_graph(ggml_backend_t cpu, uint64_t seed, enum fuzz_kind kind);
