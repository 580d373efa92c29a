#include "task.h"

#include "check.h"
#include "splitmix.h"

#define SEED 1

static void write_point(const struct task * task, int number, int pair) {
    int       modulus = task->shape.modulus;
    int       a       = pair / modulus;
    int       b       = pair % modulus;
    int32_t * tokens  = (int32_t *) ggml_opt_dataset_data(task->data)->data + number * TASK_TOKENS;
    float *   labels  = (float *) ggml_opt_dataset_labels(task->data)->data + number * modulus;
    tokens[0]         = a;
    tokens[1]         = b;
    tokens[2]         = modulus;
    for (int i = 0; i < modulus; i++) {
        labels[i] = i == (a + b) % modulus ? 1.0f : 0.0f;
    }
}

static int below(uint64_t * random, int end) {
    return (int) (splitmix64(random) % (uint64_t) end);
}

// All pairs of numbers, shuffled.
static int * new_pairs(int n, uint64_t * random) {
    int * pairs = malloc((size_t) n * sizeof(*pairs));
    CHECK(pairs != NULL, "out of memory");
    for (int i = 0; i < n; i++) {
        int j    = below(random, i + 1);
        pairs[i] = pairs[j];
        pairs[j] = i;
    }
    return pairs;
}

struct task task_new(struct task_shape shape) {
    struct task task  = { .shape = shape, .random = SEED };
    int         pairs = shape.modulus * shape.modulus;
    int         limit = shape.points < pairs ? shape.points : pairs;
    int         step  = shape.batch * shape.group;
    int         used  = limit / step * step;
    task.n_train      = used * 4 / 5 / step * step;
    task.n_eval       = used - task.n_train;
    CHECK(task.n_train > 0, "%d data points are too few: a step needs %d, and as many are held out", limit, step);
    task.data   = ggml_opt_dataset_init(GGML_TYPE_I32, GGML_TYPE_F32, TASK_TOKENS, shape.modulus, used, 1);
    int * order = new_pairs(pairs, &task.random);
    for (int i = 0; i < used; i++) {
        write_point(&task, i, order[i]);
    }
    free(order);
    return task;
}

void task_free(struct task * task) {
    ggml_opt_dataset_free(task->data);
}

static void swap_bytes(void * all, int a, int b, size_t size) {
    char * first  = (char *) all + (size_t) a * size;
    char * second = (char *) all + (size_t) b * size;
    for (size_t i = 0; i < size; i++) {
        char byte = first[i];
        first[i]  = second[i];
        second[i] = byte;
    }
}

void task_shuffle(struct task * task) {
    struct ggml_tensor * tokens = ggml_opt_dataset_data(task->data);
    struct ggml_tensor * labels = ggml_opt_dataset_labels(task->data);
    for (int i = task->n_train - 1; i > 0; i--) {
        int j = below(&task->random, i + 1);
        swap_bytes(tokens->data, i, j, tokens->nb[1]);
        swap_bytes(labels->data, i, j, labels->nb[1]);
    }
}

int task_n_batches(const struct task * task) {
    return (task->n_train + task->n_eval) / task->shape.batch;
}

bool task_is_trained(const struct task * task, int batch) {
    return batch * task->shape.batch < task->n_train;
}
