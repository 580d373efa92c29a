// The resident memory, mappings and address space of contexts without sizes.
//
//   context_memory <case>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "lastuse.h"

#define MIB ((size_t) 1024 * 1024)

// The variation of the system's number for the process itself.
#define NOISE (2 * MIB)

static struct ggml_context * new_context(enum lastuse_context_kind kind) {
    struct ggml_context * ctx = lastuse_context_new(kind, NULL);
    CHECK(ctx != NULL, "%s", lastuse_last_error());
    return ctx;
}

// The bytes of the field of /proc/self/statm: 0 is all of the address space, 1 the resident part.
static size_t memory_field(int field) {
    FILE * file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL, "there is no /proc/self/statm");
    size_t fields[2] = { 0 };
    CHECK(fscanf(file, "%zu %zu", &fields[0], &fields[1]) == 2, "/proc/self/statm has another form");
    fclose(file);
    return fields[field] * (size_t) sysconf(_SC_PAGESIZE);
}

static size_t address_space(void) {
    return memory_field(0);
}

static size_t resident(void) {
    return memory_field(1);
}

static int count_mappings(void) {
    FILE * file  = fopen("/proc/self/maps", "r");
    int    count = 0;
    CHECK(file != NULL, "there is no /proc/self/maps");
    for (int c = fgetc(file); c != EOF; c = fgetc(file)) {
        count += c == '\n';
    }
    fclose(file);
    return count;
}

CASE(a_million_tensors) {
    struct ggml_context * ctx    = new_context(LASTUSE_CONTEXT_DEFERRED);
    size_t                before = resident();
    for (int i = 0; i < 1000000; i++) {
        CHECK(ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 4096, 4096) != NULL, "no tensor %d", i);
    }
    double taken = (double) (resident() - before);
    double used  = (double) ggml_used_mem(ctx);
    CHECK(used == 1e6 * (double) ggml_tensor_overhead(), "%g bytes are used", used);
    CHECK(taken >= 0.9 * used && taken <= 1.1 * used, "%g bytes are resident, and %g are used", taken, used);
    lastuse_context_free(ctx);
    CHECK(resident() < before + NOISE, "%zu bytes stay", resident() - before);
}

CASE(data_in_an_immediate_context) {
    struct ggml_context * ctx    = new_context(LASTUSE_CONTEXT_IMMEDIATE);
    size_t                before = resident();
    for (int i = 0; i < 300; i++) {
        ggml_set_f32(ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 256 * 1024), 1.0f);
    }
    double taken = (double) (resident() - before);
    double used  = (double) ggml_used_mem(ctx);
    CHECK(used > 300e6 && taken <= 1.1 * used, "%g bytes are resident, and %g are used", taken, used);
    lastuse_context_free(ctx);
    CHECK(resident() < before + NOISE, "%zu bytes stay", resident() - before);
}

// Creates a context with some tensors, in one of several ways.
static struct ggml_context * some_context(int i) {
    struct lastuse_context_params params = { .struct_size = sizeof(params) };
    params.buft                          = i % 3 == 0 ? ggml_backend_cpu_buffer_type() : NULL;
    enum lastuse_context_kind kind = i % 3 == 1 ? LASTUSE_CONTEXT_DEFERRED : LASTUSE_CONTEXT_IMMEDIATE;
    struct ggml_context *     ctx  = lastuse_context_new(kind, &params);
    CHECK(ctx != NULL, "context %d: %s", i, lastuse_last_error());
    for (int j = 0; j < 10; j++) {
        ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 10);
    }
    if (i % 3 == 0) {
        CHECK(lastuse_context_realize(ctx), "context %d: %s", i, lastuse_last_error());
    }
    return ctx;
}

CASE(ten_thousand_made_and_freed) {
    size_t memory   = 0;
    size_t space    = 0;
    int    mappings = 0;
    for (int i = 0; i < 11000; i++) {
        if (i == 1000) {
            memory   = resident();
            space    = address_space();
            mappings = count_mappings();
        }
        lastuse_context_free(some_context(i));
    }
    CHECK(resident() <= memory + NOISE, "%zu bytes more", resident() - memory);
    CHECK(address_space() <= space + NOISE, "%zu bytes of addresses more", address_space() - space);
    CHECK(count_mappings() <= mappings + 2, "%d mappings more", count_mappings() - mappings);
}

CASE(thousands_of_live_contexts) {
    enum { COUNT = 6000 };
    static struct ggml_context * contexts[COUNT];
    size_t                       before = resident();
    for (int i = 0; i < COUNT; i++) {
        contexts[i] = some_context(i);
    }
    // Two pages each, and the maps of addresses.
    CHECK(resident() - before < COUNT * 40 * (size_t) 1024, "%zu bytes for each", (resident() - before) / COUNT);
    for (int i = 0; i < COUNT; i++) {
        struct ggml_tensor * first = ggml_get_first_tensor(contexts[i]);
        CHECK(ggml_used_mem(contexts[i]) > 0 && first->ne[0] == 10, "context %d is another", i);
        lastuse_context_free(contexts[i]);
    }
}

// A context for the graph of each token.
CASE(ten_thousand_tokens) {
    struct ggml_context * ctx    = new_context(LASTUSE_CONTEXT_DEFERRED);
    ggml_gallocr_t        galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    struct ggml_tensor *  first  = NULL;
    size_t                memory = 0;
    size_t                space  = 0;
    for (int token = 0; token < 10000; token++) {
        ggml_reset(ctx);
        struct ggml_tensor * t = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
        first                  = token == 0 ? t : first;
        CHECK(t == first, "token %d is elsewhere", token);
        ggml_set_input(t);
        struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 256, false);
        for (int i = 0; i < 200; i++) {
            t = ggml_add(ctx, t, t);
        }
        ggml_build_forward_expand(graph, t);
        CHECK(ggml_gallocr_alloc_graph(galloc, graph), "token %d is not allocated", token);
        if (token == 100) {
            memory = resident();
            space  = address_space();
        }
    }
    CHECK(resident() <= memory + NOISE, "%zu bytes more", resident() - memory);
    CHECK(address_space() <= space + NOISE, "%zu bytes of addresses more", address_space() - space);
    ggml_gallocr_free(galloc);
    lastuse_context_free(ctx);
}

// Limits

// Runs `body` in its own process whose address space may grow by the given number of bytes.
static void with_address_space(size_t bytes, void (*body)(void)) {
    pid_t child = fork();
    CHECK(child >= 0, "no process");
    if (child == 0) {
        struct rlimit limit = { .rlim_cur = address_space() + bytes, .rlim_max = RLIM_INFINITY };
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "no limit");
        body();
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child, "the process is lost");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the process ended with %d", status);
}

static void expect_none(void) {
    struct log_capture logged;
    log_capture_start(&logged);
    for (int kind = 0; kind < 2; kind++) {
        CHECK(lastuse_context_new((enum lastuse_context_kind) kind, NULL) == NULL, "there is no address space");
        const char * why = lastuse_last_error();
        CHECK(strstr(why, "lastuse_context_new: cannot reserve ") != NULL, "%s", why);
        CHECK(strstr(why, "nor 134217728") != NULL && strstr(why, "params.address_space") != NULL, "%s", why);
        CHECK(strstr(why, "vm.overcommit_memory=2") != NULL, "%s", why);
    }
    CHECK(log_capture_has(&logged, "cannot reserve "), "nothing in the log");
    // A requested size is granted when it is available.
    struct lastuse_context_params params = { .struct_size = sizeof(params), .address_space = 16 * MIB };
    struct ggml_context *         ctx    = lastuse_context_new(LASTUSE_CONTEXT_DEFERRED, &params);
    CHECK(ctx != NULL && ggml_get_mem_size(ctx) == 16 * MIB, "%s", lastuse_last_error());
    lastuse_context_free(ctx);
    params.address_space = 1000 * MIB;
    CHECK(lastuse_context_new(LASTUSE_CONTEXT_DEFERRED, &params) == NULL, "there is less");
    CHECK(strstr(lastuse_last_error(), "cannot reserve 1048576000 bytes") != NULL, "%s", lastuse_last_error());
    log_capture_stop();
}

CASE(no_context_without_address_space) {
    CHECK(lastuse_version() != NULL && lastuse_enabled() + 1 > 0, "lastuse has found ggml");
    with_address_space(100 * MIB, expect_none);
}

static void expect_a_small_one(void) {
    struct log_capture logged;
    log_capture_start(&logged);
    struct ggml_context * ctx = new_context(LASTUSE_CONTEXT_DEFERRED);
    log_capture_stop();
    CHECK(log_capture_has(&logged, "address space is short"), "%s", logged.lines[0]);
    size_t size = ggml_get_mem_size(ctx);
    CHECK(size >= 64 * MIB && size <= 500 * MIB, "%zu bytes", size);
    void * rest = malloc(size);
    CHECK(rest != NULL, "nothing is left for the rest of the program");
    for (int i = 0; i < 100000; i++) {
        CHECK(ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 10) != NULL, "no tensor %d", i);
    }
    free(rest);
    lastuse_context_free(ctx);
}

CASE(smaller_context_with_little_address_space) {
    with_address_space(1000 * MIB, expect_a_small_one);
}
