#include "training.h"

#define RATE  0.003f
#define DECAY 1.0f
#define BETA2 0.98f

struct ggml_opt_optimizer_params training_rate(void * user) {
    struct ggml_opt_optimizer_params params = ggml_opt_get_default_optimizer_params(user);
    params.adamw.alpha                      = RATE;
    params.adamw.wd                         = DECAY;
    params.adamw.beta2                      = BETA2;
    return params;
}

bool training_epoch_ends(struct training * t, int correct, struct ggml_cgraph * graph) {
    int n_trained     = t->task.n_train / t->task.shape.batch;
    t->record.correct = correct;
    if (t->method->keeps_layers) {
        record_layers(&t->record, graph);
    }
    record_epoch(&t->record, n_trained, task_n_batches(&t->task) - n_trained);
    return correct == t->task.n_eval || t->record.n_epochs == t->epochs;
}
