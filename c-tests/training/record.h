// Records of a run: every loss, the time of each step, the accuracy after each epoch.
#pragma once

#include "ggml.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct record {
    int      group; // batches of a step of the optimizer
    float *  losses;
    double * batch_us; // of the batches that were trained on
    int      n_losses;
    int      n_batches;
    int      room;
    int      n_epochs;
    double   first_epoch; // the mean loss of the batches that were trained on
    double   last_epoch;
    int      correct; // of the data points held out, after the last epoch
    double   start_us;
    uint64_t layers; // a hash of the results of layers, where the method keeps them
};

struct record record_new(int group, int room);
void          record_free(struct record * record);

// A batch begins.
void record_start(struct record * record);

// The loss of a batch that was trained on, which ends now, or of one that was evaluated.
void record_trained(struct record * record, const struct ggml_tensor * loss);
void record_evaluated(struct record * record, const struct ggml_tensor * loss);

// The results of layers, for the last batch of each epoch.
void record_layers(struct record * record, struct ggml_cgraph * graph);

// An epoch ends, in which `n_trained` batches were trained on, and then `n_evaluated` evaluated.
void record_epoch(struct record * record, int n_trained, int n_evaluated);

// A hash of the bits of all losses.
uint64_t record_hash(const struct record * record);

// How long a step of the optimizer takes, in microseconds.
struct step_time {
    double median;
    double shortest;
};

struct step_time record_step_time(const struct record * record);

// Writes one loss per line, exactly: as a hexadecimal float.
void record_write(const struct record * record, const char * file);
