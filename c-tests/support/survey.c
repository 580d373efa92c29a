#include "survey.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "ggml-cpu.h"

#define ARENA_BYTES (64u << 20)
#define COUNT(array) ((int) (sizeof(array) / sizeof((array)[0])))

// Only for the first shape: on few cores threads spend their time waiting for one another.
#define THREADS 3

enum verdict { NO_SUCH_PART = 2, NOT_CLAIMED_AND_WRONG, CLAIMED_AND_WRONG };

// The results of a question. Child processes write here.
struct tally {
    long long claimed;
    long long others;
    long long wrong;
};

struct tallies {
    struct tally of[GGML_OP_COUNT][GGML_MAX_SRC][WRITES_COUNT];
    // The current action of the child.
    bool            asked;
    struct question question;
    char            what[256];
};

static struct tallies * tallies;

static const int64_t SHAPES[][GGML_MAX_DIMS] = {
    { 33, 9, 5, 2 }, { 64, 4, 2, 3 }, { 257, 6, 2, 1 }, { 1, 7, 3, 2 }, { 17, 1, 4, 1 },
};

static struct tally * current(void) {
    const struct question * question = &tallies->question;
    return &tallies->of[question->op][question->source][question->needed];
}

static void print_message(const char * message) {
    if (tallies->question.claimed) {
        fprintf(stderr, "%s: %s\n", tallies->what, message);
    }
    _exit(tallies->question.claimed ? CLAIMED_AND_WRONG : NOT_CLAIMED_AND_WRONG);
}

static void keep_silent(enum ggml_log_level level, const char * text, void * user_data) {
    (void) level;
    (void) text;
    (void) user_data;
}

void survey_ask(struct question question, const char * what) {
    tallies->question = question;
    tallies->asked    = true;
    snprintf(tallies->what, sizeof(tallies->what), "%s", what);
}

static void try_threads(struct trial * trial, int n_threads) {
    static const char * const outcomes[] = { "equal bits", "other bits", "writes outside the result" };

    enum outcome outcome = trial_run(trial, 0, n_threads, TOGETHER);
    if (outcome != SAME_BITS) {
        print_message(outcomes[outcome]);
    }
    current()->claimed += tallies->question.claimed;
    current()->others += !tallies->question.claimed;
}

void survey_try(struct trial * trial, bool with_threads) {
    try_threads(trial, 1);
    if (with_threads) {
        try_threads(trial, THREADS);
    }
}

bool survey_has_threads(struct form form) {
    return memcmp(form.ne, SHAPES[0], sizeof(form.ne)) == 0;
}

static void try_shapes(const struct survey * survey, const struct rule * rule, struct form form, int layout, int part,
                       try_shape try_shape) {
    ggml_log_set(keep_silent, NULL);
    bool any = false;
    for (int i = 0; i < COUNT(SHAPES); i++) {
        memcpy(form.ne, SHAPES[i], sizeof(form.ne));
        any = try_shape(survey, rule, form, layout, part) || any;
    }
    _exit(any ? 0 : NO_SUCH_PART);
}

// Returns whether there is such a part.
static bool try_part(const struct survey * survey, const struct rule * rule, struct form form, int layout, int part,
                     try_shape try_shape_of) {
    int status     = 0;
    tallies->asked = false;
    pid_t child    = fork();
    CHECK(child >= 0, "cannot fork");
    if (child == 0) {
        try_shapes(survey, rule, form, layout, part, try_shape_of);
    }
    CHECK(waitpid(child, &status, 0) == child, "lost a child");
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SUCH_PART) {
        return false;
    }
    if (status != 0) {
        CHECK(tallies->asked, "%s, %s, variant %d: not even as ggml made it", rule->name, ggml_type_name(form.type),
              form.variant);
        CHECK(!tallies->question.claimed, "%s is claimed", tallies->what);
        current()->wrong++;
    }
    return true;
}

static void try_form(const struct survey * survey, const struct rule * rule, struct form form, int parts,
                     try_shape try_shape) {
    for (int layout = 0; layout < WANTED_LAYOUTS; layout++) {
        for (int part = 0; part < parts && try_part(survey, rule, form, layout, part, try_shape); part++) {
        }
    }
}

static struct survey survey_new(void) {
    struct survey survey = { .cpu = ggml_backend_cpu_init(), .version = version_of_ggml() };
    CHECK(survey.cpu != NULL, "no CPU backend");
    survey.arena = ggml_backend_alloc_buffer(survey.cpu, ARENA_BYTES);
    CHECK(survey.arena != NULL, "out of memory");
    tallies = mmap(NULL, sizeof(*tallies), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(tallies != MAP_FAILED, "out of memory");
    ggml_set_abort_callback(print_message);
    return survey;
}

static void survey_free(struct survey * survey) {
    munmap(tallies, sizeof(*tallies));
    ggml_backend_buffer_free(survey->arena);
    ggml_backend_free(survey->cpu);
}

static void try_rules(const struct survey * survey, const struct rules * rules, int parts, try_shape try_shape) {
    for (int i = 0; i < rules->count; i++) {
        const struct rule * rule  = &rules->items[i];
        uint64_t            types = rule->types & (FLOAT_TYPES | TYPE(I32) | TYPE(Q8_0) | TYPE(Q4_K));
        int                 count = rule->variants > 0 ? rule->variants : 1;
        if (survey->version < rule->since || (rule->before != 0 && survey->version >= rule->before)) {
            continue;
        }
        for (int type = 0; type < GGML_TYPE_COUNT; type++) {
            struct form form = { .type = (enum ggml_type) type, .layout = CONTIGUOUS };
            for (; (types >> type & 1) && form.variant < count; form.variant++) {
                try_form(survey, rule, form, parts, try_shape);
            }
        }
    }
}

static void report_on(const char * verb, enum ggml_op op, int source) {
    for (int needed = 0; needed < WRITES_COUNT; needed++) {
        const struct tally * tally = &tallies->of[op][source][needed];
        if (tally->claimed > 0) {
            printf("%s %s %d %s\n", verb, ggml_op_name(op), source, WRITES_NAMES[needed]);
        }
        if (tally->others > 0 && tally->wrong == 0) {
            printf("could %s %s %d %s\n", verb, ggml_op_name(op), source, WRITES_NAMES[needed]);
        }
    }
}

static void report(const char * verb) {
    for (int op = 0; op < GGML_OP_COUNT; op++) {
        for (int source = 0; source < GGML_MAX_SRC; source++) {
            report_on(verb, (enum ggml_op) op, source);
        }
    }
}

void survey_rules(const struct rules * rules, int parts, try_shape try_shape, const char * verb) {
    struct survey survey = survey_new();
    try_rules(&survey, rules, parts, try_shape);
    report(verb);
    survey_free(&survey);
}
