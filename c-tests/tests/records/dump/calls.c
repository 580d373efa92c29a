// Dumps by calls: lastuse_set, lastuse_graph_dump_begin, lastuse_graph_dump. Each case writes the values that it
// expects to files in the working directory; the test that runs it compares them with the arrays.
//
//   dump <case>
//
// prints "dumped DIR" for each folder, and leaves "expected/RUN-NAME.bin".

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cases.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "graph_fields.h"
#include "lastuse.h"

#define FOLDER "dumped"

static void expect_bytes(int run, const char * name, const void * bytes, size_t size) {
    char path[256];
    mkdir("expected", 0777);
    snprintf(path, sizeof(path), "expected/%d-%s.bin", run, name);
    FILE * file = fopen(path, "wb");
    CHECK(file != NULL && fwrite(bytes, 1, size, file) == size, "%s is not written", path);
    fclose(file);
}

// ---------------------------------------------------------------------------------------------------
// One graph on a plain backend
// ---------------------------------------------------------------------------------------------------

struct subject {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    ggml_backend_t        backend;
    ggml_gallocr_t        galloc;
};

static struct subject subject_new(void) {
    struct subject s = { .ctx = no_alloc_context(4 << 20), .backend = ggml_backend_cpu_init() };
    ggml_backend_cpu_set_n_threads(s.backend, 1);
    s.graph  = ggml_new_graph(s.ctx);
    s.galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    return s;
}

static void subject_free(struct subject * s) {
    ggml_gallocr_free(s->galloc);
    ggml_backend_free(s->backend);
    ggml_free(s->ctx);
}

static struct ggml_tensor * input(const struct subject * s, enum ggml_type type, const char * name, int64_t rows) {
    struct ggml_tensor * t = ggml_new_tensor_2d(s->ctx, type, 64, rows);
    ggml_set_input(t);
    return ggml_set_name(t, name);
}

static void set_floats(struct ggml_tensor * t, float first) {
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        ((float *) t->data)[i] = first + (float) (i % 13) / 4.0f;
    }
}

static void alloc(const struct subject * s) {
    CHECK(ggml_gallocr_alloc_graph(s->galloc, s->graph), "not allocated");
}

// Computes the graph. Nodes run alone if `expects` is set, and the values of those with these names, which commas
// separate, are expected.
static void compute(const struct subject * s, const char * expects, int run) {
    if (expects == NULL) {
        CHECK(ggml_backend_graph_compute(s->backend, s->graph) == GGML_STATUS_SUCCESS, "not computed");
        return;
    }
    for (int i = 0; i < s->graph->n_nodes; i++) {
        struct ggml_cgraph one = ggml_graph_view(s->graph, i, i + 1);
        CHECK(ggml_backend_graph_compute(s->backend, &one) == GGML_STATUS_SUCCESS, "not computed");
        const struct ggml_tensor * t = s->graph->nodes[i];
        if (strstr(expects, t->name) != NULL) {
            expect_bytes(run, t->name, t->data, ggml_nbytes(t));
        }
    }
}

// Returns the number of arrays.
static size_t dump(const struct subject * s) {
    size_t written = 12345;
    CHECK(lastuse_graph_dump(s->graph, &written), "%s", lastuse_last_error());
    return written;
}

// The chain a -> b -> c -> d, in which nothing else would keep `a` and `b`.
static struct ggml_tensor * build_chain(const struct subject * s) {
    struct ggml_tensor * in = input(s, GGML_TYPE_F32, "in", 8);
    struct ggml_tensor * t  = ggml_set_name(ggml_sqr(s->ctx, in), "a");
    t                       = ggml_set_name(ggml_scale(s->ctx, t, 0.5f), "b");
    t                       = ggml_set_name(ggml_sin(s->ctx, t), "c");
    ggml_build_forward_expand(s->graph, ggml_set_name(ggml_neg(s->ctx, t), "d"));
    return in;
}

// Expects the values of each run, computed node by node by another allocator.
static void expect_chain(int run, float first) {
    struct subject       s  = subject_new();
    struct ggml_tensor * in = build_chain(&s);
    alloc(&s);
    set_floats(in, first);
    expect_bytes(run, "in", in->data, ggml_nbytes(in));
    compute(&s, "a,b,c,d", run);
    subject_free(&s);
}

CASE(static_graph_has_a_folder_for_each_run) {
    for (int run = 1; run <= 3; run++) {
        expect_chain(run, (float) run);
    }
    CHECK(lastuse_set("dump_dir", FOLDER) && lastuse_set("dump", "a,b,i?"), "%s", lastuse_last_error());
    struct subject       s  = subject_new();
    struct ggml_tensor * in = build_chain(&s);
    alloc(&s);
    for (int run = 1; run <= 3; run++) {
        set_floats(in, (float) run);
        CHECK(lastuse_graph_dump_begin(s.graph), "%s", lastuse_last_error());
        compute(&s, NULL, run);
        CHECK(dump(&s) == 3, "two nodes and the input");
        for (int i = 0; i < s.graph->n_nodes; i++) {
            CHECK((s.graph->nodes[i]->flags & GGML_TENSOR_FLAG_OUTPUT) == 0, "%s is flagged", s.graph->nodes[i]->name);
        }
    }
    CHECK(lastuse_set("dump", NULL), "%s", lastuse_last_error());
    CHECK(!lastuse_graph_dump(s.graph, NULL), "no names are set");
    CHECK(strstr(lastuse_last_error(), "lastuse_graph_dump: no names of tensors are set") != NULL, "%s",
          lastuse_last_error());
    subject_free(&s);
    printf("dumped %s\n", FOLDER);
}

// The CPU backend fuses both nodes, and then writes the result of the second alone.
CASE(fused_nodes_are_computed_apart) {
    for (int dumps = 0; dumps < 2; dumps++) {
        if (dumps == 1) {
            CHECK(lastuse_set("dump_dir", FOLDER) && lastuse_set("dump", "norm,scaled"), "%s", lastuse_last_error());
        }
        struct subject       s      = subject_new();
        struct ggml_tensor * in     = input(&s, GGML_TYPE_F32, "in", 8);
        struct ggml_tensor * factor = input(&s, GGML_TYPE_F32, "factor", 1);
        struct ggml_tensor * norm   = ggml_set_name(ggml_rms_norm(s.ctx, in, 1e-5f), "norm");
        struct ggml_tensor * scaled = ggml_set_name(ggml_mul(s.ctx, norm, factor), "scaled");
        ggml_build_forward_expand(s.graph, ggml_set_name(ggml_sqr(s.ctx, scaled), "square"));
        alloc(&s);
        set_floats(in, 1.0f);
        set_floats(factor, -1.0f);
        if (dumps == 1) {
            lastuse_graph_dump_begin(s.graph);
        }
        compute(&s, dumps == 1 ? NULL : "norm,scaled", 1);
        CHECK(dumps == 0 || dump(&s) == 2, "two nodes");
        subject_free(&s);
    }
    printf("dumped %s\n", FOLDER);
}

// ---------------------------------------------------------------------------------------------------
// Types, shapes and orders
// ---------------------------------------------------------------------------------------------------

static const enum ggml_type PLAIN[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_I8,  GGML_TYPE_I16,
                                        GGML_TYPE_I32, GGML_TYPE_I64, GGML_TYPE_F64 };
static const enum ggml_type CONVERTED[] = { GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q5_1 };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void expect_floats(const struct ggml_tensor * t) {
    float floats[64 * 3];
    CHECK(ggml_nelements(t) == (int64_t) COUNT(floats), "%s has other extents", t->name);
    ggml_get_type_traits(t->type)->to_float(t->data, floats, ggml_nelements(t));
    expect_bytes(1, t->name, floats, sizeof(floats));
}

CASE(types_are_those_of_numpy_or_converted) {
    CHECK(lastuse_set("dump_dir", FOLDER) && lastuse_set("dump", "in *"), "%s", lastuse_last_error());
    struct subject s = subject_new();
    struct ggml_tensor * inputs[COUNT(PLAIN) + COUNT(CONVERTED)];
    for (size_t i = 0; i < COUNT(inputs); i++) {
        enum ggml_type type = i < COUNT(PLAIN) ? PLAIN[i] : CONVERTED[i - COUNT(PLAIN)];
        char           name[64];
        snprintf(name, sizeof(name), "in %s", ggml_type_name(type));
        inputs[i] = input(&s, type, name, 3);
        ggml_build_forward_expand(s.graph, ggml_set_name(ggml_view_1d(s.ctx, inputs[i], 64, 0), "view"));
    }
    alloc(&s);
    for (size_t i = 0; i < COUNT(inputs); i++) {
        struct ggml_tensor * t = inputs[i];
        float                floats[64 * 3];
        for (size_t at = 0; at < COUNT(floats); at++) {
            floats[at] = (float) ((int) at - 90) / 8.0f;
        }
        if (i >= COUNT(PLAIN)) {
            ggml_get_type_traits(t->type)->from_float_ref(floats, t->data, (int64_t) COUNT(floats));
            expect_floats(t);
            continue;
        }
        for (size_t at = 0; at < ggml_nbytes(t); at++) {
            ((char *) t->data)[at] = (char) (at * 7 % 120);
        }
        expect_bytes(1, t->name, t->data, ggml_nbytes(t));
    }
    CHECK(dump(&s) == COUNT(inputs), "all types");
    subject_free(&s);
    printf("dumped %s\n", FOLDER);
}

// Views in another order than their memory have the elements of a contiguous copy.
CASE(views_are_in_logical_order) {
    CHECK(lastuse_set("dump_dir", FOLDER) && lastuse_set("dump", "turned,part,strided"), "%s", lastuse_last_error());
    struct subject       s  = subject_new();
    struct ggml_tensor * in = input(&s, GGML_TYPE_F32, "in", 6);
    struct ggml_tensor * t  = ggml_set_name(ggml_sqr(s.ctx, in), "square");
    struct ggml_tensor * cube  = ggml_reshape_3d(s.ctx, t, 16, 4, 6);
    struct ggml_tensor * views[3] = {
        ggml_set_name(ggml_permute(s.ctx, cube, 2, 0, 1, 3), "turned"),
        ggml_set_name(ggml_view_2d(s.ctx, t, 10, 3, 2 * t->nb[1], 5 * sizeof(float)), "part"),
        ggml_set_name(ggml_transpose(s.ctx, ggml_view_2d(s.ctx, t, 2, 5, t->nb[1], 0)), "strided"),
    };
    struct ggml_tensor * copies[3];
    for (int i = 0; i < 3; i++) {
        copies[i] = ggml_cont(s.ctx, views[i]);
        ggml_set_output(copies[i]);
        ggml_build_forward_expand(s.graph, copies[i]);
    }
    alloc(&s);
    set_floats(in, 0.25f);
    compute(&s, NULL, 1);
    for (int i = 0; i < 3; i++) {
        expect_bytes(1, views[i]->name, copies[i]->data, ggml_nbytes(copies[i]));
    }
    CHECK(dump(&s) == 3, "three views");
    subject_free(&s);
    printf("dumped %s\n", FOLDER);
}

// ---------------------------------------------------------------------------------------------------
// Values that are gone
// ---------------------------------------------------------------------------------------------------

CASE(in_place_result_is_what_remains) {
    CHECK(lastuse_set("dump_dir", FOLDER) && lastuse_set("dump", "first,second"), "%s", lastuse_last_error());
    struct subject       s      = subject_new();
    struct ggml_tensor * in     = input(&s, GGML_TYPE_F32, "in", 2);
    struct ggml_tensor * first  = ggml_set_name(ggml_sqr(s.ctx, in), "first");
    struct ggml_tensor * second = ggml_set_name(ggml_scale_inplace(s.ctx, first, 3.0f), "second");
    ggml_build_forward_expand(s.graph, second);
    alloc(&s);
    set_floats(in, 0.5f);
    compute(&s, NULL, 1);
    expect_bytes(1, "first", second->data, ggml_nbytes(second));
    expect_bytes(1, "second", second->data, ggml_nbytes(second));
    CHECK(dump(&s) == 2, "both");
    subject_free(&s);
    printf("dumped %s\n", FOLDER);
}

// The graph was planned before the names were set, so `a` is overwritten: it is not written, but `d` is.
CASE(overwritten_tensor_is_refused) {
    struct log_capture   log;
    struct subject       s  = subject_new();
    struct ggml_tensor * in = build_chain(&s);
    alloc(&s);
    set_floats(in, 0.5f);
    compute(&s, NULL, 1);
    expect_bytes(1, "d", s.graph->nodes[3]->data, ggml_nbytes(s.graph->nodes[3]));
    CHECK(lastuse_set("dump_dir", FOLDER) && lastuse_set("dump", "a,d"), "%s", lastuse_last_error());
    log_capture_start(&log);
    for (int run = 0; run < 2; run++) {
        size_t written = 12345;
        CHECK(!lastuse_graph_dump(s.graph, &written) && written == 12345, "a tensor is overwritten");
        CHECK(strstr(lastuse_last_error(), "\"a\" (SQR) is not dumped: \"d\" (UNARY) has overwritten it") != NULL ||
                  strstr(lastuse_last_error(), "\"a\" (SQR) is not dumped: \"b\" (SCALE) has overwritten it") != NULL,
              "%s", lastuse_last_error());
    }
    log_capture_stop();
    CHECK(log.count == 1 && log_capture_has(&log, "only the first failure is logged"), "%d lines", log.count);
    subject_free(&s);
    printf("dumped %s\n", FOLDER);
}

// ---------------------------------------------------------------------------------------------------
// Errors
// ---------------------------------------------------------------------------------------------------

CASE(wrong_settings_are_refused) {
    CHECK(!(lastuse_set("dump_dir", FOLDER) && lastuse_set("dump", "a,,b")), "a name is empty");
    CHECK(strstr(lastuse_last_error(), "lastuse_set: dump: pattern 2 of \"a,,b\" is empty") != NULL, "%s",
          lastuse_last_error());
    CHECK(access(FOLDER, F_OK) != 0, "no folder was created");
    CHECK(!(lastuse_set("dump_dir", "/proc/no/such/folder") && lastuse_set("dump", "a")), "there is no such folder");
    CHECK(strstr(lastuse_last_error(), "lastuse_set: dump: cannot write to the folder /proc/no/such/folder: ") != NULL,
          "%s", lastuse_last_error());
    struct subject s = subject_new();
    build_chain(&s);
    CHECK(!lastuse_graph_dump_begin(s.graph), "nothing is set");
    CHECK(lastuse_set("dump_dir", NULL) && lastuse_set("dump", "a"), "%s", lastuse_last_error());
    CHECK(access("lastuse-dump", W_OK) == 0, "the default folder");
    CHECK(!lastuse_graph_dump(s.graph, NULL), "the graph is not allocated");
    CHECK(strstr(lastuse_last_error(), "\"a\" (SQR) is not dumped: it has no memory") != NULL, "%s",
          lastuse_last_error());
    CHECK(rmdir("lastuse-dump") == 0, "nothing was written");
    subject_free(&s);
}

CASE(names_are_suggested_once) {
    struct log_capture   log;
    struct subject       s  = subject_new();
    struct ggml_tensor * in = build_chain(&s);
    ggml_set_name(s.graph->nodes[0], "kq-0");
    CHECK(lastuse_set("dump_dir", FOLDER) && lastuse_set("dump", "KQ_*"), "%s", lastuse_last_error());
    alloc(&s);
    set_floats(in, 0.5f);
    log_capture_start(&log);
    for (int run = 0; run < 2; run++) {
        compute(&s, NULL, 1);
        CHECK(dump(&s) == 0, "no name matches");
    }
    log_capture_stop();
    CHECK(log.count == 1 && log_capture_has(&log, "\"KQ_*\" matches none of a graph with 4 nodes, which has, for example, "
                                                  "\"kq-0\""),
          "%s", log.lines[0]);
    CHECK(rmdir(FOLDER) == 0, "nothing was written");
    subject_free(&s);
}

// The program goes on, and later runs are written again.
CASE(full_disk_leaves_no_half_files) {
    signal(SIGXFSZ, SIG_IGN);
    expect_chain(1, 1.0f);
    struct rlimit small = { .rlim_cur = 600, .rlim_max = RLIM_INFINITY };
    struct rlimit none  = { .rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY };
    CHECK(lastuse_set("dump_dir", FOLDER) && lastuse_set("dump", "a,c"), "%s", lastuse_last_error());
    struct subject       s  = subject_new();
    struct ggml_tensor * in = build_chain(&s);
    alloc(&s);
    set_floats(in, 1.0f);
    compute(&s, NULL, 1);
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0, "no limit");
    CHECK(!lastuse_graph_dump(s.graph, NULL), "the files are too large");
    CHECK(strstr(lastuse_last_error(), "cannot write to ") != NULL, "%s", lastuse_last_error());
    CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0, "still limited");
    CHECK(rmdir(FOLDER) == 0, "nothing remains of it");
    CHECK(!lastuse_graph_dump(s.graph, NULL), "the folder is gone");
    CHECK(strstr(lastuse_last_error(), "no tensor is dumped: cannot write to the folder ") != NULL, "%s",
          lastuse_last_error());
    CHECK(mkdir(FOLDER, 0777) == 0, "it can be created");
    CHECK(dump(&s) == 2, "now there is room");
    subject_free(&s);
    printf("dumped %s\n", FOLDER);
}
