// lastuse.h from C++: the functions keep their C names.

#include "lastuse.h"

#include "ggml-alloc.h"
#include "ggml-cpu.h"
#include "set_output_twice.h"

#include <string>

int main() {
    const std::string version = lastuse_version();
    if (version.empty() || !lastuse_enabled() || lastuse_plan_count() != 0) {
        return 1;
    }
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    const bool     empty  = lastuse_gallocr_wanted_size(galloc, 0) == 0 && lastuse_gallocr_lower_bound(galloc, 0) == 0;
    ggml_gallocr_free(galloc);
    return empty && set_output_is_two_functions() ? 0 : 1;
}
