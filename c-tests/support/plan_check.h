// A brute-force validator of allocated graphs: it uses addresses alone and shares no code with an allocator.
//
// It simulates the nodes in their order and tracks which tensor's value each byte holds. Views have no bytes of their
// own, nor has a node that no backend computes. Tensors without operation, inputs and memory that the allocator did not
// place hold their values from the start; a node holds the bytes that it writes.
#pragma once

#include <stdbool.h>

#include "check.h"
#include "ggml-backend.h"
#include "ggml.h"

// Validates a graph after it was allocated, before it is computed or allocated again. Returns NULL when the plan is
// valid, otherwise the reason, which names tensors and step and is valid until the next call. Memory counts as placed
// by the allocator when its buffer has usage COMPUTE.
const char * plan_check(struct ggml_cgraph * graph);

// Ends the program unless the plan is valid. The format and its arguments name the graph.
#define CHECK_PLAN(graph, ...)                                   \
    do {                                                         \
        const char * reason_ = plan_check(graph);                \
        if (reason_ != NULL) {                                   \
            fprintf(stderr, __VA_ARGS__);                        \
            fprintf(stderr, ": ");                               \
        }                                                        \
        CHECK(reason_ == NULL, "%s", reason_);                   \
    } while (0)

// Validates that all memory is in the required buffer type: the one of the id, or that of the source that a node is
// computed in place of. Returns what plan_check() returns. The ids may be NULL.
const char * plan_check_buffer_types(struct ggml_cgraph * graph, const ggml_backend_buffer_type_t * bufts,
                                     const int * node_buffer_ids, const int * leaf_buffer_ids);
