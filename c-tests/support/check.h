// The base of every test program: a check that ends the program with a message, and a record of what ggml logged.
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml.h"

#define CHECK(cond, ...)                                                          \
    do {                                                                          \
        if (!(cond)) {                                                            \
            fprintf(stderr, "%s:%d: not true: %s: ", __FILE__, __LINE__, #cond);  \
            fprintf(stderr, __VA_ARGS__);                                         \
            fprintf(stderr, "\n");                                                \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

// A context of `bytes` bytes for tensors and graphs, which get no data.
static inline struct ggml_context * no_alloc_context(size_t bytes) {
    struct ggml_context * ctx = ggml_init((struct ggml_init_params){ .mem_size = bytes, .no_alloc = true });
    CHECK(ctx != NULL, "no context of %zu bytes", bytes);
    return ctx;
}

#define LOG_CAPTURE_LINES  64
#define LOG_CAPTURE_LENGTH 512

// The lines of ggml's logger, with their levels. Lines beyond the capacity are only counted; longer lines are cut.
struct log_capture {
    int                 count;
    enum ggml_log_level levels[LOG_CAPTURE_LINES];
    char                lines[LOG_CAPTURE_LINES][LOG_CAPTURE_LENGTH];
};

static inline void log_capture_line(enum ggml_log_level level, const char * text, void * user_data) {
    struct log_capture * capture = user_data;
    if (capture->count < LOG_CAPTURE_LINES) {
        capture->levels[capture->count] = level;
        snprintf(capture->lines[capture->count], LOG_CAPTURE_LENGTH, "%s", text);
    }
    capture->count++;
}

static inline void log_capture_start(struct log_capture * capture) {
    capture->count = 0;
    ggml_log_set(log_capture_line, capture);
}

// Restores ggml's own logger; the record stays readable.
static inline void log_capture_stop(void) {
    ggml_log_set(NULL, NULL);
}

// The first warning or error at or after *index that contains `part`, or NULL; advances *index past it.
static inline const char * log_capture_next(const struct log_capture * capture, int * index, const char * part) {
    for (; *index < capture->count && *index < LOG_CAPTURE_LINES; (*index)++) {
        enum ggml_log_level level = capture->levels[*index];
        bool                loud  = level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR;
        if (loud && strstr(capture->lines[*index], part) != NULL) {
            return capture->lines[(*index)++];
        }
    }
    return NULL;
}

static inline bool log_capture_has(const struct log_capture * capture, const char * part) {
    int index = 0;
    return log_capture_next(capture, &index, part) != NULL;
}

// The text behind the name of the function that logged it: that name differs between versions of ggml.
static inline const char * log_message(const char * line) {
    const char * colon = strstr(line, ": ");
    return colon != NULL ? colon + 2 : line;
}

// Whether two lines have equal messages. Runs of digits count as equal: two allocators request different sizes.
static inline bool log_message_same(const char * a, const char * b) {
    const char * digits = "0123456789";
    a                   = log_message(a);
    b                   = log_message(b);
    while (*a != '\0' && *b != '\0') {
        size_t digits_a = strspn(a, digits);
        size_t digits_b = strspn(b, digits);
        if ((digits_a > 0) != (digits_b > 0) || (digits_a == 0 && *a != *b)) {
            return false;
        }
        a += digits_a > 0 ? digits_a : 1;
        b += digits_b > 0 ? digits_b : 1;
    }
    return *a == *b;
}

// Whether both records have equal warnings and errors, in the same order.
static inline bool log_capture_same(const struct log_capture * a, const struct log_capture * b) {
    int index_a = 0;
    int index_b = 0;
    for (;;) {
        const char * line_a = log_capture_next(a, &index_a, "");
        const char * line_b = log_capture_next(b, &index_b, "");
        if (line_a == NULL || line_b == NULL) {
            return line_a == line_b;
        }
        if (!log_message_same(line_a, line_b)) {
            return false;
        }
    }
}
