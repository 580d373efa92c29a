// lastuse.h may be included again, and before or after ggml's own headers.

#include "lastuse.h"
#include "ggml-alloc.h"
#include "lastuse.h"
#include "set_output_twice.h"

int main(void) {
    // Both headers mean the same allocator.
    size_t (*wanted_size)(ggml_gallocr_t, int) = lastuse_gallocr_wanted_size;
    size_t (*lower_bound)(struct ggml_gallocr *, int) = lastuse_gallocr_lower_bound;
    return wanted_size != lower_bound && set_output_is_two_functions() ? 0 : 1;
}
