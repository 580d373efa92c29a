// runs: ggml-0.26
//
// Which sharing rules are in force: the default of each kind of device, those set by a program, and by the environment.
//
//   rules_in_force <case>

#include "cases.h"
#include "computing.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"
#include "plan_check.h"
#include "reports.h"
#include "rule_graphs.h"
#include "transformer.h"

#define ALIGNMENT 64

static const struct shape SHAPE = { .layers = 3, .tokens = 9, .past = 4 };

// The offsets of the tensors of a graph.
struct places {
    size_t    size; // of the buffer
    int       count;
    ptrdiff_t offsets[512];
};

static void note_place(struct places * places, const struct ggml_tensor * t, ggml_backend_buffer_t buffer) {
    CHECK(places->count < 512, "more tensors than expected");
    bool is_planned                  = t->view_src == NULL && t->buffer == buffer;
    const char * base                = ggml_backend_buffer_get_base(buffer);
    places->offsets[places->count++] = is_planned ? (const char *) t->data - base : -1;
}

// A product that a normalization may be computed in place of on a CPU; ggml's own allocator does not do so.
static struct ggml_tensor * normalized_product(struct ggml_context * ctx) {
    struct ggml_tensor * product = ggml_mul_mat(ctx, new_input(ctx, WIDTH, 64), new_input(ctx, WIDTH, 9));
    return ggml_mul_mat(ctx, new_input(ctx, 64, 1), ggml_norm(ctx, product, 1e-5f));
}

// The offsets in a small transformer with a normalization and an unread input. Frees the allocator.
static struct places places_by(ggml_gallocr_t galloc) {
    struct built         built  = transformer_new(SHAPE);
    struct places        places = { 0 };
    struct ggml_tensor * unread = new_input(built.ctx, WIDTH, 100);
    ggml_build_forward_expand(built.graph, unread);
    ggml_build_forward_expand(built.graph, normalized_product(built.ctx));
    CHECK(ggml_gallocr_alloc_graph(galloc, built.graph), "not allocated");
    CHECK_PLAN(built.graph, "%d nodes", built.graph->n_nodes);
    for (int i = 0; i < built.graph->n_leafs; i++) {
        note_place(&places, built.graph->leafs[i], unread->buffer);
    }
    for (int i = 0; i < built.graph->n_nodes; i++) {
        note_place(&places, built.graph->nodes[i], unread->buffer);
    }
    places.size = ggml_gallocr_get_buffer_size(galloc, 0);
    ggml_gallocr_free(galloc);
    built_free(built);
    return places;
}

static struct places places_in(ggml_backend_buffer_type_t type, const char * rules) {
    ggml_gallocr_t galloc = ggml_gallocr_new(type);
    CHECK(rules == NULL || lastuse_gallocr_set(galloc, "rules", rules), "%s is known", rules);
    return places_by(galloc);
}

static bool same_places(struct places a, struct places b) {
    return a.size == b.size && a.count == b.count &&
           memcmp(a.offsets, b.offsets, (size_t) a.count * sizeof(a.offsets[0])) == 0;
}

// Off the CPU: the rules of ggml's allocator, and those that are safe on every device.
#define OFF_THE_CPU "gpu:ggml,gpu:leafs-last,gpu:unread-inputs,gpu:inactive"

// By default the type has the rules `own`, not `others`; it can be set to either.
static void check_default(const char * what, ggml_backend_buffer_type_t type, const char * own,
                          const char * others) {
    struct places by_default = places_in(type, NULL);
    struct places expected   = places_in(type, own);
    struct places different  = places_in(type, others);
    CHECK(!same_places(expected, different), "%s: \"all\" and \"ggml\" have equal plans", what);
    CHECK(same_places(by_default, expected), "%s: the default is not \"%s\"", what, own);
    CHECK(same_places(places_in(type, "default"), expected), "%s: \"default\" is not \"%s\"", what, own);
}

// Devices

static enum ggml_backend_dev_type type_cpu(ggml_backend_dev_t device) {
    (void) device;
    return GGML_BACKEND_DEVICE_TYPE_CPU;
}

static enum ggml_backend_dev_type type_gpu(ggml_backend_dev_t device) {
    (void) device;
    return GGML_BACKEND_DEVICE_TYPE_GPU;
}

static enum ggml_backend_dev_type type_igpu(ggml_backend_dev_t device) {
    (void) device;
    return GGML_BACKEND_DEVICE_TYPE_IGPU;
}

static enum ggml_backend_dev_type type_accelerator(ggml_backend_dev_t device) {
    (void) device;
    return GGML_BACKEND_DEVICE_TYPE_ACCEL;
}

struct kind_of_buffer {
    const char * name;
    enum ggml_backend_dev_type (*device_type)(ggml_backend_dev_t device); // NULL: no device
    bool is_host;
    bool has_all; // rules by default; otherwise those that are right on every device
};

static const struct kind_of_buffer KINDS[] = {
    { "host memory of a CPU", type_cpu, true, true },
    { "other memory of a CPU", type_cpu, false, false },
    { "host memory without a device", NULL, true, true },
    { "other memory without a device", NULL, false, false },
    { "host memory of a GPU", type_gpu, true, false },
    { "memory of a GPU", type_gpu, false, false },
    { "host memory of an integrated GPU", type_igpu, true, false },
    { "host memory of an accelerator", type_accelerator, true, false },
};

CASE(rules_by_device) {
    check_default("ggml's CPU", ggml_backend_cpu_buffer_type(), "all", "ggml");
    for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++) {
        struct kind_of_buffer      kind   = KINDS[i];
        struct ggml_backend_device device = { .iface.get_type = kind.device_type };
        struct dummy_buft          dummy;
        dummy_buft_init(&dummy, kind.name, ALIGNMENT, 0);
        dummy.type.device = kind.device_type != NULL ? &device : NULL;
        if (!kind.is_host) {
            dummy.type.iface.is_host = NULL;
        }
        check_default(kind.name, dummy_buft_type(&dummy), kind.has_all ? "all" : OFF_THE_CPU,
                      kind.has_all ? "ggml" : "gpu:all");
        CHECK(dummy.live_buffers == 0, "%zu buffers leaked", dummy.live_buffers);
    }
}

// In-place decisions are ggml's unless a word names the device: backends fuse nodes relying on them. General words
// apply to rules that are safe on every device.
CASE(general_words_leave_other_devices_in_place_decisions_alone) {
    static const char * const untouched[] = {
        "all", "in-place", "no-in-place", "views,rows,copies,concat,oldest-source", "cpu:none", "cpu:all,no-in-place",
        "none,unread-inputs,inactive,leafs-last", "ggml,inactive,unread-inputs,leafs-last",
    };
    static const char * const changed[] = {
        "gpu:no-in-place", "gpu:all", "gpu:views,gpu:rows", "none", "ggml", "no-unread-inputs", "all,gpu:none",
    };
    struct ggml_backend_device device = { .iface.get_type = type_gpu };
    struct dummy_buft          dummy;
    dummy_buft_init(&dummy, "gpu", ALIGNMENT, 0);
    dummy.type.device             = &device;
    ggml_backend_buffer_type_t type       = dummy_buft_type(&dummy);
    struct places              by_default = places_in(type, NULL);
    for (size_t i = 0; i < sizeof(untouched) / sizeof(untouched[0]); i++) {
        CHECK(same_places(places_in(type, untouched[i]), by_default), "\"%s\" reaches a GPU", untouched[i]);
    }
    for (size_t i = 0; i < sizeof(changed) / sizeof(changed[0]); i++) {
        CHECK(!same_places(places_in(type, changed[i]), by_default), "\"%s\" does not reach a GPU", changed[i]);
    }
    CHECK(same_places(places_in(type, "none"), places_in(type, "gpu:ggml")), "in place is ggml's");
    CHECK(same_places(places_in(type, "gpu:all,default"), by_default), "\"default\" is the default again");
    ggml_backend_buffer_type_t cpu = ggml_backend_cpu_buffer_type();
    CHECK(same_places(places_in(cpu, "gpu:none"), places_in(cpu, NULL)), "a word for GPUs reaches the CPU");
    CHECK(same_places(places_in(cpu, "cpu:ggml"), places_in(cpu, "ggml")), "a word for the CPU does not reach it");
}

// A device is known by the name of its buffer type. Rules that are known to be correct there are on, or follow their
// word.
CASE(rules_by_backend) {
    static const struct {
        const char * name;
        bool         is_host;
        const char * own; // the rules by default
        const char * word; // that changes them
    } types[] = {
        { "Vulkan0", false, OFF_THE_CPU ",gpu:rows,gpu:scans,gpu:copies,gpu:concat", "no-rows" },
        { "Vulkan0", true, OFF_THE_CPU, "gpu:rows" },
        { "Vulkan_Host", false, OFF_THE_CPU, "gpu:rows" },
        { "CUDA0", false, OFF_THE_CPU, "cuda:rows" },
        { "MTL0", false, OFF_THE_CPU, "metal:rows" },
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct ggml_backend_device device = { .iface.get_type = type_gpu };
        struct dummy_buft          dummy;
        dummy_buft_init(&dummy, types[i].name, ALIGNMENT, 0);
        dummy.type.device = &device;
        if (!types[i].is_host) {
            dummy.type.iface.is_host = NULL;
        }
        ggml_backend_buffer_type_t type = dummy_buft_type(&dummy);
        check_default(types[i].name, type, types[i].own, "gpu:all");
        CHECK(!same_places(places_in(type, types[i].word), places_in(type, NULL)), "%s does not reach %s",
              types[i].word, types[i].name);
        CHECK(same_places(places_in(type, "cpu:none"), places_in(type, NULL)), "a word for CPUs reaches %s",
              types[i].name);
    }
}

// One allocator: each buffer type has the rules of its device.
CASE(each_type_has_its_own_rules) {
    struct ggml_backend_device gpu = { .iface.get_type = type_gpu };
    struct dummy_buft          dummies[2];
    ggml_backend_buffer_type_t types[2];
    for (int i = 0; i < 2; i++) {
        dummy_buft_init(&dummies[i], i == 0 ? "cpu" : "gpu", ALIGNMENT, 0);
        dummies[i].type.device = i == 0 ? NULL : &gpu;
        types[i]               = dummy_buft_type(&dummies[i]);
    }
    for (int id = 0; id < 2; id++) {
        struct built               built       = graph_with_norm();
        int                        node_ids[3] = { id, id, id };
        int                        leaf_ids[4] = { id, id, id, id };
        ggml_gallocr_t             galloc      = ggml_gallocr_new_n(types, 2);
        const struct ggml_tensor * norm        = ggml_graph_node(built.graph, 1);
        CHECK(built.graph->n_nodes == 3 && built.graph->n_leafs <= 4, "other ids are needed");
        CHECK(ggml_gallocr_reserve_n(galloc, built.graph, node_ids, leaf_ids), "not reserved");
        CHECK(ggml_gallocr_alloc_graph(galloc, built.graph), "not allocated");
        bool in_place = norm->data == norm->src[0]->data;
        CHECK(norm->op == GGML_OP_NORM && in_place == (id == 0), "buffer %d has the rules of the other", id);
        ggml_gallocr_free(galloc);
        built_free(built);
    }
}

// Words

static size_t size_of(ggml_gallocr_t galloc) {
    struct built built = graph_with_norm();
    CHECK(ggml_gallocr_reserve(galloc, built.graph), "not reserved");
    size_t size = ggml_gallocr_get_buffer_size(galloc, 0);
    ggml_gallocr_free(galloc);
    built_free(built);
    return size;
}

static size_t size_by_default(void) {
    return size_of(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
}

static size_t size_with(const char * rules) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(lastuse_gallocr_set(galloc, "rules", rules), "%s is known", rules);
    return size_of(galloc);
}

// Words apply from left to right.
CASE(later_words_override_earlier_ones) {
    size_t all  = size_with("all");
    size_t ggml = size_with("ggml");
    CHECK(all < ggml, "the rules make no difference");
    CHECK(size_with("no-rows,rows") == all, "the rule is on");
    CHECK(size_with("rows,no-rows") == ggml, "the rule is off");
    CHECK(size_with("all,ggml") == ggml, "ggml is all");
    CHECK(size_with("rows,ggml") == ggml, "a base replaces what stood before it");
    CHECK(size_with(" ggml , rows ") == all, "spaces do not count");
    CHECK(size_with("") == all, "an empty text is the default");
    CHECK(size_with("ggml,default") == all, "the default of a CPU");
}

static const char * const WRONG[] = { "colums", "ALLES", "no-all", "no-no-rows", "no-", "rows;views", "in_place",
                                       "gpu:", "gpu:colums", "tpu:rows", "gpu:cpu:rows", "no-gpu:rows", "vulkan" };

// One line names the wrong word and the known ones.
static void check_report(const struct log_capture * log, const char * word) {
    static const char * const known[] = { "default", "ggml",   "all",    "none",          "in-place",     "views",
                                          "rows",    "scans",  "copies", "concat",        "oldest-source",
                                          "leafs-last", "unread-inputs", "inactive", "cpu:", "gpu:", "vulkan:",
                                          "cuda:", "metal:" };
    char quoted[64];
    int  index = 0;
    snprintf(quoted, sizeof(quoted), "\"%s\"", word);
    const char * line = log_capture_next(log, &index, quoted);
    CHECK(line != NULL && log->count == 1, "%d lines, none names %s", log->count, word);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        CHECK(strstr(line, known[i]) != NULL, "%s is not among the known words: %s", known[i], line);
    }
}

// Nothing changes: neither rules nor the plan that is there.
CASE(wrong_words_are_refused) {
    static struct log_capture log;
    ggml_gallocr_t            galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    struct built              built  = graph_with_norm();
    size_t                    size   = size_with("ggml");
    CHECK(lastuse_gallocr_set(galloc, "rules", "ggml"), "ggml is known");
    CHECK(ggml_gallocr_reserve(galloc, built.graph), "not reserved");
    uint64_t plans = plans_made();
    for (size_t i = 0; i < sizeof(WRONG) / sizeof(WRONG[0]); i++) {
        char text[64];
        snprintf(text, sizeof(text), "all,%s,views", WRONG[i]);
        log_capture_start(&log);
        CHECK(!lastuse_gallocr_set(galloc, "rules", text), "%s was accepted", text);
        log_capture_stop();
        check_report(&log, WRONG[i]);
        log_capture_start(&log);
        CHECK(!lastuse_set("rules", text), "%s was accepted", text);
        log_capture_stop();
        check_report(&log, WRONG[i]);
    }
    CHECK(ggml_gallocr_reserve(galloc, built.graph), "not reserved");
    CHECK(plans_made() == plans, "the plan was forgotten");
    CHECK(size_of(galloc) == size, "the rules of the allocator have changed");
    CHECK(size_by_default() == size_with("all"), "the rules of new allocators have changed");
    built_free(built);
}

// The next graph is planned anew; the buffer stays.
CASE(rules_change_from_the_next_plan_on) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    struct built   built  = graph_with_norm();
    size_t         less   = size_with("all");
    size_t         more   = size_with("ggml");
    CHECK(ggml_gallocr_reserve(galloc, built.graph), "not reserved");
    CHECK(plan_size_of(galloc, 0) == less, "all rules are on");
    CHECK(lastuse_gallocr_set(galloc, "rules", "ggml"), "ggml is known");
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == less, "the buffer has changed before a new plan");
    CHECK(ggml_gallocr_reserve(galloc, built.graph), "not reserved");
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == more, "the old plan was used");
    CHECK(lastuse_gallocr_set(galloc, "rules", "default"), "default is known");
    CHECK(ggml_gallocr_reserve(galloc, built.graph), "not reserved");
    CHECK(plan_size_of(galloc, 0) == less, "the old plan was used");
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == more, "the buffer has shrunk");
    ggml_gallocr_free(galloc);
    built_free(built);
}

static size_t default_size_in_scheduler(void) {
    struct built built = graph_with_norm();
    size_t       size  = size_in_scheduler(built.graph);
    built_free(built);
    return size;
}

CASE(rules_of_the_process_are_those_of_new_allocators) {
    size_t         all      = size_with("all");
    size_t         ggml     = size_with("ggml");
    ggml_gallocr_t old      = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    size_t         in_sched = default_size_in_scheduler();
    CHECK(in_sched == all, "a scheduler's allocator has all rules: %zu, %zu bytes", in_sched, all);
    CHECK(lastuse_set("rules", "ggml"), "ggml is known");
    CHECK(size_by_default() == ggml, "a new allocator has ggml's rules");
    CHECK(default_size_in_scheduler() == ggml, "a new scheduler's allocator has ggml's rules");
    CHECK(size_of(old) == all, "the rules of an allocator that was there have changed");
    CHECK(size_with("all") == all, "an allocator's own rules count more");
    CHECK(lastuse_set("rules", "default"), "default is known");
    CHECK(size_by_default() == all, "back to the default");
}

// The environment: read with the first call of the process.

CASE(environment_sets_rules) {
    setenv("LASTUSE_RULES", "ggml", 1);
    size_t size = size_by_default();
    CHECK(default_size_in_scheduler() == size, "a scheduler's allocator has other rules");
    CHECK(size_with("ggml") == size && size_with("all") < size, "LASTUSE_RULES has no effect");
    setenv("LASTUSE_RULES", "all", 1);
    CHECK(size_by_default() == size, "LASTUSE_RULES is read once");
    CHECK(lastuse_set("rules", "default"), "default is known");
    CHECK(size_by_default() == size_with("all"), "the program overrides the environment");
}

CASE(wrong_environment_is_reported) {
    static struct log_capture log;
    setenv("LASTUSE_RULES", "ggml,colums", 1);
    log_capture_start(&log);
    size_t size = size_by_default();
    log_capture_stop();
    check_report(&log, "colums");
    CHECK(log_capture_has(&log, "LASTUSE_RULES"), "the line does not name the variable: %s", log.lines[0]);
    CHECK(size == size_with("all") && size < size_with("ggml"), "LASTUSE_RULES has some effect");
}
