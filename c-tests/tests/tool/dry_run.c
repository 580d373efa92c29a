// A program that does not use lastuse, and loads weights: from a file, if it is given one. Then it does what its first argument says.
//
//   writes FILE   computes a graph, and replaces a file by its results
//   opens-first FILE  the same, but opens the file before
//   waits         computes a graph, and waits for a connection
//   goes-on       computes the same graph, again and again
//   polls         computes a graph, waits for 3 seconds by timeouts, and loads the weights again
//   asks          computes a graph, waits for the answer of a process that takes 3 seconds, and loads the weights again
//   serves        computes a graph, and polls for connections for 20 seconds
//   starts        accepts connections, computes a graph, does something for 3 seconds, and loads the weights again
//   reads-small   reads back what it has written to a small tensor, and prints whether that is the same
//   reads-weights reads the weights back
//   fails         ends with an error before it computes anything
//   renames FILE  renames FILE to FILE.old, which is there, and reads it there; writes a new FILE.new and renames it to FILE; removes
//                 FILE.old; computes a graph

#define _POSIX_C_SOURCE 200809L

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

// 256 MiB of weights.
enum { WIDTH = 8192, SMALL = 64 };

struct model {
    ggml_backend_t        backend;
    struct ggml_context * context;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *  weights;
    struct ggml_tensor *  small;
};

static void load(struct model * model, const char * path) {
    struct ggml_init_params params = { 16 * ggml_tensor_overhead(), NULL, true };
    model->backend                 = ggml_backend_cpu_init();
    model->context                 = ggml_init(params);
    model->weights                 = ggml_new_tensor_2d(model->context, GGML_TYPE_F32, WIDTH, WIDTH);
    model->small                   = ggml_new_tensor_1d(model->context, GGML_TYPE_F32, SMALL);
    ggml_set_name(model->weights, "the.weights");
    model->buffer = ggml_backend_alloc_ctx_tensors(model->context, model->backend);
    ggml_backend_buffer_set_usage(model->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    if (path == NULL) {
        return;
    }
    FILE * file = fopen(path, "rb");
    if (file == NULL || fread(model->weights->data, 1, ggml_nbytes(model->weights), file) != ggml_nbytes(model->weights)) {
        fprintf(stderr, "dry_run: cannot read %s\n", path);
        exit(1);
    }
    fclose(file);
}

static float compute(const struct model * model, ggml_gallocr_t allocator) {
    struct ggml_init_params params  = { 32 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL, true };
    struct ggml_context *   context = ggml_init(params);
    struct ggml_cgraph *    graph   = ggml_new_graph(context);
    struct ggml_tensor *    input   = ggml_new_tensor_2d(context, GGML_TYPE_F32, WIDTH, 4);
    ggml_set_input(input);
    struct ggml_tensor * output = ggml_sqr(context, ggml_mul_mat(context, model->weights, input));
    ggml_set_output(output);
    ggml_build_forward_expand(graph, output);
    float result = 0.0f;
    if (ggml_gallocr_alloc_graph(allocator, graph)) {
        ggml_backend_tensor_memset(input, 0, 0, ggml_nbytes(input));
        ggml_backend_graph_compute(model->backend, graph);
        ggml_backend_tensor_get(output, &result, 0, sizeof(result));
    }
    ggml_free(context);
    return result;
}

static void write_line(const char * path, const char * line) {
    FILE * file = fopen(path, "w");
    if (file == NULL || fprintf(file, "%s\n", line) < 0 || fclose(file) != 0) {
        fprintf(stderr, "dry_run: cannot write %s\n", path);
        exit(1);
    }
}

static void expect_line(const char * path, const char * expected) {
    char   line[64] = "";
    FILE * file     = fopen(path, "r");
    if (file != NULL) {
        if (fgets(line, sizeof(line), file) != NULL) {
            line[strcspn(line, "\n")] = '\0';
        }
        fclose(file);
    }
    if ((file == NULL) != (expected == NULL) || (expected != NULL && strcmp(line, expected) != 0)) {
        fprintf(stderr, "dry_run: %s has the line '%s'\n", path, line);
        exit(1);
    }
}

static void rename_files(const char * file) {
    char old[512], new[512];
    snprintf(old, sizeof(old), "%s.old", file);
    snprintf(new, sizeof(new), "%s.new", file);
    rename(file, old);
    expect_line(file, NULL);
    expect_line(old, "earlier");
    write_line(new, "later");
    rename(new, file);
    expect_line(new, NULL);
    expect_line(file, "later");
    remove(old);
    expect_line(old, NULL);
    write_line(old, "again");
    expect_line(old, "again");
}

static void wait_by_polls(struct pollfd * files, nfds_t number, int seconds) {
    for (int i = 0; i < 10 * seconds; i++) {
        poll(files, number, 100);
    }
}

static void ask_process(void) {
    char   answer;
    FILE * process = popen("sleep 3; echo", "r");
    if (process == NULL || fread(&answer, 1, 1, process) != 1 || pclose(process) != 0) {
        fprintf(stderr, "dry_run: the process does not answer\n");
        exit(1);
    }
}

// Returns a socket that accepts connections.
static int listener(void) {
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const int          file    = socket(AF_UNIX, SOCK_STREAM, 0);
    // An address without a name is one that the system chooses.
    if (bind(file, (const struct sockaddr *) &address, sizeof(address.sun_family)) != 0 || listen(file, 1) != 0) {
        fprintf(stderr, "dry_run: it cannot serve\n");
        exit(1);
    }
    return file;
}

static void * work(void * ignored) {
    const clock_t start = clock();
    while (clock() - start < CLOCKS_PER_SEC / 50) {
    }
    return ignored;
}

// Each thread has ended when the next one starts.
static void work_in_threads(int seconds) {
    for (int i = 0; i < 50 * seconds; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, NULL) != 0 || pthread_join(thread, NULL) != 0) {
            fprintf(stderr, "dry_run: it cannot start a thread\n");
            exit(1);
        }
    }
}

int main(int count, char ** arguments) {
    struct model model;
    const char * what  = count > 1 ? arguments[1] : "";
    const char * file  = count > 2 ? arguments[2] : NULL;
    const bool   reads = strncmp(what, "reads", 5) == 0;
    load(&model, reads ? file : NULL);
    if (strcmp(what, "fails") == 0) {
        fprintf(stderr, "dry_run: it fails on purpose\n");
        return 7;
    }
    if (strcmp(what, "renames") == 0) {
        rename_files(file);
    }
    if (strcmp(what, "reads-small") == 0) {
        float written[SMALL], read[SMALL];
        for (int i = 0; i < SMALL; i++) {
            written[i] = (float) i;
        }
        ggml_backend_tensor_set(model.small, written, 0, sizeof(written));
        ggml_backend_tensor_get(model.small, read, 0, sizeof(read));
        if (memcmp(written, read, sizeof(read)) != 0) {
            fprintf(stderr, "dry_run: it reads back something else\n");
            return 1;
        }
    }
    if (strcmp(what, "reads-weights") == 0) {
        float * read = malloc(ggml_nbytes(model.weights));
        ggml_backend_tensor_set(model.weights, read, 0, ggml_nbytes(model.weights));
        ggml_backend_tensor_get(model.weights, read, 0, ggml_nbytes(model.weights));
        free(read);
    }
    FILE *         out       = strcmp(what, "opens-first") == 0 ? fopen(file, "w") : NULL;
    ggml_gallocr_t allocator = ggml_gallocr_new(ggml_backend_get_default_buffer_type(model.backend));
    float          result    = compute(&model, allocator);
    printf("result=%g\n", (double) result);
    if (strcmp(what, "writes") == 0) {
        out = fopen(file, "w");
    } else if (strcmp(what, "waits") == 0) {
        accept(listener(), NULL, NULL);
    } else if (strcmp(what, "polls") == 0) {
        wait_by_polls(NULL, 0, 3);
        load(&model, NULL);
    } else if (strcmp(what, "asks") == 0) {
        ask_process();
        load(&model, NULL);
    } else if (strcmp(what, "serves") == 0) {
        struct pollfd file = { listener(), POLLIN, 0 };
        wait_by_polls(&file, 1, 20);
    } else if (strcmp(what, "starts") == 0) {
        listener();
        work_in_threads(3);
        load(&model, NULL);
    } else if (strcmp(what, "goes-on") == 0) {
        for (;;) {
            compute(&model, allocator);
        }
    }
    if (out != NULL) {
        fprintf(out, "%g\n", (double) result);
        fclose(out);
    }
    ggml_gallocr_free(allocator);
    ggml_backend_buffer_free(model.buffer);
    ggml_free(model.context);
    ggml_backend_free(model.backend);
    return 0;
}
