// runs: ggml-0.26 ggml-0.9.5
//
// The memory of devices: the sums equal the bytes requested from buffer types, counted at the buffer types themselves.
//
//   accounting <case>

#include "cases.h"
#include "computing.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "lastuse.h"
#include "separate_backends.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define WIDTH 64
#define ROWS  5

// ---------------------------------------------------------------------------------------------------
// Accountings
// ---------------------------------------------------------------------------------------------------

// The bytes of a device.
struct sums {
    size_t weights, kv, compute, other, rounding, total, free, memory;
};

static void record(const char * path) {
    CHECK(lastuse_set("accounting", path), "%s", lastuse_last_error());
}

static char * json_of(bool at_peak) {
    char * json = lastuse_accounting_json(at_peak);
    CHECK(json != NULL, "%s", lastuse_last_error());
    return json;
}

// The number after a key.
static size_t number(const char * at, const char * key) {
    char quoted[32];
    snprintf(quoted, sizeof(quoted), "\"%s\":", key);
    at = strstr(at, quoted);
    CHECK(at != NULL, "no %s", key);
    return strtoull(at + strlen(quoted), NULL, 10);
}

// The sums of the device with this name; zeros if there is none. The parts add up to the total.
static struct sums sums_in(const char * json, const char * device) {
    struct sums sums = { 0 };
    char        start[64];
    snprintf(start, sizeof(start), "{\"name\":\"%s\",\"description\":", device);
    const char * at = strstr(json, start);
    if (at != NULL) {
        sums = (struct sums) {
            .weights  = number(at, "weights"),
            .kv       = number(at, "kv"),
            .compute  = number(at, "compute"),
            .other    = number(at, "other"),
            .rounding = number(at, "rounding"),
            .total    = number(at, "total"),
            .free     = number(at, "free"),
            .memory   = number(at, "memory"),
        };
        size_t parts = sums.weights + sums.kv + sums.compute + sums.other + sums.rounding;
        CHECK(parts == sums.total, "%s: the parts are %zu, the total %zu", device, parts, sums.total);
    }
    return sums;
}

static struct sums sums_of(bool at_peak, const char * device) {
    char *      json = json_of(at_peak);
    struct sums sums = sums_in(json, device);
    lastuse_string_free(json);
    return sums;
}

static void check_total(bool at_peak, const char * device, size_t counted) {
    struct sums sums = sums_of(at_peak, device);
    CHECK(sums.total == counted, "%s: %zu bytes are accounted, and %zu were asked for", device, sums.total, counted);
}

static void note_and_free(ggml_backend_buffer_t buffer) {
    CHECK(lastuse_buffer_note_free(buffer), "%s", lastuse_last_error());
    ggml_backend_buffer_free(buffer);
}

// ---------------------------------------------------------------------------------------------------
// A layer of a model: a matrix, a cache that it writes to, and an input
// ---------------------------------------------------------------------------------------------------

struct layer {
    struct ggml_context * weights;
    struct ggml_context * caches;
    struct ggml_context * ctx;
    struct ggml_tensor *  matrix;
    struct ggml_tensor *  bias;
    struct ggml_tensor *  unread;
    struct ggml_tensor *  cache;
    struct ggml_tensor *  input;
    struct ggml_cgraph *  graph;
};

static struct layer layer_of(int64_t rows) {
    struct layer layer = {
        .weights = no_alloc_context(8 * ggml_tensor_overhead()),
        .caches  = no_alloc_context(8 * ggml_tensor_overhead()),
        .ctx     = no_alloc_context(64 * ggml_tensor_overhead() + 2 * ggml_graph_overhead()),
    };
    layer.matrix = ggml_set_name(ggml_new_tensor_2d(layer.weights, GGML_TYPE_F32, WIDTH, WIDTH), "blk.0.ffn_up.weight");
    layer.bias   = ggml_set_name(ggml_new_tensor_1d(layer.weights, GGML_TYPE_F32, WIDTH), "blk.0.ffn_up.bias");
    layer.unread = ggml_set_name(ggml_new_tensor_1d(layer.weights, GGML_TYPE_F32, 3), "rope_freqs.weight");
    layer.cache  = ggml_set_name(ggml_new_tensor_1d(layer.caches, GGML_TYPE_F32, WIDTH * ROWS + 1), "cache_k_l0");

    layer.input = ggml_set_name(ggml_new_tensor_2d(layer.ctx, GGML_TYPE_F32, WIDTH, rows), "inp_embd");
    ggml_set_input(layer.input);
    struct ggml_tensor * x = ggml_mul_mat(layer.ctx, layer.matrix, layer.input);
    x                      = ggml_set_name(ggml_add(layer.ctx, x, layer.bias), "Kcur-0");
    struct ggml_tensor * slots = ggml_view_2d(layer.ctx, layer.cache, WIDTH, 1, WIDTH * 4, 2 * WIDTH * 4);
    struct ggml_tensor * first = ggml_view_2d(layer.ctx, x, WIDTH, 1, x->nb[1], 0);
    struct ggml_tensor * kept  = ggml_set_name(ggml_cpy(layer.ctx, first, slots), "k_cache_write-0");
    layer.graph                = ggml_new_graph(layer.ctx);
    ggml_build_forward_expand(layer.graph, kept);
    struct ggml_tensor * all = ggml_view_2d(layer.ctx, layer.cache, WIDTH, ROWS, WIDTH * 4, 0);
    struct ggml_tensor * out = ggml_set_name(ggml_mul_mat(layer.ctx, all, x), "kq-0");
    ggml_build_forward_expand(layer.graph, ggml_set_name(ggml_soft_max(layer.ctx, out), "kq_soft_max-0"));
    return layer;
}

static void layer_free(struct layer * layer) {
    ggml_free(layer->weights);
    ggml_free(layer->caches);
    ggml_free(layer->ctx);
}

static void place_in(struct ggml_context * ctx, ggml_backend_buffer_type_t type, ggml_backend_buffer_t * buffer) {
    *buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, type);
    CHECK(*buffer != NULL, "no buffer");
}

// ---------------------------------------------------------------------------------------------------
// Cases
// ---------------------------------------------------------------------------------------------------

// Weights, caches and the compute buffer in one counting type; after replanning; after everything was freed.
CASE(sums_are_what_was_asked_for) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "counting", 128, 0);
    record("on");
    ggml_backend_buffer_type_t type = dummy_buft_type(&dummy);
    struct layer               small = layer_of(1);
    ggml_backend_buffer_t      weights;
    ggml_backend_buffer_t      caches;
    place_in(small.weights, type, &weights);
    place_in(small.caches, type, &caches);
    ggml_backend_buffer_set_usage(weights, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_gallocr_t galloc = ggml_gallocr_new(type);
    CHECK(ggml_gallocr_alloc_graph(galloc, small.graph), "not allocated");

    struct sums sums = sums_of(false, "CPU");
    CHECK(sums.total == dummy.live_bytes, "%zu of %zu", sums.total, dummy.live_bytes);
    size_t read = ggml_nbytes(small.matrix) + ggml_nbytes(small.bias) + ggml_nbytes(small.unread);
    CHECK(sums.weights == read, "%zu bytes of weights, not %zu", sums.weights, read);
    CHECK(sums.kv == ggml_nbytes(small.cache), "%zu bytes of caches", sums.kv);
    CHECK(sums.compute + sums.kv + sums.weights + sums.rounding == sums.total, "nothing else");
    CHECK(sums.memory > 0 && sums.free > 0, "the host has memory");

    // A larger graph takes a larger buffer.
    size_t       before = dummy.live_bytes;
    struct layer large  = layer_of(ROWS);
    ggml_backend_buffer_t more[2];
    place_in(large.weights, type, &more[0]);
    place_in(large.caches, type, &more[1]);
    CHECK(ggml_gallocr_alloc_graph(galloc, large.graph) && dummy.live_bytes > before, "it grows");
    size_t most = dummy.live_bytes;
    check_total(false, "CPU", most);

    // What is held now shrinks, and the peak stays.
    ggml_gallocr_free(galloc);
    check_total(false, "CPU", dummy.live_bytes);
    ggml_backend_buffer_t all[] = { more[0], more[1], weights, caches };
    for (int i = 0; i < 4; i++) {
        note_and_free(all[i]);
        check_total(false, "CPU", dummy.live_bytes);
        check_total(true, "CPU", most);
    }
    CHECK(dummy.live_bytes == 0, "all is freed");
    layer_free(&small);
    layer_free(&large);
}

// Buffers that are limited to a few tensors, and tensors that need more than their elements.
CASE(several_chunks_and_padded_tensors) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "limited", 32, WIDTH * WIDTH * 4 + 96);
    record("on");
    dummy.extra_bytes                = dummy_row_padding;
    ggml_backend_buffer_type_t type  = dummy_buft_type(&dummy);
    struct layer               layer = layer_of(3 * WIDTH);
    ggml_backend_buffer_t      buffers[2];
    place_in(layer.weights, type, &buffers[0]);
    place_in(layer.caches, type, &buffers[1]);
    ggml_gallocr_t galloc = ggml_gallocr_new(type);
    CHECK(ggml_gallocr_alloc_graph(galloc, layer.graph), "not allocated");
    CHECK(dummy.live_buffers > 4, "%zu buffers", dummy.live_buffers);
    check_total(false, "CPU", dummy.live_bytes);
    ggml_gallocr_free(galloc);
    ggml_backend_buffer_free(buffers[0]);
    ggml_backend_buffer_free(buffers[1]);
    layer_free(&layer);
}

// A buffer that the program allocates itself, without tensors.
CASE(other_buffers_are_counted_when_noted) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "counting", 32, 0);
    record("on");
    ggml_backend_buffer_t outputs = ggml_backend_buft_alloc_buffer(dummy_buft_type(&dummy), 1000);
    check_total(false, "CPU", 0);
    CHECK(lastuse_buffer_note(outputs, 1000, false), "%s", lastuse_last_error());
    char *      json = json_of(false);
    struct sums sums = sums_in(json, "CPU");
    CHECK(sums.total == dummy.live_bytes && sums.other == 1000, "%zu, %zu", sums.total, sums.other);
    CHECK(strstr(json, "\"buffers\":[{\"id\":1,\"device\":\"CPU\",\"buffer_type\":\"counting\",\"usage\":\"any\",\"mapped\":false,") != NULL,
          "%s", json);
    lastuse_string_free(json);
    note_and_free(outputs);
}

static enum ggml_backend_dev_type is_gpu(ggml_backend_dev_t dev) {
    (void) dev;
    return GGML_BACKEND_DEVICE_TYPE_GPU;
}

static const char * gpu_name(ggml_backend_dev_t dev) {
    (void) dev;
    return "GPU0";
}

static void gpu_memory(ggml_backend_dev_t dev, size_t * free, size_t * total) {
    (void) dev;
    *free  = 12345;
    *total = 1 << 20;
}

static const char * gpu_backend_name(ggml_backend_t backend) {
    (void) backend;
    return "GPU0";
}

// Two devices: the first is a GPU with its own memory.
static void two_devices_init(struct separate_backends * devices) {
    separate_backends_init(devices, 1);
    struct ggml_backend_device * gpu     = &devices->devices[0];
    gpu->iface.get_type                  = is_gpu;
    gpu->iface.get_name                  = gpu_name;
    gpu->iface.get_description           = gpu_name;
    gpu->iface.get_memory                = gpu_memory;
    devices->structs[0].iface.get_name   = gpu_backend_name;
    devices->dummies[0].type.device      = gpu;
    devices->dummies[0].type.iface.is_host = NULL;
}

struct scheduled {
    struct separate_backends devices;
    struct layer             layer;
    ggml_backend_buffer_t    buffers[2];
    ggml_backend_sched_t     sched;
};

// Weights on the GPU, caches on the host.
static void schedule(struct scheduled * it) {
    record("on");
    two_devices_init(&it->devices);
    it->layer = layer_of(2);
    place_in(it->layer.weights, it->devices.types[0], &it->buffers[0]);
    place_in(it->layer.caches, it->devices.types[1], &it->buffers[1]);
    ggml_backend_buffer_set_usage(it->buffers[0], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    it->sched = ggml_backend_sched_new(it->devices.backends, it->devices.types, BACKENDS, 128, false, false);
    CHECK(ggml_backend_sched_alloc_graph(it->sched, it->layer.graph), "not allocated");
}

static void scheduled_free(struct scheduled * it) {
    ggml_backend_sched_free(it->sched);
    ggml_backend_buffer_free(it->buffers[0]);
    ggml_backend_buffer_free(it->buffers[1]);
    layer_free(&it->layer);
    separate_backends_free(&it->devices);
}

CASE(schedulers_with_two_devices) {
    static struct scheduled it;
    schedule(&it);
    char *      json = json_of(false);
    struct sums gpu  = sums_in(json, "GPU0");
    struct sums host = sums_in(json, "CPU");
    CHECK(gpu.total == it.devices.dummies[0].live_bytes, "%zu of %zu", gpu.total, it.devices.dummies[0].live_bytes);
    CHECK(host.total == it.devices.dummies[1].live_bytes, "%zu of %zu", host.total, it.devices.dummies[1].live_bytes);
    CHECK(gpu.free == 12345 && gpu.memory == 1 << 20, "the numbers of the device");
    CHECK(gpu.kv == 0 && gpu.compute > 0 && gpu.weights >= ggml_nbytes(it.layer.matrix), "weights are on the GPU");
    CHECK(host.kv == ggml_nbytes(it.layer.cache) && host.weights == 0, "the cache is on the host");
    CHECK(sums_of(false, "GPU0").other == 0, "no other bytes");

    // The node writes into the cache on the host, whichever device executes it; the scheduler copies the input.
    static const char * const parts[] = {
        "\"name\":\"blk.0.ffn_up.weight\",\"op\":\"NONE\",\"type\":\"f32\",\"ne\":[64,64,1,1],\"class\":\"weights\","
        "\"bytes\":16384,\"view_of\":null,\"resides\":\"GPU0\",\"buffer_type\":",
        "\"name\":\"cache_k_l0\",\"op\":\"NONE\",\"type\":\"f32\",\"ne\":[321,1,1,1],\"class\":\"kv\",\"bytes\":1284,"
        "\"view_of\":null,\"resides\":\"CPU\",\"buffer_type\":",
        "\"name\":\"k_cache_write-0\",\"op\":\"CPY\",\"type\":\"f32\",\"ne\":[64,1,1,1],\"class\":\"kv\",\"bytes\":256,"
        "\"view_of\":\"cache_k_l0\",\"resides\":\"CPU\",\"buffer_type\":",
        "#inp_embd#0\",\"op\":\"NONE\",\"type\":\"f32\",\"ne\":[64,2,1,1],\"class\":\"compute\",\"bytes\":512,"
        "\"view_of\":null,\"resides\":\"GPU0\",\"buffer_type\":",
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        CHECK(strstr(json, parts[i]) != NULL, "no %s in %s", parts[i], json);
    }
    const char * product = strstr(json, "\"op\":\"MUL_MAT\"");
    CHECK(product != NULL && strstr(product, "\"executes\":\"GPU0\"") != NULL, "%s", json);
    const char * write = strstr(json, "\"name\":\"k_cache_write-0\"");
    CHECK(number(write, "offset") == 512, "%s", write);
    lastuse_string_free(json);
    scheduled_free(&it);
}

static bool accounts_in_callback(struct ggml_tensor * node, bool ask, void * user_data) {
    (void) node;
    struct scheduled * it = user_data;
    if (ask) {
        return true;
    }
    check_total(false, "CPU", it->devices.dummies[1].live_bytes);
    return true;
}

CASE(in_a_callback_of_the_scheduler) {
    static struct scheduled it;
    schedule(&it);
    ggml_backend_sched_set_eval_callback(it.sched, accounts_in_callback, &it);
    CHECK(ggml_backend_sched_graph_compute(it.sched, it.layer.graph) == GGML_STATUS_SUCCESS, "not computed");
    scheduled_free(&it);
}

// Measuring allocates nothing.
CASE(nothing_is_held) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "counting", 32, 0);
    record("on");
    struct layer   layer  = layer_of(1);
    ggml_gallocr_t galloc = ggml_gallocr_new(dummy_buft_type(&dummy));
    size_t         size   = 0;
    ggml_gallocr_reserve_n_size(galloc, layer.graph, NULL, NULL, &size);
    CHECK(size > 0 && dummy.counts.alloc_buffer == 0, "it is measured");
    char * json = json_of(false);
    CHECK(strstr(json, "\"devices\":[],\"buffers\":[],\"graphs\":[],\"unread\":[],\"turns\":[]}") != NULL, "%s", json);
    lastuse_string_free(json);
    ggml_gallocr_free(galloc);
    layer_free(&layer);
}

// ---------------------------------------------------------------------------------------------------
// A split FFN as PowerInfer builds it
// ---------------------------------------------------------------------------------------------------

#define NEURONS 32768
#define ON_GPU  1024

CASE(every_tensor_of_a_split_ffn_is_listed) {
    record("on");
    static struct separate_backends devices;
    two_devices_init(&devices);
    struct ggml_context * host = no_alloc_context(8 * ggml_tensor_overhead());
    struct ggml_context * gpu  = no_alloc_context(8 * ggml_tensor_overhead());
    struct ggml_context * ctx  = no_alloc_context(64 * ggml_tensor_overhead() + ggml_graph_overhead());
    struct ggml_tensor * idx = ggml_set_name(ggml_new_tensor_1d(host, GGML_TYPE_I32, NEURONS), "blk.0.gpu_idx");
    struct ggml_tensor * up  = ggml_set_name(ggml_new_tensor_2d(host, GGML_TYPE_F32, 8, NEURONS), "blk.0.ffn_up.weight");
    struct ggml_tensor * bucket = ggml_set_name(ggml_new_tensor_1d(gpu, GGML_TYPE_I32, ON_GPU), "blk.0.gpu_bucket");
    struct ggml_tensor * up_gpu = ggml_set_name(ggml_new_tensor_2d(gpu, GGML_TYPE_F32, 8, ON_GPU), "blk.0.ffn_up_gpu.weight");
    ggml_backend_buffer_t buffers[2];
    place_in(host, devices.types[1], &buffers[0]);
    place_in(gpu, devices.types[0], &buffers[1]);

    struct ggml_tensor * x = ggml_set_name(ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8), "inp_embd");
    ggml_set_input(x);
    struct ggml_tensor * sparse = ggml_set_name(ggml_mul_mat(ctx, up, x), "ffn_up_sparse-0");
    struct ggml_tensor * hot    = ggml_set_name(ggml_mul_mat(ctx, up_gpu, x), "ffn_up_gpu-0");
    struct ggml_tensor * rows   = ggml_reshape_2d(ctx, sparse, 1, NEURONS);
    struct ggml_tensor * picked = ggml_set_name(ggml_get_rows(ctx, rows, bucket), "ffn_picked-0");
    struct ggml_tensor * first  = ggml_set_name(ggml_view_1d(ctx, idx, ON_GPU, 0), "gpu_idx (view)");
    struct ggml_tensor * all    = ggml_set_name(ggml_get_rows(ctx, rows, first), "ffn_first-0");
    struct ggml_tensor * sum    = ggml_add(ctx, ggml_reshape_1d(ctx, picked, ON_GPU), hot);
    struct ggml_tensor * out    = ggml_add(ctx, sum, ggml_reshape_1d(ctx, all, ON_GPU));
    struct ggml_cgraph * graph  = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_set_name(out, "l_out-0"));
    ggml_backend_sched_t sched = ggml_backend_sched_new(devices.backends, devices.types, BACKENDS, 128, false, false);
    CHECK(ggml_backend_sched_alloc_graph(sched, graph), "not allocated");

    char * json = json_of(false);
    CHECK(sums_in(json, "GPU0").total == devices.dummies[0].live_bytes, "the GPU");
    CHECK(sums_in(json, "CPU").total == devices.dummies[1].live_bytes, "the host");
    static const char * const parts[] = {
        "\"name\":\"blk.0.gpu_idx\",\"op\":\"NONE\",\"type\":\"i32\",\"ne\":[32768,1,1,1],\"class\":\"weights\","
        "\"bytes\":131072,\"view_of\":null,\"resides\":\"CPU\",",
        "\"name\":\"blk.0.gpu_bucket\",\"op\":\"NONE\",\"type\":\"i32\",\"ne\":[1024,1,1,1],\"class\":\"weights\","
        "\"bytes\":4096,\"view_of\":null,\"resides\":\"GPU0\",",
        "\"name\":\"gpu_idx (view)\",\"op\":\"VIEW\",\"type\":\"i32\",\"ne\":[1024,1,1,1],\"class\":\"weights\","
        "\"bytes\":4096,\"view_of\":\"blk.0.gpu_idx\",\"resides\":\"CPU\",",
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        CHECK(strstr(json, parts[i]) != NULL, "no %s in %s", parts[i], json);
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        char name[GGML_MAX_NAME + 16];
        snprintf(name, sizeof(name), "{\"name\":\"%s\",\"op\":", graph->nodes[i]->name);
        CHECK(strstr(json, name) != NULL, "%s is not in %s", graph->nodes[i]->name, json);
    }
    lastuse_string_free(json);
    ggml_backend_sched_free(sched);
    ggml_backend_buffer_free(buffers[0]);
    ggml_backend_buffer_free(buffers[1]);
    ggml_free(host);
    ggml_free(gpu);
    ggml_free(ctx);
    separate_backends_free(&devices);
}

// ---------------------------------------------------------------------------------------------------
// Files
// ---------------------------------------------------------------------------------------------------

static void check_refused(const char * path, const char * part) {
    CHECK(!lastuse_set("accounting", path), "%s is taken", path);
    CHECK(strstr(lastuse_last_error(), part) != NULL, "\"%s\" does not contain \"%s\"", lastuse_last_error(), part);
    CHECK(lastuse_accounting_json(false) == NULL, "it is recorded");
    CHECK(strstr(lastuse_last_error(), "lastuse_accounting_json: nothing is recorded: ") != NULL, "%s", lastuse_last_error());
}

// Records to a file in a process that forks another one, which writes nothing.
static void record_in_a_process(const char * path) {
    if (fork() == 0) {
        struct dummy_buft dummy;
        dummy_buft_init(&dummy, "counting", 32, 0);
        record(path);
        ggml_backend_buffer_t outputs = ggml_backend_buft_alloc_buffer(dummy_buft_type(&dummy), 1000);
        CHECK(lastuse_buffer_note(outputs, 1000, false), "%s", lastuse_last_error());
        if (fork() == 0) {
            exit(0);
        }
        int status = 1;
        wait(&status);
        CHECK(status == 0 && access(path, F_OK) != 0, "the process that was forked has written %s", path);
        exit(0);
    }
    int status = 1;
    wait(&status);
    CHECK(status == 0, "the process has failed");
}

CASE(files_are_written_at_the_end_and_never_overwritten) {
    char path[128];
    snprintf(path, sizeof(path), "/tmp/lastuse-accounting-%d.json", (int) getpid());
    record_in_a_process(path);
    static char text[4096];
    FILE *      file = fopen(path, "r");
    CHECK(file != NULL && fread(text, 1, sizeof(text) - 1, file) > 0, "%s is empty", path);
    fclose(file);
    CHECK(sums_in(text, "CPU").total == 1000 && text[strlen(text) - 1] == '\n', "%s", text);
    check_refused(path, " exists: name another file");
    remove(path);
    check_refused("/no/such/folder/x.json", "lastuse_set: accounting: cannot write to /no/such/folder/x.json: ");
    check_refused("/dev/null/x.json", "cannot write to /dev/null/x.json: ");
    check_refused("/tmp", "/tmp exists: ");
    static const char * const ends[] = { NULL, "", "off", "0" };
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        record(i % 2 == 0 ? "on" : "/dev/null");
        lastuse_string_free(json_of(true));
        record(ends[i]);
        CHECK(lastuse_accounting_json(true) == NULL, "it is recorded");
    }
}

// ---------------------------------------------------------------------------------------------------
// Recording
// ---------------------------------------------------------------------------------------------------

// The records cover the memory that the program holds, whether or not a graph is given, once it notes its own buffers.
CASE(recorded_buffers_are_counted) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "counting", 32, 0);
    ggml_backend_buffer_type_t type  = dummy_buft_type(&dummy);
    ggml_backend_buffer_t      early = ggml_backend_buft_alloc_buffer(type, 64);
    CHECK(!lastuse_buffer_note(early, 64, false), "nothing is recorded");
    CHECK(strstr(lastuse_last_error(), "nothing is recorded: set LASTUSE_ACCOUNTING, or call lastuse_set") != NULL, "%s", lastuse_last_error());
    CHECK(!lastuse_buffer_note_free(early), "nothing is recorded");
    ggml_backend_buffer_free(early);

    record("/dev/null");
    struct layer          layer = layer_of(2);
    ggml_backend_buffer_t weights;
    ggml_backend_buffer_t caches;
    place_in(layer.weights, type, &weights);
    place_in(layer.caches, type, &caches);
    ggml_backend_buffer_t outputs = ggml_backend_buft_alloc_buffer(type, 1001);
    CHECK(lastuse_buffer_note(outputs, 1001, false), "%s", lastuse_last_error());
    ggml_gallocr_t galloc = ggml_gallocr_new(type);
    CHECK(ggml_gallocr_alloc_graph(galloc, layer.graph), "not allocated");

    char *      json = json_of(false);
    struct sums sums = sums_in(json, "CPU");
    CHECK(sums.total == dummy.live_bytes && sums.other == 1001, "%zu of %zu, %zu", sums.total, dummy.live_bytes, sums.other);
    CHECK(sums.kv == ggml_nbytes(layer.cache), "%zu", sums.kv);
    CHECK(strstr(json, "\"graphs\":[{\"allocator\":1,\"leafs\":") != NULL, "%s", json);
    CHECK(strstr(strstr(json, "\"unread\":["), "\"name\":\"rope_freqs.weight\"") != NULL, "%s", json);
    lastuse_string_free(json);

    note_and_free(outputs);
    ggml_gallocr_free(galloc);
    check_total(false, "CPU", dummy.live_bytes);
    note_and_free(weights);
    note_and_free(caches);
    check_total(false, "CPU", 0);
    record(NULL);
    layer_free(&layer);
}

#define THREADS 4

static void * plan_and_free(void * user_data) {
    (void) user_data;
    for (int round = 0; round < 50; round++) {
        struct dummy_buft dummy;
        dummy_buft_init(&dummy, "of a thread", 32, 0);
        struct layer          layer = layer_of(1 + round % 3);
        ggml_backend_buffer_t buffers[2];
        place_in(layer.weights, dummy_buft_type(&dummy), &buffers[0]);
        place_in(layer.caches, dummy_buft_type(&dummy), &buffers[1]);
        ggml_gallocr_t galloc = ggml_gallocr_new(dummy_buft_type(&dummy));
        CHECK(ggml_gallocr_alloc_graph(galloc, layer.graph), "not allocated");
        ggml_gallocr_free(galloc);
        for (int i = 0; i < 2; i++) {
            note_and_free(buffers[i]);
        }
        layer_free(&layer);
    }
    return NULL;
}

// Threads plan and free while another one queries the memory held.
CASE(threads_allocate_meanwhile) {
    pthread_t threads[THREADS];
    record("on");
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, plan_and_free, NULL) == 0, "no thread");
    }
    for (int round = 0; round < 200; round++) {
        sums_of(round % 2 == 0, "CPU"); // checks that the parts add up
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    check_total(false, "CPU", 0);
    record(NULL);
}

// A buffer type of the program that uses lastuse when it is asked for its name: it allocates the first time, and frees the
// second time.
static struct {
    struct dummy_buft asked;
    struct dummy_buft other;
    struct layer      layer;
    ggml_gallocr_t    galloc;
    int               calls;
    bool              is_busy;
} using;

static const char * uses_lastuse(ggml_backend_buffer_type_t type) {
    (void) type;
    if (!using.is_busy) {
        using.is_busy = true;
        using.calls++;
        if (using.galloc == NULL) {
            using.galloc = ggml_gallocr_new(dummy_buft_type(&using.other));
            CHECK(ggml_gallocr_reserve(using.galloc, using.layer.graph), "not reserved");
        } else {
            ggml_gallocr_free(using.galloc);
            using.galloc = NULL;
        }
        using.is_busy = false;
    }
    return "asked";
}

CASE(buffer_types_may_use_lastuse_when_they_are_asked) {
    alarm(120); // where the call waits for a lock that it holds itself
    dummy_buft_init(&using.asked, "asked", 32, 0);
    dummy_buft_init(&using.other, "other", 32, 0);
    using.layer              = layer_of(2);
    struct layer   layer     = layer_of(2);
    ggml_backend_buffer_t    buffers[4];
    place_in(layer.weights, dummy_buft_type(&using.other), &buffers[0]);
    place_in(layer.caches, dummy_buft_type(&using.other), &buffers[1]);
    place_in(using.layer.weights, dummy_buft_type(&using.other), &buffers[2]);
    place_in(using.layer.caches, dummy_buft_type(&using.other), &buffers[3]);
    ggml_gallocr_t galloc    = ggml_gallocr_new(dummy_buft_type(&using.asked));
    CHECK(ggml_gallocr_alloc_graph(galloc, layer.graph), "not allocated");
    using.asked.type.iface.get_name = uses_lastuse;
    record("on");
    CHECK(using.calls > 0, "the type was not asked");
    using.is_busy = true;
    // The weights and caches of the other graph are found when it is planned; those of the first one are not.
    size_t unseen = ggml_backend_buffer_get_size(buffers[0]) + ggml_backend_buffer_get_size(buffers[1]);
    check_total(false, "CPU", using.asked.live_bytes + using.other.live_bytes - unseen);
    record(NULL);
    ggml_gallocr_free(using.galloc);
    ggml_gallocr_free(galloc);
    for (int i = 0; i < 4; i++) {
        ggml_backend_buffer_free(buffers[i]);
    }
    layer_free(&using.layer);
    layer_free(&layer);
}
