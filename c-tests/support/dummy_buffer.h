// A ggml buffer type for tests: host memory with limits and failures that a test sets, and counters of every call that
// an allocator makes.
//
// One `struct dummy_buft` is one buffer type. It must outlive every buffer made from it. It is not thread-safe: a test
// with threads gives each thread its own buffer type.

#ifndef DUMMY_BUFFER_H
#define DUMMY_BUFFER_H

#include "ggml-backend-impl.h"
#include "ggml-backend.h"

#include <stdbool.h>
#include <stddef.h>

// The value of `allocs_left` and `inits_left` that never runs out.
#define DUMMY_UNLIMITED (-1L)

// The number of calls that the allocator under test has made. A test may set any of them back to 0.
struct dummy_counts {
    size_t alloc_buffer;   // failed ones included
    size_t free_buffer;
    size_t get_alloc_size;
    size_t init_tensor;
    size_t reset;
};

struct dummy_memory; // the memory of one buffer

struct dummy_buft {
    struct ggml_backend_buffer_type type; // ggml's part; type.device is NULL unless a test sets it

    // Settings. All may be changed at any time.
    const char * name;
    size_t alignment;   // a power of two
    size_t max_size;    // bytes; advice to the allocator: larger requests are served, unless it is_strict
    bool   is_strict;
    bool   is_device;   // the processor cannot read its memory, for ggml: kernels of a GPU compute
    size_t byte_cap;    // bytes; a request that would make live_bytes larger fails
    long   allocs_left; // buffers that can still be had
    long   inits_left;  // tensors that can still be initialized
    bool   imaginary;   // buffers are address ranges without memory: for plans, not for computing
    bool   is_never_reset; // buffers have no function for that, as most backends'
    // Bytes that `tensor` needs beyond ggml_nbytes; NULL: none. ggml aborts when an op that it does
    // not list in ggml_op_alloc_size_may_expand() needs more; leafs and MUL_MAT may.
    size_t (*extra_bytes)(const struct ggml_tensor * tensor);

    // Observations.
    struct dummy_counts counts;
    size_t live_buffers;
    size_t live_bytes;
    size_t peak_bytes;     // the largest value that live_bytes has had
    size_t last_requested; // bytes; of the latest alloc_buffer, also when it failed
    struct dummy_memory * newest; // the live buffers, newest first
};

// A buffer type without failures, extra bytes or a device. `max_size` 0: no maximum.
void dummy_buft_init(struct dummy_buft * dummy, const char * name, size_t alignment, size_t max_size);

// The type in the form that ggml's functions take.
ggml_backend_buffer_type_t dummy_buft_type(struct dummy_buft * dummy);

// For `extra_bytes`: the padding of backends with quantized matrices. None for in-place operations, where ggml forbids
// it.
size_t dummy_row_padding(const struct ggml_tensor * tensor);

// Two buffer types, "first" and "second", without a maximum size.
struct dummy_pair {
    struct dummy_buft          dummies[2];
    ggml_backend_buffer_type_t types[2];
};

void dummy_pair_init(struct dummy_pair * pair, size_t alignment);

#define DUMMY_TYPES   3
#define DUMMY_BUFFERS 4

// Three buffer types without memory, for four buffers.
struct dummy_types {
    struct dummy_buft          dummies[DUMMY_TYPES];
    ggml_backend_buffer_type_t bufts[DUMMY_BUFFERS]; // the last repeats the second
};

// `max_size` 0: no maximum.
void dummy_types_init(struct dummy_types * types, size_t max_size);

// The live buffer with the given age: 0 is the oldest. NULL when there are fewer.
ggml_backend_buffer_t dummy_buft_live(const struct dummy_buft * dummy, size_t age);

// True when every live buffer has the given usage.
bool dummy_buft_all_have_usage(const struct dummy_buft * dummy, enum ggml_backend_buffer_usage usage);

// True when [data, data + size) lies inside one live buffer.
bool dummy_buft_contains(const struct dummy_buft * dummy, const void * data, size_t size);

#endif
