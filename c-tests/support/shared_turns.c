#include "shared_turns.h"

#include "computing.h"
#include "ggml-alloc.h"
#include "lastuse.h"
#include "own_memory.h"
#include "random_graph.h"

enum { MOST = 5, STEPS = 40 };

// The tensors of a graph: a few random ones have gigabytes, and one turn of them takes the time of thousands of others.
#define MOST_BYTES ((size_t) 64 << 20)

static size_t sum_of(ggml_gallocr_t * all, int count) {
    size_t sum = 0;
    for (int i = 0; i < count; i++) {
        sum += ggml_gallocr_get_buffer_size(all[i], 0);
    }
    return sum;
}

// A random graph with an allocator, and the same graph in memory of its own.
struct turn {
    struct random_graph   g;
    struct random_graph   truth;
    ggml_backend_buffer_t memory;
    ggml_gallocr_t        galloc;
    bool                  is_allocated;
    uint64_t              count;
};

static size_t tensor_bytes(struct ggml_context * ctx) {
    size_t bytes = 0;
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t)) {
        bytes += ggml_nbytes(t);
    }
    return bytes;
}

// The random graph of a seed, or the next that is not too large.
static struct random_graph small_graph(uint64_t seed) {
    struct random_graph_options options = { 0 };
    for (;; seed++) {
        struct random_graph g = random_graph_new(seed, options);
        if (tensor_bytes(g.ctx) <= MOST_BYTES) {
            return g;
        }
        random_graph_free(&g);
    }
}

static struct turn new_turn(ggml_backend_t cpu, struct lastuse_arena * arena, uint64_t seed) {
    struct turn turn = { .g = small_graph(seed), .truth = small_graph(seed) };
    turn.memory      = compute_in_own_memory(cpu, &turn.truth);
    turn.galloc      = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(lastuse_gallocr_share(turn.galloc, arena), "%s", lastuse_last_error());
    return turn;
}

static void free_turn(struct turn * turn) {
    ggml_gallocr_free(turn->galloc);
    ggml_backend_buffer_free(turn->memory);
    random_graph_free(&turn->g);
    random_graph_free(&turn->truth);
}

// Computes the graph once more, allocated anew or where it is.
static void take_turn(ggml_backend_t cpu, struct turn * turn, bool anew) {
    if (anew || !turn->is_allocated) {
        random_graph_drop_memory(&turn->g);
        CHECK(ggml_gallocr_alloc_graph(turn->galloc, turn->g.graph), "seed %llu: refused",
              (unsigned long long) turn->g.seed);
        turn->is_allocated = true;
    }
    compute_graph(cpu, &turn->g);
    check_same_lists(turn->g.outputs, turn->truth.outputs, turn->g.seed);
    turn->count++;
}

// Two to five allocators of one arena, in a random order, with graphs that are kept and graphs that are allocated anew.
uint64_t shared_turns(ggml_backend_t cpu, uint64_t seed) {
    uint64_t        random = seed;
    int             count  = 2 + (int) (splitmix64(&random) % (MOST - 1));
    struct lastuse_arena * arena  = lastuse_arena_new(ggml_backend_cpu_buffer_type());
    struct turn     turns[MOST];
    ggml_gallocr_t  all[MOST];
    for (int i = 0; i < count; i++) {
        turns[i] = new_turn(cpu, arena, splitmix64(&random) % 1000000);
        all[i]   = turns[i].galloc;
    }
    for (int step = 0; step < STEPS; step++) {
        struct turn * turn = &turns[splitmix64(&random) % (uint64_t) count];
        take_turn(cpu, turn, splitmix64(&random) % 2 == 0);
        if (splitmix64(&random) % 16 == 0) {
            random_graph_drop_memory(&turn->g);
            turn->is_allocated = false;
            CHECK(ggml_gallocr_reserve(turn->galloc, turn->g.graph), "not reserved");
        }
    }
    // Nothing holds smaller chunks once each was allocated in those that are large enough for all.
    size_t most = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < count; i++) {
            take_turn(cpu, &turns[i], true);
            struct lastuse_gallocr_sizes sizes = { .struct_size = sizeof(sizes) };
            CHECK(lastuse_gallocr_report(all[i], 0, &sizes), "%s", lastuse_last_error());
            most = sizes.plan_size > most ? sizes.plan_size : most;
        }
    }
    size_t sum = sum_of(all, count);
    CHECK(sum == most, "seed %llu: %d allocators hold %zu bytes, the largest needs %zu", (unsigned long long) seed, count,
          sum, most);
    uint64_t taken = 0;
    for (int i = 0; i < count; i++) {
        if (i == count / 2) {
            lastuse_arena_free(arena);
        }
        taken += turns[i].count;
        free_turn(&turns[i]);
        for (int other = i + 1; other < count; other++) {
            take_turn(cpu, &turns[other], splitmix64(&random) % 2 == 0);
        }
    }
    return taken;
}
