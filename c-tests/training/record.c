#include "record.h"

#include "ggml-backend.h"

#include "check.h"
#include "hash.h"
#include "method.h"
#include "timing.h"

struct record record_new(int group, int room) {
    struct record record = { .group = group, .room = room, .layers = FNV1A_64_START };
    record.losses        = calloc((size_t) room, sizeof(*record.losses));
    record.batch_us      = calloc((size_t) room, sizeof(*record.batch_us));
    CHECK(record.losses != NULL && record.batch_us != NULL, "out of memory");
    return record;
}

void record_free(struct record * record) {
    free(record->losses);
    free(record->batch_us);
}

void record_start(struct record * record) {
    record->start_us = now_us();
}

void record_trained(struct record * record, const struct ggml_tensor * loss) {
    record->batch_us[record->n_batches++] = now_us() - record->start_us;
    record_evaluated(record, loss);
}

void record_evaluated(struct record * record, const struct ggml_tensor * loss) {
    CHECK(record->n_losses < record->room, "more than %d batches", record->room);
    ggml_backend_tensor_get(loss, &record->losses[record->n_losses++], 0, sizeof(float));
}

static void hash_layer(struct ggml_tensor * layer, void * user) {
    struct record * record = user;
    size_t          size   = ggml_nbytes(layer);
    void *          data   = malloc(size);
    CHECK(data != NULL, "out of memory");
    ggml_backend_tensor_get(layer, data, 0, size);
    record->layers = fnv1a_64(record->layers, data, size);
    free(data);
}

void record_layers(struct record * record, struct ggml_cgraph * graph) {
    for_each_layer(graph, hash_layer, record);
}

void record_epoch(struct record * record, int n_trained, int n_evaluated) {
    const float * losses = record->losses + record->n_losses - n_evaluated - n_trained;
    double        sum    = 0.0;
    for (int i = 0; i < n_trained; i++) {
        sum += (double) losses[i];
    }
    record->last_epoch = sum / n_trained;
    if (record->n_epochs++ == 0) {
        record->first_epoch = record->last_epoch;
    }
}

uint64_t record_hash(const struct record * record) {
    return fnv1a_64(FNV1A_64_START, record->losses, (size_t) record->n_losses * sizeof(*record->losses));
}

struct step_time record_step_time(const struct record * record) {
    int      n     = record->n_batches / record->group;
    double * steps = calloc((size_t) n, sizeof(*steps));
    CHECK(steps != NULL, "out of memory");
    for (int i = 0; i < n * record->group; i++) {
        steps[i / record->group] += record->batch_us[i];
    }
    double           middle = median(steps, n); // sorts them
    struct step_time time   = { .median = middle, .shortest = steps[0] };
    free(steps);
    return time;
}

void record_write(const struct record * record, const char * file) {
    FILE * out = fopen(file, "w");
    CHECK(out != NULL, "cannot write %s", file);
    for (int i = 0; i < record->n_losses; i++) {
        fprintf(out, "%a\n", (double) record->losses[i]);
    }
    CHECK(fclose(out) == 0, "cannot write %s", file);
}
