// runs: ggml-0.26 ggml-0.9.5 off
//
// The explanations of lastuse_gallocr_explain for live graphs, and that explaining changes nothing.
//
//   explain <case>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "lastuse.h"
#include "reports.h"

#define WIDTH 1024

struct built {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
};

static struct built room(void) {
    struct built b = { no_alloc_context(64 * ggml_tensor_overhead() + ggml_graph_overhead()), NULL };
    b.graph = ggml_new_graph(b.ctx);
    return b;
}

static struct ggml_tensor * input(struct built b, int64_t size, const char * name) {
    struct ggml_tensor * tensor = ggml_new_tensor_1d(b.ctx, GGML_TYPE_F32, size);
    ggml_set_input(tensor);
    return ggml_set_name(tensor, name);
}

// Two wide tensors are live at once, while an input waits for its only reader at the end.
static struct built graph_that_waits(void) {
    struct built         b    = room();
    struct ggml_tensor * late = input(b, WIDTH, "late");
    struct ggml_tensor * wide = ggml_pad(b.ctx, input(b, WIDTH, "start"), 7 * WIDTH, 0, 0, 0);
    struct ggml_tensor * sum  = ggml_sum(b.ctx, ggml_set_name(wide, "wide"));
    ggml_build_forward_expand(b.graph, ggml_add(b.ctx, late, ggml_set_name(sum, "total")));
    return b;
}

static char * explained(ggml_gallocr_t galloc, struct ggml_cgraph * graph) {
    char * text = lastuse_gallocr_explain(galloc, graph);
    CHECK(text != NULL, "%s", lastuse_last_error());
    return text;
}

static void check_contains(const char * text, const char * part) {
    CHECK(strstr(text, part) != NULL, "\"%s\" is not in\n%s", part, text);
}

LASTUSE_CASE(peak_is_explained) {
    struct built   b      = graph_that_waits();
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    char *         text   = explained(galloc, b.graph);
    check_contains(text, "3 nodes, steps counted from 0\n\nBuffer 0, CPU: 40.00 KiB (40960 bytes)");
    check_contains(text, "Peak: step 0, PAD \"wide\": 40.00 KiB (40960 bytes).");
    check_contains(text, "saves 4.00 KiB (4096 bytes): \"late\", 4.00 KiB, is live from the start");
    CHECK(ggml_gallocr_reserve(galloc, b.graph), "not reserved");
    size_t size = ggml_gallocr_get_buffer_size(galloc, 0);
    CHECK(size == 40960, "%zu bytes were reserved", size);
    lastuse_string_free(text);
    ggml_gallocr_free(galloc);
    ggml_free(b.ctx);
}

// Tensors that this allocator placed are explained as if they had no memory.
LASTUSE_CASE(allocation_does_not_change_the_explanation) {
    struct built   b      = graph_that_waits();
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    char *         before = explained(galloc, b.graph);
    CHECK(ggml_gallocr_alloc_graph(galloc, b.graph), "not allocated");
    char * after = explained(galloc, b.graph);
    CHECK(strcmp(before, after) == 0, "before:\n%s\nafter:\n%s", before, after);
    lastuse_string_free(before);
    lastuse_string_free(after);
    ggml_gallocr_free(galloc);
    ggml_free(b.ctx);
}

LASTUSE_CASE(nothing_is_allocated_or_planned) {
    struct built      b = graph_that_waits();
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", 32, 0);
    ggml_gallocr_t galloc = ggml_gallocr_new(dummy_buft_type(&dummy));
    uint64_t       plans  = plans_made();
    char *         text   = explained(galloc, b.graph);
    check_contains(text, "Buffer 0, dummy: ");
    CHECK(dummy.counts.alloc_buffer == 0, "%zu buffers", dummy.counts.alloc_buffer);
    CHECK(plans_made() == plans, "a plan was made for the allocator");
    CHECK(plan_size_of(galloc, 0) == 0, "the allocator needs memory");
    lastuse_string_free(text);
    ggml_gallocr_free(galloc);
    ggml_free(b.ctx);
}

// The second id repeats the type of the first.
LASTUSE_CASE(buffers_are_those_of_the_latest_reservation) {
    struct built      b = graph_that_waits();
    struct dummy_buft dummies[2];
    dummy_buft_init(&dummies[0], "first", 32, 0);
    dummy_buft_init(&dummies[1], "second", 64, 0);
    ggml_backend_buffer_type_t types[] = { dummy_buft_type(&dummies[0]), dummy_buft_type(&dummies[0]),
                                           dummy_buft_type(&dummies[1]) };
    int                        leafs[] = { 0, 0 };
    int                        nodes[] = { 2, 1, 0 };
    ggml_gallocr_t             galloc  = ggml_gallocr_new_n(types, 3);
    CHECK(ggml_gallocr_reserve_n(galloc, b.graph, nodes, leafs), "not reserved");
    char * text = explained(galloc, b.graph);
    check_contains(text, "\nBuffer 0, first: 8.00 KiB (8192 bytes)");
    check_contains(text, "\nBuffer 2, second: 32.00 KiB (32768 bytes)");
    CHECK(strstr(text, "\nBuffer 1") == NULL, "a repeated type has no buffer:\n%s", text);
    lastuse_string_free(text);
    ggml_gallocr_free(galloc);
    ggml_free(b.ctx);
}

LASTUSE_CASE(graph_that_is_too_large_is_refused) {
    struct built         b    = room();
    struct ggml_tensor * huge = input(b, (int64_t) 1 << 60, "huge");
    ggml_build_forward_expand(b.graph, ggml_add(b.ctx, ggml_sqr(b.ctx, huge), input(b, (int64_t) 1 << 60, "other")));
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(lastuse_gallocr_explain(galloc, b.graph) == NULL, "it was planned");
    check_contains(lastuse_last_error(), "lastuse_gallocr_explain: the tensors in CPU add up to ");
    ggml_gallocr_free(galloc);
    ggml_free(b.ctx);
}

LASTUSE_CASE(empty_graph_has_no_peak) {
    struct built   b      = room();
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    char *         text   = explained(galloc, b.graph);
    check_contains(text, "0 nodes");
    check_contains(text, "The buffer is empty.");
    lastuse_string_free(text);
    ggml_gallocr_free(galloc);
    ggml_free(b.ctx);
}

CASE(only_lastuse_explains) {
    struct built   b      = graph_that_waits();
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    char *         text   = lastuse_gallocr_explain(galloc, b.graph);
    if (text == NULL) {
        check_contains(lastuse_last_error(), "lastuse_gallocr_explain: ggml's own allocator does the work");
    }
    CHECK((text != NULL) == lastuse_enabled(), "%s", lastuse_last_error());
    lastuse_string_free(text);
    ggml_gallocr_free(galloc);
    ggml_free(b.ctx);
}
