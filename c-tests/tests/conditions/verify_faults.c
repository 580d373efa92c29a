// Deliberate faults of allocators and of operations, which verification at run time must find.
//
//   verify_faults <case>
//
// prints the message and exits with 0 when the program was aborted with a message that has all words of the case.

#include "cases.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "lastuse.h"

static const char * const * expected; // words that the message must contain, behind them NULL

static void check_message(const char * message) {
    printf("%s\n", message);
    for (const char * const * word = expected; *word != NULL; word++) {
        CHECK(strstr(message, *word) != NULL, "the message does not contain: %s", *word);
    }
    fflush(stdout);
    _Exit(0); // not exit(): leaks do not matter here
}

// A case that must be aborted with a message that has these words.
#define FAULT_CASE(name, ...)                                              \
    static void name##_happens(void);                                      \
    CASE(name) {                                                           \
        static const char * const words[] = { __VA_ARGS__, NULL };         \
        expected                          = words;                         \
        ggml_set_abort_callback(check_message);                            \
        name##_happens();                                                  \
        CHECK(false, "%s did not end the program", #name);                 \
    }                                                                      \
    static void name##_happens(void)

static struct ggml_tensor * named(struct ggml_tensor * t, const char * name) {
    ggml_set_name(t, name);
    return t;
}

// Writes of an operation of the program in addition to its result.
struct misdeed {
    struct ggml_tensor * tensor; // the tensor that it writes into; NULL: its own result
    ptrdiff_t            offset; // from the start of that
    size_t               bytes;
};

static void copy_and_misbehave(struct ggml_tensor * dst, const struct ggml_tensor * a, int ith, int nth, void * user_data) {
    (void) nth;
    const struct misdeed * misdeed = user_data;
    if (ith != 0) {
        return;
    }
    memcpy(dst->data, a->data, ggml_nbytes(dst));
    char * target = (char *) (misdeed->tensor != NULL ? misdeed->tensor->data : dst->data);
    memset(target + misdeed->offset, 0x5a, misdeed->bytes);
}

// Memory that the program has laid out itself: offsets in a compute buffer of 4096 bytes, each tensor has 256.
struct laid_out {
    struct ggml_tensor * x;     // at 0, an input, read by step 0
    struct ggml_tensor * early; // at 256, SQR, step 0, read by step 1
    struct ggml_tensor * small; // at 512, ADD, step 1, read by step 2
    struct ggml_tensor * evil;  // at 1024, the program's function, step 2
    struct ggml_tensor * kept;  // at 1280, an input, read by step 3
    struct ggml_tensor * out;   // at 2048, ADD, step 3
    struct ggml_tensor * w;     // in another buffer
    struct ggml_cgraph * graph;
};

static void put(ggml_backend_buffer_t buffer, struct ggml_tensor * t, size_t offset) {
    char * base = ggml_backend_buffer_get_base(buffer);
    CHECK(ggml_backend_tensor_alloc(buffer, t, base + offset) == GGML_STATUS_SUCCESS, "%s has no place", t->name);
    memset(t->data, 0, ggml_nbytes(t));
}

static struct ggml_tensor * new_vector(struct ggml_context * ctx, const char * name) {
    return named(ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64), name);
}

static ggml_backend_buffer_t new_buffer(size_t size, enum ggml_backend_buffer_usage usage) {
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
    CHECK(buffer != NULL, "no buffer");
    ggml_backend_buffer_set_usage(buffer, usage);
    return buffer;
}

static struct laid_out lay_out(struct misdeed * misdeed) {
    struct ggml_context * ctx = no_alloc_context(1 << 20);
    struct laid_out       l   = { .x = new_vector(ctx, "x"), .kept = new_vector(ctx, "kept"), .w = new_vector(ctx, "w") };
    l.early = named(ggml_sqr(ctx, l.x), "early");
    l.small = named(ggml_add(ctx, l.early, l.w), "small");
    l.evil  = named(ggml_map_custom1(ctx, l.small, copy_and_misbehave, 1, misdeed), "evil");
    l.out   = named(ggml_add(ctx, l.evil, l.kept), "out");
    ggml_set_output(l.out);
    l.graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(l.graph, l.out);

    ggml_backend_buffer_t buffer = new_buffer(4096, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    put(buffer, l.x, 0);
    put(buffer, l.early, 256);
    put(buffer, l.small, 512);
    put(buffer, l.evil, 1024);
    put(buffer, l.kept, 1280);
    put(buffer, l.out, 2048);
    put(new_buffer(1024, GGML_BACKEND_BUFFER_USAGE_ANY), l.w, 512);
    return l;
}

static void compute(const struct laid_out * l) {
    CHECK(lastuse_graph_compute_guarded(new_cpu(2), l->graph) == GGML_STATUS_SUCCESS, "it is computed");
}

static struct misdeed misdeed;

// The program's function also writes at an offset from its result.
static void compute_and_write(ptrdiff_t offset, size_t bytes) {
    misdeed           = (struct misdeed){ .offset = offset, .bytes = bytes };
    struct laid_out l = lay_out(&misdeed);
    compute(&l);
}

// Operations that write where they must not

FAULT_CASE(no_fault, "nothing was found") {
    struct laid_out l = lay_out(&misdeed);
    compute(&l);
    ggml_abort(__FILE__, __LINE__, "nothing was found");
}

FAULT_CASE(write_behind, "step 2 of 4, \"evil\" (MAP_CUSTOM1)", "4 bytes", "right behind its end", "1280 to 1283",
           "\"kept\" (NONE)") {
    compute_and_write(256, 4);
}

FAULT_CASE(write_before, "\"evil\"", "4 bytes", "12 bytes before its start", "1008 to 1011", "freed block") {
    compute_and_write(-16, 4);
}

FAULT_CASE(write_far_away, "\"evil\"", "8 bytes", "1792 bytes behind its end", "3072 to 3079", "free") {
    compute_and_write(2048, 8);
}

FAULT_CASE(write_twice, "\"evil\"", "594 bytes", "right behind its end", "\"kept\" (NONE)") {
    compute_and_write(250, 600);
}

FAULT_CASE(write_freed_block, "\"evil\"", "4 bytes", "756 bytes before its start", "264 to 267", "freed block") {
    struct laid_out l = lay_out(&misdeed);
    misdeed           = (struct misdeed){ .tensor = l.early, .offset = 8, .bytes = 4 };
    compute(&l);
}

FAULT_CASE(write_weight, "\"evil\"", "12 bytes", "in another buffer", "520 to 531", "\"w\" (NONE)") {
    struct laid_out l = lay_out(&misdeed);
    misdeed           = (struct misdeed){ .tensor = l.w, .offset = 8, .bytes = 12 };
    compute(&l);
}

FAULT_CASE(write_source, "\"evil\"", "1 byte outside", "512 to 512", "\"small\" (ADD)") {
    struct laid_out l = lay_out(&misdeed);
    misdeed           = (struct misdeed){ .tensor = l.small, .bytes = 1 };
    compute(&l);
}

FAULT_CASE(write_input_that_is_read_later, "\"evil\"", "20 bytes", "100 bytes behind its end", "\"kept\" (NONE)") {
    struct laid_out l = lay_out(&misdeed);
    misdeed           = (struct misdeed){ .tensor = l.kept, .offset = 100, .bytes = 20 };
    compute(&l);
}

FAULT_CASE(write_marked_weight, "\"evil\"", "12 bytes", "in another buffer", "\"w\" (NONE)") {
    CHECK(lastuse_set("verify", "weights"), "a known word");
    struct laid_out l = lay_out(&misdeed);
    ggml_backend_buffer_set_usage(l.w->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    misdeed = (struct misdeed){ .tensor = l.w, .offset = 8, .bytes = 12 };
    compute(&l);
}

FAULT_CASE(plan_is_checked_before_computing, "step 1, \"small\" (ADD)", "\"early\" (SQR)", "step 0", "504 to 511",
           "8 bytes") {
    struct laid_out l = lay_out(&misdeed);
    l.small->data     = (char *) l.small->data - 8; // reaches into early, which it reads
    compute(&l);
}

// Operations in a scheduler

static struct lastuse_guard * new_guard(void) {
    struct lastuse_guard * guard = lastuse_guard_new(NULL);
    CHECK(guard != NULL, "%s", lastuse_last_error());
    return guard;
}

struct scheduled {
    ggml_backend_sched_t sched;
    struct laid_out      l;
};

static struct scheduled schedule(const char * words) {
    CHECK(lastuse_set("verify", words), "%s", lastuse_last_error());
    ggml_backend_t        cpu = new_cpu(2);
    struct ggml_context * ctx = no_alloc_context(1 << 20);
    struct scheduled      s   = { .sched = ggml_backend_sched_new(&cpu, NULL, 1, 64, false, false) };
    ggml_backend_sched_set_eval_callback(s.sched, lastuse_guard_eval, new_guard());
    s.l.x     = named(ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 64), "x");
    s.l.kept  = new_vector(ctx, "kept");
    s.l.w     = new_vector(ctx, "w");
    put(new_buffer(1024, GGML_BACKEND_BUFFER_USAGE_ANY), s.l.w, 512);
    s.l.early = named(ggml_mul_mat(ctx, s.l.x, s.l.x), "early"); // large, and not in place of anything
    s.l.small = named(ggml_add(ctx, ggml_sum_rows(ctx, s.l.early), ggml_sum(ctx, s.l.w)), "small");
    s.l.evil  = named(ggml_map_custom1(ctx, s.l.small, copy_and_misbehave, 1, &misdeed), "evil");
    s.l.out   = named(ggml_add(ctx, ggml_reshape_1d(ctx, s.l.evil, 64), s.l.kept), "out");
    ggml_set_output(s.l.out);
    s.l.graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(s.l.graph, s.l.out);
    CHECK(ggml_backend_sched_alloc_graph(s.sched, s.l.graph), "allocated");
    set_values(s.l.x, 1);
    set_values(s.l.kept, 2);
    return s;
}

static void compute_scheduled(const struct scheduled * s) {
    CHECK(ggml_backend_sched_graph_compute(s->sched, s->l.graph) == GGML_STATUS_SUCCESS, "it is computed");
}

FAULT_CASE(scheduler_no_fault, "nothing was found") {
    struct scheduled s = schedule("memory");
    compute_scheduled(&s);
    ggml_abort(__FILE__, __LINE__, "nothing was found");
}

FAULT_CASE(scheduler_write_freed_block, "\"evil\"", "8 bytes", "freed block") {
    struct scheduled s = schedule("memory");
    misdeed            = (struct misdeed){ .tensor = s.l.early, .offset = 64 * 64 * 4 - 8, .bytes = 8 };
    compute_scheduled(&s);
}

FAULT_CASE(scheduler_write_weight, "\"evil\"", "8 bytes", "another buffer", "508 to 515", "\"w\"") {
    struct scheduled s = schedule("memory");
    misdeed            = (struct misdeed){ .tensor = s.l.w, .offset = -4, .bytes = 8 };
    compute_scheduled(&s);
}

FAULT_CASE(scheduler_write_source_of_unknown_graph, "\"evil\" (MAP_CUSTOM1)", "8 bytes", "\"small\" (ADD)") {
    struct scheduled s = schedule("off");
    misdeed            = (struct misdeed){ .tensor = s.l.small, .bytes = 8 };
    compute_scheduled(&s);
}

// Addresses that are wrong before the graph runs

static void allocate(ggml_gallocr_t galloc, struct ggml_context * ctx, struct ggml_tensor * last) {
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, last);
    CHECK(ggml_gallocr_alloc_graph(galloc, graph), "%s is allocated", last->name);
}

static ggml_gallocr_t new_watched_allocator(void) {
    CHECK(lastuse_set("verify", "plan"), "a known word");
    return ggml_gallocr_new(ggml_backend_cpu_buffer_type());
}

// The program keeps a result of a graph, which the next one reads, in the memory of the same allocator.
FAULT_CASE(result_of_an_earlier_graph_is_overwritten, "\"state\" (NONE)", "\"other\" (NONE)",
           "before the first step", "to 255 of the CPU buffer") {
    struct ggml_context * ctx    = no_alloc_context(1 << 20);
    ggml_gallocr_t        galloc = new_watched_allocator();
    struct ggml_tensor *  first  = ggml_sqr(ctx, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096));
    allocate(galloc, ctx, first);

    struct ggml_tensor * state = new_vector(ctx, "state");
    state->buffer              = first->buffer;
    state->data                = first->data;
    struct ggml_tensor * next  = named(ggml_cos(ctx, new_vector(ctx, "other")), "next");
    allocate(galloc, ctx, named(ggml_add(ctx, ggml_mul_mat(ctx, next, next), ggml_sum(ctx, state)), "last"));
}

FAULT_CASE(changed_address_is_seen_by_the_next_allocation, "\"x\" (NONE)", "\"y\" (NONE)", "before the first step",
           "(192 bytes)") {
    struct ggml_context * ctx    = no_alloc_context(1 << 20);
    ggml_gallocr_t        galloc = new_watched_allocator();
    struct ggml_tensor *  x      = new_vector(ctx, "x");
    struct ggml_tensor *  y      = new_vector(ctx, "y");
    struct ggml_tensor *  last   = ggml_mul_mat(ctx, ggml_add(ctx, x, y), x);
    allocate(galloc, ctx, last);
    allocate(galloc, ctx, last);
    y->data = (char *) x->data + 64;
    allocate(galloc, ctx, last);
}

// Memory that was freed since a graph was allocated

struct kept {
    ggml_gallocr_t       galloc;
    struct ggml_tensor * x;
    struct ggml_tensor * sum;
    struct ggml_cgraph * graph;
};

// A graph that the program keeps
static struct kept keep_graph(void) {
    struct ggml_context * ctx = no_alloc_context(1 << 20);
    CHECK(lastuse_set("verify", "memory"), "a known word");
    struct kept k = { .galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type()), .x = new_vector(ctx, "x") };
    k.sum         = named(ggml_sum(ctx, ggml_sqr(ctx, k.x)), "sum");
    k.graph       = ggml_new_graph(ctx);
    ggml_build_forward_expand(k.graph, k.sum);
    CHECK(ggml_gallocr_alloc_graph(k.galloc, k.graph), "allocated");
    lastuse_guard_check_graph(k.graph);
    lastuse_guard_check_tensor(k.x, true);
    return k;
}

// The allocator takes other memory for a larger graph, and frees that of the first
static struct kept keep_graph_while_memory_grows(void) {
    struct kept           k   = keep_graph();
    struct ggml_context * ctx = no_alloc_context(1 << 20);
    allocate(k.galloc, ctx, ggml_sqr(ctx, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 1 << 20)));
    return k;
}

FAULT_CASE(kept_graph_is_computed, "\"x\" (NONE)", "the graph of 2 nodes that ends with \"sum\" (SUM)",
           "a CPU buffer of", "freed since", "reserve the") {
    struct kept k = keep_graph_while_memory_grows();
    lastuse_graph_compute_guarded(new_cpu(1), k.graph);
}

FAULT_CASE(kept_graph_is_checked, "\"x\" (NONE)", "\"sum\" (SUM)", "which its allocator has freed since") {
    lastuse_guard_check_graph(keep_graph_while_memory_grows().graph);
}

FAULT_CASE(kept_graph_is_allocated_as_it_is, "\"x\" (NONE)", "\"sum\" (SUM)", "which its allocator has freed since") {
    struct kept k = keep_graph_while_memory_grows();
    ggml_gallocr_alloc_graph(k.galloc, k.graph);
}

FAULT_CASE(kept_node_is_computed_under_guard, "\"x\" (NONE)", "\"sum\" (SUM)",
           "which its allocator has freed since") {
    struct kept k = keep_graph_while_memory_grows();
    lastuse_guard_eval(k.sum->src[0], true, new_guard());
}

FAULT_CASE(input_of_kept_graph_is_set, "\"x\" (NONE)", "\"sum\" (SUM)", "which its allocator has freed since") {
    lastuse_guard_check_tensor(keep_graph_while_memory_grows().x, true);
}

FAULT_CASE(kept_graph_outlives_its_allocator, "\"x\" (NONE)", "\"sum\" (SUM)", "and when they are freed") {
    struct kept k = keep_graph();
    ggml_gallocr_free(k.galloc);
    lastuse_guard_check_graph(k.graph);
}

FAULT_CASE(tensor_is_moved_after_its_allocation, "\"sum\" (SUM) of the graph of 2 nodes", "was put at address",
           "in a CPU buffer of", "allocate the graph again") {
    struct kept k = keep_graph();
    k.sum->data   = k.x->data;
    lastuse_guard_check_graph(k.graph);
}

FAULT_CASE(weights_are_freed_before_the_last_graph, "\"weight\" (NONE)", "the graph of 1 nodes", "\"last\" (MUL)",
           "which the program has freed since") {
    struct ggml_context * ctx    = no_alloc_context(1 << 20);
    ggml_backend_buffer_t buffer = new_buffer(1024, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    struct ggml_tensor *  weight = new_vector(ctx, "weight");
    put(buffer, weight, 0);
    struct kept k = keep_graph();
    struct ggml_tensor * last  = named(ggml_mul(ctx, weight, weight), "last");
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, last);
    CHECK(ggml_gallocr_alloc_graph(k.galloc, graph), "allocated");
    lastuse_guard_check_graph(graph);
    lastuse_buffer_note_free(buffer);
    ggml_backend_buffer_free(buffer);
    lastuse_guard_check_graph(graph);
}

// Contexts that break the rules of an arena

static struct kept keep_graph_in_arena(struct lastuse_arena * arena) {
    struct ggml_context * ctx = no_alloc_context(1 << 20);
    CHECK(lastuse_set("verify", "memory"), "a known word");
    struct kept k = { .galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type()), .x = new_vector(ctx, "x") };
    CHECK(lastuse_gallocr_share(k.galloc, arena), "%s", lastuse_last_error());
    k.sum   = named(ggml_sum(ctx, ggml_sqr(ctx, k.x)), "sum");
    k.graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(k.graph, k.sum);
    CHECK(ggml_gallocr_alloc_graph(k.galloc, k.graph), "allocated");
    return k;
}

static void run_in_arena(const struct kept * k) {
    lastuse_guard_check_tensor(k->x, true);
    lastuse_guard_check_graph(k->graph);
}

FAULT_CASE(result_is_read_after_another_context, "a result is read after another context has computed: \"sum\" (SUM)",
           "the graph of 2 nodes that ends with", "LASTUSE_ARENA=shared,outputs") {
    struct lastuse_arena * arena = lastuse_arena_new(ggml_backend_cpu_buffer_type());
    struct kept            one = keep_graph_in_arena(arena), other = keep_graph_in_arena(arena);
    for (int turn = 0; turn < 3; turn++) {
        run_in_arena(&one);
        lastuse_guard_check_tensor(one.sum, false);
        run_in_arena(&other);
        lastuse_guard_check_tensor(other.sum, false);
    }
    lastuse_guard_check_tensor(one.sum, false);
}

static bool was_told;

static void note_warning(enum ggml_log_level level, const char * text, void * user_data) {
    (void) user_data;
    was_told = was_told || (level == GGML_LOG_LEVEL_WARN && strstr(text, "\"x\" (NONE) of the graph of 2 nodes") != NULL &&
                            strstr(text, "was set before the graph of 2 nodes") != NULL);
}

// What the program writes at an address is not seen, so this is a warning.
CASE(input_is_set_before_another_context_computes) {
    struct lastuse_arena * arena = lastuse_arena_new(ggml_backend_cpu_buffer_type());
    struct kept            one = keep_graph_in_arena(arena), other = keep_graph_in_arena(arena);
    ggml_log_set(note_warning, NULL);
    for (int turn = 0; turn < 3; turn++) {
        run_in_arena(&one);
        run_in_arena(&other);
    }
    CHECK(!was_told, "all is as it must be");
    lastuse_guard_check_tensor(other.x, true);
    run_in_arena(&one);
    CHECK(!was_told, "this one is set in time");
    lastuse_guard_check_graph(other.graph);
    CHECK(was_told, "no warning");
}
