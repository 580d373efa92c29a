// The common part of tests of passes over random graphs: budgets, the kept results of a graph, and comparing them.
#pragma once

#include "check.h"
#include "ggml-alloc.h"
#include "ggml-cpu.h"
#include "lastuse.h"
#include "splitmix.h"

#define MOST_KEPT 12

// Element by element: views have gaps.
static inline void check_same(const struct ggml_tensor * t, const struct ggml_tensor * truth, uint64_t seed, const char * what) {
    CHECK(t->data != NULL, "seed %llu: %s %s has no memory", (unsigned long long) seed, what, truth->name);
    size_t size = ggml_type_size(truth->type);
    for (int64_t i = 0; i < ggml_nelements(truth); i++) {
        int64_t at[4];
        ggml_unravel_index(truth, i, &at[0], &at[1], &at[2], &at[3]);
        size_t here = 0, there = 0;
        for (int d = 0; d < 4; d++) {
            here += (size_t) at[d] * t->nb[d];
            there += (size_t) at[d] * truth->nb[d];
        }
        CHECK(memcmp((char *) t->data + here, (char *) truth->data + there, size) == 0,
              "seed %llu: %s %s (%s) differs in element %lld of %lld", (unsigned long long) seed, what, truth->name,
              ggml_op_name(truth->op), (long long) i, (long long) ggml_nelements(truth));
    }
}

static inline size_t planned_size(struct ggml_cgraph * graph) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_reserve(galloc, graph), "not reserved");
    size_t size = ggml_gallocr_get_buffer_size(galloc, 0);
    ggml_gallocr_free(galloc);
    return size;
}

static inline size_t random_budget(const size_t limits[2], uint64_t * random) {
    size_t space = limits[1] - limits[0];
    size_t below = (size_t) (splitmix64(random) % 4096);
    switch (splitmix64(random) % 4) {
        case 0:  return limits[0];
        case 1:  return below < space ? limits[1] - 1 - below : limits[0];
        default: return limits[0] + (size_t) (splitmix64(random) % (space + 1));
    }
}

static inline ggml_gallocr_t new_allocator(void) {
    return ggml_gallocr_new(ggml_backend_cpu_buffer_type());
}

// A pass refused its arguments, and has said and logged why.
static inline void check_refusal(bool accepted, const struct log_capture * errors, const char * reason) {
    CHECK(!accepted, "accepted, though %s", reason);
    CHECK(strstr(lastuse_last_error(), reason) != NULL, "the reason is: %s", lastuse_last_error());
    CHECK(log_capture_has(errors, reason), "the reason is not logged");
}

// A `progress` that ends a pass at once.
static inline bool cancel(float done, void * user_data) {
    (void) done;
    (void) user_data;
    return false;
}

// A function of the program, for ggml_map_custom1().
static inline void copy_rows(struct ggml_tensor * dst, const struct ggml_tensor * src, int ith, int nth, void * user_data) {
    (void) user_data;
    (void) nth;
    if (ith == 0) {
        memcpy(dst->data, src->data, ggml_nbytes(dst));
    }
}

// Values of a graph that the program reads besides its result: values that were retained or dedicated.
struct kept {
    struct ggml_tensor * tensors[MOST_KEPT];
    struct ggml_tensor * truths[MOST_KEPT];
    const char *         how[MOST_KEPT];
    int                  count;
};

static inline void keep(struct kept * kept, struct ggml_tensor * t, struct ggml_tensor * truth, const char * how) {
    kept->tensors[kept->count]  = t;
    kept->truths[kept->count]   = truth;
    kept->how[kept->count++] = how;
}
