// Measures a ggml graph allocator from outside. Preloaded in front of any implementation
// of the ggml_gallocr functions, it forwards each call to the next definition, times it,
// and at exit writes key=value lines to the file that ALLOCATOR_CLOCK_REPORT names.
//
//     LD_PRELOAD="liballocator_clock.so"                measures ggml's own allocator
//     LD_PRELOAD="liballocator_clock.so liblastuse.so"  measures lastuse
//
// Everything is recorded when the calls happen, as a program may free its allocators
// long before it exits. A process that never creates an allocator writes no report.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "clock.h"
#include "ggml-alloc.h"
#include "lastuse.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_BUFFERS = 64 };

struct call_times {
    uint64_t * nanoseconds;
    size_t     count;
    size_t     capacity;
};

struct live_allocator {
    ggml_gallocr_t          galloc;
    int                     buffers;
    struct live_allocator * next;
};

// Functions of lastuse beyond ggml's interface; all NULL when it is absent or switched off.
struct lastuse_functions {
    const char * (*version)(void);
    bool (*report)(ggml_gallocr_t, int, struct lastuse_gallocr_sizes *);
    bool (*stats)(struct lastuse_stats *);
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// All of these are guarded by `lock`.
static struct live_allocator * live_allocators;
static struct call_times       plan_times;
static struct call_times       alloc_graph_times;
static size_t                  largest_buffer[MAX_BUFFERS];
static size_t                  lower_bound[MAX_BUFFERS];
static char                    allocator_name[64];
static uint64_t                lastuse_plans;
static bool                    allocator_seen;

static pthread_once_t           lastuse_once = PTHREAD_ONCE_INIT;
static struct lastuse_functions lastuse;

// Measured functions call each other (alloc_graph may reserve), in ggml through symbols that
// this library intercepts, elsewhere perhaps directly. Only the outermost call counts, so
// that the numbers are comparable between implementations.
static _Thread_local int call_depth;

static void * next_definition(const char * name) {
    void * function = dlsym(RTLD_NEXT, name);
    if (function == NULL) {
        fprintf(stderr, "allocator_clock: no definition of %s to forward to\n", name);
        abort();
    }
    return function;
}

static void find_lastuse(void) {
    bool (*enabled)(void)         = dlsym(RTLD_DEFAULT, "lastuse_enabled");
    const char * (*version)(void) = dlsym(RTLD_DEFAULT, "lastuse_version");
    if (enabled == NULL || version == NULL || !enabled()) {
        strcpy(allocator_name, "ggml");
        return;
    }
    lastuse.version = version;
    lastuse.report  = dlsym(RTLD_DEFAULT, "lastuse_gallocr_report");
    lastuse.stats   = dlsym(RTLD_DEFAULT, "lastuse_stats_report");
    snprintf(allocator_name, sizeof(allocator_name), "lastuse %s", version());
}

static void add_time(struct call_times * times, uint64_t nanoseconds) {
    if (times->count == times->capacity) {
        const size_t capacity = times->capacity == 0 ? 1024 : times->capacity * 2;
        uint64_t * grown = realloc(times->nanoseconds, capacity * sizeof(*grown));
        if (grown == NULL) {
            fprintf(stderr, "allocator_clock: out of memory\n");
            abort();
        }
        times->nanoseconds = grown;
        times->capacity    = capacity;
    }
    times->nanoseconds[times->count++] = nanoseconds;
}

static struct live_allocator ** find_live(ggml_gallocr_t galloc) {
    struct live_allocator ** link = &live_allocators;
    while (*link != NULL && (*link)->galloc != galloc) {
        link = &(*link)->next;
    }
    return link;
}

static void remember_allocator(ggml_gallocr_t galloc, int buffers) {
    pthread_mutex_lock(&lock);
    struct live_allocator ** link = find_live(galloc);
    if (*link == NULL) {
        *link = calloc(1, sizeof(**link));
        if (*link == NULL) {
            fprintf(stderr, "allocator_clock: out of memory\n");
            abort();
        }
    }
    (*link)->galloc  = galloc;
    (*link)->buffers = buffers < MAX_BUFFERS ? buffers : MAX_BUFFERS;
    allocator_seen   = true;
    pthread_mutex_unlock(&lock);
}

static void drop_allocator(ggml_gallocr_t galloc) {
    pthread_mutex_lock(&lock);
    struct live_allocator ** link = find_live(galloc);
    if (*link != NULL) {
        struct live_allocator * gone = *link;
        *link = gone->next;
        free(gone);
    }
    pthread_mutex_unlock(&lock);
}

// A buffer grows when a plan needs more than all before it, so the bound read together with
// a new largest size belongs to the plan that made it the largest.
static void record_buffer_sizes(ggml_gallocr_t galloc) {
    size_t (*buffer_size)(ggml_gallocr_t, int) = next_definition("ggml_gallocr_get_buffer_size");
    const struct live_allocator * live = *find_live(galloc);

    for (int id = 0; live != NULL && id < live->buffers; id++) {
        const size_t size = buffer_size(galloc, id);
        if (size > largest_buffer[id]) {
            largest_buffer[id] = size;
            struct lastuse_gallocr_sizes sizes = { .struct_size = sizeof(sizes) };
            if (lastuse.report != NULL) {
                lastuse.report(galloc, id, &sizes);
            }
            lower_bound[id] = sizes.lower_bound;
        }
    }
}

static uint64_t call_begins(void) {
    call_depth++;
    return nanoseconds_now();
}

static void call_ends(ggml_gallocr_t galloc, struct call_times * times, uint64_t begin) {
    const uint64_t end = nanoseconds_now();
    if (--call_depth > 0) {
        return;
    }
    pthread_once(&lastuse_once, find_lastuse);
    pthread_mutex_lock(&lock);
    add_time(times, end - begin);
    record_buffer_sizes(galloc);
    if (lastuse.stats != NULL) {
        struct lastuse_stats stats = { .struct_size = sizeof(stats) };
        lastuse.stats(&stats);
        lastuse_plans = stats.plans;
    }
    pthread_mutex_unlock(&lock);
}

ggml_gallocr_t ggml_gallocr_new_n(ggml_backend_buffer_type_t * bufts, int n_bufs) {
    ggml_gallocr_t (*next)(ggml_backend_buffer_type_t *, int) = next_definition("ggml_gallocr_new_n");
    ggml_gallocr_t galloc = next(bufts, n_bufs);
    remember_allocator(galloc, n_bufs);
    return galloc;
}

ggml_gallocr_t ggml_gallocr_new(ggml_backend_buffer_type_t buft) {
    ggml_gallocr_t (*next)(ggml_backend_buffer_type_t) = next_definition("ggml_gallocr_new");
    ggml_gallocr_t galloc = next(buft);
    remember_allocator(galloc, 1);
    return galloc;
}

void ggml_gallocr_free(ggml_gallocr_t galloc) {
    void (*next)(ggml_gallocr_t) = next_definition("ggml_gallocr_free");
    // Before the memory is released: another thread may get the same address for a new allocator.
    drop_allocator(galloc);
    next(galloc);
}

bool ggml_gallocr_reserve(ggml_gallocr_t galloc, struct ggml_cgraph * graph) {
    bool (*next)(ggml_gallocr_t, struct ggml_cgraph *) = next_definition("ggml_gallocr_reserve");
    const uint64_t begin = call_begins();
    const bool reserved = next(galloc, graph);
    call_ends(galloc, &plan_times, begin);
    return reserved;
}

bool ggml_gallocr_reserve_n(ggml_gallocr_t galloc, struct ggml_cgraph * graph,
                            const int * node_buffer_ids, const int * leaf_buffer_ids) {
    bool (*next)(ggml_gallocr_t, struct ggml_cgraph *, const int *, const int *) =
        next_definition("ggml_gallocr_reserve_n");
    const uint64_t begin = call_begins();
    const bool reserved = next(galloc, graph, node_buffer_ids, leaf_buffer_ids);
    call_ends(galloc, &plan_times, begin);
    return reserved;
}

void ggml_gallocr_reserve_n_size(ggml_gallocr_t galloc, struct ggml_cgraph * graph,
                                 const int * node_buffer_ids, const int * leaf_buffer_ids, size_t * sizes) {
    void (*next)(ggml_gallocr_t, struct ggml_cgraph *, const int *, const int *, size_t *) =
        next_definition("ggml_gallocr_reserve_n_size");
    const uint64_t begin = call_begins();
    next(galloc, graph, node_buffer_ids, leaf_buffer_ids, sizes);
    call_ends(galloc, &plan_times, begin);
}

bool ggml_gallocr_alloc_graph(ggml_gallocr_t galloc, struct ggml_cgraph * graph) {
    bool (*next)(ggml_gallocr_t, struct ggml_cgraph *) = next_definition("ggml_gallocr_alloc_graph");
    const uint64_t begin = call_begins();
    const bool allocated = next(galloc, graph);
    call_ends(galloc, &alloc_graph_times, begin);
    return allocated;
}

static double microseconds(uint64_t nanoseconds) {
    return (double) nanoseconds / 1000.0;
}

// The times must be sorted.
static double median_us(const struct call_times * times) {
    if (times->count == 0) {
        return 0.0;
    }
    const uint64_t low  = times->nanoseconds[(times->count - 1) / 2];
    const uint64_t high = times->nanoseconds[times->count / 2];
    return (microseconds(low) + microseconds(high)) / 2.0;
}

static double total_us(const struct call_times * times) {
    uint64_t total = 0;
    for (size_t i = 0; i < times->count; i++) {
        total += times->nanoseconds[i];
    }
    return microseconds(total);
}

static size_t sum_over_buffers(const size_t * sizes) {
    size_t sum = 0;
    for (int id = 0; id < MAX_BUFFERS; id++) {
        sum += sizes[id];
    }
    return sum;
}

static void print_times(FILE * report) {
    // The reserve that first grows a buffer also allocates memory, which is not a measure of planning; the fastest
    // reserve is the one closest to planning alone. The total shows the time that the program really spent.
    fprintf(report, "plan_us=%.3f\n", plan_times.count > 0 ? microseconds(plan_times.nanoseconds[0]) : 0.0);
    fprintf(report, "plan_median_us=%.3f\n", median_us(&plan_times));
    fprintf(report, "plan_total_us=%.3f\n", total_us(&plan_times));
    fprintf(report, "plans=%zu\n", plan_times.count);
    fprintf(report, "alloc_graph_us=%.3f\n", median_us(&alloc_graph_times));
    fprintf(report, "alloc_graph_total_us=%.3f\n", total_us(&alloc_graph_times));
    fprintf(report, "alloc_graphs=%zu\n", alloc_graph_times.count);
}

static void print_report(FILE * report) {
    fprintf(report, "allocator=%s\n", allocator_name);
    fprintf(report, "compute_buffer_bytes=%zu\n", sum_over_buffers(largest_buffer));
    if (lastuse.report != NULL) {
        fprintf(report, "lower_bound_bytes=%zu\n", sum_over_buffers(lower_bound));
    }
    print_times(report);
    if (lastuse.stats != NULL) {
        fprintf(report, "lastuse_plans=%" PRIu64 "\n", lastuse_plans);
    }
}

static void sort_times(struct call_times * times) {
    if (times->count > 0) {
        qsort(times->nanoseconds, times->count, sizeof(times->nanoseconds[0]), compare_times);
    }
}

__attribute__((destructor))
static void write_report(void) {
    const char * path = getenv("ALLOCATOR_CLOCK_REPORT");
    if (path == NULL || !allocator_seen) {
        return;
    }
    FILE * report = fopen(path, "w");
    if (report == NULL) {
        fprintf(stderr, "allocator_clock: cannot create %s: %s\n", path, strerror(errno));
        return;
    }
    pthread_once(&lastuse_once, find_lastuse);
    pthread_mutex_lock(&lock);
    sort_times(&plan_times);
    sort_times(&alloc_graph_times);
    print_report(report);
    pthread_mutex_unlock(&lock);
    if (fclose(report) != 0) {
        fprintf(stderr, "allocator_clock: cannot write %s: %s\n", path, strerror(errno));
    }
}
