// runs: ggml-0.26 ggml-0.9.5 without-lastuse
//
// Which operations may be computed in the memory of a source: the kernels of the CPU run on it, over types, shapes,
// layouts and numbers of threads. Every result must equal that in its own memory to the last bit.
//
//   in_place_kernels <case> [first seed] [number of seeds]
//
// Each seed is one more shape and number of threads for everything. Without seeds only fixed shapes are tested. Prints
// how many results were compared.

#include "cases.h"
#include "ggml-cpu.h"
#include "in_place.h"
#include "random_graph/random.h"

#define ARENA_BYTES (64u << 20)

struct bench {
    ggml_backend_t        cpu;
    ggml_backend_buffer_t arena;
    int                   version;
    uint64_t              first_seed;
    uint64_t              n_seeds;
    const struct rule *   newest_rule;
    int                   n_rules;
    long long             n_runs;
};

static const int64_t SHAPES[][GGML_MAX_DIMS] = {
    { 1, 1, 1, 1 },  { 1, 7, 1, 1 }, { 7, 1, 1, 1 },   { 17, 3, 1, 1 },  { 31, 5, 3, 1 },  { 64, 4, 2, 3 },
    { 33, 9, 5, 2 }, { 1, 2, 3, 5 }, { 257, 6, 1, 1 }, { 512, 1, 1, 1 }, { 97, 53, 1, 1 },
};

// Work for several threads, with a number of rows that none of their numbers divides.
static const int64_t SHAPE_FOR_THREADS[GGML_MAX_DIMS] = { 97, 53, 5, 1 };
static const int     THREADS[]                        = { 2, 4, 7 };

#define COUNT(array) ((int) (sizeof(array) / sizeof((array)[0])))

static struct bench bench_new(void) {
    struct bench bench = { .cpu = ggml_backend_cpu_init(), .version = version_of_ggml() };
    CHECK(bench.cpu != NULL, "no CPU backend");
    bench.arena = ggml_backend_alloc_buffer(bench.cpu, ARENA_BYTES);
    CHECK(bench.arena != NULL, "out of memory");
    return bench;
}

static void bench_free(struct bench * bench) {
    ggml_backend_buffer_free(bench->arena);
    ggml_backend_free(bench->cpu);
}

static bool applies(const struct bench * bench, const struct rule * rule) {
    return bench->version >= rule->since && (rule->before == 0 || bench->version < rule->before);
}

// ---------------------------------------------------------------------------------------------------
// One form
// ---------------------------------------------------------------------------------------------------

static const char * const TURNS[]    = { "together", "one after the other", "from the last to the first" };
static const char * const OUTCOMES[] = { "the same bits", "other bits", "writes outside the result" };

static void expect(struct bench * bench, struct trial * trial, unsigned sources, int n_threads, enum turns turns) {
    const struct form * form    = &trial->form;
    enum outcome        outcome = trial_run(trial, sources, n_threads, turns);
    bench->n_runs++;
    CHECK(outcome == SAME_BITS,
          "%s, variant %d, over the sources 0x%x: %s [%lld, %lld, %lld, %lld], layout %d, %d threads %s: %s",
          trial->rule->name, form->variant, sources, ggml_type_name(form->type), (long long) form->ne[0],
          (long long) form->ne[1], (long long) form->ne[2], (long long) form->ne[3], (int) form->layout, n_threads,
          TURNS[turns], OUTCOMES[outcome]);
}

static void expect_all(struct bench * bench, struct trial * trial, int n_threads, enum turns turns) {
    const struct rule * rule = trial->rule;
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (rule->sources & SOURCE(i)) {
            expect(bench, trial, SOURCE(i), n_threads, turns);
        }
    }
    if (rule->together) {
        expect(bench, trial, rule->sources, n_threads, turns);
    }
}

static void expect_in_turns(struct bench * bench, struct trial * trial, int n_threads) {
    if (can_take_turns(trial)) {
        expect_all(bench, trial, n_threads, FORWARD);
        expect_all(bench, trial, n_threads, BACKWARD);
    }
}

static struct trial start(const struct bench * bench, const struct rule * rule, struct form form,
                          const int64_t * ne) {
    memcpy(form.ne, ne, sizeof(form.ne));
    return trial_new(rule, form, bench->cpu, bench->arena);
}

static void test_in_turns(struct bench * bench, const struct rule * rule, struct form form) {
    for (int i = 0; i < COUNT(SHAPES); i++) {
        struct trial trial = start(bench, rule, form, SHAPES[i]);
        expect_all(bench, &trial, 1, TOGETHER);
        for (int j = 0; j < COUNT(THREADS); j++) {
            expect_in_turns(bench, &trial, THREADS[j]);
        }
        trial_free(&trial);
    }
}

static void test_with_threads(struct bench * bench, const struct rule * rule, struct form form) {
    struct trial trial = start(bench, rule, form, SHAPE_FOR_THREADS);
    expect_all(bench, &trial, THREADS[bench->n_rules % COUNT(THREADS)], TOGETHER);
    trial_free(&trial);
}

static void test_seed(struct bench * bench, const struct rule * rule, struct form form, uint64_t seed) {
    uint64_t random = seed;
    int64_t  ne[]   = { random_between(&random, 1, 300), random_between(&random, 2, 40), random_between(&random, 1, 6),
                        random_between(&random, 1, 3) };
    int          n_threads = (int) random_between(&random, 2, 8);
    struct trial trial     = start(bench, rule, form, ne);
    expect_all(bench, &trial, 1, TOGETHER);
    expect_all(bench, &trial, n_threads, TOGETHER);
    expect_in_turns(bench, &trial, n_threads);
    trial_free(&trial);
}

// Real threads only for the first form of each rule, in one number of them: on few cores they spend their time waiting
// for one another. Seeds give all forms to real threads.
static void test_form(struct bench * bench, const struct rule * rule, struct form form) {
    test_in_turns(bench, rule, form);
    if (bench->newest_rule != rule) {
        bench->newest_rule = rule;
        bench->n_rules++;
        test_with_threads(bench, rule, form);
    }
    for (uint64_t i = 0; i < bench->n_seeds; i++) {
        test_seed(bench, rule, form, bench->first_seed + i);
    }
}

// ---------------------------------------------------------------------------------------------------
// All forms
// ---------------------------------------------------------------------------------------------------

typedef void (*form_test)(struct bench * bench, const struct rule * rule, struct form form);

static void for_each_variant(struct bench * bench, const struct rule * rule, struct form form, form_test test) {
    int count = rule->variants > 0 ? rule->variants : 1;
    for (form.variant = 0; form.variant < count; form.variant++) {
        test(bench, rule, form);
    }
}

static void for_each_form(struct bench * bench, const struct rule * rule, form_test test) {
    unsigned layouts = rule->layouts != 0 ? rule->layouts : CONTIGUOUS;
    for (int type = 0; type < GGML_TYPE_COUNT; type++) {
        for (unsigned layout = CONTIGUOUS; layout <= TRANSPOSED; layout <<= 1) {
            if ((rule->types >> type & 1) && (layouts & layout)) {
                struct form form = { .type = (enum ggml_type) type, .layout = (enum layout) layout };
                for_each_variant(bench, rule, form, test);
            }
        }
    }
}

static void test_rules(const struct rules * rules, struct case_args args) {
    struct bench bench = bench_new();
    bench.first_seed   = (uint64_t) case_number(args, 0, 1);
    bench.n_seeds      = (uint64_t) case_number(args, 1, 0);
    for (int i = 0; i < rules->count; i++) {
        const struct rule * rule = &rules->items[i];
        if (applies(&bench, rule)) {
            for_each_form(&bench, rule, test_form);
        }
    }
    CHECK(bench.n_runs > 0, "no rule of %s applies", rules->name);
    printf("runs=%lld\n", bench.n_runs);
    bench_free(&bench);
}

CASE_OF(elementwise, test_rules(&ELEMENTWISE_RULES, args))
CASE_OF(binary, test_rules(&BINARY_RULES, args))
CASE_OF(rows, test_rules(&ROW_RULES, args))
CASE_OF(gates, test_rules(&GATE_RULES, args))
CASE_OF(copies, test_rules(&COPY_RULES, args))
CASE_OF(backward, test_rules(&BACKWARD_RULES, args))
CASE_OF(parts, test_rules(&PART_RULES, args))

// ---------------------------------------------------------------------------------------------------
// What breaks
// ---------------------------------------------------------------------------------------------------

static bool breaks_with_threads(struct trial * trial) {
    unsigned sources = trial->rule->sources;
    CHECK(can_take_turns(trial), "%s needs its threads at once", trial->rule->name);
    CHECK(trial_run(trial, sources, 1, TOGETHER) == SAME_BITS, "%s breaks with one thread", trial->rule->name);
    return trial_run(trial, sources, 2, FORWARD) == OTHER_BITS || trial_run(trial, sources, 2, BACKWARD) == OTHER_BITS;
}

static bool breaks(struct trial * trial) {
    return trial->rule->only_several_threads ? breaks_with_threads(trial)
                                             : trial_run(trial, trial->rule->sources, 1, TOGETHER) == OTHER_BITS;
}

// Counts in n_runs the shapes for which it broke.
static void count_breaks(struct bench * bench, const struct rule * rule, struct form form) {
    long long n_breaks = 0;
    for (int i = 0; i < COUNT(SHAPES); i++) {
        struct trial trial = start(bench, rule, form, SHAPES[i]);
        n_breaks += breaks(&trial);
        trial_free(&trial);
    }
    CHECK(n_breaks > 0, "%s, %s: nothing breaks", rule->name, ggml_type_name(form.type));
    bench->n_runs += n_breaks;
}

CASE(breaking) {
    struct bench bench = bench_new();
    for (int i = 0; i < BREAKING_RULES.count; i++) {
        if (applies(&bench, &BREAKING_RULES.items[i])) {
            for_each_form(&bench, &BREAKING_RULES.items[i], count_breaks);
        }
    }
    printf("breaks=%lld\n", bench.n_runs);
    bench_free(&bench);
}
