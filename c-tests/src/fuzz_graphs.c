// Random graphs through the C ABI, without end if need be: planned with upstream's allocator too, in chunks, in several
// buffers, with what a scheduler adds, replanned after changes, and a share of them computed in their own memory, with
// copies removed, in another order, or in turns with others in one arena.
//
//   fuzz_graphs [--seed FIRST] [--graphs COUNT] [--computed PERCENT] [--shared PERCENT]
//
// Each graph is made from one seed. The graphs are tried in a separate process: a failed check, a crash, an abort and a
// graph that takes longer than a minute are findings. Each is reported with its seed, and the run continues. 1 when
// there are any, 2 for arguments that are not understood.

#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "computing.h"
#include "fuzz.h"

#define MOST_FINDINGS     20
#define LONGEST_GRAPH_S   60
#define PROGRESS_S        10
#define POLL_NANOSECONDS  20000000

struct settings {
    long long          first;
    long long          count;
    struct fuzz_shares shares;
};

// Where the process that tries graphs has got to: shared with the one that watches it.
struct progress {
    volatile uint64_t seed;
    volatile uint64_t done[FUZZ_KINDS];
    volatile uint64_t turns;
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + (double) time.tv_nsec * 1e-9;
}

static uint64_t done(const struct progress * p) {
    uint64_t sum = 0;
    for (int i = 0; i < FUZZ_KINDS; i++) {
        sum += p->done[i];
    }
    return sum;
}

// ---------------------------------------------------------------------------------------------------
// The process that tries graphs
// ---------------------------------------------------------------------------------------------------

static void log_nothing(enum ggml_log_level level, const char * text, void * user_data) {
    (void) level;
    (void) text;
    (void) user_data;
}

static void try_graphs(struct settings settings, uint64_t from, struct progress * p) {
    ggml_backend_t cpu = new_cpu(1);
    ggml_log_set(log_nothing, NULL);
    for (uint64_t seed = from; seed - (uint64_t) settings.first < (uint64_t) settings.count; seed++) {
        enum fuzz_kind kind = fuzz_kind_of(seed, settings.shares);
        p->seed             = seed;
        p->turns += fuzz_graph(cpu, seed, kind);
        p->done[kind]++;
    }
    ggml_backend_free(cpu);
}

static pid_t start(struct settings settings, uint64_t from, struct progress * p) {
    p->seed = from;
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0, "no process");
    if (child == 0) {
        setenv("GGML_NO_BACKTRACE", "1", 1); // ggml_abort would start a debugger
        try_graphs(settings, from, p);
        exit(0);
    }
    return child;
}

// ---------------------------------------------------------------------------------------------------
// The process that watches
// ---------------------------------------------------------------------------------------------------

struct watch {
    double   started;
    double   reported;
    uint64_t reported_done;
    double   graph_started; // by the clock of this process
    uint64_t graph;
};

static void report_progress(struct watch * w, const struct progress * p, int findings) {
    double time = now();
    if (time - w->reported < PROGRESS_S) {
        return;
    }
    double speed = (double) (done(p) - w->reported_done) / (time - w->reported);
    printf("%10llu graphs, %6.0f graphs/s, %llu computed, %llu turns, %d findings\n", (unsigned long long) done(p), speed,
           (unsigned long long) p->done[FUZZ_COMPUTED], (unsigned long long) p->turns, findings);
    fflush(stdout);
    w->reported      = time;
    w->reported_done = done(p);
}

// Ends a process that has been at one graph for too long.
static bool end_if_stuck(struct watch * w, const struct progress * p, pid_t child) {
    if (p->seed != w->graph) {
        w->graph         = p->seed;
        w->graph_started = now();
    }
    bool stuck = now() - w->graph_started > LONGEST_GRAPH_S;
    if (stuck) {
        kill(child, SIGKILL);
    }
    return stuck;
}

// Waits for the end of the process. NULL when all graphs were tried, else what happened.
static const char * wait_for(struct watch * w, const struct progress * p, pid_t child, int findings) {
    static char reason[64];
    int         status   = 0;
    bool        stuck    = false;
    w->graph_started     = now();
    while (waitpid(child, &status, WNOHANG) == 0) {
        nanosleep(&(struct timespec){ .tv_nsec = POLL_NANOSECONDS }, NULL);
        report_progress(w, p, findings);
        stuck = stuck || end_if_stuck(w, p, child);
    }
    if (stuck) {
        snprintf(reason, sizeof(reason), "takes longer than %d s", LONGEST_GRAPH_S);
    } else if (WIFSIGNALED(status)) {
        snprintf(reason, sizeof(reason), "ends in signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else {
        snprintf(reason, sizeof(reason), "fails a check");
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? NULL : reason;
}

static void report_all(struct settings settings, const struct progress * p, double seconds, int findings) {
    struct rusage children;
    getrusage(RUSAGE_CHILDREN, &children);
    printf("%llu graphs from seed %lld in %.1f s, %.0f graphs/s, at most %ld MiB: %llu planned beside upstream, "
           "%llu replanned, %llu computed, %llu in arenas in %llu turns; %d findings\n",
           (unsigned long long) done(p), settings.first, seconds, (double) done(p) / seconds, children.ru_maxrss / 1024,
           (unsigned long long) p->done[FUZZ_PLANNED], (unsigned long long) p->done[FUZZ_REPLANNED],
           (unsigned long long) p->done[FUZZ_COMPUTED], (unsigned long long) p->done[FUZZ_SHARED],
           (unsigned long long) p->turns, findings);
}

static int watch_graphs(struct settings settings) {
    struct progress * p =
        mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED, "no shared memory");
    struct watch w        = { .started = now(), .reported = now() };
    uint64_t     from     = (uint64_t) settings.first;
    int          findings = 0;
    for (;;) {
        const char * reason = wait_for(&w, p, start(settings, from, p), findings);
        if (reason == NULL) {
            break;
        }
        findings++;
        printf("finding %d: seed %llu %s. To see it again:\n"
               "  cargo fuzz-graphs --seed %llu --graphs 1 --computed %lld --shared %lld\n",
               findings, (unsigned long long) p->seed, reason, (unsigned long long) p->seed, settings.shares.computed,
               settings.shares.shared);
        from = p->seed + 1;
        if (findings == MOST_FINDINGS) {
            printf("stopped after %d findings\n", findings);
            break;
        }
    }
    report_all(settings, p, now() - w.started, findings);
    return findings > 0 ? 1 : 0;
}

// ---------------------------------------------------------------------------------------------------
// Arguments
// ---------------------------------------------------------------------------------------------------

static bool read_number(const char * text, long long max, long long * number) {
    char * end = NULL;
    *number    = strtoll(text, &end, 10);
    return end != text && *end == '\0' && *number >= 0 && *number <= max;
}

static bool read_settings(int argc, char ** argv, struct settings * settings) {
    struct {
        const char * name;
        long long *  number;
        long long    max;
    } options[] = {
        { "--seed", &settings->first, INT64_MAX },
        { "--graphs", &settings->count, INT64_MAX },
        { "--computed", &settings->shares.computed, 100 },
        { "--shared", &settings->shares.shared, 100 },
    };
    for (int i = 1; i < argc; i += 2) {
        bool known = false;
        for (int j = 0; j < 4 && i + 1 < argc; j++) {
            known = known || (strcmp(argv[i], options[j].name) == 0 &&
                              read_number(argv[i + 1], options[j].max, options[j].number));
        }
        if (!known) {
            return false;
        }
    }
    return true;
}

int main(int argc, char ** argv) {
    struct settings settings = { .first = 1, .count = 10000, .shares = { .computed = 5, .shared = 1 } };
    if (!read_settings(argc, argv, &settings)) {
        fprintf(stderr, "usage: %s [--seed FIRST] [--graphs COUNT] [--computed PERCENT] [--shared PERCENT]\n", argv[0]);
        return 2;
    }
    return watch_graphs(settings);
}
