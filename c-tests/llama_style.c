// A llama-style transformer with random weights, run on ggml's CPU backend.
//
// It asks the graph allocator for what a language model asks of it: one worst-case reservation, a prompt graph of
// hundreds of tokens, then many single-token graphs whose topology stays the same while the KV length grows. It reports
// the size of the compute buffer, the time that planning and allocation take, and a hash over every logit. Two
// allocators that are both right give the same hash for the same options and the same build of ggml. The thread count
// is one of those options: it decides how ggml splits its sums.
//
// With --capture it runs nothing, and writes the prompt graph to a file for lastuse's own tools.
//
// Failures end the process with exit(1) at once, without freeing: the system takes the memory back.

#define _DEFAULT_SOURCE // clock_gettime and sysconf under -std=c11

#include "ggml.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "graph_file.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Weak, so that the program also links and runs where ggml's own allocator is the only one.
const char * lastuse_version(void) __attribute__((weak));
bool         lastuse_enabled(void) __attribute__((weak));
uint64_t     lastuse_plan_count(void) __attribute__((weak));
size_t       lastuse_gallocr_lower_bound(ggml_gallocr_t galloc, int buffer_id) __attribute__((weak));

#define KV_PADDING     256 // the KV length of a graph is a multiple of this, so that most decode graphs are alike
#define NODES_PER_LAYER 64 // more than build_layer makes, views included
#define NODES_OUTSIDE   64 // the same for what stands before and after the layers
#define PLAN_SAMPLES    21
#define NORM_EPS        1e-5f
#define ROPE_FREQ_BASE  10000.0f

// ---------------------------------------------------------------------------------------------------------------------
// Small helpers

static void die(const char * format, ...) __attribute__((noreturn, format(printf, 1, 2)));

static void die(const char * format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "llama_style: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

static void * checked_calloc(size_t count, size_t size) {
    void * memory = calloc(count > 0 ? count : 1, size);
    if (memory == NULL) {
        die("out of memory: %zu x %zu bytes", count, size);
    }
    return memory;
}

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec * 1e6 + (double) now.tv_nsec * 1e-3;
}

static int compare_doubles(const void * a, const void * b) {
    const double x = *(const double *) a;
    const double y = *(const double *) b;
    return (x > y) - (x < y);
}

// Sorts the samples in place.
static double median(double * samples, int count) {
    qsort(samples, (size_t) count, sizeof(*samples), compare_doubles);
    return count % 2 == 1 ? samples[count/2] : (samples[count/2 - 1] + samples[count/2]) / 2;
}

// splitmix64: every seed is a good one, neighbouring seeds included.
static uint64_t next_random(uint64_t * state) {
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static uint64_t fnv1a_64(uint64_t hash, const void * data, size_t size) {
    const uint8_t * bytes = data;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001B3);
    }
    return hash;
}

static const uint64_t FNV1A_64_START = UINT64_C(0xCBF29CE484222325);

// ---------------------------------------------------------------------------------------------------------------------
// Options

enum attention      { ATTENTION_SOFTMAX, ATTENTION_FLASH };
enum kv_type        { KV_TYPE_F16, KV_TYPE_F32 };
enum allocator_kind { ALLOCATOR_GALLOCR, ALLOCATOR_SCHED };

struct options {
    int layers, width, heads, kv_heads, ffn, vocab;
    int prompt, decode;
    int attention, kv_type, allocator; // values of the enums above
    int threads, seed;
    bool machine;
    const char * capture; // a file for the prompt graph, or NULL
};

// A number in [min, max], or, where choices are given, the index of one of them.
struct option_spec {
    const char * name;
    size_t       field;
    int          min, max;
    const char * choices[2];
    const char * help;
};

#define NUMBER(option, member, least, most, text) \
    { .name = option, .field = offsetof(struct options, member), .min = least, .max = most, .help = text }
#define CHOICE(option, member, first, second, text) \
    { .name = option, .field = offsetof(struct options, member), .choices = { first, second }, .help = text }

static const struct option_spec OPTION_SPECS[] = {
    NUMBER("--layers",    layers,    1, 1024,    "transformer layers"),
    NUMBER("--width",     width,     2, 65536,   "width of the residual stream"),
    NUMBER("--heads",     heads,     1, 4096,    "query heads; divides the width"),
    NUMBER("--kv-heads",  kv_heads,  1, 4096,    "key and value heads; divides the query heads"),
    NUMBER("--ffn",       ffn,       1, 1048576, "width inside the feed-forward network"),
    NUMBER("--vocab",     vocab,     2, 4194304, "vocabulary"),
    NUMBER("--prompt",    prompt,    1, 1048576, "prompt tokens, run as one batch"),
    NUMBER("--decode",    decode,    0, 1048576, "tokens decoded one by one after the prompt"),
    CHOICE("--attention", attention, "softmax", "flash",   "how attention is computed"),
    CHOICE("--kv-type",   kv_type,   "f16", "f32",         "type of the KV cache"),
    CHOICE("--allocator", allocator, "gallocr", "sched",   "ggml_gallocr alone, or behind ggml_backend_sched"),
    NUMBER("--threads",   threads,   1, GGML_MAX_N_THREADS, "CPU threads"),
    NUMBER("--seed",      seed,      0, INT32_MAX, "seed of the weights and of the prompt"),
};

static const size_t N_OPTION_SPECS = sizeof(OPTION_SPECS) / sizeof(OPTION_SPECS[0]);

static int * option_value(struct options * opt, const struct option_spec * spec) {
    return (int *) ((char *) opt + spec->field);
}

static int default_threads(void) {
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (cores < 1) {
        return 1;
    }
    return cores < GGML_MAX_N_THREADS ? (int) cores : GGML_MAX_N_THREADS;
}

static struct options default_options(void) {
    return (struct options) {
        .layers = 8, .width = 1024, .heads = 16, .kv_heads = 4, .ffn = 4096, .vocab = 32000,
        .prompt = 512, .decode = 64,
        .attention = ATTENTION_FLASH, .kv_type = KV_TYPE_F16, .allocator = ALLOCATOR_GALLOCR,
        .threads = default_threads(), .seed = 1,
    };
}

static void print_help(void) {
    struct options defaults = default_options();
    printf("usage: llama_style [options]\n\n"
           "Runs a llama-style transformer with random weights on ggml's CPU backend and reports what its\n"
           "graph allocator needed: memory, time, and a hash over all logits.\n\n");
    for (size_t i = 0; i < N_OPTION_SPECS; i++) {
        const struct option_spec * spec = &OPTION_SPECS[i];
        const int value = *option_value(&defaults, spec);
        if (spec->choices[0] != NULL) {
            char choices[32];
            snprintf(choices, sizeof(choices), "%s|%s", spec->choices[0], spec->choices[1]);
            printf("  %-11s %-14s %s (default %s)\n", spec->name, choices, spec->help, spec->choices[value]);
        } else {
            const char * note = spec->field == offsetof(struct options, threads) ? ", the number of cores" : "";
            printf("  %-11s %-14s %s (default %d%s)\n", spec->name, "N", spec->help, value, note);
        }
    }
    printf("  %-11s %-14s print key=value lines only (default off)\n", "--machine", "");
    printf("  %-11s %-14s write the prompt graph to a file and run nothing\n", "--capture", "FILE");
    printf("  %-11s %-14s print this help\n", "--help", "");
}

static void die_usage(const char * format, ...) __attribute__((noreturn, format(printf, 1, 2)));

static void die_usage(const char * format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "llama_style: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, " (see --help)\n");
    va_end(args);
    exit(2);
}

static int parse_choice(const struct option_spec * spec, const char * text) {
    for (int i = 0; i < 2; i++) {
        if (strcmp(text, spec->choices[i]) == 0) {
            return i;
        }
    }
    die_usage("%s: '%s' is neither '%s' nor '%s'", spec->name, text, spec->choices[0], spec->choices[1]);
}

static int parse_number(const struct option_spec * spec, const char * text) {
    char * end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    // strtol skips leading blanks and takes a sign; here only digits are a number
    if (!isdigit((unsigned char) text[0]) || *end != '\0' || errno != 0 || value < spec->min || value > spec->max) {
        die_usage("%s: '%s' is not a whole number from %d to %d", spec->name, text, spec->min, spec->max);
    }
    return (int) value;
}

static const struct option_spec * find_option(const char * name) {
    for (size_t i = 0; i < N_OPTION_SPECS; i++) {
        if (strcmp(name, OPTION_SPECS[i].name) == 0) {
            return &OPTION_SPECS[i];
        }
    }
    die_usage("unknown option '%s'", name);
}

static void check_consistency(const struct options * opt) {
    if (opt->width % opt->heads != 0) {
        die_usage("--width %d is not a multiple of --heads %d", opt->width, opt->heads);
    }
    if (opt->heads % opt->kv_heads != 0) {
        die_usage("--heads %d is not a multiple of --kv-heads %d", opt->heads, opt->kv_heads);
    }
    if ((opt->width / opt->heads) % 2 != 0) {
        die_usage("--width %d over --heads %d gives heads of width %d; rotary embedding needs an even one",
                opt->width, opt->heads, opt->width / opt->heads);
    }
}

// The word after option i.
static const char * option_text(int argc, char ** argv, int * i) {
    if (*i + 1 == argc) {
        die_usage("%s needs a value", argv[*i]);
    }
    return argv[++*i];
}

static struct options parse_options(int argc, char ** argv) {
    struct options opt = default_options();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            print_help();
            exit(0);
        }
        if (strcmp(argv[i], "--machine") == 0) {
            opt.machine = true;
            continue;
        }
        if (strcmp(argv[i], "--capture") == 0) {
            opt.capture = option_text(argc, argv, &i);
            continue;
        }
        const struct option_spec * spec = find_option(argv[i]);
        const char * text = option_text(argc, argv, &i);
        *option_value(&opt, spec) = spec->choices[0] != NULL ? parse_choice(spec, text) : parse_number(spec, text);
    }
    check_consistency(&opt);
    return opt;
}

// ---------------------------------------------------------------------------------------------------------------------
// Model: weights and KV cache

struct layer {
    struct ggml_tensor * attn_norm;
    struct ggml_tensor * wq, * wk, * wv, * wo;
    struct ggml_tensor * ffn_norm;
    struct ggml_tensor * ffn_up, * ffn_gate, * ffn_down;
    struct ggml_tensor * k_cache, * v_cache;
};

#define WEIGHTS_PER_LAYER  9
#define WEIGHTS_OUTSIDE    3
#define CACHES_PER_LAYER   2

struct model {
    struct options opt;
    int head_width;
    int kv_width;    // of one token's keys, and of its values, over all KV heads
    int kv_capacity; // tokens the KV cache has room for

    struct ggml_tensor * token_embd;
    struct ggml_tensor * output_norm;
    struct ggml_tensor * output;
    struct layer *       layers;

    struct ggml_context * weights_ctx;
    struct ggml_context * cache_ctx;
    ggml_backend_buffer_t weights_buffer;
    ggml_backend_buffer_t cache_buffer;
};

static int pad_kv_length(int length) {
    return (length + KV_PADDING - 1) / KV_PADDING * KV_PADDING;
}

// A context for tensors whose data lives in a backend buffer.
static struct ggml_context * new_tensor_context(size_t n_tensors) {
    const struct ggml_init_params params = {
        .mem_size = n_tensors * ggml_tensor_overhead(), .mem_buffer = NULL, .no_alloc = true,
    };
    struct ggml_context * ctx = ggml_init(params);
    if (ctx == NULL) {
        die("ggml_init failed for a context of %zu tensors", n_tensors);
    }
    return ctx;
}

static struct ggml_tensor * new_matrix(struct ggml_context * ctx, int in, int out) {
    return ggml_new_tensor_2d(ctx, GGML_TYPE_F16, in, out);
}

static struct ggml_tensor * new_norm(struct ggml_context * ctx, int width) {
    return ggml_new_tensor_1d(ctx, GGML_TYPE_F32, width);
}

static void create_weights(struct model * model) {
    const struct options * opt = &model->opt;
    struct ggml_context  * ctx = model->weights_ctx;

    model->token_embd  = new_matrix(ctx, opt->width, opt->vocab);
    model->output_norm = new_norm(ctx, opt->width);
    model->output      = new_matrix(ctx, opt->width, opt->vocab);
    for (int il = 0; il < opt->layers; il++) {
        struct layer * layer = &model->layers[il];
        layer->attn_norm = new_norm(ctx, opt->width);
        layer->wq        = new_matrix(ctx, opt->width, opt->width);
        layer->wk        = new_matrix(ctx, opt->width, model->kv_width);
        layer->wv        = new_matrix(ctx, opt->width, model->kv_width);
        layer->wo        = new_matrix(ctx, opt->width, opt->width);
        layer->ffn_norm  = new_norm(ctx, opt->width);
        layer->ffn_up    = new_matrix(ctx, opt->width, opt->ffn);
        layer->ffn_gate  = new_matrix(ctx, opt->width, opt->ffn);
        layer->ffn_down  = new_matrix(ctx, opt->ffn, opt->width);
    }
}

// Keys are one row per token. So are values for flash attention; softmax attention multiplies by the transposed values,
// and a cache that is transposed already saves a copy of it per step.
static void create_cache(struct model * model) {
    const enum ggml_type type = model->opt.kv_type == KV_TYPE_F16 ? GGML_TYPE_F16 : GGML_TYPE_F32;
    struct ggml_context * ctx = model->cache_ctx;
    for (int il = 0; il < model->opt.layers; il++) {
        struct layer * layer = &model->layers[il];
        layer->k_cache = ggml_new_tensor_2d(ctx, type, model->kv_width, model->kv_capacity);
        layer->v_cache = model->opt.attention == ATTENTION_FLASH
            ? ggml_new_tensor_2d(ctx, type, model->kv_width, model->kv_capacity)
            : ggml_new_tensor_2d(ctx, type, model->kv_capacity, model->kv_width);
    }
}

static ggml_backend_buffer_t allocate_tensors(struct ggml_context * ctx, ggml_backend_t backend, const char * what) {
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    if (buffer == NULL) {
        die("ggml_backend_alloc_ctx_tensors failed for the %s", what);
    }
    return buffer;
}

// Uniform values in centre +- amplitude, four from each random word.
static void random_values(uint64_t * state, float * values, size_t count, float centre, float amplitude) {
    for (size_t i = 0; i < count; i += 4) {
        const uint64_t word = next_random(state);
        for (size_t j = 0; j < 4 && i + j < count; j++) {
            const int16_t part = (int16_t) (uint16_t) (word >> (16*j));
            values[i + j] = centre + amplitude * (float) part / 32768.0f;
        }
    }
}

static void fill_tensor(struct ggml_tensor * tensor, uint64_t * state, float centre, float amplitude) {
    enum { CHUNK = 4096 };
    float       values[CHUNK];
    ggml_fp16_t halves[CHUNK];

    const size_t count = (size_t) ggml_nelements(tensor);
    for (size_t first = 0; first < count; first += CHUNK) {
        const size_t n = count - first < CHUNK ? count - first : CHUNK;
        random_values(state, values, n, centre, amplitude);
        if (tensor->type == GGML_TYPE_F16) {
            ggml_fp32_to_fp16_row(values, halves, (int64_t) n);
            ggml_backend_tensor_set(tensor, halves, first * sizeof(halves[0]), n * sizeof(halves[0]));
        } else {
            ggml_backend_tensor_set(tensor, values, first * sizeof(values[0]), n * sizeof(values[0]));
        }
    }
}

// A matrix gets the variance 1/inputs, so that its product with a normalized row has the variance 1 and the logits stay
// small. The embedding has no inputs to sum over: its rows are the residual stream, with the variance 1.
static void fill_weights(struct model * model) {
    uint64_t state = (uint64_t) model->opt.seed;
    struct ggml_tensor * tensor = ggml_get_first_tensor(model->weights_ctx);
    for (; tensor != NULL; tensor = ggml_get_next_tensor(model->weights_ctx, tensor)) {
        if (tensor->type == GGML_TYPE_F32) {
            fill_tensor(tensor, &state, 1.0f, 0.1f);
        } else {
            const float inputs = tensor == model->token_embd ? 1.0f : (float) tensor->ne[0];
            fill_tensor(tensor, &state, 0.0f, sqrtf(3.0f / inputs));
        }
    }
}

static struct model model_without_memory(const struct options * opt) {
    struct model model = {
        .opt         = *opt,
        .head_width  = opt->width / opt->heads,
        .kv_width    = opt->width / opt->heads * opt->kv_heads,
        .kv_capacity = pad_kv_length(opt->prompt + opt->decode),
        .layers      = checked_calloc((size_t) opt->layers, sizeof(struct layer)),
        .weights_ctx = new_tensor_context((size_t) opt->layers * WEIGHTS_PER_LAYER + WEIGHTS_OUTSIDE),
        .cache_ctx   = new_tensor_context((size_t) opt->layers * CACHES_PER_LAYER),
    };
    create_weights(&model);
    create_cache(&model);
    return model;
}

static struct model model_new(const struct options * opt, ggml_backend_t backend) {
    struct model model = model_without_memory(opt);
    model.weights_buffer = allocate_tensors(model.weights_ctx, backend, "weights");
    model.cache_buffer   = allocate_tensors(model.cache_ctx, backend, "KV cache");
    ggml_backend_buffer_set_usage(model.weights_buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    fill_weights(&model);
    // rows that no token has written yet are masked, but 0 times a stray NaN would still be NaN
    ggml_backend_buffer_clear(model.cache_buffer, 0);
    return model;
}

static void model_free(struct model * model) {
    ggml_backend_buffer_free(model->cache_buffer);
    ggml_backend_buffer_free(model->weights_buffer);
    ggml_free(model->cache_ctx);
    ggml_free(model->weights_ctx);
    free(model->layers);
}

// ---------------------------------------------------------------------------------------------------------------------
// Graph

// The tokens of one step. They stand at first_pos and after; attention reads the first n_kv rows of the cache.
struct batch {
    const int32_t * tokens;
    int n_tokens;
    int first_pos;
    int n_kv;
};

// Memory for the tensors and the graph of one step, used again for every step.
struct arena {
    void * memory;
    size_t size;
    size_t max_nodes;
};

struct graph {
    struct ggml_context * ctx;
    struct ggml_cgraph  * cgraph;

    struct ggml_tensor * tokens;    // I32 [n_tokens]
    struct ggml_tensor * positions; // I32 [n_tokens]
    struct ggml_tensor * kv_rows;   // I64 [n_tokens]: the cache rows to write
    struct ggml_tensor * mask;      // F32 [n_kv, n_tokens]: 0 where attention may look, -inf elsewhere
    struct ggml_tensor * out_rows;  // I32 [1]: the token whose logits are wanted
    struct ggml_tensor * attn_mask; // the mask in the type that the attention takes

    struct ggml_tensor * logits;    // F32 [vocab]
};

static struct arena arena_new(int layers) {
    struct arena arena = { .max_nodes = (size_t) layers * NODES_PER_LAYER + NODES_OUTSIDE };
    arena.size   = arena.max_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(arena.max_nodes, false);
    arena.memory = checked_calloc(1, arena.size);
    return arena;
}

static struct ggml_tensor * new_input(struct graph * graph, enum ggml_type type, int ne0, int ne1, const char * name) {
    struct ggml_tensor * tensor = ggml_new_tensor_2d(graph->ctx, type, ne0, ne1);
    ggml_set_input(tensor);
    ggml_set_name(tensor, name);
    return tensor;
}

static void create_inputs(struct graph * graph, const struct model * model, const struct batch * batch) {
    graph->tokens    = new_input(graph, GGML_TYPE_I32, batch->n_tokens, 1, "tokens");
    graph->positions = new_input(graph, GGML_TYPE_I32, batch->n_tokens, 1, "positions");
    graph->kv_rows   = new_input(graph, GGML_TYPE_I64, batch->n_tokens, 1, "kv_rows");
    graph->mask      = new_input(graph, GGML_TYPE_F32, batch->n_kv, batch->n_tokens, "mask");
    graph->out_rows  = new_input(graph, GGML_TYPE_I32, 1, 1, "out_rows");
    // flash attention takes an F16 mask only; one cast serves all layers
    graph->attn_mask = model->opt.attention == ATTENTION_FLASH
        ? ggml_cast(graph->ctx, graph->mask, GGML_TYPE_F16)
        : graph->mask;
}

static struct ggml_tensor * build_norm(struct ggml_context * ctx, struct ggml_tensor * cur,
        struct ggml_tensor * weight) {
    return ggml_mul(ctx, ggml_rms_norm(ctx, cur, NORM_EPS), weight);
}

// Projects to `heads` heads and rotates each by the positions of the tokens: [head_width, heads, n_tokens].
static struct ggml_tensor * build_rotated_heads(const struct graph * graph, const struct model * model,
        struct ggml_tensor * weight, struct ggml_tensor * cur, int heads) {
    struct ggml_context * ctx = graph->ctx;
    struct ggml_tensor * projected = ggml_mul_mat(ctx, weight, cur);
    projected = ggml_reshape_3d(ctx, projected, model->head_width, heads, cur->ne[1]);
    return ggml_rope_ext(ctx, projected, graph->positions, NULL, model->head_width, GGML_ROPE_TYPE_NEOX, 0,
            ROPE_FREQ_BASE, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f);
}

static struct ggml_tensor * build_key_write(const struct graph * graph, const struct model * model,
        const struct layer * layer, struct ggml_tensor * keys) {
    struct ggml_tensor * rows = ggml_reshape_2d(graph->ctx, keys, model->kv_width, keys->ne[2]);
    return ggml_set_rows(graph->ctx, layer->k_cache, rows, graph->kv_rows);
}

static struct ggml_tensor * build_value_write(const struct graph * graph, const struct model * model,
        const struct layer * layer, const struct batch * batch, struct ggml_tensor * values) {
    struct ggml_context * ctx   = graph->ctx;
    struct ggml_tensor  * cache = layer->v_cache;
    if (model->opt.attention == ATTENTION_FLASH) {
        return ggml_set_rows(ctx, cache, values, graph->kv_rows);
    }
    const size_t offset = (size_t) batch->first_pos * ggml_element_size(cache);
    struct ggml_tensor * columns = ggml_view_2d(ctx, cache, batch->n_tokens, model->kv_width, cache->nb[1], offset);
    return ggml_cpy(ctx, ggml_transpose(ctx, values), columns);
}

// The part of a cache with one row per token that attention reads: [head_width, n_kv, kv_heads].
static struct ggml_tensor * build_cached_rows(struct ggml_context * ctx, const struct model * model,
        struct ggml_tensor * cache, int n_kv) {
    const size_t head_size = (size_t) model->head_width * ggml_element_size(cache);
    return ggml_view_3d(ctx, cache, model->head_width, n_kv, model->opt.kv_heads, cache->nb[1], head_size, 0);
}

// The same part of the transposed cache: [n_kv, head_width, kv_heads].
static struct ggml_tensor * build_cached_columns(struct ggml_context * ctx, const struct model * model,
        struct ggml_tensor * cache, int n_kv) {
    const size_t head_size = (size_t) model->head_width * cache->nb[1];
    return ggml_view_3d(ctx, cache, n_kv, model->head_width, model->opt.kv_heads, cache->nb[1], head_size, 0);
}

// ggml repeats the KV heads over the query heads by itself, in both kinds of attention.
static struct ggml_tensor * build_attention(const struct graph * graph, const struct model * model,
        const struct layer * layer, const struct batch * batch, struct ggml_tensor * queries) {
    struct ggml_context * ctx = graph->ctx;
    const float scale = 1.0f / sqrtf((float) model->head_width);

    struct ggml_tensor * q = ggml_permute(ctx, queries, 0, 2, 1, 3); // [head_width, n_tokens, heads]
    struct ggml_tensor * k = build_cached_rows(ctx, model, layer->k_cache, batch->n_kv);

    if (model->opt.attention == ATTENTION_FLASH) {
        struct ggml_tensor * v = build_cached_rows(ctx, model, layer->v_cache, batch->n_kv);
        struct ggml_tensor * mixed = ggml_flash_attn_ext(ctx, q, k, v, graph->attn_mask, scale, 0.0f, 0.0f);
        return ggml_reshape_2d(ctx, mixed, model->opt.width, batch->n_tokens);
    }

    // scores and probs are [n_kv, n_tokens, heads], mixed is [head_width, n_tokens, heads]
    struct ggml_tensor * v      = build_cached_columns(ctx, model, layer->v_cache, batch->n_kv);
    struct ggml_tensor * scores = ggml_mul_mat(ctx, k, q);
    struct ggml_tensor * probs  = ggml_soft_max_ext(ctx, scores, graph->attn_mask, scale, 0.0f);
    struct ggml_tensor * mixed  = ggml_mul_mat(ctx, v, probs);
    mixed = ggml_permute(ctx, mixed, 0, 2, 1, 3);
    return ggml_cont_2d(ctx, mixed, model->opt.width, batch->n_tokens);
}

static struct ggml_tensor * build_attention_block(const struct graph * graph, const struct model * model,
        const struct layer * layer, const struct batch * batch, struct ggml_tensor * cur) {
    struct ggml_context * ctx = graph->ctx;
    struct ggml_tensor * queries = build_rotated_heads(graph, model, layer->wq, cur, model->opt.heads);
    struct ggml_tensor * keys    = build_rotated_heads(graph, model, layer->wk, cur, model->opt.kv_heads);
    struct ggml_tensor * values  = ggml_mul_mat(ctx, layer->wv, cur);

    // Attention reads the cache through views, which do not depend on the writes: only the order of the nodes puts the
    // writes first. The queries go in before them, so that the three projections of `cur` stand together.
    ggml_build_forward_expand(graph->cgraph, queries);
    ggml_build_forward_expand(graph->cgraph, build_key_write(graph, model, layer, keys));
    ggml_build_forward_expand(graph->cgraph, build_value_write(graph, model, layer, batch, values));

    return ggml_mul_mat(ctx, layer->wo, build_attention(graph, model, layer, batch, queries));
}

static struct ggml_tensor * build_ffn(struct ggml_context * ctx, const struct layer * layer, struct ggml_tensor * cur) {
    struct ggml_tensor * up   = ggml_mul_mat(ctx, layer->ffn_up, cur);
    struct ggml_tensor * gate = ggml_mul_mat(ctx, layer->ffn_gate, cur);
    return ggml_mul_mat(ctx, layer->ffn_down, ggml_swiglu_split(ctx, gate, up));
}

static struct ggml_tensor * build_layer(const struct graph * graph, const struct model * model, int il,
        const struct batch * batch, struct ggml_tensor * residual) {
    struct ggml_context * ctx = graph->ctx;
    const struct layer  * layer = &model->layers[il];

    struct ggml_tensor * cur = build_norm(ctx, residual, layer->attn_norm);
    cur = build_attention_block(graph, model, layer, batch, cur);

    // past the last attention only the rows whose logits are wanted matter
    if (il == model->opt.layers - 1) {
        cur      = ggml_get_rows(ctx, cur, graph->out_rows);
        residual = ggml_get_rows(ctx, residual, graph->out_rows);
    }
    residual = ggml_add(ctx, cur, residual);

    cur = build_norm(ctx, residual, layer->ffn_norm);
    return ggml_add(ctx, build_ffn(ctx, layer, cur), residual);
}

static struct graph graph_new(const struct model * model, const struct arena * arena, const struct batch * batch) {
    const struct ggml_init_params params = {
        .mem_size = arena->size, .mem_buffer = arena->memory, .no_alloc = true,
    };
    struct graph graph = { .ctx = ggml_init(params) };
    if (graph.ctx == NULL) {
        die("ggml_init failed for a graph of %zu nodes", arena->max_nodes);
    }
    graph.cgraph = ggml_new_graph_custom(graph.ctx, arena->max_nodes, false);
    if (graph.cgraph == NULL) {
        die("ggml_new_graph_custom failed for %zu nodes", arena->max_nodes);
    }
    create_inputs(&graph, model, batch);

    struct ggml_tensor * residual = ggml_get_rows(graph.ctx, model->token_embd, graph.tokens);
    for (int il = 0; il < model->opt.layers; il++) {
        residual = build_layer(&graph, model, il, batch, residual);
    }
    struct ggml_tensor * cur = build_norm(graph.ctx, residual, model->output_norm);
    graph.logits = ggml_mul_mat(graph.ctx, model->output, cur);
    ggml_set_output(graph.logits);
    ggml_set_name(graph.logits, "logits");
    ggml_build_forward_expand(graph.cgraph, graph.logits);
    return graph;
}

static void graph_free(struct graph * graph) {
    ggml_free(graph->ctx);
}

// ---------------------------------------------------------------------------------------------------------------------
// Graph memory: ggml_gallocr alone, or ggml_backend_sched with a ggml_gallocr inside

struct graph_memory {
    ggml_backend_t       backend;
    ggml_gallocr_t       gallocr; // NULL where the scheduler is used
    ggml_backend_sched_t sched;   // NULL where the allocator is used alone
};

static struct graph_memory graph_memory_new(enum allocator_kind kind, ggml_backend_t backend, size_t max_nodes) {
    struct graph_memory memory = { .backend = backend };
    if (kind == ALLOCATOR_GALLOCR) {
        memory.gallocr = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
        if (memory.gallocr == NULL) {
            die("ggml_gallocr_new failed");
        }
    } else {
        memory.sched = ggml_backend_sched_new(&backend, NULL, 1, max_nodes, false, false);
        if (memory.sched == NULL) {
            die("ggml_backend_sched_new failed for graphs of %zu nodes", max_nodes);
        }
    }
    return memory;
}

static void graph_memory_free(struct graph_memory * memory) {
    ggml_gallocr_free(memory->gallocr);
    ggml_backend_sched_free(memory->sched);
}

// Returns the time of the reservation in microseconds.
static double graph_memory_reserve(struct graph_memory * memory, struct graph * graph) {
    const double start = now_us();
    const bool done = memory->gallocr != NULL
        ? ggml_gallocr_reserve(memory->gallocr, graph->cgraph)
        : ggml_backend_sched_reserve(memory->sched, graph->cgraph);
    const double time = now_us() - start;
    if (!done) {
        die("%s failed for the worst-case graph of %d nodes",
                memory->gallocr != NULL ? "ggml_gallocr_reserve" : "ggml_backend_sched_reserve",
                ggml_graph_n_nodes(graph->cgraph));
    }
    return time;
}

// Returns the time of the allocation in microseconds.
static double graph_memory_alloc(struct graph_memory * memory, struct graph * graph) {
    if (memory->sched != NULL) {
        // the scheduler still knows the tensors of the last step, which are gone
        ggml_backend_sched_reset(memory->sched);
    }
    const double start = now_us();
    const bool done = memory->gallocr != NULL
        ? ggml_gallocr_alloc_graph(memory->gallocr, graph->cgraph)
        : ggml_backend_sched_alloc_graph(memory->sched, graph->cgraph);
    const double time = now_us() - start;
    if (!done) {
        die("%s failed for a graph of %d nodes",
                memory->gallocr != NULL ? "ggml_gallocr_alloc_graph" : "ggml_backend_sched_alloc_graph",
                ggml_graph_n_nodes(graph->cgraph));
    }
    return time;
}

static void graph_memory_compute(struct graph_memory * memory, struct graph * graph) {
    const enum ggml_status status = memory->gallocr != NULL
        ? ggml_backend_graph_compute(memory->backend, graph->cgraph)
        : ggml_backend_sched_graph_compute(memory->sched, graph->cgraph);
    if (status != GGML_STATUS_SUCCESS) {
        die("%s failed: %s",
                memory->gallocr != NULL ? "ggml_backend_graph_compute" : "ggml_backend_sched_graph_compute",
                ggml_status_to_string(status));
    }
}

static size_t graph_memory_size(const struct graph_memory * memory) {
    return memory->gallocr != NULL
        ? ggml_gallocr_get_buffer_size(memory->gallocr, 0)
        : ggml_backend_sched_get_buffer_size(memory->sched, memory->backend);
}

static bool lastuse_is_allocating(void) {
    return lastuse_version != NULL && lastuse_enabled != NULL && lastuse_enabled();
}

// The scheduler does not show its allocator, so there the bound stays unknown.
static bool graph_memory_lower_bound(const struct graph_memory * memory, size_t * bound) {
    if (memory->gallocr == NULL || !lastuse_is_allocating() || lastuse_gallocr_lower_bound == NULL) {
        return false;
    }
    *bound = lastuse_gallocr_lower_bound(memory->gallocr, 0);
    return *bound > 0; // every graph needs some memory: 0 says that there is no plan to bound
}

// ---------------------------------------------------------------------------------------------------------------------
// Running the model

struct session {
    const struct model * model;
    struct arena         arena;
    struct graph_memory  memory;
    int32_t *            prompt;
    float *              logits;
};

struct results {
    size_t   buffer_size;
    bool     has_lower_bound;
    size_t   lower_bound;
    int      n_nodes;            // of the worst-case graph
    double   plan_us;
    double   alloc_graph_us;     // of the decode steps; unknown without any
    double   prompt_tokens_per_s;
    double   decode_tokens_per_s; // unknown without decode steps
    uint64_t logits_hash;
};

static int32_t * random_prompt(const struct options * opt) {
    int32_t * tokens = checked_calloc((size_t) opt->prompt, sizeof(*tokens));
    uint64_t state = ~(uint64_t) opt->seed; // another stream than the weights
    for (int i = 0; i < opt->prompt; i++) {
        tokens[i] = (int32_t) (next_random(&state) % (uint64_t) opt->vocab);
    }
    return tokens;
}

static struct session session_new(const struct model * model, ggml_backend_t backend) {
    const struct options * opt = &model->opt;
    struct session session = {
        .model  = model,
        .arena  = arena_new(opt->layers),
        .prompt = random_prompt(opt),
        .logits = checked_calloc((size_t) opt->vocab, sizeof(float)),
    };
    session.memory = graph_memory_new(opt->allocator, backend, session.arena.max_nodes);
    return session;
}

static void session_free(struct session * session) {
    graph_memory_free(&session->memory);
    free(session->logits);
    free(session->prompt);
    free(session->arena.memory);
}

// Token i sees the cache rows up to its own position; the rest, the padding included, is masked.
static void set_mask(struct ggml_tensor * mask, const struct batch * batch) {
    const size_t n_kv  = (size_t) batch->n_kv;
    const size_t count = n_kv * (size_t) batch->n_tokens;
    float * values = checked_calloc(count, sizeof(*values));
    for (int i = 0; i < batch->n_tokens; i++) {
        for (int j = batch->first_pos + i + 1; j < batch->n_kv; j++) {
            values[(size_t) i * n_kv + (size_t) j] = -INFINITY;
        }
    }
    ggml_backend_tensor_set(mask, values, 0, count * sizeof(*values));
    free(values);
}

static void set_inputs(const struct graph * graph, const struct batch * batch) {
    const size_t n = (size_t) batch->n_tokens;
    int32_t * positions = checked_calloc(n, sizeof(*positions));
    int64_t * kv_rows   = checked_calloc(n, sizeof(*kv_rows));
    for (int i = 0; i < batch->n_tokens; i++) {
        positions[i] = batch->first_pos + i;
        kv_rows[i]   = batch->first_pos + i;
    }
    const int32_t last_token = batch->n_tokens - 1;

    ggml_backend_tensor_set(graph->tokens,    batch->tokens, 0, n * sizeof(*batch->tokens));
    ggml_backend_tensor_set(graph->positions, positions,     0, n * sizeof(*positions));
    ggml_backend_tensor_set(graph->kv_rows,   kv_rows,       0, n * sizeof(*kv_rows));
    ggml_backend_tensor_set(graph->out_rows,  &last_token,   0, sizeof(last_token));
    set_mask(graph->mask, batch);
    free(positions);
    free(kv_rows);
}

// Runs one batch from an empty graph to the logits; returns the time of the allocation in microseconds.
static double run_batch(struct session * session, const struct batch * batch) {
    struct graph graph = graph_new(session->model, &session->arena, batch);
    const double alloc_us = graph_memory_alloc(&session->memory, &graph);
    set_inputs(&graph, batch);
    graph_memory_compute(&session->memory, &graph);
    ggml_backend_tensor_get(graph.logits, session->logits, 0, ggml_nbytes(graph.logits));
    graph_free(&graph);
    return alloc_us;
}

static void check_and_hash_logits(const struct session * session, int position, uint64_t * hash) {
    const int vocab = session->model->opt.vocab;
    for (int i = 0; i < vocab; i++) {
        if (!isfinite(session->logits[i])) {
            die("logit %d after the token at position %d is not finite: %f", i, position, (double) session->logits[i]);
        }
    }
    *hash = fnv1a_64(*hash, session->logits, (size_t) vocab * sizeof(*session->logits));
}

static int32_t most_likely_token(const struct session * session) {
    int32_t best = 0;
    for (int32_t i = 1; i < session->model->opt.vocab; i++) {
        if (session->logits[i] > session->logits[best]) {
            best = i;
        }
    }
    return best;
}

// Reserves for the prompt over the whole KV cache, the largest graph that will come. The first call creates the buffer;
// the timed ones find it there, so that they show planning and not the system's memory. Every call gets a graph of its
// own, because a scheduler may not see the same tensors twice.
static void reserve_worst_case(struct session * session, struct results * results) {
    const struct batch worst = {
        .tokens = session->prompt, .n_tokens = session->model->opt.prompt, .n_kv = session->model->kv_capacity,
    };
    double samples[PLAN_SAMPLES];
    for (int i = -1; i < PLAN_SAMPLES; i++) {
        struct graph graph = graph_new(session->model, &session->arena, &worst);
        const double time = graph_memory_reserve(&session->memory, &graph);
        if (i >= 0) {
            samples[i] = time;
        }
        results->n_nodes = ggml_graph_n_nodes(graph.cgraph);
        graph_free(&graph);
    }
    results->plan_us         = median(samples, PLAN_SAMPLES);
    results->buffer_size     = graph_memory_size(&session->memory);
    results->has_lower_bound = graph_memory_lower_bound(&session->memory, &results->lower_bound);
}

static void run_prompt(struct session * session, struct results * results) {
    const int n_tokens = session->model->opt.prompt;
    const struct batch batch = { .tokens = session->prompt, .n_tokens = n_tokens, .n_kv = pad_kv_length(n_tokens) };
    const double start = now_us();
    run_batch(session, &batch);
    results->prompt_tokens_per_s = n_tokens / ((now_us() - start) * 1e-6);
    check_and_hash_logits(session, n_tokens - 1, &results->logits_hash);
}

static void run_decode(struct session * session, struct results * results) {
    const int n_steps = session->model->opt.decode;
    double * alloc_us = checked_calloc((size_t) n_steps, sizeof(*alloc_us));
    double total_us = 0;
    for (int i = 0; i < n_steps; i++) {
        const int     position = session->model->opt.prompt + i;
        const double  start    = now_us();
        const int32_t token    = most_likely_token(session);
        const struct batch batch = {
            .tokens = &token, .n_tokens = 1, .first_pos = position, .n_kv = pad_kv_length(position + 1),
        };
        alloc_us[i] = run_batch(session, &batch);
        total_us += now_us() - start;
        check_and_hash_logits(session, position, &results->logits_hash);
    }
    if (n_steps > 0) {
        results->alloc_graph_us      = median(alloc_us, n_steps);
        results->decode_tokens_per_s = n_steps / (total_us * 1e-6);
    }
    free(alloc_us);
}

static struct results run_session(struct session * session) {
    struct results results = { .logits_hash = FNV1A_64_START };
    reserve_worst_case(session, &results);
    run_prompt(session, &results);
    run_decode(session, &results);

    const size_t final_size = graph_memory_size(&session->memory);
    if (final_size != results.buffer_size) {
        fprintf(stderr, "llama_style: warning: the compute buffer went from %zu to %zu bytes after the reservation\n",
                results.buffer_size, final_size);
        results.buffer_size = final_size;
    }
    return results;
}

// ---------------------------------------------------------------------------------------------------------------------
// Capture: the prompt graph in a file, of a model that may be larger than memory

// Tensors that the graph allocator sees as allocated; nobody reads or writes them.
static void pretend_memory(struct ggml_context * ctx) {
    static char memory[1];
    struct ggml_tensor * tensor = ggml_get_first_tensor(ctx);
    for (; tensor != NULL; tensor = ggml_get_next_tensor(ctx, tensor)) {
        tensor->data = memory;
    }
}

// What ggml's own allocator takes; 0, for unknown, where lastuse stands in its place.
static size_t ggml_alloc_size(ggml_backend_t backend, struct graph * graph) {
    if (lastuse_is_allocating()) {
        return 0;
    }
    struct graph_memory memory = graph_memory_new(ALLOCATOR_GALLOCR, backend, 0);
    graph_memory_reserve(&memory, graph);
    const size_t size = graph_memory_size(&memory);
    graph_memory_free(&memory);
    return size;
}

static void capture(const struct options * opt, ggml_backend_t backend) {
    struct model model = model_without_memory(opt);
    pretend_memory(model.weights_ctx);
    pretend_memory(model.cache_ctx);
    struct arena arena = arena_new(opt->layers);
    const struct batch batch = { .n_tokens = opt->prompt, .n_kv = pad_kv_length(opt->prompt) };
    struct graph graph = graph_new(&model, &arena, &batch);

    char label[256];
    snprintf(label, sizeof(label), "llama style: %d layers, width %d, %s attention, %d tokens", opt->layers, opt->width,
            opt->attention == ATTENTION_FLASH ? "flash" : "softmax", opt->prompt);
    const size_t size = ggml_alloc_size(backend, &graph);
    if (!write_graph_file(opt->capture, graph.cgraph, label, ggml_backend_get_default_buffer_type(backend), size)) {
        die("cannot write %s", opt->capture);
    }
    graph_free(&graph);
    free(arena.memory);
    model_free(&model);
}

// ---------------------------------------------------------------------------------------------------------------------
// Report

static void allocator_name(char * name, size_t size) {
    if (lastuse_is_allocating()) {
        snprintf(name, size, "lastuse %s", lastuse_version());
    } else {
        snprintf(name, size, "ggml");
    }
}

// A value that is not known has no line.
static void print_machine(const struct options * opt, const struct results * results) {
    char name[128];
    allocator_name(name, sizeof(name));
    printf("allocator=%s\n", name);
    printf("compute_buffer_bytes=%zu\n", results->buffer_size);
    if (results->has_lower_bound) {
        printf("lower_bound_bytes=%zu\n", results->lower_bound);
    }
    printf("plan_us=%.2f\n", results->plan_us);
    if (opt->decode > 0) {
        printf("alloc_graph_us=%.2f\n", results->alloc_graph_us);
    }
    printf("prompt_tokens_per_s=%.2f\n", results->prompt_tokens_per_s);
    if (opt->decode > 0) {
        printf("decode_tokens_per_s=%.2f\n", results->decode_tokens_per_s);
    }
    printf("logits_hash=%016" PRIx64 "\n", results->logits_hash);
    if (lastuse_plan_count != NULL) {
        printf("plans=%" PRIu64 "\n", lastuse_plan_count());
    }
}

static void print_bytes(const char * label, size_t bytes) {
    printf("%-18s %12zu bytes (%.2f MiB)\n", label, bytes, (double) bytes / (1024.0 * 1024.0));
}

static void print_table(const struct options * opt, const struct results * results) {
    char name[128];
    allocator_name(name, sizeof(name));
    printf("%-18s %12s\n", "allocator", name);
    print_bytes("compute buffer", results->buffer_size);
    if (results->has_lower_bound) {
        print_bytes("lower bound", results->lower_bound);
    } else {
        printf("%-18s %12s\n", "lower bound", "unknown");
    }
    printf("%-18s %12.2f us, median of %d, %d nodes\n", "plan", results->plan_us, PLAN_SAMPLES, results->n_nodes);
    if (opt->decode > 0) {
        printf("%-18s %12.2f us, median of %d\n", "alloc graph", results->alloc_graph_us, opt->decode);
    } else {
        printf("%-18s %12s\n", "alloc graph", "unknown");
    }
    printf("%-18s %12.2f tokens/s, %d tokens\n", "prompt", results->prompt_tokens_per_s, opt->prompt);
    if (opt->decode > 0) {
        printf("%-18s %12.2f tokens/s, %d tokens\n", "decode", results->decode_tokens_per_s, opt->decode);
    } else {
        printf("%-18s %12s\n", "decode", "unknown");
    }
    printf("%-18s %016" PRIx64 "\n", "logits hash", results->logits_hash);
    if (lastuse_plan_count != NULL) {
        printf("%-18s %12" PRIu64 "\n", "plans", lastuse_plan_count());
    }
}

int main(int argc, char ** argv) {
    const struct options opt = parse_options(argc, argv);

    ggml_backend_t backend = ggml_backend_cpu_init();
    if (backend == NULL) {
        die("ggml_backend_cpu_init failed");
    }
    ggml_backend_cpu_set_n_threads(backend, opt.threads);
    if (opt.capture != NULL) {
        capture(&opt, backend);
        ggml_backend_free(backend);
        return 0;
    }

    struct model   model   = model_new(&opt, backend);
    struct session session = session_new(&model, backend);
    const struct results results = run_session(&session);

    if (opt.machine) {
        print_machine(&opt, &results);
    } else {
        print_table(&opt, &results);
    }

    session_free(&session);
    model_free(&model);
    ggml_backend_free(backend);
    return 0;
}
