// A program that is linked with ggml before lastuse: its allocators are ggml's own, and lastuse leaves them alone.

#include <string.h>

#include "check.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "lastuse.h"
#include "reports.h"

// The last refusal names the function and the order on the link line.
static void expect_refusal(const char * function) {
    const char * error = lastuse_last_error();
    CHECK(strncmp(error, function, strlen(function)) == 0, "%s is not in: %s", function, error);
    CHECK(strstr(error, "before libggml-base on the link line") != NULL, "%s", error);
}

int main(void) {
    struct ggml_init_params params    = { .mem_size = 1 << 20, .mem_buffer = NULL, .no_alloc = true };
    struct ggml_context *   context   = ggml_init(params);
    struct ggml_tensor *    input     = ggml_new_tensor_1d(context, GGML_TYPE_F32, 1000);
    struct ggml_cgraph *    graph     = ggml_new_graph(context);
    ggml_gallocr_t          allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    ggml_set_input(input);
    ggml_build_forward_expand(graph, ggml_sum(context, ggml_sqr(context, input)));
    CHECK(ggml_gallocr_reserve(allocator, graph), "no memory is reserved");

    CHECK(!lastuse_enabled(), "no call reaches lastuse");
    CHECK(lower_bound_of(allocator, 0) == 0, "it plans nothing");
    expect_refusal("lastuse_gallocr_report");
    CHECK(plan_size_of(allocator, 0) == 0, "it plans nothing");
    expect_refusal("lastuse_gallocr_report");
    CHECK(!lastuse_gallocr_set(allocator, "rules", "ggml"), "it has an effect");
    expect_refusal("lastuse_gallocr_set");
    CHECK(lastuse_gallocr_explain(allocator, graph) == NULL, "it plans nothing");
    expect_refusal("lastuse_gallocr_explain");
    CHECK(!lastuse_set("rules", "ggml"), "it has an effect");
    expect_refusal("lastuse_set");
    CHECK(!lastuse_set("capture", "/nowhere"), "no graph is written");
    expect_refusal("lastuse_set");
    struct lastuse_stats stats = { .struct_size = sizeof(stats) };
    CHECK(!lastuse_stats_report(&stats) && stats.plans == 0, "%d plans", (int) stats.plans);
    struct lastuse_reorder_report order = { .struct_size = sizeof(order) };
    CHECK(!is_reordered(graph, NULL, 0, &order) && order.size_before == 0, "nothing is reordered");
    ggml_backend_buffer_type_t type = ggml_backend_cpu_buffer_type();
    size_t                     size = 0, lower_bound = 1;
    CHECK(lastuse_graph_measure(&graph, 1, &type, 1, NULL, NULL, &size, &lower_bound), "%s", lastuse_last_error());
    CHECK(size == ggml_gallocr_get_buffer_size(allocator, 0) && lower_bound == 0, "%zu bytes are measured", size);
    CHECK(plans_made() == 0, "it plans nothing");

    CHECK(ggml_gallocr_alloc_graph(allocator, graph), "the graph has no memory");
    CHECK(ggml_gallocr_get_buffer_size(allocator, 0) > 0, "the graph takes nothing");
    ggml_gallocr_free(allocator);
    ggml_free(context);
    return 0;
}
