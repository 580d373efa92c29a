// runs: ggml-0.26 ggml-0.9.5 off
//
// ggml_set_output(t, dst): results that are computed in their destination.
//
//   outputs <case>

#include "separate_backends.h"
#include "attention.h"
#include "cases.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "lastuse.h"

#define HEAD 17

static void check_same(const struct attention_result * a, const struct attention_result * b, const char * what) {
    CHECK(memcmp(a->output, b->output, sizeof(a->output)) == 0, "%s: another output", what);
    CHECK(memcmp(a->caches, b->caches, sizeof(a->caches)) == 0, "%s: other caches", what);
}

// ---------------------------------------------------------------------------------------------------
// Into caches
// ---------------------------------------------------------------------------------------------------

// Some steps, each with more rows in the caches. Returns the bytes of the compute buffer.
static size_t decode(enum caching caching, int n_threads, bool right_to_left, struct attention_result * result) {
    ggml_backend_t   cpu    = new_cpu(n_threads);
    struct attention a      = attention_new(ggml_backend_cpu_buffer_type());
    ggml_gallocr_t   galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    attention_fill(&a);
    attention_build(&a, caching, ATTENTION_ROWS - ATTENTION_NEW, right_to_left);
    CHECK(ggml_gallocr_reserve(galloc, a.graph), "not reserved");
    for (int head = HEAD; head < HEAD + 4 * ATTENTION_NEW; head += ATTENTION_NEW) {
        attention_build(&a, caching, head, right_to_left);
        CHECK(ggml_gallocr_alloc_graph(galloc, a.graph), "not allocated");
        attention_fill_input(&a, head);
        CHECK(ggml_backend_graph_compute(cpu, a.graph) == GGML_STATUS_SUCCESS, "not computed");
    }
    attention_keep_result(&a, result);
    size_t bytes = ggml_gallocr_get_buffer_size(galloc, 0);
    ggml_gallocr_free(galloc);
    attention_free(&a);
    ggml_backend_free(cpu);
    return bytes;
}

CASE(caches_are_written_without_copies_by_several_threads) {
    static struct attention_result copied;
    static struct attention_result written;

    size_t bytes = decode(COPIED_AND_EXPANDED, 1, false, &copied);
    for (int n_threads = 1; n_threads <= 4; n_threads++) {
        for (int order = 0; order < 2; order++) {
            size_t fewer = decode(WRITTEN, n_threads, order == 1, &written);
            check_same(&written, &copied, "written");
            CHECK(fewer <= bytes, "%zu bytes, and %zu with copies", fewer, bytes);
        }
    }
}

// Rows that are copied take memory; rows computed in their destination take none.
static size_t bytes_of_rows(bool written) {
    struct ggml_context *   ctx    = no_alloc_context(1u << 20);
    struct ggml_context *   keep   = no_alloc_context(1u << 20);
    struct ggml_cgraph *    graph  = ggml_new_graph(ctx);
    struct ggml_tensor *    weight = ggml_new_tensor_2d(keep, GGML_TYPE_F32, 64, 256);
    struct ggml_tensor *    cache  = ggml_new_tensor_2d(keep, GGML_TYPE_F32, 256, 32);
    struct ggml_tensor *    input  = ggml_new_tensor_2d(keep, GGML_TYPE_F32, 64, 32);
    ggml_backend_buffer_t   kept   = ggml_backend_alloc_ctx_tensors_from_buft(keep, ggml_backend_cpu_buffer_type());
    ggml_gallocr_t          galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    struct ggml_tensor *    rows   = ggml_mul_mat(ctx, weight, input);
    rows                           = written ? ggml_set_output(rows, cache) : ggml_cpy(ctx, rows, cache);
    CHECK(rows != NULL && kept != NULL, "refused: %s", lastuse_last_error());
    ggml_build_forward_expand(graph, ggml_sum(ctx, rows));
    CHECK(ggml_gallocr_alloc_graph(galloc, graph), "not allocated");
    size_t bytes = ggml_gallocr_get_buffer_size(galloc, 0);
    ggml_gallocr_free(galloc);
    ggml_backend_buffer_free(kept);
    ggml_free(keep);
    ggml_free(ctx);
    return bytes;
}

CASE(rows_take_no_memory_of_their_own) {
    size_t copied  = bytes_of_rows(false);
    size_t written = bytes_of_rows(true);
    CHECK(copied >= 256 * 32 * sizeof(float), "the copied rows need %zu bytes", copied);
    CHECK(written < 1024, "%zu bytes, with copies %zu", written, copied);
}

static void scheduled(ggml_backend_t * backends, ggml_backend_buffer_type_t * types, ggml_backend_buffer_type_t cache_type,
                      int where) {
    static struct attention_result classic;
    static struct attention_result ours;

    decode(COPIED_AND_EXPANDED, 1, false, &classic);
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, types, 2, 256, false, true);
    struct attention     a     = attention_new(cache_type);
    attention_fill(&a);
    for (int head = HEAD; head < HEAD + 4 * ATTENTION_NEW; head += ATTENTION_NEW) {
        attention_build(&a, WRITTEN, head, false);
        ggml_backend_sched_reset(sched);
        for (int i = 0; i < ggml_graph_n_nodes(a.graph); i++) {
            struct ggml_tensor * node = ggml_graph_node(a.graph, i);
            if (node->op == GGML_OP_SOFT_MAX || node->op == GGML_OP_CONT || node->op == GGML_OP_SCALE) {
                ggml_backend_sched_set_tensor_backend(sched, node, backends[where]);
            }
        }
        CHECK(ggml_backend_sched_alloc_graph(sched, a.graph), "not allocated: %s", lastuse_last_error());
        attention_fill_input(&a, head);
        CHECK(ggml_backend_sched_graph_compute(sched, a.graph) == GGML_STATUS_SUCCESS, "not computed");
        for (int i = 0; i < ATTENTION_LAYERS * 2; i++) {
            const struct ggml_tensor * rows  = a.rows[i / 2][i % 2];
            const struct ggml_tensor * slots = rows->src[GGML_MAX_SRC - 1];
            CHECK(rows->data == slots->data && strchr(slots->name, '#') == NULL, "rows %d are elsewhere", i);
        }
    }
    attention_keep_result(&a, &ours);
    check_same(&ours, &classic, "scheduled");
    attention_free(&a);
    ggml_backend_sched_free(sched);
}

CASE(scheduler) {
    ggml_backend_t backends[2] = { new_cpu(2), new_cpu(1) };
    scheduled(backends, NULL, ggml_backend_cpu_buffer_type(), 0);
    scheduled(backends, NULL, ggml_backend_cpu_buffer_type(), 1);
    ggml_backend_free(backends[0]);
    ggml_backend_free(backends[1]);
}

CASE(scheduler_with_separate_backends) {
    for (int caches = 0; caches < BACKENDS; caches++) {
        struct separate_backends separate;
        separate_backends_init(&separate, 1);
        scheduled(separate.backends, separate.types, separate.types[caches], 1 - caches);
        separate_backends_free(&separate);
    }
}

// ---------------------------------------------------------------------------------------------------
// Small graphs
// ---------------------------------------------------------------------------------------------------

struct room {
    struct ggml_context * keep; // has memory
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  cache; // 8 x 16
    struct ggml_tensor *  slots; // two rows of it
    struct ggml_tensor *  x;     // 4 x 2
    struct ggml_tensor *  w;     // 4 x 8
};

static struct room room_new(void) {
    struct ggml_init_params memory = { .mem_size = 1u << 20 };
    struct room             room   = { .keep = ggml_init(memory), .ctx = no_alloc_context(1u << 20) };
    room.graph                     = ggml_new_graph(room.ctx);
    room.cache                     = ggml_new_tensor_2d(room.keep, GGML_TYPE_F32, 8, 16);
    room.x                         = ggml_new_tensor_2d(room.keep, GGML_TYPE_F32, 4, 2);
    room.w                         = ggml_new_tensor_2d(room.keep, GGML_TYPE_F32, 4, 8);
    room.slots = ggml_view_2d(room.ctx, room.cache, 8, 2, room.cache->nb[1], 4 * room.cache->nb[1]);
    set_values(room.cache, 1);
    set_values(room.x, 2);
    set_values(room.w, 3);
    return room;
}

static void room_free(struct room room) {
    ggml_free(room.ctx);
    ggml_free(room.keep);
}

static struct ggml_tensor * rows_in(struct room room) {
    return ggml_mul_mat(room.ctx, room.w, room.x);
}

static void compute_in(struct room room) {
    ggml_backend_t cpu    = new_cpu(2);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, room.graph), "not allocated: %s", lastuse_last_error());
    CHECK(ggml_backend_graph_compute(cpu, room.graph) == GGML_STATUS_SUCCESS, "not computed");
    ggml_gallocr_free(galloc);
    ggml_backend_free(cpu);
}

// The tensors of the program must be unchanged.
static void check_refused(struct ggml_tensor * t, struct ggml_tensor * dst, const char * why) {
    struct ggml_tensor before[] = { *t, *dst };
    struct log_capture log;
    log_capture_start(&log);
    CHECK(ggml_set_output(t, dst) == NULL, "accepted; expected error: %s", why);
    log_capture_stop();
    CHECK(strstr(lastuse_last_error(), why) != NULL, "the error is: %s; expected: %s", lastuse_last_error(), why);
    CHECK(log_capture_has(&log, why), "the log does not contain: %s", why);
    CHECK(memcmp(&before[0], t, sizeof(*t)) == 0 && memcmp(&before[1], dst, sizeof(*dst)) == 0, "changed: %s", why);
}

// ---------------------------------------------------------------------------------------------------
// Refused when called
// ---------------------------------------------------------------------------------------------------

static struct ggml_tensor * new_like(struct ggml_context * ctx, const struct ggml_tensor * t) {
    return ggml_new_tensor(ctx, t->type, GGML_MAX_DIMS, t->ne);
}

CASE(results_that_do_not_fit_are_refused) {
    struct room           room = room_new();
    struct ggml_context * ctx  = room.ctx;
    struct ggml_tensor *  t    = rows_in(room);
    check_refused(t, t, "t and dst are the same");
    check_refused(t, ggml_view_2d(ctx, room.cache, 8, 3, room.cache->nb[1], 0), "different shapes");
    check_refused(t, ggml_new_tensor_2d(ctx, GGML_TYPE_F16, 8, 2), "different element types");
    check_refused(t, ggml_view_tensor(ctx, t), "dst is a view of t");
    check_refused(t, ggml_reshape_2d(ctx, ggml_sqr(ctx, t), 8, 2), "dst is computed from t");
    check_refused(t, ggml_dependency(ctx, room.slots, t), "dst is computed from t");
    struct ggml_tensor * empty = ggml_sqr(ctx, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, 0));
    check_refused(empty, new_like(ctx, empty), "no elements");
    struct ggml_tensor * blocks = ggml_cont(ctx, ggml_new_tensor_2d(ctx, GGML_TYPE_Q4_0, 64, 2));
    check_refused(blocks, new_like(ctx, blocks), "quantized");
    struct ggml_tensor * one = new_like(ctx, t);
    one->nb[1] = one->nb[2] = one->nb[3] = one->nb[0];
    check_refused(t, one, "elements of dst overlap");
    struct ggml_tensor * columns = ggml_transpose(ctx, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 2, 8));
    check_refused(t, columns, "strides of dst");
    room_free(room);
}

static void copy_by_program(struct ggml_tensor * dst, const struct ggml_tensor * a, int ith, int nth, void * user_data) {
    (void) nth;
    (void) user_data;
    if (ith == 0) {
        memcpy(dst->data, a->data, ggml_nbytes(dst));
    }
}

CASE(tensors_that_are_no_results_are_refused) {
    struct room           room = room_new();
    struct ggml_context * ctx  = room.ctx;
    check_refused(new_like(ctx, room.slots), room.slots, "no operation computes t");
    check_refused(ggml_view_tensor(ctx, rows_in(room)), room.slots, "no operation computes t");
    check_refused(ggml_reshape_2d(ctx, rows_in(room), 8, 2), room.slots, "only a view");
    check_refused(ggml_cpy(ctx, rows_in(room), new_like(ctx, room.slots)), room.slots, "another tensor already");
    struct ggml_tensor * twice = rows_in(room);
    CHECK(ggml_set_output(twice, room.slots) == twice, "refused: %s", lastuse_last_error());
    check_refused(twice, new_like(ctx, room.slots), "another tensor already");
    check_refused(ggml_mul_mat(room.keep, room.w, room.x), room.slots, "has memory");
    struct ggml_tensor * input = rows_in(room);
    input->flags |= GGML_TENSOR_FLAG_INPUT; // ggml refuses to flag results so
    check_refused(input, room.slots, "an input, a parameter or a loss");
    struct ggml_tensor * full = rows_in(room);
    for (int i = 2; i < GGML_MAX_SRC; i++) {
        full->src[i] = room.x;
    }
    check_refused(full, room.slots, "no slot left");
    struct ggml_tensor * custom = ggml_map_custom1(ctx, rows_in(room), copy_by_program, 1, NULL);
    check_refused(custom, room.slots, "not known to write");
    room_free(room);
}

CASE(overlapping_sources_are_refused) {
    struct room           room    = room_new();
    struct ggml_context * ctx     = room.ctx;
    struct ggml_tensor *  shifted = ggml_view_2d(ctx, room.cache, 8, 2, room.cache->nb[1], 5 * room.cache->nb[1]);
    struct ggml_tensor *  rows    = rows_in(room);
    const char *          why     = "would be overwritten";
    check_refused(ggml_add(ctx, shifted, rows), room.slots, why);
    check_refused(ggml_mul(ctx, ggml_rms_norm(ctx, shifted, 1e-5f), rows), room.slots, why);
    check_refused(ggml_add(ctx, room.slots, room.slots), room.slots, why);
    struct ggml_tensor * square = ggml_new_tensor_2d(room.keep, GGML_TYPE_F32, 4, 4);
    check_refused(ggml_mul_mat(ctx, square, room.w), ggml_view_2d(ctx, room.w, 4, 8, room.w->nb[1], 0), why);
    room_free(room);
}

// ggml itself computes these in place of a source.
CASE(one_source_may_be_the_destination) {
    struct room          room = room_new();
    struct ggml_tensor * sum  = ggml_add(room.ctx, room.slots, rows_in(room));
    float                before[16];
    memcpy(before, room.slots->data, sizeof(before));
    CHECK(ggml_set_output(sum, room.slots) == sum, "refused: %s", lastuse_last_error());
    ggml_build_forward_expand(room.graph, sum);
    struct ggml_tensor * rows = sum->src[1];
    ggml_set_output(rows);
    compute_in(room);
    for (int i = 0; i < 16; i++) {
        float dot = 0.0f;
        for (int j = 0; j < 4; j++) {
            dot += ((float *) room.w->data)[i % 8 * 4 + j] * ((float *) room.x->data)[i / 8 * 4 + j];
        }
        float difference = ((float *) room.slots->data)[i] - before[i] - dot;
        CHECK(difference < 1e-4f && difference > -1e-4f, "element %d", i);
    }
    room_free(room);
}

// ---------------------------------------------------------------------------------------------------
// Refused when planned
// ---------------------------------------------------------------------------------------------------

static void check_plan_refused(struct room room, const char * first, const char * second, const char * why) {
    struct log_capture log;
    ggml_gallocr_t     galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    for (int round = 0; round < 2; round++) {
        log_capture_start(&log);
        bool done = round == 0 ? ggml_gallocr_reserve(galloc, room.graph) : ggml_gallocr_alloc_graph(galloc, room.graph);
        log_capture_stop();
        const char * error = lastuse_last_error();
        CHECK(!done, "round %d: planned; expected error: %s", round, why);
        CHECK(strstr(error, why) != NULL && strstr(error, first) != NULL && strstr(error, second) != NULL,
              "the error is: %s", error);
        CHECK(log_capture_has(&log, why), "the log does not contain it");
    }
    ggml_gallocr_free(galloc);
}

static struct ggml_tensor * written_rows(struct room room) {
    struct ggml_tensor * rows = ggml_set_output(rows_in(room), room.slots);
    CHECK(rows != NULL, "refused: %s", lastuse_last_error());
    ggml_set_name(rows, "the rows");
    return rows;
}

// Only the order of two calls puts the reader before or after the rows.
LASTUSE_CASE(readers_in_no_order_are_refused) {
    for (int reader_first = 0; reader_first < 2; reader_first++) {
        struct room          room   = room_new();
        struct ggml_tensor * rows   = written_rows(room);
        struct ggml_tensor * reader = ggml_sum(room.ctx, room.cache);
        ggml_set_name(reader, "the reader");
        ggml_build_forward_expand(room.graph, reader_first ? reader : rows);
        ggml_build_forward_expand(room.graph, reader_first ? rows : reader);
        check_plan_refused(room, "the rows", "the reader", "one must depend on the other");
        room_free(room);
    }
}

// Both come after the rows, and are not ordered among each other.
LASTUSE_CASE(overwriting_what_is_still_read_is_refused) {
    struct room          room   = room_new();
    struct ggml_tensor * rows   = written_rows(room);
    struct ggml_tensor * reader = ggml_sum(room.ctx, rows);
    struct ggml_tensor * writer = ggml_cpy(room.ctx, rows_in(room), ggml_dependency(room.ctx, room.slots, rows));
    ggml_set_name(reader, "the reader");
    ggml_set_name(writer, "the writer");
    ggml_build_forward_expand(room.graph, reader);
    ggml_build_forward_expand(room.graph, writer);
    check_plan_refused(room, "the reader", "the writer", "one must depend on the other");
    room_free(room);
}

LASTUSE_CASE(older_views_are_refused) {
    struct room          room = room_new();
    struct ggml_tensor * rows = rows_in(room);
    struct ggml_tensor * view = ggml_view_1d(room.ctx, rows, 8, 0);
    ggml_set_name(rows, "the rows");
    ggml_set_name(view, "the view");
    CHECK(ggml_set_output(rows, room.slots) == rows, "refused: %s", lastuse_last_error());
    ggml_build_forward_expand(room.graph, ggml_sum(room.ctx, view));
    check_plan_refused(room, "the rows", "the view", "older view");
    room_free(room);
}

// A norm whose destination is columns of a wider cache: rows with gaps between them.
struct gaps {
    struct room          room;
    struct ggml_tensor * wide; // 20 x 2
    struct ggml_tensor * part; // columns 5 to 12
    struct ggml_tensor * norm; // 8 x 2, not yet there
};

static struct gaps gaps_new(void) {
    struct gaps gaps = { .room = room_new() };
    gaps.wide        = ggml_new_tensor_2d(gaps.room.keep, GGML_TYPE_F32, 20, 2);
    gaps.part        = ggml_view_2d(gaps.room.ctx, gaps.wide, 8, 2, gaps.wide->nb[1], 5 * sizeof(float));
    gaps.norm        = ggml_rms_norm(gaps.room.ctx, rows_in(gaps.room), 1e-5f);
    set_values(gaps.wide, 9);
    ggml_set_name(gaps.norm, "the norm");
    return gaps;
}

// ggml accepted these readers for rows without gaps; with gaps they would compute something else, or abort.
LASTUSE_CASE(readers_that_cannot_read_gaps_are_refused) {
    for (int i = 0; i < 3; i++) {
        struct gaps          gaps   = gaps_new();
        struct ggml_context * ctx   = gaps.room.ctx;
        struct ggml_tensor * reader = i == 0   ? ggml_scale(ctx, gaps.norm, 2.0f)
                                      : i == 1 ? ggml_relu(ctx, gaps.norm)
                                               : ggml_map_custom1(ctx, gaps.norm, copy_by_program, 1, NULL);
        ggml_set_name(reader, "the reader");
        CHECK(ggml_set_output(gaps.norm, gaps.part) == gaps.norm, "refused: %s", lastuse_last_error());
        ggml_build_forward_expand(gaps.room.graph, reader);
        check_plan_refused(gaps.room, "the norm", "the reader", "a result with gaps");
        room_free(gaps.room);
    }
}

// Operations that can read it whenever they were made, and a copy and a view that were made later for one that cannot.
CASE(readers_that_can_read_gaps_are_planned) {
    struct gaps           gaps = gaps_new();
    struct ggml_context * ctx  = gaps.room.ctx;
    struct ggml_tensor *  same = ggml_rms_norm(ctx, gaps.norm->src[0], 1e-5f);
    struct ggml_tensor *  sums = ggml_sum_rows(ctx, gaps.norm);
    CHECK(ggml_set_output(gaps.norm, gaps.part) == gaps.norm, "refused: %s", lastuse_last_error());
    struct ggml_tensor * pairs[][2] = {
        { sums, ggml_sum_rows(ctx, same) },
        { ggml_scale(ctx, ggml_cont(ctx, gaps.norm), 2.0f), ggml_scale(ctx, same, 2.0f) },
        { ggml_sum(ctx, ggml_view_2d(ctx, gaps.norm, 8, 2, gaps.norm->nb[1], 0)), ggml_sum(ctx, same) },
    };
    for (int i = 0; i < 6; i++) {
        ggml_set_output(pairs[i / 2][i % 2]);
        ggml_build_forward_expand(gaps.room.graph, pairs[i / 2][i % 2]);
    }
    ggml_backend_t cpu    = new_cpu(1);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, gaps.room.graph), "not allocated: %s", lastuse_last_error());
    CHECK(ggml_backend_graph_compute(cpu, gaps.room.graph) == GGML_STATUS_SUCCESS, "not computed");
    for (int i = 0; i < 3; i++) {
        check_same_values(pairs[i][0], pairs[i][1], (uint64_t) i, "a result with gaps is read");
    }
    ggml_gallocr_free(galloc);
    ggml_backend_free(cpu);
    room_free(gaps.room);
}

// Readers before, readers after, and readers of other bytes.
CASE(readers_in_order_are_planned) {
    struct room           room   = room_new();
    struct ggml_context * ctx    = room.ctx;
    struct ggml_tensor *  before = ggml_sum(ctx, room.cache);
    struct ggml_tensor *  rows   = ggml_mul_mat(ctx, room.w, ggml_dependency(ctx, room.x, before));
    CHECK(ggml_set_output(rows, room.slots) == rows, "refused: %s", lastuse_last_error());
    struct ggml_tensor * after = ggml_sum(ctx, ggml_dependency(ctx, room.cache, rows));
    struct ggml_tensor *  others = ggml_sum(ctx, ggml_view_2d(ctx, room.cache, 8, 4, room.cache->nb[1], 0));
    ggml_set_output(before);
    ggml_set_output(after);
    ggml_build_forward_expand(room.graph, others);
    ggml_build_forward_expand(room.graph, after);
    ggml_build_forward_expand(room.graph, before);
    float sum = 0.0f;
    for (int i = 0; i < 8 * 16; i++) {
        sum += ((float *) room.cache->data)[i];
    }
    ggml_backend_t cpu    = new_cpu(2);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, room.graph), "not allocated: %s", lastuse_last_error());
    CHECK(ggml_backend_graph_compute(cpu, room.graph) == GGML_STATUS_SUCCESS, "not computed");
    float difference = *(float *) before->data - sum;
    CHECK(difference < 1e-4f && difference > -1e-4f, "the old rows were not read");
    CHECK(*(float *) after->data != *(float *) before->data, "the new rows were not read");
    ggml_gallocr_free(galloc);
    ggml_backend_free(cpu);
    room_free(room);
}

// A graph that differs from a planned one only in its destination.
LASTUSE_CASE(later_graphs_are_checked_too) {
    struct room    room   = room_new();
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    for (int first_row = 4; first_row >= 0; first_row -= 2) {
        struct ggml_cgraph * graph = ggml_new_graph(room.ctx);
        size_t               row   = room.cache->nb[1];
        struct ggml_tensor * slots = ggml_view_2d(room.ctx, room.cache, 8, 2, row, (size_t) first_row * row);
        struct ggml_tensor * rows  = ggml_set_output(rows_in(room), slots);
        CHECK(rows != NULL, "refused: %s", lastuse_last_error());
        ggml_build_forward_expand(graph, rows);
        ggml_build_forward_expand(graph, ggml_sum(room.ctx, ggml_view_2d(room.ctx, room.cache, 8, 2, row, 0)));
        bool done = ggml_gallocr_alloc_graph(galloc, graph);
        CHECK(done == (first_row > 1), "rows from %d on: %d", first_row, (int) done);
    }
    ggml_gallocr_free(galloc);
    room_free(room);
}

// ---------------------------------------------------------------------------------------------------
// Other destinations
// ---------------------------------------------------------------------------------------------------

// Both halves of a tensor that has no memory until the graph is planned.
CASE(halves_of_a_planned_tensor) {
    struct room           room  = room_new();
    struct ggml_context * ctx   = room.ctx;
    struct ggml_tensor *  whole = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, 4);
    struct ggml_tensor *  after = whole;
    struct ggml_tensor *  truth = NULL;
    for (int half = 0; half < 2; half++) {
        struct ggml_tensor * slots = ggml_view_2d(ctx, whole, 8, 2, whole->nb[1], (size_t) half * 2 * whole->nb[1]);
        struct ggml_tensor * rows  = ggml_scale(ctx, rows_in(room), (float) half + 1.0f);
        truth                      = half == 0 ? rows : ggml_concat(ctx, truth, rows, 1);
        rows                       = ggml_scale(ctx, rows_in(room), (float) half + 1.0f);
        CHECK(ggml_set_output(rows, slots) == rows, "refused: %s", lastuse_last_error());
        after = ggml_dependency(ctx, after, rows);
    }
    struct ggml_tensor * ours = ggml_sqr(ctx, after);
    truth                     = ggml_sqr(ctx, truth);
    ggml_set_output(ours);
    ggml_set_output(truth);
    ggml_build_forward_expand(room.graph, ours);
    ggml_build_forward_expand(room.graph, truth);
    ggml_backend_t cpu    = new_cpu(1);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, room.graph), "not allocated: %s", lastuse_last_error());
    CHECK(ggml_backend_graph_compute(cpu, room.graph) == GGML_STATUS_SUCCESS, "not computed");
    check_same_values(ours, truth, 0, "halves");
    ggml_gallocr_free(galloc);
    ggml_backend_free(cpu);
    room_free(room);
}

// Nothing outside of the columns is written.
CASE(rows_with_gaps) {
    struct gaps          gaps = gaps_new();
    struct room          room = gaps.room;
    struct ggml_tensor * wide = gaps.wide;
    struct ggml_tensor * norm = gaps.norm;
    struct ggml_tensor * same = ggml_rms_norm(room.ctx, norm->src[0], 1e-5f);
    float before[40];
    memcpy(before, wide->data, sizeof(before));
    CHECK(ggml_set_output(norm, gaps.part) == norm, "refused: %s", lastuse_last_error());
    ggml_set_output(same);
    ggml_build_forward_expand(room.graph, norm);
    ggml_build_forward_expand(room.graph, same);
    ggml_backend_t cpu    = new_cpu(1);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, room.graph), "not allocated: %s", lastuse_last_error());
    CHECK(ggml_backend_graph_compute(cpu, room.graph) == GGML_STATUS_SUCCESS, "not computed");
    for (int i = 0; i < 40; i++) {
        int   column   = i % 20 - 5;
        bool  is_new   = column >= 0 && column < 8;
        float expected = is_new ? ((float *) same->data)[i / 20 * 8 + column] : before[i];
        CHECK(((float *) wide->data)[i] == expected, "element %d", i);
    }
    ggml_gallocr_free(galloc);
    ggml_backend_free(cpu);
    room_free(room);
}

// The kernels of other devices were not tested with gaps.
LASTUSE_CASE(gaps_elsewhere_are_refused) {
    struct separate_backends separate;
    separate_backends_init(&separate, 1);
    separate.dummies[0].type.iface.is_host = NULL;

    struct room           room   = room_new();
    struct ggml_context * keep   = no_alloc_context(1u << 16);
    struct ggml_tensor *  wide   = ggml_new_tensor_2d(keep, GGML_TYPE_F32, 20, 2);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(keep, separate.types[0]);
    struct ggml_tensor *  part   = ggml_view_2d(room.ctx, wide, 8, 2, wide->nb[1], 0);
    struct ggml_tensor *  whole  = ggml_view_2d(room.ctx, wide, 8, 2, 8 * sizeof(float), 0);
    struct ggml_tensor *  norm   = ggml_rms_norm(room.ctx, rows_in(room), 1e-5f);
    check_refused(norm, part, "only ggml's CPU backend");
    CHECK(ggml_set_output(norm, whole) == norm, "refused: %s", lastuse_last_error());
    struct ggml_tensor * planned = ggml_new_tensor_2d(room.ctx, GGML_TYPE_F32, 20, 2);
    struct ggml_tensor * inside  = ggml_view_2d(room.ctx, planned, 8, 2, planned->nb[1], 0);
    struct ggml_tensor * other   = ggml_rms_norm(room.ctx, rows_in(room), 1e-5f);
    CHECK(ggml_set_output(other, inside) == other, "refused: %s", lastuse_last_error());
    ggml_build_forward_expand(room.graph, other);
    ggml_gallocr_t galloc = ggml_gallocr_new(separate.types[0]);
    CHECK(!ggml_gallocr_reserve(galloc, room.graph), "planned");
    CHECK(strstr(lastuse_last_error(), "CPU backend only") != NULL, "the error is: %s", lastuse_last_error());
    ggml_gallocr_free(galloc);
    ggml_backend_buffer_free(buffer);
    ggml_free(keep);
    room_free(room);
    separate_backends_free(&separate);
}
