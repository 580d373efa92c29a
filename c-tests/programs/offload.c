// runs: ggml-0.26 ggml-0.9.5
//
// lastuse_offload_*: weights and caches are placed on devices within their budgets, and real schedulers and allocators
// then ask buffer types for the bytes that were promised.

#include "separate_backends.h"
#include "cases.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "lastuse.h"
#include "reports.h"
#include "splitmix.h"

#include <math.h>

#define N_LAYERS 4
#define WIDTH    64
#define N_CTX    128
#define N_ITEMS  (3 * N_LAYERS + N_LAYERS + 1)
#define DEVICES  BACKENDS

// A model with caches, and its graphs for two batches.
struct model {
    struct ggml_context * ctx;
    struct ggml_tensor *  items[N_ITEMS]; // the caches are at [3], [7], ...
    struct ggml_tensor *  inputs[2];
    struct ggml_tensor *  logits[2];
    struct ggml_cgraph *  graphs[2];
};

static bool is_cache(int item) {
    return item % 4 == 3 && item < 4 * N_LAYERS;
}

static struct ggml_tensor * matrix(struct model * m, int item, const char * name, int64_t ne0, int64_t ne1) {
    m->items[item] = ggml_new_tensor_2d(m->ctx, GGML_TYPE_F32, ne0, ne1);
    ggml_set_name(m->items[item], name);
    return m->items[item];
}

static struct ggml_tensor * layer(struct model * m, struct ggml_cgraph * graph, int at, struct ggml_tensor * x) {
    struct ggml_context * ctx   = m->ctx;
    struct ggml_tensor ** items = m->items + 4 * at;
    struct ggml_tensor *  cache = items[3];
    ggml_build_forward_expand(graph, ggml_cpy(ctx, x, ggml_view_2d(ctx, cache, WIDTH, x->ne[1], cache->nb[1], 0)));
    struct ggml_tensor * mixed = ggml_soft_max(ctx, ggml_mul_mat(ctx, cache, x));
    x = ggml_add(ctx, x, ggml_mul_mat(ctx, items[0], mixed));
    return ggml_add(ctx, x, ggml_mul_mat(ctx, items[2], ggml_silu(ctx, ggml_mul_mat(ctx, items[1], x))));
}

static struct model new_model(void) {
    struct model m;
    m.ctx = no_alloc_context(4 * 1024 * 1024);
    for (int at = 0; at < N_LAYERS; at++) {
        const char * const names[] = { "blk.%d.attn_output.weight", "blk.%d.ffn_up.weight", "blk.%d.ffn_down.weight",
                                       "cache_k_l%d" };
        const int64_t      ne[][2] = { { N_CTX, WIDTH }, { WIDTH, 256 }, { 256, WIDTH }, { WIDTH, N_CTX } };
        for (int i = 0; i < 4; i++) {
            char name[64];
            snprintf(name, sizeof(name), names[i], at);
            matrix(&m, 4 * at + i, name, ne[i][0], ne[i][1]);
        }
    }
    matrix(&m, N_ITEMS - 1, "output.weight", WIDTH, 1000);
    for (int i = 0; i < 2; i++) {
        m.inputs[i] = ggml_new_tensor_2d(m.ctx, GGML_TYPE_F32, WIDTH, i == 0 ? 48 : 1);
        ggml_set_input(m.inputs[i]);
        m.graphs[i]            = ggml_new_graph(m.ctx);
        struct ggml_tensor * x = m.inputs[i];
        for (int at = 0; at < N_LAYERS; at++) {
            x = layer(&m, m.graphs[i], at, x);
        }
        m.logits[i] = ggml_mul_mat(m.ctx, m.items[N_ITEMS - 1], x);
        ggml_set_output(m.logits[i]);
        ggml_build_forward_expand(m.graphs[i], m.logits[i]);
    }
    return m;
}

static struct lastuse_offload_params new_params(void) {
    struct lastuse_offload_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    return params;
}

static struct lastuse_offload_device new_device(const char * name, size_t budget) {
    struct lastuse_offload_device device;
    memset(&device, 0, sizeof(device));
    device.struct_size = sizeof(device);
    device.name        = name;
    device.budget      = budget;
    return device;
}

static struct lastuse_offload_item new_item(struct ggml_tensor * tensor) {
    struct lastuse_offload_item item;
    memset(&item, 0, sizeof(item));
    item.struct_size = sizeof(item);
    item.tensor      = tensor;
    return item;
}

static struct lastuse_offload * new_offload(const struct lastuse_offload_params * params) {
    struct lastuse_offload * offload = lastuse_offload_new(params);
    CHECK(offload != NULL, "refused: %s", lastuse_last_error());
    return offload;
}

static void add_device(struct lastuse_offload * offload, struct lastuse_offload_device device) {
    CHECK(lastuse_offload_add_device(offload, &device) >= 0, "refused: %s", lastuse_last_error());
}

static void add_items(struct lastuse_offload * offload, struct model * m) {
    for (int i = 0; i < N_ITEMS; i++) {
        struct lastuse_offload_item item = new_item(m->items[i]);
        item.kind                          = is_cache(i) ? LASTUSE_OFFLOAD_KV : LASTUSE_OFFLOAD_WEIGHT;
        CHECK(lastuse_offload_add_item(offload, &item) == i, "refused: %s", lastuse_last_error());
    }
}

// A offload of the model on the two backends, the first with a budget.
static struct lastuse_offload * offload_of(struct model * m, struct separate_backends * separate, size_t budget,
                                               struct lastuse_offload_params params) {
    struct lastuse_offload *      offload = new_offload(&params);
    struct lastuse_offload_device device    = new_device("gpu", budget);
    device.backend                            = separate->backends[0];
    device.buft                               = separate->types[0];
    device.reserve                            = 1000;
    add_device(offload, device);
    device         = new_device("cpu", SIZE_MAX);
    device.backend = separate->backends[1];
    device.buft    = separate->types[1];
    add_device(offload, device);
    add_items(offload, m);
    for (int i = 0; i < 2; i++) {
        CHECK(lastuse_offload_add_graph(offload, m->graphs[i]) == i, "another number");
    }
    return offload;
}

static struct lastuse_offload_memory memory_of(const struct lastuse_offload * offload, int device) {
    struct lastuse_offload_memory memory;
    memset(&memory, 0, sizeof(memory));
    memory.struct_size = sizeof(memory);
    CHECK(lastuse_offload_device_report(offload, device, &memory), "%s", lastuse_last_error());
    return memory;
}

// Puts weights and caches where they were placed, in a buffer for each device and kind, as large as needed.
static void allocate_items(struct model * m, const struct lastuse_offload * offload,
                           struct separate_backends * separate, ggml_backend_buffer_t buffers[2 * DEVICES]) {
    for (int device = 0; device < DEVICES; device++) {
        struct lastuse_offload_memory memory = memory_of(offload, device);
        for (int kind = 0; kind < 2; kind++) {
            ggml_backend_buffer_t * buffer = &buffers[2 * device + kind];
            size_t                  size   = 0;
            for (int i = 0; i < N_ITEMS; i++) {
                if (is_cache(i) == (kind == 1) && device_of_item(offload, i) == device) {
                    size += GGML_PAD(ggml_nbytes(m->items[i]), ggml_backend_buft_get_alignment(separate->types[device]));
                }
            }
            CHECK(size == (kind == 1 ? memory.kv_size : memory.weights_size), "device %d, kind %d: %zu bytes", device,
                  kind, size);
            *buffer = size == 0 ? NULL : ggml_backend_buft_alloc_buffer(separate->types[device], size);
            CHECK(size == 0 || *buffer != NULL, "device %d has no %zu bytes", device, size);
            if (size == 0) {
                continue;
            }
            ggml_backend_buffer_set_usage(*buffer, kind == 0 ? GGML_BACKEND_BUFFER_USAGE_WEIGHTS
                                                             : GGML_BACKEND_BUFFER_USAGE_ANY);
            struct ggml_tallocr talloc = ggml_tallocr_new(*buffer);
            for (int i = 0; i < N_ITEMS; i++) {
                if (is_cache(i) == (kind == 1) && device_of_item(offload, i) == device) {
                    ggml_tallocr_alloc(&talloc, m->items[i]);
                    set_values(m->items[i], (uint64_t) i);
                }
            }
        }
    }
}

static void free_buffers(ggml_backend_buffer_t buffers[2 * DEVICES]) {
    for (int i = 0; i < 2 * DEVICES; i++) {
        ggml_backend_buffer_free(buffers[i]);
    }
}

// The logits of both graphs, computed on one CPU.
static void true_logits(float * logits[2]) {
    ggml_backend_t        cpu    = new_cpu(1);
    struct model          m      = new_model();
    ggml_gallocr_t        galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    ggml_backend_buffer_t buffer = ggml_backend_alloc_buffer(cpu, 4 * 1024 * 1024);
    struct ggml_tallocr   talloc = ggml_tallocr_new(buffer);
    for (int i = 0; i < N_ITEMS; i++) {
        ggml_tallocr_alloc(&talloc, m.items[i]);
        set_values(m.items[i], (uint64_t) i);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(ggml_gallocr_alloc_graph(galloc, m.graphs[i]), "not allocated");
        set_values(m.inputs[i], 100);
        CHECK(ggml_backend_graph_compute(cpu, m.graphs[i]) == GGML_STATUS_SUCCESS, "not computed");
        logits[i] = malloc(ggml_nbytes(m.logits[i]));
        ggml_backend_tensor_get(m.logits[i], logits[i], 0, ggml_nbytes(m.logits[i]));
    }
    ggml_gallocr_free(galloc);
    ggml_backend_buffer_free(buffer);
    ggml_free(m.ctx);
    ggml_backend_free(cpu);
}

// Runs both graphs with a real scheduler. The first device has no more memory than planned.
static void run_placed(struct model * m, const struct lastuse_offload * offload,
                       struct separate_backends * separate, bool is_applied, float * truth[2]) {
    struct lastuse_offload_memory memory[DEVICES] = { memory_of(offload, 0), memory_of(offload, 1) };
    for (int device = 0; device < DEVICES; device++) {
        separate->dummies[device].byte_cap = memory[device].total_size - memory[device].reserve_size;
    }
    ggml_backend_buffer_t buffers[2 * DEVICES];
    allocate_items(m, offload, separate, buffers);
    ggml_backend_sched_t sched =
        ggml_backend_sched_new(separate->backends, separate->types, DEVICES, GGML_DEFAULT_GRAPH_SIZE, false, true);
    size_t compute[DEVICES] = { 0, 0 };
    for (int i = 0; i < 2; i++) {
        ggml_backend_sched_reset(sched);
        CHECK(!is_applied || lastuse_offload_apply(offload, i, sched), "not applied: %s", lastuse_last_error());
        CHECK(ggml_backend_sched_alloc_graph(sched, m->graphs[i]), "graph %d does not fit", i);
        set_values(m->inputs[i], 100);
        CHECK(ggml_backend_sched_graph_compute(sched, m->graphs[i]) == GGML_STATUS_SUCCESS, "not computed");
        CHECK(memcmp(m->logits[i]->data, truth[i], ggml_nbytes(m->logits[i])) == 0, "graph %d has other logits", i);
        for (int device = 0; device < DEVICES; device++) {
            size_t size     = ggml_backend_sched_get_buffer_size(sched, separate->backends[device]);
            compute[device] = size > compute[device] ? size : compute[device];
        }
    }
    for (int device = 0; device < DEVICES; device++) {
        struct lastuse_offload_memory * promised = &memory[device];
        CHECK(compute[device] == promised->compute_size, "device %d: %zu bytes, not %zu", device, compute[device],
              promised->compute_size);
        CHECK(separate->dummies[device].peak_bytes == promised->total_size - promised->reserve_size,
              "device %d was asked for %zu bytes, not %zu", device, separate->dummies[device].peak_bytes,
              promised->total_size - promised->reserve_size);
    }
    ggml_backend_sched_free(sched);
    free_buffers(buffers);
}

// The smallest budget of the first device, and that of everything there.
static void least_and_most(struct lastuse_offload_params params, size_t bounds[2]) {
    struct model             m = new_model();
    struct separate_backends separate;
    separate_backends_init(&separate, 1);
    struct lastuse_offload * all = offload_of(&m, &separate, SIZE_MAX, params);
    CHECK(lastuse_offload_solve(all), "%s", lastuse_last_error());
    struct lastuse_offload_memory memory = memory_of(all, 0);
    bounds[1]                              = memory.total_size;
    CHECK(memory.weights_size > 500000 && memory.kv_size > 100000, "not everything is on the device");
    CHECK(memory.compute_size > 0 && memory.reserve_size == 1000 && memory.budget == SIZE_MAX, "wrong sizes");
    lastuse_offload_free(all);
    struct lastuse_offload * none = offload_of(&m, &separate, 1000, params);
    bool                       fits = lastuse_offload_solve(none);
    bounds[0]                       = fits ? 1000 : memory_of(none, 0).needed_size;
    CHECK(bounds[0] >= 1000 && bounds[0] < bounds[1], "%zu to %zu", bounds[0], bounds[1]);
    lastuse_offload_free(none);
    ggml_free(m.ctx);
    separate_backends_free(&separate);
}

static void check_schedulers(struct lastuse_offload_params params, bool is_applied) {
    float * truth[2];
    size_t  bounds[2];
    true_logits(truth);
    least_and_most(params, bounds);
    uint64_t random    = 1;
    size_t   last_used = 0;
    for (int part = 0; part <= 12; part++) {
        size_t                   budget = bounds[0] + (bounds[1] - bounds[0]) * (size_t) part / 12;
        struct model             m      = new_model();
        struct separate_backends separate;
        separate_backends_init(&separate, 1);
        budget += part == 0 || part == 12 ? 0 : splitmix64(&random) % 5000;
        struct lastuse_offload * offload = offload_of(&m, &separate, budget, params);
        CHECK(lastuse_offload_solve(offload), "%zu bytes: %s", budget, lastuse_last_error());
        struct lastuse_offload_memory memory = memory_of(offload, 0);
        CHECK(memory.total_size <= budget && memory.budget == budget, "%zu of %zu bytes", memory.total_size, budget);
        CHECK(memory.total_size == memory.weights_size + memory.kv_size + memory.compute_size + memory.reserve_size,
              "no sum");
        last_used = memory.total_size;
        run_placed(&m, offload, &separate, is_applied, truth);
        lastuse_offload_free(offload);
        ggml_free(m.ctx);
        separate_backends_free(&separate);
    }
    CHECK(last_used == bounds[1], "not everything fits in %zu bytes", bounds[1]);
    free(truth[0]);
    free(truth[1]);
}

CASE(schedulers_take_what_was_promised) {
    check_schedulers(new_params(), false);
}

CASE(applied_placements_take_what_was_promised) {
    check_schedulers(new_params(), true);
    struct lastuse_offload_params params = new_params();
    params.rule                            = LASTUSE_OFFLOAD_ANY_OPERAND;
    check_schedulers(params, true);
}

CASE(other_orders_take_what_was_promised) {
    struct lastuse_offload_params params = new_params();
    params.order                           = LASTUSE_OFFLOAD_BY_CLASS;
    check_schedulers(params, false);
    params.order = LASTUSE_OFFLOAD_AS_GIVEN;
    check_schedulers(params, false);
}

CASE(allocators_take_what_was_promised) {
    const enum lastuse_offload_rule rules[] = { LASTUSE_OFFLOAD_SCHEDULER, LASTUSE_OFFLOAD_ANY_OPERAND,
                                                  LASTUSE_OFFLOAD_POWERINFER };
    int                               divided = 0;
    for (int at = 0; at < 3 * 8; at++) {
        struct model             m = new_model();
        struct separate_backends separate;
        separate_backends_init(&separate, 1);
        struct lastuse_offload_params params = new_params();
        params.direct                          = true;
        params.rule                            = rules[at % 3];
        size_t                     budget      = 50000 + (size_t) (at / 3) * 150000;
        struct lastuse_offload * offload   = offload_of(&m, &separate, budget, params);
        CHECK(lastuse_offload_solve(offload), "%s", lastuse_last_error());
        size_t compute[DEVICES] = { 0, 0 };
        bool   both             = false;
        for (int i = 0; i < 2; i++) {
            int * node_ids = malloc(sizeof(int) * (size_t) m.graphs[i]->n_nodes);
            int * leaf_ids = malloc(sizeof(int) * (size_t) m.graphs[i]->n_leafs);
            CHECK(lastuse_offload_buffer_ids(offload, i, node_ids, leaf_ids), "%s", lastuse_last_error());
            CHECK(lastuse_offload_buffer_ids(offload, i, NULL, NULL), "%s", lastuse_last_error());
            for (int node = 0; node < m.graphs[i]->n_nodes; node++) {
                both |= node_ids[node] != node_ids[0];
            }
            // The items have memory elsewhere, so the allocator does not plan them.
            ggml_backend_buffer_t buffers[2 * DEVICES];
            allocate_items(&m, offload, &separate, buffers);
            ggml_gallocr_t galloc = ggml_gallocr_new_n(separate.types, DEVICES);
            CHECK(ggml_gallocr_reserve_n(galloc, m.graphs[i], node_ids, leaf_ids), "not reserved");
            for (int device = 0; device < DEVICES; device++) {
                size_t size     = ggml_gallocr_get_buffer_size(galloc, device);
                compute[device] = size > compute[device] ? size : compute[device];
            }
            ggml_gallocr_free(galloc);
            free_buffers(buffers);
            for (int item = 0; item < N_ITEMS; item++) {
                m.items[item]->buffer = NULL;
                m.items[item]->data   = NULL;
            }
            free(node_ids);
            free(leaf_ids);
        }
        for (int device = 0; device < DEVICES; device++) {
            size_t promised = memory_of(offload, device).compute_size;
            CHECK(compute[device] == promised, "rule %d, budget %zu, device %d: %zu bytes, not %zu", at % 3, budget,
                  device, compute[device], promised);
        }
        divided += both;
        lastuse_offload_free(offload);
        ggml_free(m.ctx);
        separate_backends_free(&separate);
    }
    CHECK(divided >= 12, "only %d offload plans use both devices", divided);
}

CASE(a_byte_too_little_is_another_offload) {
    size_t bounds[2];
    least_and_most(new_params(), bounds);
    struct model             m = new_model();
    struct separate_backends separate;
    separate_backends_init(&separate, 1);
    for (int i = 0; i < 2; i++) {
        size_t                     budget    = bounds[i] - 1;
        struct lastuse_offload * offload = offload_of(&m, &separate, budget, new_params());
        bool                       fits      = lastuse_offload_solve(offload);
        struct lastuse_offload_memory memory = fits || budget >= 1000 ? memory_of(offload, 0)
                                                                        : (struct lastuse_offload_memory){ 0 };
        CHECK(fits == (i == 1), "%zu bytes: %s", budget, lastuse_last_error());
        CHECK(!fits || memory.total_size <= budget, "%zu of %zu bytes", memory.total_size, budget);
        CHECK(fits || budget < 1000 || memory.needed_size == bounds[i], "%zu bytes needed", memory.needed_size);
        CHECK(fits || device_of_item(offload, 0) == -1, "placed nevertheless");
        lastuse_offload_free(offload);
    }
    ggml_free(m.ctx);
    separate_backends_free(&separate);
}

struct measuring {
    int  calls;
    bool fails;
};

// Each item on a device takes 10 bytes of its compute buffer.
static bool measure(const int * devices, size_t n_items, size_t * sizes, size_t n_devices, void * user_data) {
    struct measuring * measuring = user_data;
    CHECK(n_items == 3 && n_devices == 2, "%zu items on %zu devices", n_items, n_devices);
    measuring->calls++;
    sizes[0] = sizes[1] = 5;
    for (size_t i = 0; i < n_items; i++) {
        sizes[devices[i]] += 10;
    }
    return !measuring->fails;
}

static struct lastuse_offload * measured_offload(struct measuring * measuring, size_t budget) {
    struct lastuse_offload_params params = new_params();
    params.callback                         = measure;
    params.user_data                       = measuring;
    struct lastuse_offload *      offload = new_offload(&params);
    struct lastuse_offload_device device    = new_device("gpu", budget);
    device.alignment                          = 1;
    add_device(offload, device);
    add_device(offload, new_device("cpu", SIZE_MAX));
    for (int i = 0; i < 3; i++) {
        struct lastuse_offload_item item = new_item(NULL);
        item.name                          = i == 0 ? "a" : i == 1 ? "b" : "c";
        item.bytes                         = 100;
        item.benefit                       = 1.0 + i;
        CHECK(lastuse_offload_add_item(offload, &item) == i, "%s", lastuse_last_error());
    }
    return offload;
}

CASE(programs_measure_themselves) {
    struct measuring           measuring = { 0, false };
    struct lastuse_offload * offload = measured_offload(&measuring, 225);
    CHECK(lastuse_offload_solve(offload), "%s", lastuse_last_error());
    CHECK(measuring.calls > 0, "never measured");
    CHECK(device_of_item(offload, 0) == 1 && device_of_item(offload, 1) == 0 &&
              device_of_item(offload, 2) == 0, "the two with the most benefit are not on the device");
    CHECK(memory_of(offload, 0).total_size == 225 && memory_of(offload, 0).compute_size == 25, "another sum");
    lastuse_offload_free(offload);
    offload = measured_offload(&measuring, 224);
    CHECK(lastuse_offload_solve(offload) && memory_of(offload, 0).total_size == 115, "not one item");
    lastuse_offload_free(offload);
    measuring.fails = true;
    offload       = measured_offload(&measuring, 225);
    CHECK(!lastuse_offload_solve(offload), "measured");
    CHECK(strstr(lastuse_last_error(), "returned false"), "%s", lastuse_last_error());
    lastuse_offload_free(offload);
}

CASE(layers_are_contiguous) {
    struct model             m = new_model();
    struct separate_backends separate;
    separate_backends_init(&separate, 1);
    struct lastuse_offload_params params = new_params();
    params.whole_layers                    = true;
    struct lastuse_offload * offload   = offload_of(&m, &separate, 500000, params);
    CHECK(lastuse_offload_solve(offload), "%s", lastuse_last_error());
    int on_device = 0;
    for (int at = 0; at < N_LAYERS; at++) {
        int device = device_of_item(offload, 4 * at);
        for (int i = 1; i < 4; i++) {
            CHECK(device_of_item(offload, 4 * at + i) == device, "layer %d is divided", at);
        }
        CHECK(device == 0 || on_device == 0, "layer %d is on the host behind one that is not", at);
        on_device += device == 0;
    }
    CHECK(on_device > 0 && on_device < N_LAYERS, "%d layers on the device", on_device);
    CHECK(device_of_item(offload, N_ITEMS - 1) == 1, "an item without a layer is not on the host");
    lastuse_offload_free(offload);
    ggml_free(m.ctx);
    separate_backends_free(&separate);
}

CASE(pinned_items_stay) {
    struct model               m         = new_model();
    struct lastuse_offload * offload = new_offload(NULL);
    add_device(offload, new_device("gpu", SIZE_MAX));
    add_device(offload, new_device("cpu", SIZE_MAX));
    for (int i = 0; i < N_ITEMS; i++) {
        struct lastuse_offload_item item = new_item(m.items[i]);
        item.is_pinned                     = i % 2 == 1;
        item.device                        = 1;
        item.benefit                       = 1e9;
        lastuse_offload_add_item(offload, &item);
    }
    lastuse_offload_add_graph(offload, m.graphs[0]);
    CHECK(lastuse_offload_solve(offload), "%s", lastuse_last_error());
    for (int i = 0; i < N_ITEMS; i++) {
        CHECK(device_of_item(offload, i) == i % 2, "item %d is elsewhere", i);
    }
    lastuse_offload_free(offload);
    ggml_free(m.ctx);
}

// Expects that nothing is placed, and a word of the reason.
static void expect_failure(struct lastuse_offload * offload, const char * word) {
    CHECK(!lastuse_offload_solve(offload), "placed, where \"%s\" was expected", word);
    CHECK(strstr(lastuse_last_error(), word), "no \"%s\" in: %s", word, lastuse_last_error());
    lastuse_offload_free(offload);
}

static struct lastuse_offload * with_host(size_t budget) {
    struct lastuse_offload * offload = new_offload(NULL);
    add_device(offload, new_device("gpu", budget));
    add_device(offload, new_device("cpu", SIZE_MAX));
    return offload;
}

CASE(bad_devices_are_named) {
    struct model               m         = new_model();
    struct lastuse_offload * offload = new_offload(NULL);
    lastuse_offload_add_graph(offload, m.graphs[0]);
    expect_failure(offload, "there is no device");
    expect_failure(with_host(0), "no graph and no function that measures");

    struct lastuse_offload_device device = new_device("small", 10);
    device.reserve                         = 11;
    offload                              = new_offload(NULL);
    add_device(offload, device);
    lastuse_offload_add_graph(offload, m.graphs[0]);
    expect_failure(offload, "small: the budget of 10 bytes is below the reserve of 11");

    device           = new_device("odd", SIZE_MAX);
    device.alignment = 48;
    offload        = new_offload(NULL);
    add_device(offload, device);
    lastuse_offload_add_graph(offload, m.graphs[0]);
    expect_failure(offload, "odd: the alignment must be a power of two");

    offload = with_host(SIZE_MAX - 1);
    add_items(offload, &m);
    lastuse_offload_add_graph(offload, m.graphs[0]);
    CHECK(lastuse_offload_solve(offload), "%s", lastuse_last_error());
    lastuse_offload_free(offload);

    struct measuring measuring = { 0, false };
    offload                  = measured_offload(&measuring, 225);
    lastuse_offload_add_graph(offload, m.graphs[0]);
    expect_failure(offload, "both graphs and a function");

    // Everything has to be on the host, which is too small.
    offload = new_offload(NULL);
    add_device(offload, new_device("tiny", 100));
    add_items(offload, &m);
    lastuse_offload_add_graph(offload, m.graphs[0]);
    CHECK(!lastuse_offload_solve(offload), "100 bytes are enough");
    CHECK(strstr(lastuse_last_error(), "tiny needs"), "%s", lastuse_last_error());
    size_t needed = memory_of(offload, 0).needed_size;
    CHECK(memory_of(offload, 0).total_size == 0 && needed > 900000, "%zu bytes needed", needed);
    lastuse_offload_free(offload);
    offload = new_offload(NULL);
    add_device(offload, new_device("tiny", needed));
    add_items(offload, &m);
    lastuse_offload_add_graph(offload, m.graphs[0]);
    CHECK(lastuse_offload_solve(offload) && memory_of(offload, 0).total_size == needed, "not enough");
    lastuse_offload_free(offload);
    ggml_free(m.ctx);
}

static void expect_no_item(struct lastuse_offload * offload, struct lastuse_offload_item item,
                           const char * word) {
    CHECK(lastuse_offload_add_item(offload, &item) == -1, "added, where \"%s\" was expected", word);
    CHECK(strstr(lastuse_last_error(), word), "no \"%s\" in: %s", word, lastuse_last_error());
}

CASE(bad_items_are_named) {
    struct model               m         = new_model();
    struct lastuse_offload * offload = with_host(SIZE_MAX);
    expect_no_item(offload, new_item(NULL), "the item has no tensor");
    struct lastuse_offload_item item = new_item(m.items[0]);
    item.kind                          = (enum lastuse_offload_kind) 7;
    expect_no_item(offload, item, "kind is 7");
    item              = new_item(m.items[0]);
    item.tensor_class = (enum lastuse_offload_class) 99;
    expect_no_item(offload, item, "tensor_class is 99");
    item           = new_item(m.items[0]);
    item.is_pinned = true;
    item.device    = -1;
    expect_no_item(offload, item, "device is -1");
    double benefit   = 1.0;
    item             = new_item(m.items[0]);
    item.n_rows      = 5;
    item.row_benefits = &benefit;
    expect_no_item(offload, item, "row_bytes");
    item = new_item(m.items[0]);
    CHECK(lastuse_offload_add_item(offload, &item) == 0, "refused: %s", lastuse_last_error());
    expect_no_item(offload, new_item(m.items[0]), "added before"); // a shared tensor
    lastuse_offload_free(offload);

    item         = new_item(m.items[0]);
    item.benefit = NAN;
    offload    = with_host(SIZE_MAX);
    lastuse_offload_add_item(offload, &item);
    lastuse_offload_add_graph(offload, m.graphs[0]);
    expect_failure(offload, "the benefit must be finite and not negative");

    item           = new_item(m.items[0]);
    item.is_pinned = true;
    item.device    = 2;
    offload      = with_host(SIZE_MAX);
    lastuse_offload_add_item(offload, &item);
    lastuse_offload_add_graph(offload, m.graphs[0]);
    expect_failure(offload, "is pinned to a device that is not in the list");

    struct ggml_tensor * view = ggml_view_1d(m.ctx, m.items[3], 64, 0);
    struct ggml_cgraph * with_view = ggml_new_graph(m.ctx);
    ggml_set_name(view, "window");
    ggml_build_forward_expand(with_view, ggml_sqr(m.ctx, view));
    item      = new_item(view);
    offload = with_host(SIZE_MAX);
    lastuse_offload_add_item(offload, &item);
    lastuse_offload_add_graph(offload, with_view);
    expect_failure(offload, "\"window\" is a view");

    // Rows with rising benefits.
    double rising[2]  = { 1.0, 2.0 };
    item              = new_item(m.items[0]);
    item.n_rows       = 512;
    item.row_bytes    = 10;
    item.row_benefits = rising;
    offload         = with_host(SIZE_MAX);
    lastuse_offload_add_item(offload, &item);
    lastuse_offload_add_graph(offload, m.graphs[0]);
    expect_failure(offload, "from the most to the least");
    ggml_free(m.ctx);
}

CASE(unknown_memory_is_named) {
    struct model             m = new_model();
    struct separate_backends separate;
    separate_backends_init(&separate, 1);
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(separate.types[0], 1 << 20);
    struct ggml_tallocr   talloc = ggml_tallocr_new(buffer);
    ggml_tallocr_alloc(&talloc, m.items[0]);
    separate.dummies[0].type.iface.is_host = NULL;
    struct lastuse_offload *      offload = new_offload(NULL);
    struct lastuse_offload_device device    = new_device("cpu", SIZE_MAX);
    device.buft                               = ggml_backend_cpu_buffer_type();
    add_device(offload, device);
    for (int i = 1; i < N_ITEMS; i++) {
        struct lastuse_offload_item item = new_item(m.items[i]);
        lastuse_offload_add_item(offload, &item);
    }
    lastuse_offload_add_graph(offload, m.graphs[0]);
    expect_failure(offload, "is in a buffer of type first, which no device has");
    ggml_backend_buffer_free(buffer);
    ggml_free(m.ctx);
    separate_backends_free(&separate);
}

CASE(questions_without_an_answer) {
    struct model             m = new_model();
    struct separate_backends separate;
    separate_backends_init(&separate, 1);
    struct lastuse_offload *      offload = offload_of(&m, &separate, SIZE_MAX, new_params());
    struct lastuse_offload_memory memory    = { sizeof(memory), 0, 0, 0, 0, 0, 0, 0 };
    CHECK(!lastuse_offload_device_report(offload, 0, &memory), "nothing was placed");
    CHECK(strstr(lastuse_last_error(), "lastuse_offload_solve first"), "%s", lastuse_last_error());
    CHECK(!lastuse_offload_buffer_ids(offload, 0, NULL, NULL), "nothing was placed");
    CHECK(strstr(lastuse_last_error(), "lastuse_offload_solve first"), "%s", lastuse_last_error());
    CHECK(lastuse_offload_solve(offload), "%s", lastuse_last_error());
    int device;
    CHECK(rows_of_item(offload, 0, &device) == 0 && device == -1, "it has no rows");
    CHECK(!lastuse_offload_device_report(offload, 2, &memory), "there are two");
    CHECK(strstr(lastuse_last_error(), "there is no device 2; there are 2"), "%s", lastuse_last_error());
    CHECK(device_of_item(offload, N_ITEMS) == -1, "there are fewer");
    CHECK(strstr(lastuse_last_error(), "there is no item"), "%s", lastuse_last_error());
    CHECK(!lastuse_offload_buffer_ids(offload, 2, NULL, NULL), "there are two");
    CHECK(strstr(lastuse_last_error(), "there is no graph 2; there are 2"), "%s", lastuse_last_error());
    ggml_backend_sched_t sched =
        ggml_backend_sched_new(separate.backends + 1, separate.types + 1, 1, GGML_DEFAULT_GRAPH_SIZE, false, true);
    CHECK(!lastuse_offload_apply(offload, 0, sched), "one backend for two devices");
    CHECK(strstr(lastuse_last_error(), "the scheduler has 1 backends"), "%s", lastuse_last_error());
    ggml_backend_sched_free(sched);
    // The offload is forgotten when something is added.
    lastuse_offload_add_graph(offload, m.graphs[0]);
    CHECK(device_of_item(offload, 0) == -1, "placed without being asked");
    lastuse_offload_free(offload);

    struct lastuse_offload_params params = new_params();
    params.rule                            = LASTUSE_OFFLOAD_POWERINFER;
    offload                              = offload_of(&m, &separate, SIZE_MAX, params);
    CHECK(lastuse_offload_solve(offload), "%s", lastuse_last_error());
    sched = ggml_backend_sched_new(separate.backends, separate.types, 2, GGML_DEFAULT_GRAPH_SIZE, false, true);
    CHECK(!lastuse_offload_apply(offload, 0, sched), "no scheduler can do that");
    CHECK(strstr(lastuse_last_error(), "PowerInfer's rule"), "%s", lastuse_last_error());
    ggml_backend_sched_free(sched);
    lastuse_offload_free(offload);
    params.rule = (enum lastuse_offload_rule) 3;
    CHECK(lastuse_offload_new(&params) == NULL, "there is no such rule");
    CHECK(strstr(lastuse_last_error(), "params->rule is 3"), "%s", lastuse_last_error());
    ggml_free(m.ctx);
    separate_backends_free(&separate);
}
