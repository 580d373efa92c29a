// lastuse.h from C++: the functions keep their C names.

#include "lastuse.h"
#include "reports.h"

#include "ggml-alloc.h"
#include "ggml-cpu.h"
#include "set_output_twice.h"

#include <string>

// Arguments with commas that are not commas of a macro.
template <int First, int Second> static struct ggml_tensor * pick(struct ggml_tensor * t) {
    return First < Second ? t : NULL;
}

static bool flags_results_of_templates() {
    ggml_context * ctx = ggml_init({ 1024 * 1024, NULL, true });
    ggml_tensor *  t   = ggml_dup(ctx, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8));
    ggml_set_output(pick<1, 2>(t));
    const bool is_flagged = t->flags == GGML_TENSOR_FLAG_OUTPUT;
    t = ggml_dup(ctx, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8));
    ggml_tensor * const dst           = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8);
    const bool          is_redirected = ggml_set_output(pick<1, 2>(t), pick<3, 4>(dst)) == t && t->view_src == dst;
    ggml_free(ctx);
    return is_flagged && is_redirected;
}

int main() {
    const std::string version = lastuse_version();
    if (version.empty() || !lastuse_enabled() || plans_made() != 0) {
        return 1;
    }
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    const bool     empty  = plan_size_of(galloc, 0) == 0 && lower_bound_of(galloc, 0) == 0;
    ggml_gallocr_free(galloc);
    return empty && set_output_is_two_functions() && flags_results_of_templates() ? 0 : 1;
}
