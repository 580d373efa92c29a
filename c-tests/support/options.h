// Command line parsing of the programs that make models and graphs: one file name plus
// "--name value" options, all described by a table.

#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2 };

enum parse_result { PARSE_OK, PARSE_HELP, PARSE_ERROR };

// Exactly one of `number` and `text` is set; it points to where the value is stored.
struct option_spec {
    const char * name;
    long long *  number;
    long long    min;
    long long    max;
    const char ** text;
};

static bool option_store(const char * program, const struct option_spec * option, const char * value) {
    if (option->text != NULL) {
        *option->text = value;
        return true;
    }
    char * end = NULL;
    errno = 0;
    const long long number = strtoll(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || number < option->min || number > option->max) {
        fprintf(stderr, "%s: %s needs a whole number from %lld to %lld, not '%s'\n",
                program, option->name, option->min, option->max, value);
        return false;
    }
    *option->number = number;
    return true;
}

static const struct option_spec * option_find(const struct option_spec * options, size_t n, const char * name) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(options[i].name, name) == 0) {
            return &options[i];
        }
    }
    return NULL;
}

// `file` receives the one argument that is not an option. Errors are reported on stderr.
static enum parse_result parse_options(int argc, char ** argv, const char * program,
                                       const struct option_spec * options, size_t n, const char ** file) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            return PARSE_HELP;
        }
        if (strncmp(argv[i], "--", 2) != 0) {
            if (*file != NULL) {
                fprintf(stderr, "%s: one file expected, '%s' is a second one\n", program, argv[i]);
                return PARSE_ERROR;
            }
            *file = argv[i];
            continue;
        }
        const struct option_spec * option = option_find(options, n, argv[i]);
        if (option == NULL) {
            fprintf(stderr, "%s: unknown option '%s'\n", program, argv[i]);
            return PARSE_ERROR;
        }
        if (i + 1 == argc) {
            fprintf(stderr, "%s: %s needs a value\n", program, argv[i]);
            return PARSE_ERROR;
        }
        if (!option_store(program, option, argv[++i])) {
            return PARSE_ERROR;
        }
    }
    if (*file == NULL) {
        fprintf(stderr, "%s: no file given\n", program);
        return PARSE_ERROR;
    }
    return PARSE_OK;
}
