// Counts what graph allocators ask buffer types for: preloaded in front of the allocator of a program, or linked with
// the program. It counts ggml's own allocator and lastuse in one way.
//
//     LD_PRELOAD="buffer_counter.so"                 counts ggml's own allocator
//     LD_PRELOAD="buffer_counter.so liblastuse.so"   counts lastuse
//     cc -DCOUNTER_WRAPS ... -Wl,--wrap=FUNCTION     linked, with --wrap for each function of COUNTED_FUNCTIONS
//
// At exit it writes to the file that BUFFER_COUNTER_REPORT names: for each allocator, in the order in which they were
// made, and each of its buffer types, the most bytes at a time that it held; the most that all of them held at a time; how
// often allocators asked for sizes of tensors on other devices, and for buffers; and what lastuse says of itself.
//
// With BUFFER_COUNTER_FAILS=N the Nth buffer that allocators ask for is refused, and each later one that is not
// smaller, as if there was no more memory: asking again does not help, and a smaller batch does. A program that then
// reads or writes unmapped memory ends as it would, after a line that names the function and its library.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "weak_lastuse.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "reports.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define COUNTED_FUNCTIONS(F)        \
    F(ggml_gallocr_new_n)           \
    F(ggml_gallocr_new)             \
    F(ggml_gallocr_free)            \
    F(ggml_gallocr_reserve)         \
    F(ggml_gallocr_reserve_n)       \
    F(ggml_gallocr_alloc_graph)     \
    F(ggml_backend_buft_alloc_buffer) \
    F(ggml_backend_buft_get_alloc_size) \
    F(ggml_backend_buffer_free)

#ifdef COUNTER_WRAPS
#define COUNTED(name)       __wrap_##name
#define NEXT(name)          __real_##name
#define DECLARE(name)       __typeof__(name) __real_##name, __wrap_##name;
COUNTED_FUNCTIONS(DECLARE)
#else
#define COUNTED(name)       name
#define NEXT(name)          ((__typeof__(&(name))) next_definition(#name))

static void * next_definition(const char * name) {
    void * function = dlsym(RTLD_NEXT, name);
    if (function == NULL) {
        fprintf(stderr, "buffer_counter: no definition of %s to forward to\n", name);
        abort();
    }
    return function;
}
#endif

struct allocator {
    ggml_gallocr_t galloc; // NULL when it is freed
};

// The memory of one buffer type that an allocator holds.
struct holding {
    size_t allocator;
    char   type[64];
    size_t live;
    size_t most;
};

struct buffer {
    ggml_backend_buffer_t buffer;
    size_t                bytes; // as they were asked for
    size_t                holding;
};

#define LIST(item) struct { item * items; size_t count, capacity; }

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// All of these are guarded by `lock`.
static LIST(struct allocator) allocators;
static LIST(struct holding)   holdings;
static LIST(struct buffer)    buffers;
static size_t                 live, most; // of all allocators
static size_t                 asked;      // how often the size of a tensor was asked for whose memory is not the host's
static size_t                 requested;  // how many buffers were asked for
static size_t                 refused;    // how many of them were refused by BUFFER_COUNTER_FAILS
static size_t                 room = SIZE_MAX; // a buffer of this number of bytes or more is refused

// The allocator whose function this thread is in; functions of allocators call each other.
static _Thread_local ggml_gallocr_t current;
static _Thread_local int            depth;

#define ADD(list, ...)                                                                      \
    do {                                                                                    \
        if ((list).count == (list).capacity) {                                              \
            (list).capacity = (list).capacity == 0 ? 16 : (list).capacity * 2;              \
            (list).items    = realloc((list).items, (list).capacity * sizeof(*(list).items)); \
            if ((list).items == NULL) {                                                     \
                fprintf(stderr, "buffer_counter: out of memory\n");                         \
                abort();                                                                    \
            }                                                                               \
        }                                                                                   \
        (list).items[(list).count++] = __VA_ARGS__;                                         \
    } while (0)

static ggml_gallocr_t note_allocator(ggml_gallocr_t galloc) {
    if (depth == 0 && galloc != NULL) {
        pthread_mutex_lock(&lock);
        ADD(allocators, (struct allocator) { galloc });
        pthread_mutex_unlock(&lock);
    }
    return galloc;
}

// The number of a live allocator, the newest first: addresses are used again.
static size_t allocator_number(ggml_gallocr_t galloc) {
    for (size_t i = allocators.count; i > 0; i--) {
        if (allocators.items[i - 1].galloc == galloc) {
            return i;
        }
    }
    fprintf(stderr, "buffer_counter: an allocator is used that was not made\n");
    abort();
}

static size_t holding_of(size_t allocator, const char * type) {
    for (size_t i = 0; i < holdings.count; i++) {
        if (holdings.items[i].allocator == allocator && strcmp(holdings.items[i].type, type) == 0) {
            return i;
        }
    }
    ADD(holdings, (struct holding) { .allocator = allocator });
    snprintf(holdings.items[holdings.count - 1].type, sizeof(holdings.items[0].type), "%s", type);
    return holdings.count - 1;
}

static void begin(ggml_gallocr_t galloc) {
    if (depth++ == 0) {
        current = galloc;
    }
}

static void end(void) {
    if (--depth == 0) {
        current = NULL;
    }
}

ggml_gallocr_t COUNTED(ggml_gallocr_new_n)(ggml_backend_buffer_type_t * types, int count) {
    depth++;
    ggml_gallocr_t galloc = NEXT(ggml_gallocr_new_n)(types, count);
    depth--;
    return note_allocator(galloc);
}

ggml_gallocr_t COUNTED(ggml_gallocr_new)(ggml_backend_buffer_type_t type) {
    depth++;
    ggml_gallocr_t galloc = NEXT(ggml_gallocr_new)(type);
    depth--;
    return note_allocator(galloc);
}

void COUNTED(ggml_gallocr_free)(ggml_gallocr_t galloc) {
    if (galloc != NULL) {
        // Before the memory is released: another thread may get this address for a new allocator.
        pthread_mutex_lock(&lock);
        allocators.items[allocator_number(galloc) - 1].galloc = NULL;
        pthread_mutex_unlock(&lock);
    }
    NEXT(ggml_gallocr_free)(galloc);
}

bool COUNTED(ggml_gallocr_reserve)(ggml_gallocr_t galloc, struct ggml_cgraph * graph) {
    begin(galloc);
    const bool done = NEXT(ggml_gallocr_reserve)(galloc, graph);
    end();
    return done;
}

bool COUNTED(ggml_gallocr_reserve_n)(ggml_gallocr_t galloc, struct ggml_cgraph * graph, const int * node_buffer_ids,
                                     const int * leaf_buffer_ids) {
    begin(galloc);
    const bool done = NEXT(ggml_gallocr_reserve_n)(galloc, graph, node_buffer_ids, leaf_buffer_ids);
    end();
    return done;
}

bool COUNTED(ggml_gallocr_alloc_graph)(ggml_gallocr_t galloc, struct ggml_cgraph * graph) {
    begin(galloc);
    const bool done = NEXT(ggml_gallocr_alloc_graph)(galloc, graph);
    end();
    return done;
}

// Counts a request for a buffer, and returns whether it is to be refused.
static bool is_refused(size_t size) {
    const char * number = getenv("BUFFER_COUNTER_FAILS");
    pthread_mutex_lock(&lock);
    if (++requested == (number == NULL ? 0 : strtoull(number, NULL, 10))) {
        room = size;
    }
    const bool found = size >= room;
    refused += found ? 1 : 0;
    pthread_mutex_unlock(&lock);
    return found;
}

ggml_backend_buffer_t COUNTED(ggml_backend_buft_alloc_buffer)(ggml_backend_buffer_type_t type, size_t size) {
    if (current != NULL && is_refused(size)) {
        return NULL;
    }
    ggml_backend_buffer_t buffer = NEXT(ggml_backend_buft_alloc_buffer)(type, size);
    if (buffer == NULL || current == NULL) {
        return buffer;
    }
    pthread_mutex_lock(&lock);
    const size_t     found   = holding_of(allocator_number(current), ggml_backend_buft_name(type));
    struct holding * holding = &holdings.items[found];
    ADD(buffers, (struct buffer) { buffer, size, found });
    holding->live += size;
    holding->most = holding->live > holding->most ? holding->live : holding->most;
    live += size;
    most = live > most ? live : most;
    pthread_mutex_unlock(&lock);
    return buffer;
}

size_t COUNTED(ggml_backend_buft_get_alloc_size)(ggml_backend_buffer_type_t type, const struct ggml_tensor * tensor) {
    if (current != NULL && !ggml_backend_buft_is_host(type)) {
        pthread_mutex_lock(&lock);
        asked++;
        pthread_mutex_unlock(&lock);
    }
    return NEXT(ggml_backend_buft_get_alloc_size)(type, tensor);
}

void COUNTED(ggml_backend_buffer_free)(ggml_backend_buffer_t buffer) {
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < buffers.count; i++) {
        if (buffers.items[i].buffer == buffer) {
            holdings.items[buffers.items[i].holding].live -= buffers.items[i].bytes;
            live -= buffers.items[i].bytes;
            buffers.items[i] = buffers.items[--buffers.count];
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    NEXT(ggml_backend_buffer_free)(buffer);
}

static void * instruction_of(const ucontext_t * context) {
#if defined(__x86_64__)
    return (void *) context->uc_mcontext.gregs[REG_RIP];
#else
    return (void *) context->uc_mcontext.pc;
#endif
}

// Names the function, where the dynamic linker knows one, and its library or program.
static void name_function(int number, siginfo_t * info, void * context) {
    (void) info;
    Dl_info      found;
    const bool   is_known = dladdr(instruction_of(context), &found) != 0;
    const char * name     = is_known && found.dli_sname != NULL ? found.dli_sname : "a function without a name";
    dprintf(STDERR_FILENO, "buffer_counter: signal %d in %s of %s\n", number, name, is_known ? found.dli_fname : "nothing");
    // Returning runs the instruction again, with the action that a program has by default.
    signal(number, SIG_DFL);
}

__attribute__((constructor))
static void watch_signals(void) {
    if (getenv("BUFFER_COUNTER_FAILS") == NULL) {
        return;
    }
    struct sigaction action = { .sa_sigaction = name_function, .sa_flags = SA_SIGINFO };
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

static void print_report(FILE * report) {
    for (size_t i = 0; i < holdings.count; i++) {
        const struct holding * holding = &holdings.items[i];
        fprintf(report, "buffer %zu %zu %s\n", holding->allocator, holding->most, holding->type);
    }
    fprintf(report, "most %zu\nasked %zu\nrequested %zu\nrefused %zu\n", most, asked, requested, refused);
    if (lastuse_is_allocating()) {
        fprintf(report, "lastuse %s %" PRIu64 "\n", lastuse_version(), plans_made());
    }
}

__attribute__((destructor))
static void write_report(void) {
    const char * path = getenv("BUFFER_COUNTER_REPORT");
    if (path == NULL || allocators.count == 0) {
        return;
    }
    FILE * report = fopen(path, "w");
    if (report == NULL) {
        fprintf(stderr, "buffer_counter: cannot create %s: %s\n", path, strerror(errno));
        return;
    }
    pthread_mutex_lock(&lock);
    print_report(report);
    pthread_mutex_unlock(&lock);
    if (fclose(report) != 0) {
        fprintf(stderr, "buffer_counter: cannot write %s: %s\n", path, strerror(errno));
    }
}
