// lastuse and another static library written in Rust, in one program.

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "lastuse.h"

size_t another(uint32_t n);

int main(void) {
    ggml_gallocr_t allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    ggml_gallocr_free(allocator);
    return lastuse_enabled() && another(7) == 7 ? 0 : 1;
}
