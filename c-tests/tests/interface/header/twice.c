// lastuse.h may be included again, and before or after ggml's own headers.

#include "lastuse.h"
#include "ggml-alloc.h"
#include "lastuse.h"
#include "set_output_twice.h"

int main(void) {
    // Both headers mean the same allocator.
    bool (*report)(ggml_gallocr_t, int, struct lastuse_gallocr_sizes *)        = lastuse_gallocr_report;
    bool (*same)(struct ggml_gallocr *, int, struct lastuse_gallocr_sizes *) = lastuse_gallocr_report;
    return report == same && set_output_is_two_functions() ? 0 : 1;
}
