// runs: ggml-0.26
//
// The sharing rules: the effect of each, and where sharing would be wrong.
//
//   rules_effect <case>

#include "cases.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"
#include "plan_check.h"
#include "rule_graphs.h"
#include "transformer.h"
#include "upstream.h"

static ggml_gallocr_t new_allocator(const char * rules) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(lastuse_gallocr_set(galloc, "rules", rules), "%s is known", rules);
    return galloc;
}

static void alloc_and_check(ggml_gallocr_t galloc, struct built built, const char * rules) {
    CHECK(ggml_gallocr_alloc_graph(galloc, built.graph), "%s: not allocated", rules);
    CHECK_PLAN(built.graph, "%s", rules);
}

// Each rule by itself

static size_t size_with(graph_maker make, const char * rules) {
    struct built   built  = make();
    ggml_gallocr_t galloc = new_allocator(rules);
    alloc_and_check(galloc, built, rules);
    size_t size = ggml_gallocr_get_buffer_size(galloc, 0);
    ggml_gallocr_free(galloc);
    built_free(built);
    return size;
}

static void lowers_the_size(const char * rule, graph_maker make) {
    char only[64];
    char without[64];
    snprintf(only, sizeof(only), "ggml,%s", rule);
    snprintf(without, sizeof(without), "all,no-%s", rule);
    size_t size = size_with(make, "ggml");
    size_t less = size_with(make, only);
    CHECK(less < size, "%s: %zu bytes, and %zu without", rule, less, size);
    CHECK(size_with(make, "all") == less, "other rules matter to the graph for %s", rule);
    CHECK(size_with(make, without) == size, "something other than %s lowers the size", rule);
}

CASE(each_rule_lowers_the_size) {
    lowers_the_size("views", graph_through_a_view);
    lowers_the_size("rows", graph_with_norm);
    lowers_the_size("rows", graph_with_l2_norm);
    lowers_the_size("rows", graph_with_group_norm);
    lowers_the_size("scans", graph_with_sums);
    lowers_the_size("rows", graph_with_sine);
    lowers_the_size("rows", graph_with_gate_in_first);
    lowers_the_size("rows", graph_with_gate_in_second);
    lowers_the_size("copies", graph_with_copy);
    lowers_the_size("concat", graph_with_concat);
    lowers_the_size("unread-inputs", graph_with_unread_input);
    lowers_the_size("inactive", graph_with_alternative);
}

CASE(in_place_is_what_ggml_does) {
    size_t size = size_with(graph_in_place, "none");
    size_t less = size_with(graph_in_place, "ggml");
    CHECK(less < size, "%zu bytes, and %zu with nothing in place", less, size);
    CHECK(size_with(graph_in_place, "none,in-place") == less, "the rule is all that ggml has");
    CHECK(size_with(graph_in_place, "all") == less, "nothing else matters to the graph");
    CHECK(size_with(graph_in_place, "all,no-in-place") == size, "nothing is in place without");
}

// The source that the sum is computed in place of: 0 or 1, or -1.
static int place_of_sum(struct sources_of_sum sources, const char * rules) {
    struct built   built  = graph_with_sum(sources);
    ggml_gallocr_t galloc = new_allocator(rules);
    alloc_and_check(galloc, built, rules);
    const struct ggml_tensor * sum   = ggml_graph_node(built.graph, -1);
    int                        place = sum->data == sum->src[0]->data ? 0 : sum->data == sum->src[1]->data ? 1 : -1;
    ggml_gallocr_free(galloc);
    built_free(built);
    return place;
}

CASE(oldest_source_is_taken) {
    struct sources_of_sum younger_first = { .younger_first = true };
    struct sources_of_sum older_first   = { .younger_first = false };
    CHECK(place_of_sum(younger_first, "ggml") == 0, "ggml takes the first");
    CHECK(place_of_sum(younger_first, "all,no-oldest-source") == 0, "so without the rule");
    CHECK(place_of_sum(younger_first, "all") == 1, "the older source is the second");
    CHECK(place_of_sum(younger_first, "ggml,oldest-source") == 1, "the older source is the second");
    CHECK(place_of_sum(older_first, "ggml") == 0, "the older source is the first");
    CHECK(place_of_sum(older_first, "all") == 0, "the older source is the first");
}

// Backends fuse such a pair, and the result is at the address of the first one.
CASE(source_just_computed_in_place_is_taken) {
    struct sources_of_sum younger_first = { .younger_first = true, .squared = true };
    struct sources_of_sum older_first   = { .younger_first = false, .squared = true };
    CHECK(place_of_sum(younger_first, "all") == 0, "the square is first");
    CHECK(place_of_sum(older_first, "all") == 1, "the square is second");
    CHECK(place_of_sum(older_first, "ggml") == 0, "ggml takes the first");
}

// Operations that read some source after they have begun to write

// Row 7 is added to row 0 and so on. (Upstream computes the sum over the rows that are still to be read.)
CASE(add_id_never_lies_over_the_rows_it_picks) {
    static const char * const settings[] = { "none", "ggml", "all" };
    ggml_backend_t            cpu        = new_cpu(1);
    for (int i = 0; i < 3; i++) {
        struct built               built  = graph_with_add_id();
        const struct ggml_tensor * sum    = ggml_graph_node(built.graph, -1);
        const struct ggml_tensor * rows   = sum->src[0];
        const struct ggml_tensor * added  = sum->src[1];
        ggml_gallocr_t             galloc = new_allocator(settings[i]);
        alloc_and_check(galloc, built, settings[i]);
        CHECK(sum->data != added->data, "%s: the sum overlaps the source of its rows", settings[i]);
        set_leaf_values(built.graph, 7);
        const float * source = added->src[0]->data;
        for (int row = 0; row < PICKED_ROWS; row++) {
            ((int32_t *) sum->src[2]->data)[row] = PICKED_ROWS - 1 - row;
        }
        float expected[PICKED_ROWS * WIDTH];
        for (int j = 0; j < PICKED_ROWS * WIDTH; j++) {
            int picked = (PICKED_ROWS - 1 - j / WIDTH) * WIDTH + j % WIDTH;
            expected[j]  = ((const float *) rows->data)[j] + source[picked];
        }
        CHECK(ggml_backend_graph_compute(cpu, built.graph) == GGML_STATUS_SUCCESS, "not computed");
        CHECK(memcmp(sum->data, expected, sizeof(expected)) == 0, "%s: the sum is wrong", settings[i]);
        ggml_gallocr_free(galloc);
        built_free(built);
    }
    ggml_backend_free(cpu);
}

// Computed in place, and with every tensor in its own memory.
static void check_same_in_place(ggml_backend_t cpu, graph_maker make) {
    struct built   built  = make();
    struct built   truth  = make();
    ggml_set_output(ggml_graph_node(built.graph, -1));
    ggml_set_output(ggml_graph_node(truth.graph, -1));
    ggml_gallocr_t galloc = new_allocator("all");
    ggml_gallocr_t apart  = new_allocator("none");
    alloc_and_check(galloc, built, "all");
    alloc_and_check(apart, truth, "none");
    compute_with_values(cpu, built.graph, 11);
    compute_with_values(cpu, truth.graph, 11);
    check_same_outputs_of(built.graph, truth.graph, 11, "gradients");
    ggml_gallocr_free(galloc);
    ggml_gallocr_free(apart);
    built_free(built);
    built_free(truth);
}

// Old kernels copied one source onto the result, and then read the other.
CASE(gradients_in_place_are_right) {
    ggml_backend_t cpu = new_cpu(1);
    check_same_in_place(cpu, graph_with_rms_norm_back);
    check_same_in_place(cpu, graph_with_soft_max_back);
    ggml_backend_free(cpu);
}

// CONCAT with an operand inside the result

static bool lies_inside(const struct ggml_tensor * t, const struct ggml_tensor * whole) {
    const char * start = whole->data;
    const char * data  = t->data;
    return data >= start && data + ggml_nbytes(t) <= start + ggml_nbytes(whole);
}

// An operand that is shorter than planned is not where the copy reads it, though it fits into its place.
CASE(concat_of_other_lengths_is_planned_anew) {
    ggml_backend_t cpu    = new_cpu(1);
    ggml_gallocr_t galloc = new_allocator("all");
    for (int first = 8; first > 0; first--) {
        for (int second = 8; second > 0; second--) {
            struct built longest = graph_with_concat_of(8, 8);
            struct built built   = graph_with_concat_of(first, second);
            struct built truth   = graph_with_concat_of(first, second);
            CHECK(ggml_gallocr_reserve(galloc, longest.graph), "not reserved");
            alloc_and_check(galloc, built, "all");
            const struct ggml_tensor * joined = concat_of(built);
            bool inside = lies_inside(joined->src[0], joined) || lies_inside(joined->src[1], joined);
            CHECK(inside || first + second < 16, "no operand lies inside the result: this tests nothing");

            ggml_gallocr_t upstream = upstream_ggml_gallocr_new(ggml_backend_cpu_buffer_type());
            CHECK(upstream_ggml_gallocr_alloc_graph(upstream, truth.graph), "upstream allocates it");
            uint64_t seed = (uint64_t) (first * 8 + second);
            compute_with_values(cpu, built.graph, seed);
            compute_with_values(cpu, truth.graph, seed);
            check_same_outputs_of(built.graph, truth.graph, seed, "concat");
            upstream_ggml_gallocr_free(upstream);
            built_free(longest);
            built_free(built);
            built_free(truth);
        }
    }
    ggml_gallocr_free(galloc);
    ggml_backend_free(cpu);
}
