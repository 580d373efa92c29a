// A buffer type with a maximum and without real memory, for callers in other languages: everything
// is a function.

#ifndef LIMITED_TYPE_H
#define LIMITED_TYPE_H

#include "dummy_buffer.h"

// The caller owns it, and frees it after all of its buffers. `max_size` is in bytes.
struct dummy_buft * limited_type_new(size_t alignment, size_t max_size);
void limited_type_free(struct dummy_buft * type);

// The type in the form that ggml's functions take.
ggml_backend_buffer_type_t limited_type_get(struct dummy_buft * type);

// Its live buffers, and their bytes together.
size_t limited_type_buffers(const struct dummy_buft * type);
size_t limited_type_bytes(const struct dummy_buft * type);

#endif
