// Trains a small transformer to add numbers modulo another one, until it is right about every pair that it was not
// shown, and reports time and memory.
//
// Failures end the process at once, without freeing: the system takes the memory back.

#include "training.h"

#include "check.h"
#include "options.h"
#include "weak_lastuse.h"

#include "ggml-cpu.h"

#include <inttypes.h>
#include <sys/resource.h>

#define PROGRAM "training"

static const char usage[] =
    "usage: training LOSSES.txt [options]\n"
    "Trains a transformer to add numbers modulo another one, and writes the loss of every batch to a file. Other files of\n"
    "a method go to the folder LOSSES.txt.dump.\n"
    "  --driver NAME   static: ggml_opt with graphs that are built once; batches: ggml_opt with a graph for each\n"
    "                  batch; loop: the same graphs in a loop of the program     (default static)\n"
    "  --method NAME   what is done to need less memory, see below               (default plain)\n"
    "  --layers N      layers of the transformer                                 (default 2)\n"
    "  --width N       width of the transformer                                  (default 64)\n"
    "  --heads N       heads of its attention                                    (default 4)\n"
    "  --modulus N     numbers are below this one                                (default 31)\n"
    "  --batch N       data points in a batch                                    (default 64)\n"
    "  --accumulate N  batches whose gradients are added for one step            (default 1)\n"
    "  --points N      use no more data points                                   (default all pairs of numbers)\n"
    "  --epochs N      end after this number of epochs, however wrong            (default 200)\n"
    "  --threads N     threads of the CPU                                        (default 1)\n"
    "  --help          this text\n"
    "methods: ";

struct settings {
    const char * losses;
    const char * driver;
    const char * method;
    long long    layers;
    long long    width;
    long long    heads;
    long long    modulus;
    long long    batch;
    long long    accumulate;
    long long    points;
    long long    epochs;
    long long    threads;
};

static void print_usage(FILE * out) {
    fputs(usage, out);
    method_print_names(out);
    fputc('\n', out);
}

static enum parse_result parse(int argc, char ** argv, struct settings * s) {
    const struct option_spec options[] = {
        { "--driver",     NULL,           0, 0,       &s->driver },
        { "--method",     NULL,           0, 0,       &s->method },
        { "--layers",     &s->layers,     1, MODEL_MAX_LAYERS, NULL },
        { "--width",      &s->width,      1, 8192,    NULL },
        { "--heads",      &s->heads,      1, 1024,    NULL },
        { "--modulus",    &s->modulus,    2, 1024,    NULL },
        { "--batch",      &s->batch,      1, 1 << 16, NULL },
        { "--accumulate", &s->accumulate, 1, 1 << 16, NULL },
        { "--points",     &s->points,     1, 1 << 20, NULL },
        { "--epochs",     &s->epochs,     1, 10000,   NULL },
        { "--threads",    &s->threads,    1, 1024,    NULL },
    };
    return parse_options(argc, argv, PROGRAM, options, sizeof(options) / sizeof(options[0]), &s->losses);
}

typedef void (*driver)(struct training * t);

static driver find_driver(const char * name) {
    static const struct {
        const char * name;
        driver       run;
    } drivers[] = {
        { "static",  train_static_graphs     },
        { "batches", train_graphs_of_batches },
        { "loop",    train_by_loop           },
    };
    for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
        if (strcmp(drivers[i].name, name) == 0) {
            return drivers[i].run;
        }
    }
    return NULL;
}

static bool is_consistent(const struct settings * s) {
    if (find_driver(s->driver) == NULL) {
        fprintf(stderr, PROGRAM ": unknown driver '%s'\n", s->driver);
    } else if (method_find(s->method) == NULL) {
        fprintf(stderr, PROGRAM ": unknown method '%s'\n", s->method);
    } else if (method_needs_loop(method_find(s->method)) && find_driver(s->driver) != train_by_loop) {
        fprintf(stderr, PROGRAM ": --method %s needs --driver loop\n", s->method);
    } else if (s->width % s->heads != 0) {
        fprintf(stderr, PROGRAM ": --width must be a multiple of --heads\n");
    } else {
        return true;
    }
    return false;
}

static void train(struct training * t, const struct settings * s) {
    t->backend = ggml_backend_cpu_init();
    CHECK(t->backend != NULL, "no backend");
    ggml_backend_cpu_set_n_threads(t->backend, (int) s->threads);
    t->model  = model_new((struct model_shape){ (int) s->layers, (int) s->width, (int) s->heads, (int) s->modulus },
                          t->backend);
    t->task   = task_new((struct task_shape){ (int) s->modulus, (int) s->batch, (int) s->accumulate, (int) s->points });
    t->method = method_find(s->method);
    t->epochs = (int) s->epochs;
    t->record = record_new(t->task.shape.group, t->epochs * task_n_batches(&t->task));
    if (t->method->start != NULL) {
        char folder[FILENAME_MAX];
        int  length = snprintf(folder, sizeof(folder), "%s.dump", s->losses);
        CHECK(length > 0 && (size_t) length < sizeof(folder), "the name of the file of losses is too long");
        t->method->start(folder);
    }
    find_driver(s->driver)(t);
}

static void report(const struct training * t) {
    const struct record * r = &t->record;
    struct rusage         process;
    CHECK(getrusage(RUSAGE_SELF, &process) == 0, "the resident memory is unknown");
    printf("allocator=%s\n", lastuse_is_allocating() ? "lastuse" : "ggml");
    printf("epochs=%d\nsteps=%d\nlosses=%d\n", r->n_epochs, r->n_batches / r->group, r->n_losses);
    printf("correct=%d\nheld_out=%d\n", r->correct, t->task.n_eval);
    printf("first_epoch_loss=%.6f\nlast_epoch_loss=%.6f\n", r->first_epoch, r->last_epoch);
    printf("loss_hash=%016" PRIx64 "\n", record_hash(r));
    if (t->method->keeps_layers) {
        printf("layers_hash=%016" PRIx64 "\n", r->layers);
    }
    printf("compute_bytes=%zu\nbeside_bytes=%zu\n", t->compute, t->beside);
    printf("memory_bytes=%zu\n", t->compute + t->beside);
    printf("resident_bytes=%zu\n", (size_t) process.ru_maxrss * 1024);
    struct step_time time = record_step_time(r);
    printf("step_us=%.1f\nshortest_step_us=%.1f\n", time.median, time.shortest);
}

int main(int argc, char ** argv) {
    struct settings settings = {
        .driver = "static", .method = "plain", .layers = 2, .width = 64, .heads = 4, .modulus = 31, .batch = 64,
        .accumulate = 1, .points = 1 << 20, .epochs = 200, .threads = 1,
    };
    switch (parse(argc, argv, &settings)) {
        case PARSE_HELP:  print_usage(stdout); return EXIT_SUCCESS;
        case PARSE_ERROR: print_usage(stderr); return EXIT_USAGE;
        case PARSE_OK:    break;
    }
    if (!is_consistent(&settings)) {
        return EXIT_USAGE;
    }
    struct training t = { 0 };
    train(&t, &settings);
    record_write(&t.record, settings.losses);
    report(&t);
    record_free(&t.record);
    task_free(&t.task);
    model_free(&t.model);
    ggml_backend_free(t.backend);
    return EXIT_SUCCESS;
}
