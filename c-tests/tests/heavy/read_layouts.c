// Which layouts of its sources each operation can read: the kernels of the CPU run on them, over types, shapes and
// numbers of threads. An operation that was made for a source without gaps must give the same bits after
// ggml_set_output(source, dst) has put that source into a dst with gaps, or lastuse must refuse to plan the graph.
// Refused layouts are tried too.
//
//   read_layouts <case>
//
// Prints the lines of survey_rules() with the verb `reads`.

#include "check.h"
#include "graph_fields.h"
#include "lastuse.h"
#include "survey.h"

// The parts to try: all that is claimed at once, and each source of each node alone.
#define MAX_PARTS 16
#define ALL_AT_ONCE 0

// The layout in which every source can be read.
#define WITHOUT_GAPS 0

// A source, by the node that reads it.
struct reading {
    struct ggml_tensor * node;
    int                  slot;
};

// The n-th reading of the graph, from 0. A source that an operation writes over does not count as read.
static bool find_reading(const struct trial * trial, int n, struct reading * found) {
    for (int i = 0; i < ggml_graph_n_nodes(trial->graph); i++) {
        struct ggml_tensor * node = ggml_graph_node(trial->graph, i);
        for (int slot = 0; slot < GGML_MAX_SRC && !is_view_op(node); slot++) {
            struct ggml_tensor * source = node->src[slot];
            if (source == NULL || ggml_is_quantized(source->type) ||
                (node->view_src != NULL && (source == node->view_src || source->view_src == node->view_src))) {
                continue;
            }
            if (n-- == 0) {
                *found = (struct reading) { node, slot };
                return true;
            }
        }
    }
    return false;
}

static void drop_places(const struct trial * trial) {
    struct ggml_context * ctx = trial->form.ctx;
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t)) {
        t->buffer = NULL;
        t->data   = NULL;
    }
}

// A result that can be put elsewhere: the source where an operation computes it, otherwise a copy of it.
static struct ggml_tensor * movable(struct trial * trial, struct reading reading) {
    struct ggml_tensor * source = reading.node->src[reading.slot];
    if (source->op == GGML_OP_NONE || source->view_src != NULL) {
        source                          = ggml_dup(trial->form.ctx, source);
        reading.node->src[reading.slot] = source;
    }
    return source;
}

static void list_nodes(struct trial * trial) {
    trial->graph = ggml_new_graph_custom(trial->form.ctx, 32, false);
    ggml_build_forward_expand(trial->graph, trial->node);
}

static bool is_accepted(const struct survey * survey, const struct trial * trial) {
    ggml_backend_buffer_type_t type = ggml_backend_get_default_buffer_type(survey->cpu);
    size_t                     size = 0;
    return lastuse_graph_measure(&trial->graph, 1, &type, 1, NULL, NULL, &size, NULL);
}

static void describe(char * what, size_t size, const struct trial * trial, const char * which, int layout) {
    const struct form * form = &trial->form;
    snprintf(what, size, "%s, %s, variant %d, [%d, %d, %d, %d], %s in layout %d", trial->rule->name,
             ggml_type_name(form->type), form->variant, (int) form->ne[0], (int) form->ne[1], (int) form->ne[2],
             (int) form->ne[3], which, layout);
}

static bool try_one(const struct survey * survey, struct trial * trial, int layout, int part) {
    struct reading reading;
    if (!find_reading(trial, part - 1, &reading)) {
        return false;
    }
    struct ggml_tensor * source = movable(trial, reading);
    struct ggml_tensor * dst = dst_tensor(trial->form.ctx, source, layout);
    enum writes          needed = writes_needed(source, dst);
    drop_places(trial);
    if (needed != WRITES_CONTIGUOUS && ggml_set_output(source, dst) == source) {
        list_nodes(trial);
        bool claimed = is_accepted(survey, trial);
        char what[256];
        char which[64];
        snprintf(which, sizeof(which), "source %d of %s", reading.slot, ggml_op_name(reading.node->op));
        describe(what, sizeof(what), trial, which, layout);
        survey_ask((struct question) { reading.node->op, reading.slot, needed, claimed }, what);
        survey_try(trial, false);
    }
    return true;
}

// Kernels choose their way by all operands. One that is refused is put back.
static void try_all(const struct survey * survey, struct trial * trial, int layout) {
    struct reading       reading;
    struct ggml_tensor * node    = trial->node;
    bool                 is_read = false;
    for (int n = 0; find_reading(trial, n, &reading); n++) {
        struct ggml_tensor * before = reading.node->src[reading.slot];
        struct ggml_tensor * source = movable(trial, reading);
        struct ggml_tensor   saved  = *source;
        drop_places(trial);
        ggml_set_output(source, dst_tensor(trial->form.ctx, source, layout));
        struct ggml_cgraph * listed = trial->graph;
        list_nodes(trial);
        if (is_accepted(survey, trial)) {
            is_read = true;
        } else {
            *source                         = saved;
            reading.node->src[reading.slot] = before;
        }
        trial->graph = listed;
    }
    if (!is_read) {
        return;
    }
    if (node->view_src == NULL && !ggml_is_quantized(node->type)) {
        ggml_set_output(node, dst_tensor(trial->form.ctx, node, layout));
    }
    list_nodes(trial);
    char what[256];
    describe(what, sizeof(what), trial, "all that is claimed", layout);
    survey_ask((struct question) { .op = GGML_OP_NONE, .claimed = true }, what);
    survey_try(trial, survey_has_threads(trial->form));
}

static bool try_shape_of(const struct survey * survey, const struct rule * rule, struct form form, int layout,
                         int part) {
    if (layout == WITHOUT_GAPS) {
        return false;
    }
    struct trial trial    = trial_new(rule, form, survey->cpu, survey->arena);
    bool         is_there = true;
    if (part == ALL_AT_ONCE) {
        try_all(survey, &trial, layout);
    } else {
        is_there = try_one(survey, &trial, layout, part);
    }
    trial_free(&trial);
    return is_there;
}

SURVEY_MAIN("reads", MAX_PARTS, try_shape_of)
