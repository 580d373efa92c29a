// Which tensor's value each byte holds while the nodes run, and the first error.
#pragma once

#include "tensors.h"

struct owned_range {
    struct range               range;
    const struct ggml_tensor * owner;
};

struct checker {
    const struct ggml_cgraph * graph;
    struct owned_range *       owned; // disjoint
    int                        n_owned;
    bool *                     skipped; // by step: no backend computes the node, and none that is computed reads it
    int                        capacity;
    char                       reason[512];
};

// Sets the reason and returns false, as every check does when it fails.
bool check_fails(struct checker * c, const char * format, ...);

// Makes `owner` the owner of the bytes.
void take(struct checker * c, struct range range, const struct ggml_tensor * owner);

bool owns(const struct checker * c, const struct ggml_tensor * owner, struct range range);
bool owns_anything(const struct checker * c, const struct ggml_tensor * owner);

// Returns the name of another owner of some of the bytes, for messages.
const char * other_owner(const struct checker * c, const struct ggml_tensor * owner, struct range range);

// Sets which nodes are skipped.
void find_skipped(struct checker * c);

// Each tensor by itself: its memory is inside its buffer, aligned, and a view is inside its root.
bool check_addresses(struct checker * c);

// Before the first node: tensors that hold values from the start do not overlap.
bool check_start(struct checker * c);

// The nodes in their order: sources hold their values, writes are allowed.
bool check_steps(struct checker * c);

// After the last node: outputs, unread results and external memory hold their values.
bool check_end(struct checker * c);
