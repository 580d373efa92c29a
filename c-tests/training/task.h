// The task: modular addition. A data point is the tokens `a`, `b` and "=", its label is (a + b) mod the modulus, as a
// distribution. Each pair of numbers occurs once, in an order that is random but equal in every run.
#pragma once

#include "ggml-opt.h"

#include <stdint.h>

#define TASK_TOKENS 3

struct task_shape {
    int modulus; // also the number of classes; the token "=" is the number behind the last
    int batch;   // data points that are computed at a time
    int group;   // batches of one step of the optimizer
    int points;  // use no more data points than this
};

// Both numbers of data points are those of whole steps of the optimizer: ggml_opt counts batches that are evaluated too
// when it decides which batch ends with a step.
struct task {
    struct task_shape  shape;
    int                n_train; // data points that are trained on
    int                n_eval;  // data points held out, about a fifth: those behind
    uint64_t           random;
    ggml_opt_dataset_t data;
};

struct task task_new(struct task_shape shape);
void        task_free(struct task * task);

// A new order of the data points that are trained on.
void task_shuffle(struct task * task);

// Batches of an epoch: those that are trained on, then those that are evaluated.
int  task_n_batches(const struct task * task);
bool task_is_trained(const struct task * task, int batch);
