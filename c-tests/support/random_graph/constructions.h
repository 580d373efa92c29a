// Constructions: each takes values and adds one or more nodes; NULL when nothing fits.
#pragma once

#include "builder.h"

// The tensor itself, or a copy of it without gaps.
struct ggml_tensor * make_plain(struct builder * b, struct ggml_tensor * t);

struct ggml_tensor * pick_plain_f32(struct builder * b);

// elementwise.c: the result has the shape of the first source

struct ggml_tensor * make_unary(struct builder * b);
struct ggml_tensor * make_scale(struct builder * b);
struct ggml_tensor * make_arithmetic(struct builder * b);
struct ggml_tensor * make_norm(struct builder * b);
struct ggml_tensor * make_soft_max(struct builder * b);
struct ggml_tensor * make_rope(struct builder * b);
struct ggml_tensor * make_masked(struct builder * b);

// shapes.c: the values of the sources in another shape, layout or type

// A part of x along every dimension; all of it, at offset 0, now and then.
struct ggml_tensor * make_slice(struct builder * b);

struct ggml_tensor * make_reshape(struct builder * b);
struct ggml_tensor * make_permutation(struct builder * b);
struct ggml_tensor * make_cont(struct builder * b);
struct ggml_tensor * make_cast(struct builder * b);
struct ggml_tensor * make_concat(struct builder * b);
struct ggml_tensor * make_resized(struct builder * b);

// Programs make tensors without elements when a batch has nothing to give back.
struct ggml_tensor * make_empty(struct builder * b);

// parts.c: parts of a tensor are read or written

// Copies a value, or a new input, over a part of something.
struct ggml_tensor * make_copy(struct builder * b);

struct ggml_tensor * make_get_rows(struct builder * b);

// Writes rows of one matrix to places in another that an input names: usually a cache.
struct ggml_tensor * make_set_rows(struct builder * b);

// x with a part of it replaced or added to.
struct ggml_tensor * make_set(struct builder * b);

// Rows of a matrix, chosen by a computed index.
struct ggml_tensor * make_argmax(struct builder * b);

// blocks.c: matrix products, and the blocks of a language model that consist of them

struct ggml_tensor * make_mul_mat(struct builder * b);

// A residual block with a gated feed-forward network, as language models have them.
struct ggml_tensor * make_feed_forward(struct builder * b);

struct ggml_tensor * make_attention(struct builder * b);

// copying.c

// A result that is computed for a copy alone, and the copy.
struct ggml_tensor * make_produced_copy(struct builder * b);
