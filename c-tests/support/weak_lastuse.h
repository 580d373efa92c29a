// Functions of lastuse, weak: the program also links and runs where ggml's own allocator is the only one.
#pragma once

#include "ggml-alloc.h"
#include "reports.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma weak lastuse_version
#pragma weak lastuse_enabled
#pragma weak lastuse_stats_report
#pragma weak lastuse_gallocr_report
#pragma weak lastuse_graph_remove_copies
#pragma weak lastuse_graph_reorder
#pragma weak lastuse_offload_item_report

static inline bool lastuse_is_allocating(void) {
    return lastuse_version != NULL && lastuse_enabled != NULL && lastuse_enabled();
}
