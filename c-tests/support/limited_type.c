#include "limited_type.h"

#include <stdlib.h>

struct dummy_buft * limited_type_new(size_t alignment, size_t max_size) {
    struct dummy_buft * type = malloc(sizeof(*type));
    if (type == NULL) {
        abort(); // the machine is out of memory: no result of this test would mean anything
    }
    dummy_buft_init(type, "limited", alignment, max_size);
    type->imaginary = true;
    return type;
}

void limited_type_free(struct dummy_buft * type) {
    free(type);
}

ggml_backend_buffer_type_t limited_type_get(struct dummy_buft * type) {
    return dummy_buft_type(type);
}

size_t limited_type_buffers(const struct dummy_buft * type) {
    return type->live_buffers;
}

size_t limited_type_bytes(const struct dummy_buft * type) {
    return type->live_bytes;
}
