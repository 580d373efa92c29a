// Brute-force judgement of an allocated graph, by its addresses alone: it knows nothing of how they
// were chosen.
//
// The nodes are gone through in their order, and for every byte it is known whose it is: that of a
// tensor which is not a view; a node that no backend computes has none. Tensors without operation, inputs and memory that the allocator did not
// place hold their bytes from the start; a node takes the bytes that it writes.
#pragma once

#include <stdbool.h>

#include "ggml-backend.h"
#include "ggml.h"

// To be called after the graph was allocated, and before it is computed or allocated again. Returns
// NULL when the plan is right, else the reason, which names tensors and step and is valid until the
// next call. Memory counts as placed by the allocator when its buffer has usage COMPUTE.
const char * plan_check(struct ggml_cgraph * graph);

// Whether all memory is of the right buffer type: the one that the ids ask for, or that of the source
// whose memory a node took over. Returns as plan_check() does. The ids may be NULL.
const char * plan_check_buffer_types(struct ggml_cgraph * graph, const ggml_backend_buffer_type_t * bufts,
                                     const int * node_buffer_ids, const int * leaf_buffer_ids);
