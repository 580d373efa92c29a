// Report: the measurements, for people or for programs.
#pragma once

#include "options.h"
#include "session.h"
#include "weak_lastuse.h"
#include "reports.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

static void allocator_name(char * name, size_t size) {
    if (lastuse_is_allocating()) {
        snprintf(name, size, "lastuse %s", lastuse_version());
    } else {
        snprintf(name, size, "ggml");
    }
}

// A value that is not known has no line.
static void print_machine(const struct options * opt, const struct results * results) {
    char name[128];
    allocator_name(name, sizeof(name));
    printf("allocator=%s\n", name);
    if (results->measured_size > 0) {
        printf("measured_bytes=%zu\n", results->measured_size);
    }
    printf("compute_buffer_bytes=%zu\n", results->buffer_size);
    if (results->has_lower_bound) {
        printf("lower_bound_bytes=%zu\n", results->lower_bound);
    }
    printf("plan_us=%.2f\n", results->plan_us);
    if (opt->decode > 0) {
        printf("alloc_graph_us=%.2f\n", results->alloc_graph_us);
    }
    printf("prompt_tokens_per_s=%.2f\n", results->prompt_tokens_per_s);
    if (opt->decode > 0) {
        printf("decode_tokens_per_s=%.2f\n", results->decode_tokens_per_s);
    }
    printf("logits_hash=%016" PRIx64 "\n", results->logits_hash);
    printf("cache_copies=%d\ncopied_bytes=%zu\n", results->copy_time.n_copies, results->copy_time.bytes);
    printf("copy_us=%.2f\n", results->copy_time.us);
    if (opt->copies == COPIES_REMOVED) {
        printf("copies_removed=%d\ncopies_left=%d\n", results->copies.removed, results->copies.left);
        printf("copied_bytes_removed=%zu\n", results->copies.bytes_removed);
    }
    if (lastuse_stats_report != NULL) {
        printf("plans=%" PRIu64 "\n", plans_made());
    }
}

static void print_bytes(const char * label, size_t bytes) {
    printf("%-18s %12zu bytes (%.2f MiB)\n", label, bytes, (double) bytes / (1024.0 * 1024.0));
}

static void print_table(const struct options * opt, const struct results * results) {
    char name[128];
    allocator_name(name, sizeof(name));
    printf("%-18s %12s\n", "allocator", name);
    if (results->measured_size > 0) {
        print_bytes("measured before", results->measured_size);
    }
    print_bytes("compute buffer", results->buffer_size);
    if (results->has_lower_bound) {
        print_bytes("lower bound", results->lower_bound);
    } else {
        printf("%-18s %12s\n", "lower bound", "unknown");
    }
    printf("%-18s %12.2f us, median of %d, %d nodes\n", "plan", results->plan_us, PLAN_SAMPLES, results->n_nodes);
    if (opt->decode > 0) {
        printf("%-18s %12.2f us, median of %d\n", "alloc graph", results->alloc_graph_us, opt->decode);
    } else {
        printf("%-18s %12s\n", "alloc graph", "unknown");
    }
    printf("%-18s %12.2f tokens/s, %d tokens\n", "prompt", results->prompt_tokens_per_s, opt->prompt);
    if (opt->decode > 0) {
        printf("%-18s %12.2f tokens/s, %d tokens\n", "decode", results->decode_tokens_per_s, opt->decode);
    } else {
        printf("%-18s %12s\n", "decode", "unknown");
    }
    printf("%-18s %016" PRIx64 "\n", "logits hash", results->logits_hash);
    printf("%-18s %12.2f us, median of %d: %d copies into the cache, %zu bytes\n", "copies of a prompt",
           results->copy_time.us, COPY_SAMPLES, results->copy_time.n_copies, results->copy_time.bytes);
    if (opt->copies == COPIES_REMOVED) {
        printf("%-18s %12d of %d, %zu bytes in the prompt\n", "copies removed", results->copies.removed,
               results->copies.removed + results->copies.left, results->copies.bytes_removed);
    }
    if (lastuse_stats_report != NULL) {
        printf("%-18s %12" PRIu64 "\n", "plans", plans_made());
    }
}
