// A training run: the model, the method, and the records.
#pragma once

#include "ggml-backend.h"
#include "ggml-opt.h"

#include "method.h"
#include "model.h"
#include "record.h"
#include "task.h"

struct training {
    struct model          model;
    struct task           task;
    ggml_backend_t        backend;
    const struct method * method;
    int                   epochs; // at most: training ends when all data points held out are right
    struct record         record;
    size_t                compute; // bytes that are held to compute a graph, at the end
    size_t                beside;  // bytes that the method holds besides them
};

// The optimizer's parameters, for ggml_opt and for the loop of our own. The argument is not used.
struct ggml_opt_optimizer_params training_rate(void * user);

// Ends an epoch: `correct` of the data points held out were right, and `graph` was computed last. Returns whether training
// is done.
bool training_epoch_ends(struct training * t, int correct, struct ggml_cgraph * graph);

// By ggml_opt, with graphs that are built once (ggml_opt_epoch), or for each batch (ggml_opt_prepare_alloc).
void train_static_graphs(struct training * t);
void train_graphs_of_batches(struct training * t);

// By a loop over the public functions that ggml_opt calls, on the graphs that it builds.
void train_by_loop(struct training * t);
