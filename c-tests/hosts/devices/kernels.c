// Which operations the kernels of a device compute correctly in the memory of a source: the rules of support/in_place, on
// any device of ggml. Every result must equal that of the same device in its own memory to the last bit.
//
// What the device supports is tested, in contiguous layouts, as ggml's operations create them.

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "in_place.h"

#define ARENA_BYTES (64u << 20)
#define COUNT(array) ((int) (sizeof(array) / sizeof((array)[0])))

enum { EXIT_NO_DEVICE = 3 };

static const char usage[] =
    "usage: kernels DEVICE\n"
    "Computes operations in place on a device of ggml, and compares bits with the same in their own memory.\n"
    "Prints a line for each rule and source, with tabs between: rule, source, results compared, results with other bits.\n"
    "  --list   print the names of the devices but the CPU, and the backends they are of\n"
    "Exit codes: 0 all bits are equal, 1 some are not, 2 wrong usage, 3 there is no such device.\n";

static const struct rules * const FAMILIES[] = {
    &ELEMENTWISE_RULES, &BINARY_RULES, &ROW_RULES, &GATE_RULES, &COPY_RULES, &BACKWARD_RULES,
};

// Some have rows that several workgroups share, or more rows than run at a time.
static const int64_t SHAPES[][GGML_MAX_DIMS] = {
    { 1, 1, 1, 1 },    { 1, 7, 1, 1 },   { 7, 1, 1, 1 },    { 31, 5, 3, 1 },    { 64, 4, 2, 3 },    { 33, 9, 5, 2 },
    { 257, 6, 1, 1 },  { 512, 1, 1, 1 }, { 97, 53, 5, 1 },  { 2050, 70, 1, 1 }, { 9000, 3, 2, 1 },
};

struct bench {
    ggml_backend_t        backend;
    ggml_backend_buffer_t arena;
    size_t                alignment;
    int                   version;
    int                   n_wrong; // rules and sources with other bits
};

// The results of a rule over one source, or over all of them together.
struct tally {
    unsigned  sources;
    long long n_runs;
    long long n_other;
    char      example[256];
};

static bool applies(const struct bench * bench, const struct rule * rule) {
    return bench->version >= rule->since && (rule->before == 0 || bench->version < rule->before);
}

// Whether all sources that are to be overwritten would start where the device lets tensors start.
static bool is_aligned(const struct bench * bench, const struct trial * trial, unsigned sources) {
    bool aligned = true;
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if ((sources & SOURCE(i)) && trial->rule->offset != NULL) {
            aligned = aligned && trial->rule->offset(trial->node, i) % (ptrdiff_t) bench->alignment == 0;
        }
    }
    return aligned;
}

static void run(const struct bench * bench, struct trial * trial, struct tally * tally) {
    const struct form * form = &trial->form;
    if (!is_aligned(bench, trial, tally->sources)) {
        return;
    }
    tally->n_runs++;
    if (trial_run(trial, tally->sources, 1, TOGETHER) != SAME_BITS && tally->n_other++ == 0) {
        snprintf(tally->example, sizeof(tally->example), "variant %d, %s [%lld, %lld, %lld, %lld]", form->variant,
                 ggml_type_name(form->type), (long long) form->ne[0], (long long) form->ne[1], (long long) form->ne[2],
                 (long long) form->ne[3]);
    }
}

// All shapes of a type and variant, if the device supports them.
static void run_form(const struct bench * bench, const struct rule * rule, struct form form, struct tally * tally) {
    for (int i = 0; i < COUNT(SHAPES); i++) {
        memcpy(form.ne, SHAPES[i], sizeof(form.ne));
        struct trial trial = trial_new(rule, form, bench->backend, bench->arena);
        if (trial.truth != NULL) {
            run(bench, &trial, tally);
        }
        trial_free(&trial);
    }
}

// Backends end the program at copies of other elements, which they claim to support.
static bool has_copies(enum ggml_type type) {
    return ggml_is_quantized(type) || ggml_type_size(type) == 2 || ggml_type_size(type) == 4;
}

static struct tally run_rule(const struct bench * bench, const struct rule * rule, unsigned sources) {
    struct tally tally = { .sources = sources };
    for (int type = 0; type < GGML_TYPE_COUNT; type++) {
        struct form form    = { .type = (enum ggml_type) type, .layout = CONTIGUOUS };
        bool        applies = (rule->types >> type & 1) && has_copies(form.type);
        for (; applies && form.variant < (rule->variants > 0 ? rule->variants : 1); form.variant++) {
            run_form(bench, rule, form, &tally);
        }
    }
    return tally;
}

static void print_tally(const struct rule * rule, const char * source, struct tally tally) {
    printf("%s\t%s\t%lld\t%lld\n", rule->name, source, tally.n_runs, tally.n_other);
    fflush(stdout);
}

static void expect(struct bench * bench, const struct rule * rule, const char * source, unsigned sources) {
    struct tally tally = run_rule(bench, rule, sources);
    print_tally(rule, source, tally);
    if (tally.n_other > 0) {
        fprintf(stderr, "%s over %s: other bits in %lld of %lld results, first for %s\n", rule->name, source,
                tally.n_other, tally.n_runs, tally.example);
        bench->n_wrong++;
    }
}

static void expect_all(struct bench * bench, const struct rule * rule) {
    static const char * const names[] = { "first", "second", "third" };
    for (int i = 0; i < COUNT(names); i++) {
        if (rule->sources & SOURCE(i)) {
            expect(bench, rule, names[i], SOURCE(i));
        }
    }
    if (rule->together) {
        expect(bench, rule, "all", rule->sources);
    }
}

// Returns how many results differ that are known to differ on the CPU: the comparison must find some.
static long long run_breaking(const struct bench * bench) {
    long long n_other = 0;
    for (int i = 0; i < BREAKING_RULES.count; i++) {
        const struct rule * rule = &BREAKING_RULES.items[i];
        if (applies(bench, rule) && !rule->only_several_threads && rule->offset == NULL) {
            n_other += run_rule(bench, rule, rule->sources).n_other;
        }
    }
    return n_other;
}

static int run_all(ggml_backend_t backend) {
    struct bench bench = { .backend = backend, .version = version_of_ggml() };
    bench.arena        = ggml_backend_alloc_buffer(backend, ARENA_BYTES);
    CHECK(bench.arena != NULL, "the device has no %u bytes", ARENA_BYTES);
    bench.alignment = ggml_backend_buffer_get_alignment(bench.arena);
    for (int i = 0; i < COUNT(FAMILIES); i++) {
        for (int j = 0; j < FAMILIES[i]->count; j++) {
            if (applies(&bench, &FAMILIES[i]->items[j])) {
                expect_all(&bench, &FAMILIES[i]->items[j]);
            }
        }
    }
    long long n_broken = run_breaking(&bench);
    printf("known to break\t\t%lld\t%lld\n", n_broken, n_broken);
    CHECK(n_broken > 0, "nothing breaks of what must");
    ggml_backend_buffer_free(bench.arena);
    return bench.n_wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void list_devices(void) {
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        if (ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU) {
            printf("%s\t%s\n", ggml_backend_dev_name(device),
                   ggml_backend_reg_name(ggml_backend_dev_backend_reg(device)));
        }
    }
}

int main(int argc, char ** argv) {
    if (argc != 2 || strcmp(argv[1], "--help") == 0) {
        fputs(usage, argc == 2 ? stdout : stderr);
        return argc == 2 ? EXIT_SUCCESS : 2;
    }
    if (strcmp(argv[1], "--list") == 0) {
        list_devices();
        return EXIT_SUCCESS;
    }
    ggml_backend_t backend = ggml_backend_init_by_name(argv[1], NULL);
    if (backend == NULL) {
        fprintf(stderr, "there is no device %s; these are there:\n", argv[1]);
        list_devices();
        return EXIT_NO_DEVICE;
    }
    int code = run_all(backend);
    ggml_backend_free(backend);
    return code;
}
