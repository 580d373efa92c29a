// A program of cases, each of which passes when it returns.
//
//   program <case> [number...]   runs one case and prints "ok <case>"; exits with 1 when a check fails
//   program                      lists the cases; exits with 2
#pragma once

#include "check.h"

// The numbers given after the case's name.
struct case_args {
    int     count;
    char ** texts;
};

struct test_case {
    const char * name;
    void (*run)(struct case_args args);
    struct test_case * next;
};

// Begins the function of a case, which has `args`, and lists it before main() runs. Drivers read the names from the source: each
// is on its own line, behind this macro or another one whose name contains CASE.
#define CASE(name)                                                                      \
    static void              name(struct case_args args);                               \
    static struct test_case  name##_case = { #name, name, NULL };                       \
    __attribute__((constructor)) static void name##_is_listed(void) {                   \
        list_case(&name##_case);                                                        \
    }                                                                                   \
    static void name(struct case_args args __attribute__((unused)))

// A case that needs what only lastuse's plans do: it is not run where lastuse is off.
#define LASTUSE_CASE(name) CASE(name)

// A case of one statement.
#define CASE_OF(name, ...)                                                              \
    CASE(name) {                                                                        \
        __VA_ARGS__;                                                                    \
    }

// A case that is run on lastuse and on ggml's own allocator, of upstream.h: it has `api`.
#define CASE_ON_BOTH(name)                                                              \
    static void name##_by(const struct allocator_api * api);                            \
    CASE(name) {                                                                        \
        name##_by(&lastuse_api);                                                        \
        name##_by(&upstream_api);                                                       \
    }                                                                                   \
    static void name##_by(const struct allocator_api * api)

void list_case(struct test_case * listed);

// Returns the number at `index`, or `otherwise` when there are fewer.
long long case_number(struct case_args args, int index, long long otherwise);

// The seeds of a case with random graphs: the numbers after its name are the first, which is 1 otherwise, and how many.
struct seeds {
    long long first;
    long long count;
};

struct seeds seeds_from(struct case_args args, long long count);

#define FOR_SEEDS(seed, seeds) for (long long seed = (seeds).first; seed < (seeds).first + (seeds).count; seed++)
