// Copies: those of a graph that lastuse can do without, where it is linked or preloaded.
#pragma once

#include "errors.h"
#include "ggml.h"
#include "ggml-backend.h"
#include "lastuse.h"
#include "reports.h"

#include <stddef.h>

// The program also links and runs where ggml's own allocator is the only one.
#pragma weak lastuse_graph_remove_copies

struct copies {
    int    removed;
    int    left;
    size_t bytes_removed;
};

static struct copies remove_copies(struct ggml_cgraph * cgraph) {
    if (lastuse_graph_remove_copies == NULL) {
        die("--copies removed: lastuse is neither linked nor preloaded");
    }
    struct lastuse_copies_report report = { .struct_size = sizeof(report) };
    copies_removed(cgraph, ggml_backend_cpu_buffer_type(), &report);
    return (struct copies) {
        .removed       = report.removed,
        .bytes_removed = report.bytes_removed,
        .left = report.left_type + report.left_producer + report.left_readers + report.left_part + report.left_layout +
                report.left_order + report.left_overlap + report.left_memory + report.left_device + report.left_slot +
                report.left_peak,
    };
}
