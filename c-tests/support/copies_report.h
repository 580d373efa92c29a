// Removes copies and checks that the report agrees with the graph.
#pragma once

#include "check.h"
#include "ggml-backend.h"
#include "graph_fields.h"
#include "lastuse.h"
#include "reports.h"

static inline int left_of(const struct lastuse_copies_report * r) {
    return (int) r->left_type + (int) r->left_producer + (int) r->left_readers + (int) r->left_part + (int) r->left_layout + (int) r->left_order +
           (int) r->left_overlap + (int) r->left_memory + (int) r->left_device + (int) r->left_slot + (int) r->left_peak;
}

static inline bool is_copy(const struct ggml_tensor * t) {
    return t->op == GGML_OP_CPY || t->op == GGML_OP_CONT || t->op == GGML_OP_DUP || t->op == GGML_OP_CONCAT;
}

// The copies that are made.
static inline int count_copies(const struct ggml_cgraph * graph) {
    int count = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct ggml_tensor * t = graph->nodes[i];
        count += is_copy(t) && ggml_nelements(t) > 0 && is_computed(graph, t);
    }
    return count;
}

// Removes copies and checks the report against the graph.
static inline struct lastuse_copies_report remove_copies(struct ggml_cgraph * graph, ggml_backend_buffer_type_t buft) {
    struct lastuse_copies_report report  = { .struct_size = sizeof(report) };
    int                          before  = count_copies(graph);
    int                          n_nodes = graph->n_nodes;
    int                          removed = copies_removed(graph, buft, &report);
    CHECK(removed == (int) report.removed && report.struct_size == sizeof(report), "%d and %d", removed, (int) report.removed);
    CHECK(removed + left_of(&report) == before, "%d of %d copies are reported", removed + left_of(&report), before);
    CHECK(count_copies(graph) == before - removed, "%d of %d copies are there", count_copies(graph), before);
    CHECK((removed > 0) == (report.bytes_removed > 0), "%zu bytes in %d copies", report.bytes_removed, removed);
    CHECK(graph->n_nodes == n_nodes, "%d nodes", graph->n_nodes);
    return report;
}
