// lastuse.h from C++: the functions keep their C names.

#include "lastuse.h"

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
    if (version.empty() || !lastuse_enabled()) {
        return 1;
    }
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    lastuse_gallocr_sizes sizes = {};
    sizes.struct_size           = sizeof(sizes);
    const bool empty            = lastuse_gallocr_report(galloc, 0, &sizes) && sizes.plan_size == 0 && sizes.lower_bound == 0;
    ggml_gallocr_free(galloc);
    return empty && set_output_is_two_functions() && flags_results_of_templates() ? 0 : 1;
}
