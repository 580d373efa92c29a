// Which layouts of its result each operation can write: the kernels of the CPU run on it, over types, shapes and
// numbers of threads. What ggml_set_output(t, dst) accepts must give the same bits as a result in memory of its own, and
// nothing beside it may be written. What it refuses is tried too.
//
//   written_layouts <case>
//
// Prints a line `writes <operation> <layout>` for what was accepted and right, and `could write <operation> <layout>` for
// what is refused and would always have been right here.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "ggml-cpu.h"
#include "in_place.h"
#include "lastuse.h"
#include "written.h"

#define ARENA_BYTES (64u << 20)
#define COUNT(array) ((int) (sizeof(array) / sizeof((array)[0])))

enum verdict { REFUSED_AND_WRONG = 2, ACCEPTED_AND_WRONG };

// What came of an operation in the layouts that need the same of it. Children write here.
struct tally {
    long long accepted;
    long long refused;
    long long wrong;
};

struct tallies {
    struct tally of[GGML_OP_COUNT][WRITES_COUNT];
    // What a child does at this moment.
    enum ggml_op op;
    enum writes  needed;
    bool         accepted;
    char         what[256];
};

static struct tallies * tallies;

struct bench {
    ggml_backend_t        cpu;
    ggml_backend_buffer_t arena;
    int                   version;
};

static const int64_t SHAPES[][GGML_MAX_DIMS] = {
    { 33, 9, 5, 2 }, { 64, 4, 2, 3 }, { 257, 6, 2, 1 }, { 1, 7, 3, 2 }, { 17, 1, 4, 1 },
};

// Only for the first shape: on few cores threads spend their time waiting for one another.
#define THREADS 3

static void said(const char * message) {
    if (tallies->accepted) {
        fprintf(stderr, "%s: %s\n", tallies->what, message);
    }
    _exit(tallies->accepted ? ACCEPTED_AND_WRONG : REFUSED_AND_WRONG);
}

static void keep_silent(enum ggml_log_level level, const char * text, void * user_data) {
    (void) level;
    (void) text;
    (void) user_data;
}

// As ggml_set_output(t, dst) does it, without asking whether it is right.
static void redirect_anyway(struct ggml_tensor * t, const struct ggml_tensor * dst) {
    t->view_src  = dst->view_src;
    t->view_offs = dst->view_offs;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        size_t next = i == 0 ? t->nb[0] : t->nb[i - 1] * (size_t) t->ne[i - 1];
        t->nb[i]    = t->ne[i] == 1 ? next : dst->nb[i];
    }
}

static void try_threads(struct trial * trial, int n_threads) {
    static const char * const outcomes[] = { "the same bits", "other bits", "writes beside the result" };

    struct tally * tally   = &tallies->of[tallies->op][tallies->needed];
    enum outcome   outcome = trial_run(trial, 0, n_threads, TOGETHER);
    if (outcome != SAME_BITS) {
        said(outcomes[outcome]);
    }
    tally->accepted += tallies->accepted;
    tally->refused += !tallies->accepted;
}

static void try_shape(const struct bench * bench, const struct rule * rule, struct form form, int layout, int shape) {
    memcpy(form.ne, SHAPES[shape], sizeof(form.ne));
    struct trial         trial = trial_new(rule, form, bench->cpu, bench->arena);
    struct ggml_tensor * node  = trial.node;
    if (node->view_src == NULL && !ggml_is_quantized(node->type)) {
        struct ggml_tensor * wanted = wanted_tensor(trial.form.ctx, node, layout);
        node->buffer                = NULL;
        node->data                  = NULL;
        tallies->op                 = node->op;
        tallies->needed             = writes_needed(node, wanted);
        tallies->accepted           = ggml_set_output(node, wanted) == node;
        if (!tallies->accepted) {
            redirect_anyway(node, wanted);
        }
        snprintf(tallies->what, sizeof(tallies->what), "%s, %s, variant %d, [%d, %d, %d, %d], wanted layout %d (%s)",
                 rule->name, ggml_type_name(form.type), form.variant, (int) form.ne[0], (int) form.ne[1],
                 (int) form.ne[2], (int) form.ne[3], layout, WRITES_NAMES[tallies->needed]);
        try_threads(&trial, 1);
        if (shape == 0) {
            try_threads(&trial, THREADS);
        }
    }
    trial_free(&trial);
}

static void try_shapes(const struct bench * bench, const struct rule * rule, struct form form, int layout) {
    ggml_log_set(keep_silent, NULL);
    for (int i = 0; i < COUNT(SHAPES); i++) {
        tallies->op = GGML_OP_NONE;
        try_shape(bench, rule, form, layout, i);
    }
    _exit(0);
}

// Kernels may end the process, so each form has one of its own.
static void try_form(const struct bench * bench, const struct rule * rule, struct form form) {
    for (int layout = 0; layout < WANTED_LAYOUTS; layout++) {
        int   status = 0;
        pid_t child  = fork();
        CHECK(child >= 0, "cannot fork");
        if (child == 0) {
            try_shapes(bench, rule, form, layout);
        }
        CHECK(waitpid(child, &status, 0) == child, "lost a child");
        if (status != 0) {
            CHECK(tallies->op != GGML_OP_NONE, "%s, %s, variant %d: not even in memory of its own", rule->name,
                  ggml_type_name(form.type), form.variant);
            CHECK(!tallies->accepted, "%s was accepted", tallies->what);
            tallies->of[tallies->op][tallies->needed].wrong++;
        }
    }
}

static struct bench bench_new(void) {
    struct bench bench = { .cpu = ggml_backend_cpu_init() };
    int          major = 0;
    int          minor = 0;
    int          patch = 0;
    CHECK(sscanf(ggml_version(), "%d.%d.%d", &major, &minor, &patch) == 3, "no version: %s", ggml_version());
    CHECK(bench.cpu != NULL, "no CPU backend");
    bench.version = VERSION(major, minor, patch);
    bench.arena   = ggml_backend_alloc_buffer(bench.cpu, ARENA_BYTES);
    CHECK(bench.arena != NULL, "out of memory");
    tallies = mmap(NULL, sizeof(*tallies), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(tallies != MAP_FAILED, "out of memory");
    ggml_set_abort_callback(said);
    return bench;
}

static void report(void) {
    for (int op = 0; op < GGML_OP_COUNT; op++) {
        for (int needed = 0; needed < WRITES_COUNT; needed++) {
            const struct tally * tally = &tallies->of[op][needed];
            if (tally->accepted > 0) {
                printf("writes %s %s\n", ggml_op_name((enum ggml_op) op), WRITES_NAMES[needed]);
            }
            if (tally->refused > 0 && tally->wrong == 0) {
                printf("could write %s %s\n", ggml_op_name((enum ggml_op) op), WRITES_NAMES[needed]);
            }
        }
    }
}

static void try_rules(const struct rules * rules) {
    struct bench bench = bench_new();
    for (int i = 0; i < rules->count; i++) {
        const struct rule * rule = &rules->items[i];
        uint64_t            types = rule->types & (FLOAT_TYPES | TYPE(I32) | TYPE(Q8_0) | TYPE(Q4_K));
        int                 count = rule->variants > 0 ? rule->variants : 1;
        if (bench.version < rule->since || (rule->before != 0 && bench.version >= rule->before)) {
            continue;
        }
        for (int type = 0; type < GGML_TYPE_COUNT; type++) {
            struct form form = { .type = (enum ggml_type) type, .layout = CONTIGUOUS };
            for (; (types >> type & 1) && form.variant < count; form.variant++) {
                try_form(&bench, rule, form);
            }
        }
    }
    report();
    ggml_backend_buffer_free(bench.arena);
    ggml_backend_free(bench.cpu);
}

#define CASE(name, rules)                                  \
    static void name(struct case_args args) {              \
        (void) args;                                       \
        try_rules(&rules);                                 \
    }

CASE(elementwise, ELEMENTWISE_RULES)
CASE(binary, BINARY_RULES)
CASE(rows, ROW_RULES)
CASE(gates, GATE_RULES)
CASE(copies, COPY_RULES)
CASE(backward, BACKWARD_RULES)
CASE(parts, PART_RULES)
CASE(others, OTHER_OPERATIONS)

static const struct test_case CASES[] = {
    { "elementwise", elementwise }, { "binary", binary },     { "rows", rows },   { "gates", gates },
    { "copies", copies },           { "backward", backward }, { "parts", parts }, { "others", others },
};

TEST_MAIN(CASES)
