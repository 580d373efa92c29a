// Options: one table has their names, limits and help.
#pragma once

#include "ggml.h"
#include "ggml-cpu.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum attention      { ATTENTION_SOFTMAX, ATTENTION_FLASH };
enum kv_type        { KV_TYPE_F16, KV_TYPE_F32 };
enum kv_write       { KV_WRITE_ROWS, KV_WRITE_COPY };
enum logits         { LOGITS_LAST, LOGITS_ALL };
enum copies_kind    { COPIES_KEPT, COPIES_REMOVED };
enum allocator_kind { ALLOCATOR_GALLOCR, ALLOCATOR_SCHED };
enum api            { API_GGML, API_LASTUSE };

struct options {
    int layers, width, heads, kv_heads, ffn, vocab;
    int prompt, decode;
    int attention, kv_type, kv_write, logits, copies, allocator, api; // values of the enums above
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
    CHOICE("--kv-write",  kv_write,  "rows", "copy",       "new rows go into the cache by their numbers, or are copied to a view of it"),
    CHOICE("--logits",    logits,    "last", "all",        "of which tokens of a batch logits are computed"),
    CHOICE("--copies",    copies,    "kept", "removed",    "whether lastuse removes the copies that it can"),
    CHOICE("--allocator", allocator, "gallocr", "sched",   "ggml_gallocr alone, or behind ggml_backend_sched"),
    CHOICE("--api",       api,       "ggml", "lastuse",    "contexts with sizes and order by calls, or what lastuse.h has instead"),
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
        .attention = ATTENTION_FLASH, .kv_type = KV_TYPE_F16, .kv_write = KV_WRITE_ROWS,
        .logits = LOGITS_LAST, .copies = COPIES_KEPT, .allocator = ALLOCATOR_GALLOCR, .api = API_GGML,
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
