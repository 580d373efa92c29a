// Which sources the CPU's kernels may write over while they read them. in_place_kernels.c runs the kernels for each.
#pragma once

#include <stdio.h>

#include "tensors.h"
#include "upstream.h"

// Operations that read an element, or a whole row, before they write there, and copies onto themselves.
static bool reads_before_writing(enum ggml_op op, int slot) {
    switch (op) {
        case GGML_OP_GLU:
            return slot < 2;
        case GGML_OP_NORM:
        case GGML_OP_GROUP_NORM:
        case GGML_OP_L2_NORM:
        case GGML_OP_CONT:
        case GGML_OP_CPY:
        case GGML_OP_DUP:
        case GGML_OP_ACC:
        case GGML_OP_SET:
        case GGML_OP_SIN:
        case GGML_OP_COS:
        case GGML_OP_LEAKY_RELU:
        case GGML_OP_TRI:
        case GGML_OP_CUMSUM:
            return slot == 0;
        case GGML_OP_SOLVE_TRI:
        case GGML_OP_CROSS_ENTROPY_LOSS_BACK:
            return slot == 1;
        default:
            return false;
    }
}

// Whether the kernels of SOFT_MAX_BACK and RMS_NORM_BACK are known to read both sources before they write.
static inline bool keeps_sources(void) {
    int major = 0, minor = 0;
    return sscanf(ggml_version(), "%d.%d", &major, &minor) == 2 && (major > 0 || minor >= 26);
}

// ggml's list, without the sources that some kernel reads again after it has written them.
static bool is_listed(enum ggml_op op, int slot) {
    switch (op) {
        case GGML_OP_SOFT_MAX_BACK:
            return slot == 0 || keeps_sources();
        case GGML_OP_ADD_ID:
            return slot == 0;
        case GGML_OP_RMS_NORM_BACK:
            return slot == 1 || keeps_sources();
        default:
            return upstream_ggml_op_can_inplace(op);
    }
}

// Whether the result may be exactly where a source of the same layout is.
static bool may_overwrite(const struct ggml_tensor * node, int slot) {
    return is_listed(node->op, slot) || reads_before_writing(node->op, slot);
}

// Whether the source lies inside the result of a CONCAT, contiguous and exactly where it is copied to.
static bool is_in_its_place(const struct ggml_tensor * node, int slot) {
    if (node->op != GGML_OP_CONCAT || slot > 1 || !ggml_is_contiguous(node) || !ggml_is_contiguous(node->src[slot])) {
        return false;
    }
    int dim = node->op_params[0];
    for (int i = dim + 1; i < GGML_MAX_DIMS; i++) {
        if (node->ne[i] != 1) {
            return false;
        }
    }
    size_t before = slot == 0 ? 0 : ggml_nbytes(node->src[0]);
    return node->src[slot]->data == (char *) node->data + before;
}
