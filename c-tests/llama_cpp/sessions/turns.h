// Sessions that take turns on one thread: after each batch that is decoded another one goes on, so that the results of a batch
// are read when other contexts have computed.

#pragma once

#include "session.h"

#include <ucontext.h>

#define STACK_BYTES ((size_t) 16 << 20)

struct turns {
    int        count;   // of sessions; 0 if they do not take turns
    int        current; // the one that goes on
    uint64_t   random;
    bool       is_done[MOST_CONTEXTS];
    ucontext_t sessions[MOST_CONTEXTS];
    ucontext_t referee;
    void (*run)(struct session * session);
    struct session * all;
};

static struct turns turns;

// Lets another session go on, and returns when it is this one's turn again.
static void end_turn(void) {
    if (turns.count > 0) {
        check(swapcontext(&turns.sessions[turns.current], &turns.referee) == 0, "cannot end a turn");
    }
}

static void run_turns_of_one(void) {
    const int own = turns.current;
    turns.run(&turns.all[own]);
    turns.is_done[own] = true;
}

// Runs all sessions to their ends, in a random order that is always the same.
static void run_in_turns(struct session * sessions, int count, void (*run)(struct session * session)) {
    turns = (struct turns) { .count = count, .random = 1, .run = run, .all = sessions };
    void * stacks[MOST_CONTEXTS];
    for (int i = 0; i < count; i++) {
        stacks[i] = malloc(STACK_BYTES);
        check(stacks[i] != NULL && getcontext(&turns.sessions[i]) == 0, "no memory is left");
        turns.sessions[i].uc_stack.ss_sp   = stacks[i];
        turns.sessions[i].uc_stack.ss_size = STACK_BYTES;
        turns.sessions[i].uc_link          = &turns.referee;
        makecontext(&turns.sessions[i], run_turns_of_one, 0);
    }
    for (int left = count; left > 0;) {
        turns.current = (int) (splitmix64(&turns.random) % (uint64_t) count);
        if (!turns.is_done[turns.current]) {
            check(swapcontext(&turns.referee, &turns.sessions[turns.current]) == 0, "cannot begin a turn");
            left -= turns.is_done[turns.current];
        }
    }
    turns.count = 0;
    for (int i = 0; i < count; i++) {
        free(stacks[i]);
    }
}
