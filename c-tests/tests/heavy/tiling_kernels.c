// Which operations may be computed in tiles: the kernels of the CPU run on slices of the sources, over types, shapes,
// layouts, sizes of tiles and numbers of threads. The tiles must equal the whole result to the last bit wherever a rule
// says so, and somewhere outside of each rule they must not.
//
//   tiling_kernels <case>
//
// Prints how many divisions were compared. The results are in docs/internals/tiling-kernels.md.

#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "tiles.h"
#include "ggml-cpu.h"

#define ARENA_BYTES (64u << 20)
#define MOST_TILES  40

// Sizes of tiles: around what vector instructions, tiles and chunks of work have.
static const int64_t SIZES[] = { 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 24, 31, 32, 33, 48, 63, 64, 65, 96, 128, 192, 256 };

// On few processors threads spend their time waiting for one another: several run once for each type and variant of a
// tiled, in few tiles.
static const int THREADS[] = { 2, 3, 4, 5, 8 };
#define FEW_TILES    4
#define FEW_VARIANTS 6

#define COUNT(array) ((int) (sizeof(array) / sizeof((array)[0])))

struct bench {
    ggml_backend_t        cpu;
    ggml_backend_buffer_t arena;
    int                   version;
    long long             n_runs;
};

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

static bool applies(const struct bench * bench, const struct tiled * tiled) {
    return bench->version >= tiled->since && (tiled->before == 0 || bench->version < tiled->before);
}

// ---------------------------------------------------------------------------------------------------
// All divisions of a tiled
// ---------------------------------------------------------------------------------------------------

struct visit {
    struct bench * bench;
    int            n_threads;
    // Called for each size of tiles.
    void (*of_size)(struct visit * visit, const struct division * division, int64_t count);
    long long found;
};

static void visit_sizes(struct visit * visit, const struct tiled * tiled, struct form form, int shape) {
    memcpy(form.ne, tiled->shapes[shape], sizeof(form.ne));
    struct division division = division_new(tiled, form, visit->bench->cpu, visit->bench->arena, visit->n_threads);
    int64_t         total    = division.whole->ne[tiled->dim];
    for (int i = 0; i < COUNT(SIZES) && SIZES[i] < total; i++) {
        if (SIZES[i] * MOST_TILES >= total) {
            visit->of_size(visit, &division, SIZES[i]);
        }
    }
    division_free(&division);
}

static void visit_variants(struct visit * visit, const struct tiled * tiled, struct form form) {
    int count = tiled->variants > 0 ? tiled->variants : 1;
    for (form.variant = 0; form.variant < count; form.variant++) {
        for (int shape = 0; shape < tiled->n_shapes; shape++) {
            visit_sizes(visit, tiled, form, shape);
        }
    }
}

static void visit_forms(struct visit * visit, const struct tiled * tiled) {
    unsigned layouts = tiled->layouts != 0 ? tiled->layouts : CONTIGUOUS;
    for (int type = 0; type < GGML_TYPE_COUNT; type++) {
        for (unsigned layout = CONTIGUOUS; layout <= TRANSPOSED; layout <<= 1) {
            if ((tiled->types >> type & 1) && (layouts & layout)) {
                visit_variants(visit, tiled, (struct form){ .type = (enum ggml_type) type, .layout = (enum layout) layout });
            }
        }
    }
}

// The smallest of few tiles, for one shape.
static void visit_with_threads(struct visit * visit, const struct tiled * tiled, struct form form) {
    memcpy(form.ne, tiled->shapes[form.type % tiled->n_shapes], sizeof(form.ne));
    struct division division = division_new(tiled, form, visit->bench->cpu, visit->bench->arena, visit->n_threads);
    int64_t         total    = division.whole->ne[tiled->dim];
    bool            found    = false;
    for (int i = 0; i < COUNT(SIZES) && SIZES[i] < total && !found; i++) {
        found = SIZES[i] * FEW_TILES >= total && division_keeps(&division, SIZES[i]);
        if (found) {
            visit->of_size(visit, &division, SIZES[i]);
        }
    }
    division_free(&division);
}

static void visit_threads(struct visit * visit, const struct tiled * tiled) {
    int variants = tiled->variants > 0 ? tiled->variants : 1;
    for (int type = 0; type < GGML_TYPE_COUNT; type++) {
        for (int variant = 0; variant < variants && (tiled->types >> type & 1); variant++) {
            // One of many variants that are kernels for elements.
            if (variants <= FEW_VARIANTS || variant == type % variants) {
                visit->n_threads = THREADS[(type + variant) % COUNT(THREADS)];
                visit_with_threads(visit, tiled, (struct form){ .type = (enum ggml_type) type, .layout = CONTIGUOUS, .variant = variant });
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------------
// What keeps the bits
// ---------------------------------------------------------------------------------------------------

static void describe(char * text, size_t size, const struct division * division, int64_t count) {
    const struct form * form = &division->form;
    const int64_t *     ne   = division->whole->ne;
    snprintf(text, size, "%s, variant %d: %s, result [%lld, %lld, %lld, %lld], layout %d, %d threads, tiles of %lld",
             division->tiled->name, form->variant, ggml_type_name(form->type), (long long) ne[0], (long long) ne[1],
             (long long) ne[2], (long long) ne[3], (int) form->layout, division->n_threads, (long long) count);
}

static void expect_same_bits(struct visit * visit, const struct division * division, int64_t count) {
    if (!division_keeps(division, count)) {
        return;
    }
    char text[256];
    describe(text, sizeof(text), division, count);
    CHECK(division_same_bits(division, count, VIEWS), "%s in views: other bits", text);
    CHECK(visit->n_threads > 1 || division_same_bits(division, count, COPIES), "%s in copies: other bits", text);
    visit->bench->n_runs += visit->n_threads > 1 ? 1 : 2;
    visit->found++;
}

static void test_tiled(struct bench * bench, const struct tiled * tiled) {
    struct visit visit = { .bench = bench, .n_threads = 1, .of_size = expect_same_bits };
    visit_forms(&visit, tiled);
    visit_threads(&visit, tiled);
    CHECK(visit.found > 0, "%s: the rule allows nothing", tiled->name);
}

static void test_tilings(const struct tilings * tilings) {
    struct bench bench = bench_new();
    for (int i = 0; i < tilings->count; i++) {
        if (applies(&bench, &tilings->items[i])) {
            test_tiled(&bench, &tilings->items[i]);
        }
    }
    printf("%s: runs=%lld\n", tilings->name, bench.n_runs);
    bench_free(&bench);
}

CASE_OF(matrices, test_tilings(&MATRIX_CUTS))
CASE_OF(rows, test_tilings(&ROW_CUTS))
CASE_OF(attention, test_tilings(&ATTENTION_CUTS))
CASE_OF(elements, test_tilings(&ELEMENT_CUTS))
CASE_OF(images, test_tilings(&IMAGE_CUTS))
CASE_OF(moving, test_tilings(&MOVING_CUTS))

// ---------------------------------------------------------------------------------------------------
// What does not
// ---------------------------------------------------------------------------------------------------

// In its own process: kernels end it where they do not accept their input.
static bool breaks(const struct division * division, int64_t count, enum storage storage) {
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0, "no process");
    if (child == 0) {
        setenv("GGML_NO_BACKTRACE", "1", 1);
        if (freopen("/dev/null", "w", stderr) == NULL) {
            _exit(2);
        }
        _exit(division_same_bits(division, count, storage) ? 0 : 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child, "no end of the process");
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void find_break_outside_of_rule(struct visit * visit, const struct division * division, int64_t count) {
    if (visit->found == 0 && !division_keeps(division, count)) {
        visit->found += breaks(division, count, VIEWS);
    }
}

static void find_break_in_views(struct visit * visit, const struct division * division, int64_t count) {
    if (visit->found == 0 && division_keeps(division, count)) {
        visit->found += breaks(division, count, FORCED);
    }
}

// The bits differ with these instruction sets: on other machines a rule may be stricter than its kernels.
static bool rules_are_exact(void) {
#ifdef __x86_64__
    return ggml_cpu_has_avx2() != 0 && ggml_cpu_has_fma() != 0;
#else
    return false;
#endif
}

static void expect_break(struct bench * bench, const struct tiled * tiled, const char * where,
                         void (*of_size)(struct visit * visit, const struct division * division, int64_t count)) {
    struct visit visit = { .bench = bench, .n_threads = 1, .of_size = of_size };
    visit_forms(&visit, tiled);
    CHECK(visit.found > 0, "%s: the bits are equal %s too", tiled->name, where);
    bench->n_runs++;
}

static bool needs_rule(const struct bench * bench, const struct tiled * tiled) {
    return tiled->keeps != NULL && !tiled->only_by_reading && bench->version >= tiled->needed_since;
}

// Whether the tiling allows not all views. Sources that it never slices do not matter.
static bool needs_other_views(const struct bench * bench, const struct tiled * tiled) {
    bool all = tiled->strided_result && tiled->strided_sources != 0;
    return !all && !tiled->views_by_reading && (tiled->views_needed_before == 0 || bench->version < tiled->views_needed_before);
}

static void expect_breaks(const struct tilings * tilings) {
    struct bench bench = bench_new();
    for (int i = 0; i < tilings->count && rules_are_exact(); i++) {
        const struct tiled * tiled = &tilings->items[i];
        if (applies(&bench, tiled) && needs_rule(&bench, tiled)) {
            expect_break(&bench, tiled, "outside of the rule", find_break_outside_of_rule);
        }
        if (applies(&bench, tiled) && needs_other_views(&bench, tiled)) {
            expect_break(&bench, tiled, "in all views", find_break_in_views);
        }
    }
    printf("%s: breaks=%lld\n", tilings->name, bench.n_runs);
    bench_free(&bench);
}

CASE(breaking) {
    const struct tilings * all[] = { &MATRIX_CUTS, &ROW_CUTS, &ATTENTION_CUTS, &ELEMENT_CUTS, &IMAGE_CUTS, &MOVING_CUTS };
    for (int i = 0; i < COUNT(all); i++) {
        expect_breaks(all[i]);
    }
}
