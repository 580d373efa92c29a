// The parts of an operation that several threads would compute, one after the other in one thread. When one part reads
// what another one writes, it goes wrong in one of the two orders, each time: real threads show it only at times.

#include <stdlib.h>

#include "check.h"
#include "ggml-cpu.h"
#include "ggml-cpu/ggml-cpu-impl.h"
#include "in_place.h"

typedef void (*kernel)(const struct ggml_compute_params * params, struct ggml_tensor * node);

// Each operation of the rules, unless its threads wait for one another.
#define KERNELS(X)                                                                                                 \
    X(ADD, add)                                                                                                    \
    X(ADD_ID, add_id)                                                                                              \
    X(ADD1, add1)                                                                                                  \
    X(SUB, sub)                                                                                                    \
    X(MUL, mul)                                                                                                    \
    X(DIV, div)                                                                                                    \
    X(SQR, sqr)                                                                                                    \
    X(SQRT, sqrt)                                                                                                  \
    X(LOG, log)                                                                                                    \
    X(SIN, sin)                                                                                                    \
    X(COS, cos)                                                                                                    \
    X(CUMSUM, cumsum)                                                                                              \
    X(REPEAT, repeat)                                                                                              \
    X(PAD, pad)                                                                                                    \
    X(CONCAT, concat)                                                                                              \
    X(SILU_BACK, silu_back)                                                                                        \
    X(NORM, norm)                                                                                                  \
    X(RMS_NORM, rms_norm)                                                                                          \
    X(RMS_NORM_BACK, rms_norm_back)                                                                                \
    X(GROUP_NORM, group_norm)                                                                                      \
    X(L2_NORM, l2_norm)                                                                                            \
    X(SCALE, scale)                                                                                                \
    X(CPY, cpy)                                                                                                    \
    X(CONT, cont)                                                                                                  \
    X(DUP, dup)                                                                                                    \
    X(SOFT_MAX, soft_max)                                                                                          \
    X(SOFT_MAX_BACK, soft_max_ext_back)                                                                            \
    X(ROPE, rope)                                                                                                  \
    X(ROPE_BACK, rope_back)                                                                                        \
    X(CLAMP, clamp)                                                                                                \
    X(LEAKY_RELU, leaky_relu)                                                                                      \
    X(TRI, tri)                                                                                                    \
    X(FILL, fill)                                                                                                  \
    X(UNARY, unary)                                                                                                \
    X(GLU, glu)                                                                                                    \
    X(SOLVE_TRI, solve_tri)                                                                                        \
    X(CROSS_ENTROPY_LOSS_BACK, cross_entropy_loss_back)

#define DECLARE(op, name) \
    extern void ggml_compute_forward_##name(const struct ggml_compute_params * params, struct ggml_tensor * node);
KERNELS(DECLARE)
#undef DECLARE

static kernel kernel_of(enum ggml_op op) {
#define ENTRY(op, name) [GGML_OP_##op] = ggml_compute_forward_##name,
    static const kernel kernels[GGML_OP_COUNT] = { KERNELS(ENTRY) };
#undef ENTRY
    return kernels[op];
}

static bool computes(enum ggml_op op) {
    return op != GGML_OP_VIEW && op != GGML_OP_RESHAPE && op != GGML_OP_PERMUTE && op != GGML_OP_TRANSPOSE;
}

bool can_take_turns(const struct trial * trial) {
    int n_computing = 0;
    for (int i = 0; i < ggml_graph_n_nodes(trial->graph); i++) {
        n_computing += computes(ggml_graph_node(trial->graph, i)->op);
    }
    return n_computing == 1 && kernel_of(trial->node->op) != NULL;
}

void compute_in_turns(const struct trial * trial, int n_threads, enum turns turns) {
    struct ggml_cplan          plan   = ggml_graph_plan(trial->graph, n_threads, NULL);
    void *                     work   = malloc(plan.work_size + 1);
    struct ggml_compute_params params = { .nth = n_threads, .wsize = plan.work_size, .wdata = work };
    CHECK(work != NULL, "out of memory");
    for (int i = 0; i < n_threads; i++) {
        params.ith = turns == FORWARD ? i : n_threads - 1 - i;
        kernel_of(trial->node->op)(&params, trial->node);
    }
    free(work);
}
