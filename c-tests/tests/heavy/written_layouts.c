// Which layouts of its result each operation can write: the kernels of the CPU run on it, over types, shapes and
// numbers of threads. Layouts that ggml_set_output(t, dst) accepts must give the same bits as a result in its own
// memory, and nothing else may be written. Refused layouts are tried too.
//
//   written_layouts <case>
//
// Prints the lines of survey_rules() with the verb `writes`.

#include "check.h"
#include "lastuse.h"
#include "survey.h"

// Does what ggml_set_output(t, dst) does, without its checks.
static void redirect_anyway(struct ggml_tensor * t, const struct ggml_tensor * dst) {
    t->view_src  = dst->view_src;
    t->view_offs = dst->view_offs;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        size_t next = i == 0 ? t->nb[0] : t->nb[i - 1] * (size_t) t->ne[i - 1];
        t->nb[i]    = t->ne[i] == 1 ? next : dst->nb[i];
    }
}

static void try_result(struct trial * trial, int layout) {
    const struct form *  form   = &trial->form;
    struct ggml_tensor * node   = trial->node;
    struct ggml_tensor * dst = dst_tensor(form->ctx, node, layout);
    struct question question    = { .op = node->op, .needed = writes_needed(node, dst) };
    node->buffer                = NULL;
    node->data                  = NULL;
    question.claimed            = ggml_set_output(node, dst) == node;
    if (!question.claimed) {
        redirect_anyway(node, dst);
    }
    char what[256];
    snprintf(what, sizeof(what), "%s, %s, variant %d, [%d, %d, %d, %d], layout %d of the destination (%s)", trial->rule->name,
             ggml_type_name(form->type), form->variant, (int) form->ne[0], (int) form->ne[1], (int) form->ne[2],
             (int) form->ne[3], layout, WRITES_NAMES[question.needed]);
    survey_ask(question, what);
    survey_try(trial, survey_has_threads(*form));
}

static bool try_shape_of(const struct survey * survey, const struct rule * rule, struct form form, int layout,
                         int part) {
    (void) part;
    struct trial trial = trial_new(rule, form, survey->cpu, survey->arena);
    if (trial.node->view_src == NULL && !ggml_is_quantized(trial.node->type)) {
        try_result(&trial, layout);
    }
    trial_free(&trial);
    return true;
}

SURVEY_MAIN("writes", 1, try_shape_of)
