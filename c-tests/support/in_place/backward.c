// Gradients.

#include "in_place.h"

#define EPS 1e-5f

static struct ggml_tensor * build_silu_back(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return form_result(form, ggml_silu_back(form.ctx, a, form_operand(form)));
}

static struct ggml_tensor * build_rms_norm_back(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return form_result(form, ggml_rms_norm_back(form.ctx, a, form_operand(form), EPS));
}

struct ggml_tensor * build_soft_max_back(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return ggml_soft_max_ext_back(form.ctx, a, form_operand(form), 0.5f, 0.0f);
}

struct ggml_tensor * build_cross_entropy_loss_back(struct form form) {
    struct ggml_tensor * logits = form_operand(form);
    struct ggml_tensor * labels = form_operand(form);
    return ggml_cross_entropy_loss_back(form.ctx, ggml_new_tensor_1d(form.ctx, form.type, 1), logits, labels);
}

static const struct rule RULES_OF_GRADIENTS[] = {
    {
        .name = "SILU_BACK",
        .build = build_silu_back,
        .sources = SOURCE(0) | SOURCE(1),
        .types = TYPE(F32) | TYPE(F16),
        .layouts = CONTIGUOUS | PADDED_ROWS,
    },
    {
        .name = "RMS_NORM_BACK",
        .build = build_rms_norm_back,
        .sources = SOURCE(1),
        .types = TYPE(F32),
        .layouts = CONTIGUOUS | PADDED_ROWS | PERMUTED,
    },
    {
        .name = "RMS_NORM_BACK over its first source",
        .build = build_rms_norm_back,
        .sources = SOURCE(0),
        .types = TYPE(F32),
        .layouts = CONTIGUOUS | PADDED_ROWS | PERMUTED,
        .since = VERSION(0, 26, 0),
    },
    {
        .name = "SOFT_MAX_BACK",
        .build = build_soft_max_back,
        .sources = SOURCE(0),
        .types = TYPE(F32),
    },
    {
        .name = "SOFT_MAX_BACK over its second source",
        .build = build_soft_max_back,
        .sources = SOURCE(1),
        .types = TYPE(F32),
        .since = VERSION(0, 26, 0),
    },
    {
        .name = "CROSS_ENTROPY_LOSS_BACK",
        .build = build_cross_entropy_loss_back,
        .sources = SOURCE(1),
        .types = TYPE(F32),
    },
};

const struct rules BACKWARD_RULES = RULES("backward", RULES_OF_GRADIENTS);
