// Layouts of destinations of ggml_set_output(), and operations to try them with, besides those of in_place.h.
#pragma once

#include "in_place.h"

// The strides that an operation must support to write a layout: `Strides` of lastuse, from the second on.
enum writes { WRITES_CONTIGUOUS, WRITES_PADDED_ROWS, WRITES_ROWS, WRITES_ANYTHING, WRITES_COUNT };

extern const char * const WRITES_NAMES[WRITES_COUNT];

// The number of layouts.
#define WANTED_LAYOUTS 7

// A tensor of the shape and type of `result`, inside a larger one. `layout` is less than WANTED_LAYOUTS.
struct ggml_tensor * dst_tensor(struct ggml_context * ctx, const struct ggml_tensor * result, int layout);

// The strides that an operation must support to write `dst`; `result` has no gaps.
enum writes writes_needed(const struct ggml_tensor * result, const struct ggml_tensor * dst);

// Operations that are never computed in place.
extern const struct rules OTHER_OPERATIONS;
