// The records of lastuse: captures, the report, the log, statistics. The test that runs a case compares the records
// with what the case prints.
//
//   recording <case> [number...]

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cases.h"
#include "dummy_buffer.h"
#include "graph_fields.h"
#include "lastuse.h"
#include "random_graph.h"
#include "transformer.h"
#include "upstream.h"

#define N_THREADS   4

// ---------------------------------------------------------------------------------------------------
// Plans, printed tensor by tensor
// ---------------------------------------------------------------------------------------------------

static void types_init(struct dummy_types * types, size_t max_size) {
    dummy_types_init(types, max_size);
    types->dummies[1].extra_bytes = dummy_row_padding;
}

static struct ggml_tensor * tensor_at(const struct ggml_cgraph * graph, int position) {
    return position < graph->n_leafs ? graph->leafs[position] : graph->nodes[position - graph->n_leafs];
}

static int count_of(const struct ggml_cgraph * graph) {
    return graph->n_leafs + graph->n_nodes;
}

static void name_tensors(struct random_graph * g) {
    for (int i = 0; i < count_of(g->graph); i++) {
        ggml_format_name(tensor_at(g->graph, i), "%llu/%d", (unsigned long long) g->seed, i);
    }
}

// "at NAME TYPE CHUNK OFFSET" for each tensor with memory of a plan.
static void print_places(const struct dummy_types * types, const struct random_graph * g) {
    for (int i = 0; i < count_of(g->graph); i++) {
        const struct ggml_tensor * t = tensor_at(g->graph, i);
        for (int type = 0; t->view_src == NULL && type < DUMMY_TYPES; type++) {
            const struct dummy_buft * dummy = &types->dummies[type];
            for (size_t chunk = 0; chunk < dummy->live_buffers; chunk++) {
                ggml_backend_buffer_t buffer = dummy_buft_live(dummy, chunk);
                if (buffer == t->buffer) {
                    size_t offset = (size_t) ((char *) t->data - (char *) ggml_backend_buffer_get_base(buffer));
                    printf("at %s %d %zu %zu\n", t->name, type, chunk, offset);
                }
            }
        }
    }
}

// "sizes SEED" and by buffer the bytes of lastuse and of upstream.
static void plan_and_print(uint64_t seed, struct random_graph_options options, size_t max_size) {
    struct dummy_types        ours;
    struct dummy_types        theirs;
    struct random_graph g        = random_graph_new(seed, options);
    struct random_graph h        = random_graph_new(seed, options);
    int                 n        = options.n_buffers > 1 ? options.n_buffers : 1;
    types_init(&ours, max_size);
    types_init(&theirs, max_size);
    name_tensors(&g);
    ggml_gallocr_t lastuse  = ggml_gallocr_new_n(ours.bufts, n);
    ggml_gallocr_t upstream = upstream_ggml_gallocr_new_n(theirs.bufts, n);
    CHECK(ggml_gallocr_reserve_n(lastuse, g.graph, g.node_buffer_ids, g.leaf_buffer_ids), "not reserved");
    CHECK(upstream_ggml_gallocr_reserve_n(upstream, h.graph, h.node_buffer_ids, h.leaf_buffer_ids), "nor here");
    CHECK(ggml_gallocr_alloc_graph(lastuse, g.graph), "it is the reserved graph");
    printf("sizes %llu", (unsigned long long) seed);
    for (int i = 0; i < n && i < DUMMY_TYPES; i++) {
        printf(" %zu %zu", ggml_gallocr_get_buffer_size(lastuse, i), upstream_ggml_gallocr_get_buffer_size(upstream, i));
    }
    printf("\n");
    print_places(&ours, &g);
    ggml_gallocr_free(lastuse);
    upstream_ggml_gallocr_free(upstream);
    random_graph_free(&g);
    random_graph_free(&h);
}

static void plan_many(struct case_args args, struct random_graph_options options, size_t max_size) {
    uint64_t count = (uint64_t) case_number(args, 0, 100);
    for (uint64_t seed = 1; seed <= count; seed++) {
        plan_and_print(seed, options, max_size);
    }
}

CASE_OF(one_type, plan_many(args, (struct random_graph_options){ .max_elements = 1 << 12 }, 0))
CASE_OF(several_types, plan_many(args, (struct random_graph_options){ .n_buffers = DUMMY_BUFFERS }, 0))

CASE(markers_and_unlisted) {
    struct random_graph_options options = { .markers = true, .split_copies = true, .unlisted_leafs = true };
    options.n_buffers                   = DUMMY_BUFFERS;
    plan_many(args, options, 0);
}

CASE_OF(small_chunks, plan_many(args, (struct random_graph_options){ .n_steps = 40 }, 1 << 14))

// ---------------------------------------------------------------------------------------------------
// Threads
// ---------------------------------------------------------------------------------------------------

static int  graphs_in_threads;
static bool threads_go_on;

// Each graph with its own allocator.
static void plan_all(void) {
    for (uint64_t seed = 1; seed <= (uint64_t) graphs_in_threads; seed++) {
        struct dummy_types        types;
        struct random_graph g = random_graph_new(seed, (struct random_graph_options){ .n_steps = 30 });
        types_init(&types, 0);
        name_tensors(&g);
        ggml_gallocr_t galloc = ggml_gallocr_new(types.bufts[0]);
        CHECK(ggml_gallocr_reserve(galloc, g.graph), "not reserved");
        CHECK(ggml_gallocr_alloc_graph(galloc, g.graph), "it is the reserved graph");
        ggml_gallocr_free(galloc);
        random_graph_free(&g);
    }
}

static void * run_thread(void * unused) {
    do {
        plan_all();
    } while (threads_go_on);
    return unused;
}

static void run_threads(void) {
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, run_thread, NULL) == 0, "no thread");
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

CASE(in_threads) {
    graphs_in_threads = (int) case_number(args, 0, 20);
    run_threads();
}

// Until it is killed.
CASE(forever) {
    graphs_in_threads = (int) case_number(args, 0, 1000);
    threads_go_on     = true;
    run_threads();
}

// ---------------------------------------------------------------------------------------------------
// Small graphs
// ---------------------------------------------------------------------------------------------------

static struct built small_graph(int64_t width, const char * name) {
    struct built         built = built_new(8, 1024);
    struct ggml_tensor * input = new_input(built.ctx, width, 1);
    snprintf(input->name, sizeof(input->name), "%s", name);
    ggml_build_forward_expand(built.graph, ggml_sqr(built.ctx, ggml_sqr(built.ctx, input)));
    return built;
}

static void plan_once(ggml_gallocr_t galloc, int64_t width, const char * name) {
    struct built built = small_graph(width, name);
    CHECK(ggml_gallocr_alloc_graph(galloc, built.graph), "not allocated");
    built_free(built);
}

static void plan_small(int64_t width, const char * name) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    plan_once(galloc, width, name);
    ggml_gallocr_free(galloc);
}

CASE(odd_names) {
    plan_small(8, "\"quoted\" \\ name");
    plan_small(8, "two\nlines\r\tand \x01\x1f\x7f");
    plan_small(8, "no UTF-8: \xff\xfe\xc3(\xe2\x82");
    plan_small(8, "\xc3\xa9\xf0\x9d\x84\x9e");
    plan_small(8, ""); // ggml gives it one
}

CASE(one_graph) {
    plan_small(8, "the one graph");
}

// Plans a graph, and others after the folder is removed.
CASE(folder_is_removed) {
    char folder[] = "/tmp/lastuse-recording-XXXXXX";
    CHECK(mkdtemp(folder) != NULL, "no folder");
    CHECK(lastuse_set("capture", folder), "%s", lastuse_last_error());
    CHECK(rmdir(folder) == 0, "the folder is not empty");
    for (int64_t width = 1; width <= 5; width++) {
        plan_small(width, "nowhere to go");
    }
    struct lastuse_stats stats = { .struct_size = sizeof(stats) };
    CHECK(lastuse_stats_report(&stats), "lastuse does the work");
    CHECK(stats.captures_failed == 5 && stats.captures_written == 0, "%d failed", (int) stats.captures_failed);
}

// Simulates a full disk by a limit on file sizes.
CASE(disk_is_full) {
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = { .rlim_cur = 16, .rlim_max = RLIM_INFINITY };
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "no limit");
    plan_small(8, "too large for the disk");
    plan_small(9, "too large for the disk");
}

CASE(capture_can_be_set) {
    const char * folder = getenv("RECORDING_FOLDER");
    char         second[4096];
    snprintf(second, sizeof(second), "%s/made/on/the/way/%%s.txt", folder);
    plan_small(1, "before");
    CHECK(lastuse_set("capture", folder), "%s", lastuse_last_error());
    plan_small(2, "first folder");
    CHECK(lastuse_set("capture", second), "%s", lastuse_last_error());
    plan_small(2, "first folder");
    plan_small(3, "second folder");
    CHECK(!lastuse_set("capture", "/proc/no/such/folder"), "there is no such folder");
    CHECK(strstr(lastuse_last_error(), "lastuse_set: capture: cannot write to the folder /proc/no/such/folder: ") ==
              lastuse_last_error(), "%s", lastuse_last_error());
    CHECK(!lastuse_set("capture", "graph.jsonl.gz"), "one file is not enough");
    plan_small(4, "second folder");
    CHECK(lastuse_set("capture", NULL), "%s", lastuse_last_error());
    plan_small(5, "after");
    CHECK(lastuse_set("capture", ""), "%s", lastuse_last_error());
    plan_small(6, "after");
}

// One graph, planned again and again, and smaller ones that the plan of a larger one serves.
CASE(same_again) {
    for (int i = 0; i < 3; i++) {
        plan_small(8, "again");
    }
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    for (int64_t width = 1; width <= 6; width++) {
        plan_once(galloc, width % 2 == 0 ? 8 : 16, "in turn");
    }
    ggml_gallocr_free(galloc);
}

// A graph that lists a leaf twice, as a scheduler with several copies of its inputs does.
CASE(leaf_twice) {
    struct built built = small_graph(8, "a leaf twice");
    CHECK(built.graph->n_leafs == 1, "there is one leaf");
    built.graph->leafs[built.graph->n_leafs++] = built.graph->leafs[0];
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_reserve(galloc, built.graph), "not reserved");
    printf("size=%zu\n", ggml_gallocr_get_buffer_size(galloc, 0));
    ggml_gallocr_free(galloc);
    built_free(built);
}

// Measuring plans too.
CASE(measured) {
    struct built               built = small_graph(8, "measured");
    ggml_backend_buffer_type_t cpu   = ggml_backend_cpu_buffer_type();
    size_t                     size  = 0;
    CHECK(lastuse_graph_measure(&built.graph, 1, &cpu, 1, NULL, NULL, &size, NULL), "%s", lastuse_last_error());
    built_free(built);
}

// ---------------------------------------------------------------------------------------------------
// Report and log
// ---------------------------------------------------------------------------------------------------

// Two allocators: one grows and uses a cached plan; the other is freed last.
CASE(two_allocators) {
    ggml_gallocr_t first  = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    ggml_gallocr_t second = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    plan_once(first, 64, "small");
    plan_once(first, 4096, "large");
    plan_once(first, 64, "small");
    plan_once(second, 128, "other");
    printf("first=%zu\nsecond=%zu\n", ggml_gallocr_get_buffer_size(first, 0), ggml_gallocr_get_buffer_size(second, 0));
    ggml_gallocr_free(first);
    ggml_gallocr_free(second);
}

// Not enough memory, and an abort in the middle.
CASE(is_killed) {
    struct dummy_types types;
    types_init(&types, 0);
    types.dummies[0].byte_cap = 1024;
    ggml_gallocr_t galloc     = ggml_gallocr_new(types.bufts[0]);
    struct built   built      = small_graph(4096, "too large");
    CHECK(!ggml_gallocr_reserve(galloc, built.graph), "there is not enough memory");
    plan_small(8, "fits");
    kill(getpid(), SIGKILL);
}

static void log_to_program(enum ggml_log_level level, const char * text, void * data) {
    (void) data;
    printf("logger %d %s", (int) level, text);
    fflush(stdout);
}

// One message of each level: a refusal is an error.
CASE(every_level) {
    if (args.count > 0) {
        ggml_log_set(log_to_program, NULL);
    }
    plan_small(8, "every level");
    CHECK(!lastuse_set("rules", "no-such-rule"), "there is no such rule");
}

// ---------------------------------------------------------------------------------------------------
// Statistics
// ---------------------------------------------------------------------------------------------------

static struct lastuse_stats stats_now(void) {
    struct lastuse_stats stats = { .struct_size = sizeof(stats) };
    CHECK(lastuse_stats_report(&stats), "lastuse does the work");
    CHECK(stats.struct_size == sizeof(stats), "another size");
    return stats;
}

CASE(stats_add_up) {
    struct lastuse_stats none = stats_now();
    CHECK(none.allocators == 0 && none.plans == 0 && none.bytes == 0 && none.lower_bound == 0, "something was done");
    ggml_gallocr_t first  = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    ggml_gallocr_t second = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    plan_once(first, 64, "small");
    plan_once(first, 4096, "large");
    plan_once(first, 64, "small");
    plan_once(second, 128, "other");
    struct lastuse_stats both = stats_now();
    CHECK(both.allocators == 2 && both.plans == 3, "%d plans", (int) both.plans);
    size_t sizes = ggml_gallocr_get_buffer_size(first, 0) + ggml_gallocr_get_buffer_size(second, 0);
    CHECK(both.bytes == sizes, "%zu bytes, not %zu", (size_t) both.bytes, sizes);
    CHECK(both.lower_bound == sizes, "chains are planned at their lower bounds, and the largest plan counts");
    struct built again = small_graph(128, "other");
    CHECK(ggml_gallocr_reserve(second, again.graph) && ggml_gallocr_alloc_graph(second, again.graph), "it fits");
    struct lastuse_stats more = stats_now();
    CHECK(more.served_again > both.served_again && more.planning_us >= both.planning_us, "the graph was allocated");
    built_free(again);
    ggml_gallocr_free(first);
    CHECK(stats_now().bytes == ggml_gallocr_get_buffer_size(second, 0), "the bytes of the other");
    ggml_gallocr_free(second);
    struct lastuse_stats end = stats_now();
    CHECK(end.allocators == 0 && end.bytes == 0 && end.lower_bound == 0, "nothing is left");
    CHECK(end.plans >= 3 && end.captures_written == 0 && end.captures_failed == 0, "%d plans", (int) end.plans);
}

CASE(stats_of_measuring) {
    measured(args);
    struct lastuse_stats stats = stats_now();
    CHECK(stats.plans == 1 && stats.allocators == 0 && stats.bytes == 0 && stats.lower_bound == 0, "one plan alone");
}

CASE(stats_in_threads) {
    graphs_in_threads = 20;
    run_threads();
    struct lastuse_stats stats = stats_now();
    CHECK(stats.plans == (uint64_t) N_THREADS * 20, "%d plans", (int) stats.plans);
    CHECK(stats.allocators == 0 && stats.bytes == 0 && stats.lower_bound == 0, "nothing is left");
}

CASE(stats_of_other_sizes) {
    struct {
        struct lastuse_stats stats;
        uint64_t             more;
    } later = { .stats = { .struct_size = sizeof(later) }, .more = 42 };
    CHECK(lastuse_stats_report(&later.stats), "a later header is served");
    CHECK(later.stats.struct_size == sizeof(later) && later.more == 42, "bytes that lastuse does not know");
}

CASE(stats_without_room) {
    struct lastuse_stats stats = { .struct_size = 8 };
    lastuse_stats_report(&stats); // aborts
}
