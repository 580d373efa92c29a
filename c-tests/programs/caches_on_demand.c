// runs: ggml-0.26 ggml-0.9.5 ggml-0.28
// Caches of a program, in buffers of the CPU: memory is taken when cells are written, not when the cache is made or cleared,
// and every byte is what ggml would have it be.

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "threads.h"

enum { LAYERS = 4, WIDTH = 256, CELLS = 16384 };

#define KIB ((size_t) 1024)
#define MIB (1024 * KIB)

// A cache as language models have it: keys and values of each layer, a row a cell.
struct cache {
    struct ggml_context * ctx;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *  rows[2 * LAYERS];
};

static struct cache new_cache(void) {
    struct cache cache = { .ctx = no_alloc_context(64 * KIB) };
    for (int i = 0; i < 2 * LAYERS; i++) {
        cache.rows[i] = ggml_new_tensor_2d(cache.ctx, GGML_TYPE_F16, WIDTH, CELLS);
    }
    cache.buffer = ggml_backend_alloc_ctx_tensors_from_buft(cache.ctx, ggml_backend_cpu_buffer_type());
    CHECK(cache.buffer != NULL, "no memory");
    // Huge pages would be taken whole.
    uintptr_t page  = (uintptr_t) sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t) ggml_backend_buffer_get_base(cache.buffer) / page * page;
    madvise((void *) start, ggml_backend_buffer_get_size(cache.buffer), MADV_NOHUGEPAGE);
    return cache;
}

static void free_cache(struct cache * cache) {
    ggml_backend_buffer_free(cache->buffer);
    ggml_free(cache->ctx);
}

static void fill_cells(struct cache * cache, int first, int count, char value) {
    size_t row  = ggml_row_size(GGML_TYPE_F16, WIDTH);
    char * data = malloc(row * (size_t) count);
    memset(data, value, row * (size_t) count);
    for (int i = 0; i < 2 * LAYERS; i++) {
        ggml_backend_tensor_set(cache->rows[i], data, row * (size_t) first, row * (size_t) count);
    }
    free(data);
}

// Bytes of the cache that are in memory.
static size_t resident(const struct cache * cache) {
    size_t          page   = (size_t) sysconf(_SC_PAGESIZE);
    uintptr_t       start  = (uintptr_t) ggml_backend_buffer_get_base(cache->buffer) / page * page;
    uintptr_t       end    = (uintptr_t) ggml_backend_buffer_get_base(cache->buffer) + ggml_backend_buffer_get_size(cache->buffer);
    size_t          pages  = (end - start + page - 1) / page;
    unsigned char * states = malloc(pages);
    CHECK(mincore((void *) start, pages * page, states) == 0, "the memory is not mapped");
    size_t found = 0;
    for (size_t i = 0; i < pages; i++) {
        found += states[i] & 1;
    }
    free(states);
    return found * page;
}

static void check_cells(const struct cache * cache, int first, int count, char value) {
    size_t row  = ggml_row_size(GGML_TYPE_F16, WIDTH);
    char * data = malloc(row * (size_t) count);
    for (int i = 0; i < 2 * LAYERS; i++) {
        ggml_backend_tensor_get(cache->rows[i], data, row * (size_t) first, row * (size_t) count);
        for (size_t at = 0; at < row * (size_t) count; at++) {
            CHECK(data[at] == value, "tensor %d, byte %zu after cell %d: %d, not %d", i, at, first, data[at], value);
        }
    }
    free(data);
}

CASE(memory_is_that_of_the_cells_that_were_written) {
    struct cache cache = new_cache();
    size_t       size  = ggml_backend_buffer_get_size(cache.buffer);
    ggml_backend_buffer_clear(cache.buffer, 0);
    CHECK(resident(&cache) <= 64 * KIB, "%zu of %zu bytes after it was cleared", resident(&cache), size);
    for (int used = 128; used <= CELLS / 4; used *= 2) {
        fill_cells(&cache, 0, used, 7);
        size_t most = (size_t) (1.1 * (double) size * used / CELLS) + LAYERS * 64 * KIB;
        CHECK(resident(&cache) <= most, "%d cells: %zu bytes, more than %zu", used, resident(&cache), most);
    }
    check_cells(&cache, 0, CELLS / 4, 7);
    check_cells(&cache, CELLS / 4, CELLS - CELLS / 4, 0);
    free_cache(&cache);
}

CASE(cleared_caches_give_their_memory_back) {
    struct cache cache = new_cache();
    fill_cells(&cache, 0, CELLS, 7);
    CHECK(resident(&cache) >= ggml_backend_buffer_get_size(cache.buffer), "%zu bytes", resident(&cache));
    ggml_backend_buffer_clear(cache.buffer, 0);
    CHECK(resident(&cache) <= 64 * KIB, "%zu bytes after it was cleared", resident(&cache));
    check_cells(&cache, 0, CELLS, 0);
    fill_cells(&cache, 5, 100, 3);
    check_cells(&cache, 0, 5, 0);
    check_cells(&cache, 5, 100, 3);
    check_cells(&cache, 105, CELLS - 105, 0);
    free_cache(&cache);
}

CASE(other_values_are_written) {
    struct cache cache = new_cache();
    ggml_backend_buffer_clear(cache.buffer, 5);
    check_cells(&cache, 0, CELLS, 5);
    ggml_backend_buffer_clear(cache.buffer, 0xff);
    check_cells(&cache, 0, CELLS, (char) 0xff);
    free_cache(&cache);
}

// Offsets and lengths around pages, large and small.
CASE(parts_are_cleared_to_the_byte) {
    struct cache cache    = new_cache();
    size_t       nbytes   = ggml_nbytes(cache.rows[1]);
    size_t       ranges[][2] = { { 0, nbytes }, { 1, nbytes - 2 }, { 4095, 2 * MIB }, { 4096, 2 * MIB + 1 }, { 77, 3 },
                                 { 100, 5000 }, { nbytes - 1, 1 }, { nbytes - 3 * MIB, 3 * MIB }, { 12345, 0 } };
    char *       data     = malloc(nbytes);
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        size_t first = ranges[i][0], length = ranges[i][1];
        for (int value = 0; value < 2; value++) {
            fill_cells(&cache, 0, CELLS, 9);
            ggml_backend_tensor_memset(cache.rows[1], (uint8_t) value, first, length);
            ggml_backend_tensor_get(cache.rows[1], data, 0, nbytes);
            for (size_t at = 0; at < nbytes; at++) {
                char expected = at >= first && at < first + length ? (char) value : 9;
                CHECK(data[at] == expected, "range %zu, value %d, byte %zu: %d", i, value, at, data[at]);
            }
        }
    }
    free(data);
    CHECK(((char *) cache.rows[0]->data)[ggml_nbytes(cache.rows[0]) - 1] == 9, "the tensor before was written");
    CHECK(((char *) cache.rows[2]->data)[0] == 9, "the tensor behind was written");
    free_cache(&cache);
}

// The system does not take back pages that are locked.
CASE(locked_memory_is_written) {
    struct cache  cache = new_cache();
    struct rlimit limit;
    getrlimit(RLIMIT_MEMLOCK, &limit);
    size_t length = 2 * MIB;
    CHECK(limit.rlim_cur >= length, "only %zu bytes may be locked", (size_t) limit.rlim_cur);
    fill_cells(&cache, 0, CELLS, 7);
    CHECK(mlock((char *) ggml_backend_buffer_get_base(cache.buffer) + MIB, length) == 0, "not locked");
    ggml_backend_buffer_clear(cache.buffer, 0);
    check_cells(&cache, 0, CELLS, 0);
    free_cache(&cache);
}

// Address space is taken when a cache is made: where it is short, the program is told at once, as by ggml.
CASE(address_space_that_is_short_refuses_a_cache) {
    pid_t child = fork();
    CHECK(child >= 0, "no child");
    if (child == 0) {
        struct cache  kept  = new_cache();
        struct rlimit limit = { .rlim_cur = 1, .rlim_max = RLIM_INFINITY };
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "no limit");
        struct ggml_context * ctx = kept.ctx;
        ggml_reset(ctx);
        ggml_new_tensor_2d(ctx, GGML_TYPE_F16, WIDTH, 16 * CELLS);
        CHECK(ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type()) == NULL, "allocated");
        // What is there goes on.
        ggml_backend_buffer_clear(kept.buffer, 0);
        memset(ggml_backend_buffer_get_base(kept.buffer), 7, ggml_backend_buffer_get_size(kept.buffer));
        ggml_backend_buffer_clear(kept.buffer, 0);
        CHECK(resident(&kept) <= 64 * KIB, "%zu bytes after it was cleared", resident(&kept));
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0, "the child ended with %d", status);
}

// A child has the values of its parent, and what either writes or clears is its own.
CASE(forked_processes_have_caches_of_their_own) {
    struct cache cache = new_cache();
    ggml_backend_buffer_clear(cache.buffer, 0);
    fill_cells(&cache, 0, 1000, 7);
    pid_t child = fork();
    CHECK(child >= 0, "no child");
    if (child == 0) {
        check_cells(&cache, 0, 1000, 7);
        check_cells(&cache, 1000, CELLS - 1000, 0);
        ggml_backend_buffer_clear(cache.buffer, 0);
        check_cells(&cache, 0, CELLS, 0);
        fill_cells(&cache, 50, 1000, 4);
        check_cells(&cache, 50, 1000, 4);
        free_cache(&cache);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0, "the child ended with %d", status);
    check_cells(&cache, 0, 1000, 7);
    check_cells(&cache, 1000, CELLS - 1000, 0);
    free_cache(&cache);
}

static void * use_a_cache(void * value) {
    for (int round = 0; round < 10; round++) {
        struct cache cache = new_cache();
        ggml_backend_buffer_clear(cache.buffer, 0);
        fill_cells(&cache, 10 * round, 500, *(char *) value);
        check_cells(&cache, 10 * round, 500, *(char *) value);
        check_cells(&cache, 10 * round + 500, 1000, 0);
        ggml_backend_buffer_clear(cache.buffer, 0);
        check_cells(&cache, 0, 1000, 0);
        free_cache(&cache);
    }
    return NULL;
}

CASE(caches_of_several_threads) {
    char values[4] = { 1, 2, 3, 4 };
    in_threads(4, use_a_cache, values, sizeof(*values));
}

// Weights are set, not cleared, and graphs compute with them as with any others.
CASE(graphs_read_and_write_caches) {
    struct cache cache = new_cache();
    ggml_backend_buffer_clear(cache.buffer, 0);
    ggml_backend_t        backend = ggml_backend_cpu_init();
    struct ggml_context * ctx     = no_alloc_context(MIB);
    struct ggml_cgraph *  graph   = ggml_new_graph(ctx);
    struct ggml_tensor *  rows    = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, 3);
    ggml_set_input(rows);
    struct ggml_tensor * cells  = ggml_view_2d(ctx, cache.rows[0], WIDTH, 3, cache.rows[0]->nb[1], 100 * cache.rows[0]->nb[1]);
    struct ggml_tensor * stored = ggml_cpy(ctx, rows, cells);
    struct ggml_tensor * sum    = ggml_sum(ctx, ggml_cont(ctx, ggml_cast(ctx, stored, GGML_TYPE_F32)));
    ggml_build_forward_expand(graph, sum);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    CHECK(ggml_gallocr_alloc_graph(galloc, graph), "not allocated");
    float values[3 * WIDTH];
    for (int i = 0; i < 3 * WIDTH; i++) {
        values[i] = 1.0f;
    }
    ggml_backend_tensor_set(rows, values, 0, sizeof(values));
    CHECK(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS, "not computed");
    float result = 0.0f;
    ggml_backend_tensor_get(sum, &result, 0, sizeof(result));
    CHECK(result == 3 * WIDTH, "%f", (double) result);
    check_cells(&cache, 0, 100, 0);
    ggml_gallocr_free(galloc);
    ggml_free(ctx);
    ggml_backend_free(backend);
    free_cache(&cache);
}

