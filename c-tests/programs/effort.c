// runs: ggml-0.26
//
// How much an allocator may search for a smaller plan: the effect, and how it is set.
//
//   effort <case>

#include "cases.h"
#include "computing.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "hard_graph.h"
#include "lastuse.h"
#include "plan_check.h"
#include "reports.h"
#include "rule_graphs.h"

#define AMPLE "20000000" // more than the hard graph needs to get to its lower bound
#define LEAST "1"        // next to nothing

static ggml_gallocr_t new_allocator(void) {
    return ggml_gallocr_new(ggml_backend_cpu_buffer_type());
}

static void set_effort(ggml_gallocr_t galloc, const char * effort) {
    CHECK(lastuse_gallocr_set(galloc, "effort", effort), "%s", lastuse_last_error());
}

static void set_effort_of_the_process(const char * effort) {
    CHECK(lastuse_set("effort", effort), "%s", lastuse_last_error());
}

static ggml_gallocr_t new_allocator_with(const char * effort) {
    ggml_gallocr_t galloc = new_allocator();
    set_effort(galloc, effort);
    return galloc;
}

static size_t reserved(ggml_gallocr_t galloc, struct built built) {
    CHECK(ggml_gallocr_reserve(galloc, built.graph), "not reserved");
    return plan_size_of(galloc, 0);
}

// The size of the hard graph. Frees the allocator.
static size_t size_by(ggml_gallocr_t galloc) {
    struct built built = hard_graph();
    size_t       size  = reserved(galloc, built);
    ggml_gallocr_free(galloc);
    built_free(built);
    return size;
}

static size_t size_by_default(void) {
    return size_by(new_allocator());
}

static size_t size_with(const char * effort) {
    return size_by(new_allocator_with(effort));
}

static size_t default_size_in_scheduler(void) {
    struct built built = hard_graph();
    size_t       size  = size_in_scheduler(built.graph);
    built_free(built);
    return size;
}

// The effect

static void allocate(ggml_gallocr_t galloc, struct built built) {
    CHECK(ggml_gallocr_alloc_graph(galloc, built.graph), "not allocated");
    CHECK_PLAN(built.graph, "%d nodes", built.graph->n_nodes);
}

CASE(more_effort_needs_less_memory) {
    struct built   built  = hard_graph();
    ggml_gallocr_t galloc = new_allocator_with(AMPLE);
    size_t         ample  = reserved(galloc, built);
    size_t         bound  = lower_bound_of(galloc, 0);
    CHECK(ample == bound, "%zu bytes, and the lower bound is %zu", ample, bound);
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == ample, "the buffer has another size");
    size_t by_default = size_by_default();
    CHECK(by_default > ample && size_with(LEAST) >= by_default, "the graph is easy");
    ggml_gallocr_free(galloc);
    built_free(built);
}

// Results do not depend on it.
CASE(same_values_with_every_effort) {
    ggml_backend_t cpu = new_cpu(2);
    for (uint64_t seed = 515; seed < 535; seed++) {
        struct built   built[2]  = { graph_of_lifetimes(seed), graph_of_lifetimes(seed) };
        ggml_gallocr_t galloc[2] = { new_allocator_with(LEAST), new_allocator_with(AMPLE) };
        for (int i = 0; i < 2; i++) {
            allocate(galloc[i], built[i]);
            compute_with_values(cpu, built[i].graph, seed);
        }
        check_same_outputs_of(built[1].graph, built[0].graph, seed, "with more effort");
        for (int i = 0; i < 2; i++) {
            ggml_gallocr_free(galloc[i]);
            built_free(built[i]);
        }
    }
    ggml_backend_free(cpu);
}

CASE(more_effort_never_needs_more_memory) {
    int smaller = 0;
    for (uint64_t seed = 500; seed < 600; seed++) {
        struct built   built  = graph_of_lifetimes(seed);
        ggml_gallocr_t galloc = new_allocator();
        size_t         before = reserved(galloc, built);
        set_effort(galloc, AMPLE);
        size_t after = reserved(galloc, built);
        CHECK(after <= before, "seed %llu: %zu bytes after %zu", (unsigned long long) seed, after, before);
        smaller += after < before;
        ggml_gallocr_free(galloc);
        built_free(built);
    }
    CHECK(smaller > 0, "all graphs are easy");
}

// How it is set

// The next graph is planned anew; the buffer stays.
CASE(effort_changes_from_the_next_plan_on) {
    size_t         more   = size_by_default();
    size_t         less   = size_with(AMPLE);
    struct built   built  = hard_graph();
    ggml_gallocr_t galloc = new_allocator();
    CHECK(reserved(galloc, built) == more, "the effort is not the default");
    uint64_t plans = plans_made();
    CHECK(reserved(galloc, built) == more && plans_made() == plans, "the plan is not remembered");
    set_effort(galloc, AMPLE);
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == more, "the buffer has changed before a new plan");
    CHECK(reserved(galloc, built) == less && plans_made() == plans + 1, "the old plan was used");
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == more, "the buffer has shrunk");
    set_effort(galloc, "0");
    CHECK(reserved(galloc, built) == more, "0 is not the default");
    ggml_gallocr_free(galloc);
    built_free(built);
}

CASE(several_types_need_a_reserve) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "another", 64, 0);
    ggml_backend_buffer_type_t types[2] = { ggml_backend_cpu_buffer_type(), dummy_buft_type(&dummy) };
    struct built               built    = hard_graph();
    ggml_gallocr_t             galloc   = ggml_gallocr_new_n(types, 2);
    reserved(galloc, built);
    set_effort(galloc, AMPLE);
    CHECK(!ggml_gallocr_alloc_graph(galloc, built.graph), "a plan was there");
    CHECK(reserved(galloc, built) == size_with(AMPLE), "the old plan was used");
    CHECK(ggml_gallocr_alloc_graph(galloc, built.graph), "not allocated");
    ggml_gallocr_free(galloc);
    built_free(built);
}

// Each setting leaves the other as it is.
CASE(rules_and_effort_do_not_mix) {
    ggml_gallocr_t galloc = new_allocator_with(AMPLE);
    CHECK(lastuse_gallocr_set(galloc, "rules", "ggml"), "ggml is known");
    struct built hard = hard_graph();
    struct built norm = graph_with_norm();
    CHECK(reserved(galloc, hard) == size_with(AMPLE), "new rules have changed the effort");
    size_t by_ggml = reserved(galloc, norm);
    set_effort(galloc, LEAST);
    CHECK(reserved(galloc, norm) == by_ggml, "a new effort has changed the rules");
    CHECK(lastuse_gallocr_set(galloc, "rules", "all"), "all is known");
    CHECK(reserved(galloc, norm) < by_ggml, "the rules make no difference");
    ggml_gallocr_free(galloc);
    built_free(hard);
    built_free(norm);
}

CASE(effort_of_the_process_is_that_of_new_allocators) {
    size_t         more = size_by_default();
    size_t         less = size_with(AMPLE);
    ggml_gallocr_t old  = new_allocator();
    CHECK(less < more, "the graph is easy");
    CHECK(default_size_in_scheduler() == more, "a scheduler's allocator has another effort");
    set_effort_of_the_process(AMPLE);
    CHECK(size_by_default() == less, "a new allocator has another effort");
    CHECK(default_size_in_scheduler() == less, "a new scheduler's allocator has another effort");
    CHECK(size_by(old) == more, "the effort of an allocator that was there has changed");
    CHECK(size_with("0") == more, "an allocator's own effort counts more, and 0 is the default");
    set_effort_of_the_process("0");
    CHECK(size_by_default() == more, "0 is not the default");
}

// Its report has the sizes of allocators made from now on.
CASE(reorder_plans_with_the_effort_of_the_process) {
    struct lastuse_reorder_report report = { .struct_size = sizeof(report) };
    struct built                  built  = hard_graph();
    for (int has_type = 0; has_type < 2; has_type++) {
        ggml_backend_buffer_type_t type = has_type ? ggml_backend_cpu_buffer_type() : NULL;
        set_effort_of_the_process("0");
        // No node may be moved past a function of the program, and all nodes are such functions.
        CHECK(!is_reordered(built.graph, type, 0, &report), "the order has changed");
        CHECK(report.size_before == size_by_default(), "%zu bytes by default", report.size_before);
        set_effort_of_the_process(AMPLE);
        CHECK(!is_reordered(built.graph, type, 0, &report), "the order has changed");
        CHECK(report.size_before == size_with(AMPLE), "%zu bytes", report.size_before);
    }
    built_free(built);
}

// The environment: read with the first call of the process.

CASE(environment_sets_effort) {
    static struct log_capture log;
    setenv("LASTUSE_EFFORT", " 20000000 ", 1);
    log_capture_start(&log);
    size_t size = size_by_default();
    log_capture_stop();
    CHECK(log.count == 0, "something is wrong: %s", log.lines[0]);
    CHECK(size == size_with(AMPLE) && size < size_with(LEAST), "LASTUSE_EFFORT has no effect");
    CHECK(default_size_in_scheduler() == size, "a scheduler's allocator has another effort");
    setenv("LASTUSE_EFFORT", "1", 1);
    CHECK(size_by_default() == size, "LASTUSE_EFFORT is read once");
    CHECK(size_with("0") > size, "0 is not lastuse's own default");
    set_effort_of_the_process(LEAST);
    CHECK(size_by_default() == size_with(LEAST), "the program overrides the environment");
}

static void default_by_environment(const char * value) {
    static struct log_capture log;
    setenv("LASTUSE_EFFORT", value, 1);
    log_capture_start(&log);
    size_t size = size_by_default();
    log_capture_stop();
    CHECK(log.count == 0, "something is wrong: %s", log.lines[0]);
    CHECK(size == size_with("0"), "LASTUSE_EFFORT=%s has some effect", value);
}

CASE(zero_in_the_environment_is_the_default) {
    default_by_environment("0");
}

CASE(empty_environment_is_the_default) {
    default_by_environment("");
}

// One line names the wrong value and what is expected.
static void no_effect_in_environment(const char * value) {
    static struct log_capture log;
    char                      quoted[64];
    setenv("LASTUSE_EFFORT", value, 1);
    snprintf(quoted, sizeof(quoted), "LASTUSE_EFFORT has no effect: \"%s\"", value);
    log_capture_start(&log);
    size_t size = size_by_default();
    log_capture_stop();
    CHECK(log.count == 1 && log_capture_has(&log, quoted), "%d lines, the first: %s", log.count, log.lines[0]);
    CHECK(log_capture_has(&log, "whole number"), "the line does not name what is expected: %s", log.lines[0]);
    CHECK(size == size_with("0"), "LASTUSE_EFFORT has some effect");
}

CASE_OF(word_in_the_environment_is_reported, no_effect_in_environment("much"))
CASE_OF(negative_environment_is_reported, no_effect_in_environment("-20000000"))
CASE_OF(too_large_environment_is_reported, no_effect_in_environment("18446744073709551616"))

// A wrong value of one variable does not affect the other.
CASE(both_variables_are_read) {
    static struct log_capture log;
    setenv("LASTUSE_RULES", "colums", 1);
    setenv("LASTUSE_EFFORT", "20000000", 1);
    log_capture_start(&log);
    size_t size = size_by_default();
    log_capture_stop();
    CHECK(log.count == 1 && log_capture_has(&log, "LASTUSE_RULES"), "%d lines: %s", log.count, log.lines[0]);
    CHECK(size == size_with(AMPLE), "LASTUSE_EFFORT has no effect");
}
