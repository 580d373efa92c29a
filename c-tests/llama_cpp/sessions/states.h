// States that are saved and restored: what follows must be what followed before.

#pragma once

#include "session.h"

// Where in the output the next result goes.
static long tell(struct session * session) {
    const long position = ftell(session->output);
    check(position >= 0, "cannot tell where the results end");
    return position;
}

// Checks that the results between the two positions are there a second time behind them.
static void check_repeated(struct session * session, long from, long to) {
    check(tell(session) - to == to - from && to > from, "a restored state gives another number of results");
    unsigned char * both = malloc((size_t) (2 * (to - from)));
    const size_t    size = (size_t) (to - from);
    check(both != NULL, "out of memory");
    check(fseek(session->output, from, SEEK_SET) == 0 && fread(both, 1, 2 * size, session->output) == 2 * size,
          "cannot read the results again");
    check(memcmp(both, both + size, size) == 0, "a restored state gives other results");
    free(both);
    check(fseek(session->output, 0, SEEK_END) == 0, "cannot go on with the results");
}

// Restores the state in the context, and in a new one: what follows is what followed before.
static void save_and_restore(struct session * session) {
    forget(session);
    const llama_token token = prompt(session, 100);
    const size_t      size  = llama_state_get_size(session->context);
    uint8_t *         state = malloc(size);
    check(state != NULL, "out of memory");
    check(llama_state_get_data(session->context, state, size) > 0, "the state cannot be saved");
    const long from = tell(session);
    generate(session, token, 8, 0);
    const long to = tell(session);
    forget(session);
    check(llama_state_set_data(session->context, state, size) > 0, "the state cannot be restored");
    generate(session, token, 8, 0);
    check_repeated(session, from, to);

    struct llama_context * old = session->context;
    session->context           = new_context(session);
    check(llama_state_set_data(session->context, state, size) > 0, "the state cannot be restored in a new context");
    const long again = tell(session);
    generate(session, token, 8, 0);
    check_repeated(session, again - (to - from), again);
    llama_free(session->context);
    session->context = old;
    free(state);
}

// A sequence that is saved alone, and goes on as another one.
static void save_sequence(struct session * session) {
    forget(session);
    const llama_token token = prompt(session, 50);
    const size_t      size  = llama_state_seq_get_size(session->context, 0);
    uint8_t *         state = malloc(size);
    check(state != NULL, "out of memory");
    check(llama_state_seq_get_data(session->context, state, size, 0) > 0, "the sequence cannot be saved");
    generate(session, token, 3, 0);
    check(llama_state_seq_set_data(session->context, state, size, 1) > 0, "the sequence cannot be restored");
    generate(session, token, 3, 1);
    free(state);
}
