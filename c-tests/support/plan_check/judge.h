// The judge of a plan: it knows who owns which byte while the nodes run, and notes the first thing that is wrong.
#pragma once

#include "tensors.h"

struct owned_range {
    struct range               range;
    const struct ggml_tensor * owner;
};

struct judge {
    const struct ggml_cgraph * graph;
    struct owned_range *       owned; // disjoint
    int                        n_owned;
    bool *                     skipped; // by step: no backend computes the node, and none that is computed reads it
    int                        capacity;
    char                       reason[512];
};

// Notes the reason; returns false, as the parts of the judgement do then.
bool judge_fails(struct judge * j, const char * format, ...);

// Gives the bytes to a new owner, whoever had them.
void take(struct judge * j, struct range range, const struct ggml_tensor * owner);

bool owns(const struct judge * j, const struct ggml_tensor * owner, struct range range);
bool owns_anything(const struct judge * j, const struct ggml_tensor * owner);

// For messages: an owner other than the given one.
const char * other_owner(const struct judge * j, const struct ggml_tensor * owner, struct range range);

// Finds out which nodes are skipped.
void find_skipped(struct judge * j);

// Each tensor by itself: it has memory where it may lie.
bool judge_places(struct judge * j);

// Before the first node: what holds its bytes from the start does not overlap.
bool judge_start(struct judge * j);

// The nodes in their order.
bool judge_steps(struct judge * j);

// What must be kept is still there.
bool judge_end(struct judge * j);
