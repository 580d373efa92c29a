// Asks the kernels of the CPU what they can do, over types, shapes and numbers of threads. A kernel may end its process, so
// each way to call an operation has a process of its own.
#pragma once

#include <stdbool.h>

#include "check.h"
#include "in_place.h"
#include "written.h"

struct survey {
    ggml_backend_t        cpu;
    ggml_backend_buffer_t arena;
    int                   version; // of ggml
};

// What one run of a kernel tells about. It is of one operation, and of one of its sources where that is asked.
struct question {
    enum ggml_op op;
    int          source;
    enum writes  needed;  // what it must be able to do
    bool         claimed; // lastuse says that it can
};

// Runs what a rule makes in this form: `part` is one of several things to try. Answers false when there is no such part.
typedef bool (*try_shape)(const struct survey * survey, const struct rule * rule, struct form form, int layout,
                          int part);

// Says what is asked from here on; `what` is for messages.
void survey_ask(struct question question, const char * what);
// Computes, with several threads too where asked for, and answers the question.
void survey_try(struct trial * trial, bool with_threads);

// Asks over all shapes, all layouts that can be wanted, and so many parts. Prints `<verb> <operation> <source> <layout>` for
// what is claimed and was right, and the same behind `could` for what is not claimed and was always right here.
void survey_rules(const struct rules * rules, int parts, try_shape try_shape, const char * verb);

// Is it the form that threads are tried with?
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
    SURVEY_CASE(others, OTHER_OPERATIONS, verb, n_parts, try_shape)                                 \
    static const struct test_case CASES[] = {                                                       \
        { "elementwise", case_elementwise }, { "binary", case_binary },     { "rows", case_rows },  \
        { "gates", case_gates },             { "copies", case_copies },     { "backward", case_backward }, \
        { "parts", case_parts },             { "others", case_others },                             \
    };                                                                                              \
    TEST_MAIN(CASES)

#define SURVEY_CASE(name, rules, verb, n_parts, try_shape)                                          \
    static void case_##name(struct case_args args) {                                                \
        (void) args;                                                                                \
        survey_rules(&rules, n_parts, try_shape, verb);                                             \
    }
