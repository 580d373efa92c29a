// Tries the capabilities of the CPU's kernels, over types, shapes and numbers of threads. A kernel may abort its
// process, so each way to call an operation runs in its own process.
#pragma once

#include <stdbool.h>

#include "cases.h"
#include "in_place.h"
#include "written.h"

struct survey {
    ggml_backend_t        cpu;
    ggml_backend_buffer_t arena;
    int                   version; // of ggml
};

// The subject of one run of a kernel: one operation, or one of its sources.
struct question {
    enum ggml_op op;
    int          source;
    enum writes  needed;  // the layouts that it must support
    bool         claimed; // lastuse claims that it does
};

// Runs the operation of a rule in this form: `part` is one of several things to try. Returns false when there is no
// such part.
typedef bool (*try_shape)(const struct survey * survey, const struct rule * rule, struct form form, int layout,
                          int part);

// Sets the question of the next trials; `what` is for messages.
void survey_ask(struct question question, const char * what);
// Computes, with several threads too if requested, and records the result.
void survey_try(struct trial * trial, bool with_threads);

// Tries all shapes, all layouts and `parts` parts. Prints `<verb> <operation> <source> <layout>` for cases that are
// claimed and were correct, and that line after `could` for cases that are not claimed and were always correct.
void survey_rules(const struct rules * rules, int parts, try_shape try_shape, const char * verb);

// Whether the form is tried with several threads too.
bool survey_has_threads(struct form form);

// A program with a case for each kind of operations.
#define SURVEY_MAIN(verb, n_parts, try_shape)                                                       \
    SURVEY_CASE(elementwise, ELEMENTWISE_RULES, verb, n_parts, try_shape)                           \
    SURVEY_CASE(binary, BINARY_RULES, verb, n_parts, try_shape)                                     \
    SURVEY_CASE(rows, ROW_RULES, verb, n_parts, try_shape)                                          \
    SURVEY_CASE(gates, GATE_RULES, verb, n_parts, try_shape)                                        \
    SURVEY_CASE(copies, COPY_RULES, verb, n_parts, try_shape)                                       \
    SURVEY_CASE(backward, BACKWARD_RULES, verb, n_parts, try_shape)                                 \
    SURVEY_CASE(parts, PART_RULES, verb, n_parts, try_shape)                                        \
    SURVEY_CASE(others, OTHER_OPERATIONS, verb, n_parts, try_shape)

#define SURVEY_CASE(name, rules, verb, n_parts, try_shape)                                          \
    CASE(name) {                                                                                    \
        survey_rules(&rules, n_parts, try_shape, verb);                                             \
    }
