// Single numbers of what lastuse reports, and passes with their parameters as arguments.

#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lastuse.h"

// The plans that the process has made, 0 if lastuse is not enabled.
static inline uint64_t plans_made(void) {
    struct lastuse_stats stats = { .struct_size = sizeof(stats) };
    lastuse_stats_report(&stats);
    return stats.plans;
}

// The lower bound of the latest plan for a buffer, 0 if lastuse has not created the allocator.
static inline size_t lower_bound_of(struct ggml_gallocr * galloc, int buffer_id) {
    struct lastuse_gallocr_sizes sizes = { .struct_size = sizeof(sizes) };
    lastuse_gallocr_report(galloc, buffer_id, &sizes);
    return sizes.lower_bound;
}

// The bytes that the latest plan requires for a buffer, 0 if lastuse has not created the allocator.
static inline size_t plan_size_of(struct ggml_gallocr * galloc, int buffer_id) {
    struct lastuse_gallocr_sizes sizes = { .struct_size = sizeof(sizes) };
    lastuse_gallocr_report(galloc, buffer_id, &sizes);
    return sizes.plan_size;
}

// Removes copies. Returns how many; report may be NULL.
static inline size_t copies_removed(struct ggml_cgraph * graph, struct ggml_backend_buffer_type * buft,
                                    struct lastuse_copies_report * report) {
    struct lastuse_copies_params params = { .struct_size = sizeof(params), .buft = buft };
    struct lastuse_copies_report own    = { .struct_size = sizeof(own) };
    report                              = report != NULL ? report : &own;
    return lastuse_graph_remove_copies(graph, &params, report) ? report->removed : 0;
}

// Reorders nodes; report may be NULL.
static inline bool is_reordered(struct ggml_cgraph * graph, struct ggml_backend_buffer_type * buft, uint64_t effort,
                                struct lastuse_reorder_report * report) {
    struct lastuse_reorder_params params = { .struct_size = sizeof(params), .buft = buft, .effort = effort };
    return lastuse_graph_reorder(graph, &params, report);
}

// The number of the device that an item is placed on, -1 if it is not placed.
static inline int device_of_item(const struct lastuse_offload * offload, int item) {
    struct lastuse_offload_place place = { .struct_size = sizeof(place) };
    return lastuse_offload_item_report(offload, item, &place) ? place.device : -1;
}

// The number of rows of an item on a device, whose number is written to device.
static inline uint64_t rows_of_item(const struct lastuse_offload * offload, int item, int * device) {
    struct lastuse_offload_place place = { .struct_size = sizeof(place) };
    place.rows_device                  = -1;
    lastuse_offload_item_report(offload, item, &place);
    *device = place.rows_device;
    return place.n_rows;
}
