// Operations computed by the real kernels of the CPU, or of another device, in the memory of their own sources,
// compared bit by bit with the same operations in their own memory.
//
// The rules state which sources may be overwritten. lastuse relies on them: each rule there is proven by one here.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ggml-backend.h"
#include "ggml.h"

// The layout of an operand and of the result.
enum layout {
    CONTIGUOUS  = 1,
    PADDED_ROWS = 2, // a gap behind each row
    PERMUTED    = 4, // rows and planes swapped
    TRANSPOSED  = 8, // columns and rows swapped: the elements of a row are apart
};

// One way to call an operation.
struct form {
    struct ggml_context * ctx;
    enum ggml_type        type;
    int64_t               ne[GGML_MAX_DIMS];
    enum layout           layout;
    int                   variant; // of the operation, from 0
};

// Sources by number, as a set.
#define SOURCE(i) (1u << (i))

// Types, as a set.
#define TYPE(name)  (UINT64_C(1) << GGML_TYPE_##name)
#define FLOAT_TYPES (TYPE(F32) | TYPE(F16) | TYPE(BF16))

// A version of ggml as a number that can be compared.
#define VERSION(major, minor, patch) (((major) * 1000 + (minor)) * 1000 + (patch))

int version_of_ggml(void);

// Gives the views in a context their addresses.
void init_views(struct ggml_context * ctx);

struct rule {
    const char * name;
    // Makes the operation. A source that may be overwritten is a separate tensor, or a view at its start.
    struct ggml_tensor * (*build)(struct form form);
    int      variants; // 0: only one
    unsigned sources;  // each of them may be overwritten, one at a time
    bool     together; // also all at once: each lies in a separate part of the result
    uint64_t types;
    unsigned layouts;  // 0: only contiguous
    int      since;    // the first version that has these kernels; 0: all
    int      before;   // the first version for which it no longer holds; 0: none
    bool     only_several_threads; // in BREAKING_RULES: holds with one
    bool     positive;             // no negative values, of which the operation would make NaNs
    bool     any_bytes;            // the values are only copied
    // The tensor at the address of source `i`, when it is not source `i`; NULL: source `i`.
    struct ggml_tensor * (*overwritten)(struct ggml_tensor * node, int i);
    // Its offset from the start of the result in bytes, may be negative; NULL: 0.
    ptrdiff_t (*offset)(const struct ggml_tensor * node, int i);
};

struct rules {
    const char *        name;
    const struct rule * items;
    int                 count;
};

#define RULES(name, items) { name, items, (int) (sizeof(items) / sizeof((items)[0])) }

// Safe ways to overwrite a source.
extern const struct rules ELEMENTWISE_RULES;
extern const struct rules BINARY_RULES;
extern const struct rules ROW_RULES;
extern const struct rules GATE_RULES;
extern const struct rules COPY_RULES;
extern const struct rules BACKWARD_RULES;
extern const struct rules PART_RULES;
// Unsafe ways: at least one shape gives other bits.
extern const struct rules BREAKING_RULES;

// Operations of rules of both kinds.
struct ggml_tensor * build_soft_max_back(struct form form);
struct ggml_tensor * build_cross_entropy_loss_back(struct form form);

// An operand of the form's shape, type and layout.
struct ggml_tensor * form_operand(struct form form);
// An operand of another shape, of the form's type and layout.
struct ggml_tensor * form_operand_of(struct form form, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3);
// Numbers from 0 to `limit` - 1, in falling order.
struct ggml_tensor * form_indices(struct form form, int64_t count, int64_t limit);
// Sets the layout of the form on `node`, as if ggml had created it so.
struct ggml_tensor * form_result(struct form form, struct ggml_tensor * node);
// The form with ne[0] as a multiple of `n`.
struct form form_with_multiple_of(struct form form, int64_t n);

// Writes values for `tensor` to `data`, memory of the host. They depend on the seed alone.
void fill_values(const struct ggml_tensor * tensor, void * data, uint64_t seed, const struct rule * rule);

// An operation with its sources and the expected result.
struct trial {
    const struct rule *   rule;
    struct form           form;
    ggml_backend_t        backend;
    ggml_backend_buffer_t arena; // of that backend
    char *                mirror; // the bytes of the arena, where they are not in memory of the host
    struct ggml_tensor *  node;
    struct ggml_cgraph *  graph;
    char *                truth; // the elements of the result, packed; NULL: the backend does not support the operation
};

// How an operation is computed.
enum turns {
    TOGETHER, // by threads, the normal way
    FORWARD,  // the parts of the threads one after the other
    BACKWARD, // the parts of the threads in reverse order
};

// The outcome of a trial.
enum outcome {
    SAME_BITS,
    OTHER_BITS,
    OTHER_WRITES, // equal bits, but memory outside the result was written
};

// Makes the operation and, if the backend supports it, computes it with one thread in its own memory.
struct trial trial_new(const struct rule * rule, struct form form, ggml_backend_t backend,
                       ggml_backend_buffer_t arena);
// Computes the result over `sources`.
enum outcome trial_run(struct trial * trial, unsigned sources, int n_threads, enum turns turns);
void trial_free(struct trial * trial);

// Whether the parts of the threads may be computed one after the other.
bool can_take_turns(const struct trial * trial);
void compute_in_turns(const struct trial * trial, int n_threads, enum turns turns);
