#include "in_place.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "graph_fields.h"
#include "ggml-cpu.h"

int version_of_ggml(void) {
    int major = 0;
    int minor = 0;
    int patch = 0;
    CHECK(sscanf(ggml_version(), "%d.%d.%d", &major, &minor, &patch) == 3, "no version: %s", ggml_version());
    return VERSION(major, minor, patch);
}

void init_views(struct ggml_context * ctx) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t)) {
        if (t->view_src != NULL) {
            ggml_backend_view_init(t);
        }
    }
}

#define GAP           256 // bytes between tensors that nothing may write; tensors start at multiples of it
#define CONTEXT_BYTES (256 * 1024)

static struct ggml_tensor * root_of(struct ggml_tensor * tensor) {
    return tensor->view_src != NULL ? tensor->view_src : tensor;
}

static struct ggml_tensor * overwritten(const struct trial * trial, int source) {
    const struct rule * rule = trial->rule;
    return rule->overwritten != NULL ? rule->overwritten(trial->node, source) : trial->node->src[source];
}

static ptrdiff_t offset_of(const struct trial * trial, int source) {
    return trial->rule->offset != NULL ? trial->rule->offset(trial->node, source) : 0;
}

static char * arena_base(const struct trial * trial) {
    return ggml_backend_buffer_get_base(trial->arena);
}

// ---------------------------------------------------------------------------------------------------
// Bytes
// ---------------------------------------------------------------------------------------------------

static char * bytes_of_arena(const struct trial * trial) {
    return trial->mirror != NULL ? trial->mirror : arena_base(trial);
}

// Where the host reads and writes the bytes at an address in the arena.
static char * on_host(const struct trial * trial, const void * address) {
    return bytes_of_arena(trial) + ((const char *) address - arena_base(trial));
}

enum way { TO_DEVICE, FROM_DEVICE };

// Moves the first bytes of the arena to or from the device, if its memory is not the host's.
static void move_arena(const struct trial * trial, size_t used, enum way way) {
    if (trial->mirror == NULL) {
        return;
    }
    struct ggml_context * ctx   = no_alloc_context(2 * ggml_tensor_overhead());
    struct ggml_tensor *  bytes = ggml_new_tensor_1d(ctx, GGML_TYPE_I8, (int64_t) used);
    ggml_backend_tensor_alloc(trial->arena, bytes, arena_base(trial));
    if (way == TO_DEVICE) {
        ggml_backend_tensor_set(bytes, trial->mirror, 0, used);
    } else {
        ggml_backend_tensor_get(bytes, trial->mirror, 0, used);
    }
    ggml_free(ctx);
}

// ---------------------------------------------------------------------------------------------------
// Places
// ---------------------------------------------------------------------------------------------------

static void drop_places(struct ggml_context * ctx) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t)) {
        t->buffer = NULL;
        t->data   = NULL;
    }
}

static void put(const struct trial * trial, struct ggml_tensor * root, size_t offset) {
    CHECK(offset + ggml_nbytes(root) <= ggml_backend_buffer_get_size(trial->arena), "%s: the arena is too small",
          trial->rule->name);
    ggml_backend_tensor_alloc(trial->arena, root, arena_base(trial) + offset);
}

// Places the result and the overwritten sources at the start of the arena. Returns their end.
static size_t put_result(const struct trial * trial, unsigned sources) {
    struct ggml_tensor * result  = root_of(trial->node);
    ptrdiff_t            first = 0;
    ptrdiff_t            end   = (ptrdiff_t) ggml_nbytes(result);
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (sources & SOURCE(i)) {
            ptrdiff_t offset = offset_of(trial, i);
            ptrdiff_t bytes  = (ptrdiff_t) ggml_nbytes(root_of(overwritten(trial, i)));
            first            = offset < first ? offset : first;
            end              = offset + bytes > end ? offset + bytes : end;
        }
    }
    put(trial, result, (size_t) -first);
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (sources & SOURCE(i)) {
            struct ggml_tensor * root = root_of(overwritten(trial, i));
            CHECK(root != result && root->buffer == NULL, "%s: source %d is elsewhere", trial->rule->name, i);
            put(trial, root, (size_t) (offset_of(trial, i) - first));
        }
    }
    return (size_t) (end - first);
}

// Places all tensors. Returns the number of bytes of the arena in use.
static size_t place(const struct trial * trial, unsigned sources) {
    struct ggml_context * ctx = trial->form.ctx;
    drop_places(ctx);
    size_t used = GGML_PAD(put_result(trial, sources) + GAP, GAP);
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t)) {
        if (t->view_src == NULL && t->buffer == NULL) {
            put(trial, t, used);
            used = GGML_PAD(used + ggml_nbytes(t) + GAP, GAP);
        }
    }
    init_views(ctx);
    return used;
}

// Overwritten tensors are filled last: the destination of a copy has its own values.
static void fill(const struct trial * trial, size_t used) {
    struct ggml_context * ctx  = trial->form.ctx;
    struct ggml_tensor *  result = root_of(trial->node);
    memset(bytes_of_arena(trial), 0xa5, used);
    if (result->op == GGML_OP_NONE) {
        fill_values(result, on_host(trial, result->data), 0, trial->rule);
    }
    uint64_t seed = 1;
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t), seed++) {
        if (t->view_src == NULL && t != result && t->op == GGML_OP_NONE) {
            fill_values(t, on_host(trial, t->data), seed, trial->rule);
        }
    }
}

// ---------------------------------------------------------------------------------------------------
// Elements
// ---------------------------------------------------------------------------------------------------

static size_t packed_bytes(const struct ggml_tensor * tensor) {
    return ggml_row_size(tensor->type, tensor->ne[0]) * (size_t) ggml_nrows(tensor);
}

enum direction { OUT_OF_TENSOR, INTO_TENSOR };

// One row between a tensor and packed bytes.
static void move_row(const struct ggml_tensor * tensor, char * row, char * packed, enum direction direction) {
    size_t  size  = ggml_type_size(tensor->type);
    int64_t count = tensor->ne[0] / ggml_blck_size(tensor->type);
    for (int64_t i = 0; i < count; i++) {
        char * element = row + (size_t) i * tensor->nb[0];
        char * other   = packed + (size_t) i * size;
        memcpy(direction == INTO_TENSOR ? element : other, direction == INTO_TENSOR ? other : element, size);
    }
}

// All elements of a tensor, as if it were at `data`.
static void move_elements(const struct ggml_tensor * tensor, char * data, char * packed, enum direction direction) {
    size_t row_bytes = ggml_row_size(tensor->type, tensor->ne[0]);
    for (int64_t i = 0; i < ggml_nrows(tensor); i++) {
        int64_t i1  = i % tensor->ne[1];
        int64_t i2  = i / tensor->ne[1] % tensor->ne[2];
        int64_t i3  = i / tensor->ne[1] / tensor->ne[2];
        char *  row = data + (size_t) i1 * tensor->nb[1] + (size_t) i2 * tensor->nb[2] + (size_t) i3 * tensor->nb[3];
        move_row(tensor, row, packed + (size_t) i * row_bytes, direction);
    }
}

static char * new_bytes(size_t size) {
    char * bytes = calloc(1, size + 1);
    CHECK(bytes != NULL, "out of memory");
    return bytes;
}

// In a copy of the arena: nothing where the results of operations are.
static void blank_results(const struct trial * trial, char * arena) {
    for (int i = 0; i < ggml_graph_n_nodes(trial->graph); i++) {
        struct ggml_tensor * node = ggml_graph_node(trial->graph, i);
        if (!is_view_op(node)) {
            char * zeros = new_bytes(packed_bytes(node));
            move_elements(node, arena + ((char *) node->data - arena_base(trial)), zeros, INTO_TENSOR);
            free(zeros);
        }
    }
}

// ---------------------------------------------------------------------------------------------------
// Runs
// ---------------------------------------------------------------------------------------------------

static void compute_together(const struct trial * trial, int n_threads) {
    if (ggml_backend_is_cpu(trial->backend)) {
        ggml_backend_cpu_set_n_threads(trial->backend, n_threads);
    }
    enum ggml_status status = ggml_backend_graph_compute(trial->backend, trial->graph);
    CHECK(status == GGML_STATUS_SUCCESS, "%s: status %d", trial->rule->name, (int) status);
}

// Computes over `sources`. Returns the packed elements of the result; *clean is set to whether nothing else was
// written.
static char * compute(const struct trial * trial, unsigned sources, int n_threads, enum turns turns, bool * clean) {
    size_t used = place(trial, sources);
    fill(trial, used);
    char * before = new_bytes(used);
    memcpy(before, bytes_of_arena(trial), used);
    move_arena(trial, used, TO_DEVICE);
    if (turns == TOGETHER) {
        compute_together(trial, n_threads);
    } else {
        compute_in_turns(trial, n_threads, turns);
    }
    move_arena(trial, used, FROM_DEVICE);
    char * result = new_bytes(packed_bytes(trial->node));
    move_elements(trial->node, on_host(trial, trial->node->data), result, OUT_OF_TENSOR);
    blank_results(trial, before);
    blank_results(trial, bytes_of_arena(trial));
    *clean = memcmp(before, bytes_of_arena(trial), used) == 0;
    free(before);
    return result;
}

// Nothing is left out on the CPU.
static bool is_supported(const struct trial * trial) {
    bool supported = true;
    if (ggml_backend_is_cpu(trial->backend)) {
        return true;
    }
    for (int i = 0; i < ggml_graph_n_nodes(trial->graph); i++) {
        struct ggml_tensor * node = ggml_graph_node(trial->graph, i);
        supported                 = supported && (is_view_op(node) || ggml_backend_supports_op(trial->backend, node));
    }
    return supported;
}

struct trial trial_new(const struct rule * rule, struct form form, ggml_backend_t backend,
                       ggml_backend_buffer_t arena) {
    struct trial trial = { .rule = rule, .form = form, .backend = backend, .arena = arena };
    trial.form.ctx     = no_alloc_context(CONTEXT_BYTES);
    trial.node  = rule->build(trial.form);
    trial.graph = ggml_new_graph_custom(trial.form.ctx, 16, false);
    ggml_build_forward_expand(trial.graph, trial.node);
    if (!ggml_backend_buffer_is_host(arena)) {
        trial.mirror = new_bytes(ggml_backend_buffer_get_size(arena));
    }
    if (is_supported(&trial)) {
        bool clean  = false;
        trial.truth = compute(&trial, 0, 1, TOGETHER, &clean);
        CHECK(clean, "%s writes more than its result", rule->name);
    }
    return trial;
}

enum outcome trial_run(struct trial * trial, unsigned sources, int n_threads, enum turns turns) {
    bool   clean  = false;
    char * result = compute(trial, sources, n_threads, turns, &clean);
    bool   same   = memcmp(result, trial->truth, packed_bytes(trial->node)) == 0;
    free(result);
    return !same ? OTHER_BITS : !clean ? OTHER_WRITES : SAME_BITS;
}

void trial_free(struct trial * trial) {
    ggml_free(trial->form.ctx);
    free(trial->truth);
    free(trial->mirror);
}
