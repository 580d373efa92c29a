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
#include <unistd.h>

#define WIDTH 64
#define ROWS  5

// ---------------------------------------------------------------------------------------------------
// Accountings
// ---------------------------------------------------------------------------------------------------

static struct lastuse_accounting_params no_params(void) {
    struct lastuse_accounting_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    return params;
}

static struct lastuse_accounting * accounting_of(const struct lastuse_accounting_params * params) {
    struct lastuse_accounting * accounting = lastuse_accounting_new(params);
    CHECK(accounting != NULL, "%s", lastuse_last_error());
    return accounting;
}

// The sums of the device with this name; zeros if there is none. The parts add up to the total.
static struct lastuse_device_sums sums_of(const struct lastuse_accounting * accounting, const char * device) {
    struct lastuse_device_sums sums;
    memset(&sums, 0, sizeof(sums));
    sums.struct_size = sizeof(sums);
    for (size_t i = 0; lastuse_accounting_device(accounting, i, &sums); i++) {
        size_t parts = sums.weights + sums.kv + sums.compute + sums.other + sums.rounding;
        CHECK(parts == sums.total, "%s: the parts are %zu, the total %zu", sums.name, parts, sums.total);
        if (strcmp(sums.name, device) == 0) {
            return sums;
        }
    }
    memset(&sums, 0, sizeof(sums));
    return sums;
}

static void check_total(const struct lastuse_accounting_params * params, const char * device, size_t counted) {
    struct lastuse_accounting * accounting = accounting_of(params);
    struct lastuse_device_sums  sums       = sums_of(accounting, device);
    CHECK(sums.total == counted, "%s: %zu bytes are accounted, and %zu were asked for", device, sums.total, counted);
    lastuse_accounting_free(accounting);
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
    ggml_backend_buffer_type_t type = dummy_buft_type(&dummy);
    struct layer               small = layer_of(1);
    ggml_backend_buffer_t      weights;
    ggml_backend_buffer_t      caches;
    place_in(small.weights, type, &weights);
    place_in(small.caches, type, &caches);
    ggml_backend_buffer_set_usage(weights, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_gallocr_t galloc = ggml_gallocr_new(type);
    CHECK(ggml_gallocr_alloc_graph(galloc, small.graph), "not allocated");

    struct lastuse_accounting_params params = no_params();
    params.graphs                           = &small.graph;
    params.n_graphs                         = 1;
    params.contexts                         = &small.weights;
    params.n_contexts                       = 1;
    struct lastuse_accounting * accounting = accounting_of(&params);
    struct lastuse_device_sums  sums       = sums_of(accounting, "CPU");
    CHECK(sums.total == dummy.live_bytes, "%zu of %zu", sums.total, dummy.live_bytes);
    size_t read = ggml_nbytes(small.matrix) + ggml_nbytes(small.bias) + ggml_nbytes(small.unread);
    CHECK(sums.weights == read, "%zu bytes of weights, not %zu", sums.weights, read);
    CHECK(sums.kv == ggml_nbytes(small.cache), "%zu bytes of caches", sums.kv);
    CHECK(sums.compute + sums.kv + sums.weights + sums.rounding == sums.total, "nothing else");
    CHECK(sums.device_total > 0, "the host has memory");
    lastuse_accounting_free(accounting);

    // A larger graph takes a larger buffer.
    size_t       before = dummy.live_bytes;
    struct layer large  = layer_of(ROWS);
    ggml_backend_buffer_t more[2];
    place_in(large.weights, type, &more[0]);
    place_in(large.caches, type, &more[1]);
    CHECK(ggml_gallocr_alloc_graph(galloc, large.graph) && dummy.live_bytes > before, "it grows");
    struct ggml_cgraph * both[] = { small.graph, large.graph };
    params.graphs               = both;
    params.n_graphs             = 2;
    // The addresses of the small graph are those of a buffer that is gone.
    for (int i = 0; i < small.graph->n_nodes; i++) {
        small.graph->nodes[i]->buffer = NULL;
        small.graph->nodes[i]->data   = NULL;
    }
    small.input->buffer = NULL;
    small.input->data   = NULL;
    check_total(&params, "CPU", dummy.live_bytes);

    ggml_gallocr_free(galloc);
    struct ggml_context * contexts[] = { small.weights, small.caches, large.weights, large.caches };
    params                           = no_params();
    params.contexts                  = contexts;
    params.n_contexts                = 4;
    check_total(&params, "CPU", dummy.live_bytes);
    ggml_backend_buffer_free(more[0]);
    ggml_backend_buffer_free(more[1]);
    params.n_contexts = 2;
    check_total(&params, "CPU", dummy.live_bytes);
    ggml_backend_buffer_free(weights);
    ggml_backend_buffer_free(caches);
    params.n_contexts = 0;
    check_total(&params, "CPU", dummy.live_bytes);
    CHECK(dummy.live_bytes == 0, "all is freed");
    layer_free(&small);
    layer_free(&large);
}

// Buffers that are limited to a few tensors, and tensors that need more than their elements.
CASE(several_chunks_and_padded_tensors) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "limited", 32, WIDTH * WIDTH * 4 + 96);
    dummy.extra_bytes                = dummy_row_padding;
    ggml_backend_buffer_type_t type  = dummy_buft_type(&dummy);
    struct layer               layer = layer_of(3 * WIDTH);
    ggml_backend_buffer_t      buffers[2];
    place_in(layer.weights, type, &buffers[0]);
    place_in(layer.caches, type, &buffers[1]);
    ggml_gallocr_t galloc = ggml_gallocr_new(type);
    CHECK(ggml_gallocr_alloc_graph(galloc, layer.graph), "not allocated");
    CHECK(dummy.live_buffers > 4, "%zu buffers", dummy.live_buffers);
    struct lastuse_accounting_params params = no_params();
    params.graphs                           = &layer.graph;
    params.n_graphs                         = 1;
    params.contexts                         = &layer.weights;
    params.n_contexts                       = 1;
    check_total(&params, "CPU", dummy.live_bytes);

    // The tensors of the weights are in several buffers, which one combines.
    params.buffers   = buffers;
    params.n_buffers = 1;
    CHECK(lastuse_accounting_new(&params) == NULL, "it would be counted twice");
    CHECK(strstr(lastuse_last_error(), "buffer 0 combines several") != NULL, "%s", lastuse_last_error());
    params.buffers = buffers + 1;
    check_total(&params, "CPU", dummy.live_bytes);
    ggml_gallocr_free(galloc);
    ggml_backend_buffer_free(buffers[0]);
    ggml_backend_buffer_free(buffers[1]);
    layer_free(&layer);
}

// A buffer that the program allocates itself, without tensors.
CASE(other_buffers_are_counted_when_given) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "counting", 32, 0);
    ggml_backend_buffer_t outputs = ggml_backend_buft_alloc_buffer(dummy_buft_type(&dummy), 1000);
    struct lastuse_accounting_params params = no_params();
    check_total(&params, "CPU", 0);
    params.buffers   = &outputs;
    params.n_buffers = 1;
    struct lastuse_accounting * accounting = accounting_of(&params);
    struct lastuse_device_sums  sums       = sums_of(accounting, "CPU");
    CHECK(sums.total == dummy.live_bytes && sums.other == 1000, "%zu, %zu", sums.total, sums.other);
    CHECK(lastuse_accounting_device_count(accounting) == 1, "one device");
    struct lastuse_device_sums none;
    memset(&none, 0, sizeof(none));
    none.struct_size = sizeof(none);
    CHECK(!lastuse_accounting_device(accounting, 1, &none), "no second device");
    CHECK(strstr(lastuse_last_error(), "there is no device 1; there are 1") != NULL, "%s", lastuse_last_error());
    lastuse_accounting_free(accounting);
    ggml_backend_buffer_free(outputs);
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

static struct lastuse_accounting_params params_of(struct scheduled * it) {
    struct lastuse_accounting_params params = no_params();
    params.graphs                           = &it->layer.graph;
    params.n_graphs                         = 1;
    params.sched                            = it->sched;
    return params;
}

CASE(schedulers_with_two_devices) {
    static struct scheduled it;
    schedule(&it);
    struct lastuse_accounting_params params     = params_of(&it);
    struct lastuse_accounting *      accounting = accounting_of(&params);
    struct lastuse_device_sums       gpu        = sums_of(accounting, "GPU0");
    struct lastuse_device_sums       host       = sums_of(accounting, "CPU");
    CHECK(gpu.total == it.devices.dummies[0].live_bytes, "%zu of %zu", gpu.total, it.devices.dummies[0].live_bytes);
    CHECK(host.total == it.devices.dummies[1].live_bytes, "%zu of %zu", host.total, it.devices.dummies[1].live_bytes);
    CHECK(gpu.device_free == 12345 && gpu.device_total == 1 << 20, "the numbers of the device");
    CHECK(gpu.kv == 0 && gpu.compute > 0 && gpu.weights >= ggml_nbytes(it.layer.matrix), "weights are on the GPU");
    CHECK(host.kv == ggml_nbytes(it.layer.cache) && host.weights == 0, "the cache is on the host");

    // The node writes into the cache on the host, whichever backend executes it.
    char * text = lastuse_accounting_text(accounting, "log");
    CHECK(text != NULL, "%s", lastuse_last_error());
    char * line = strstr(text, " blk.0.ffn_up.weight: GPU (GPU0) [64, 64, 1, 1] f32, 16384 bytes at 0 of buffer ");
    CHECK(line != NULL, "%s", text);
    CHECK(strstr(text, " cache_k_l0: CPU [321, 1, 1, 1] f32, 1284 bytes at 0 of buffer ") != NULL, "%s", text);
    CHECK(strstr(text, "MUL_MAT on GPU0\n") != NULL, "%s", text);
    CHECK(strstr(text, " kq-0: CPU KQ ") != NULL, "%s", text);
    lastuse_string_free(text);
    lastuse_accounting_free(accounting);
    scheduled_free(&it);
}

static bool accounts_in_callback(struct ggml_tensor * node, bool ask, void * user_data) {
    (void) node;
    struct scheduled * it = user_data;
    if (ask) {
        return true;
    }
    struct lastuse_accounting_params params = params_of(it);
    check_total(&params, "CPU", it->devices.dummies[1].live_bytes);
    return true;
}

CASE(in_a_callback_of_the_scheduler) {
    static struct scheduled it;
    schedule(&it);
    ggml_backend_sched_set_eval_callback(it.sched, accounts_in_callback, &it);
    CHECK(ggml_backend_sched_graph_compute(it.sched, it.layer.graph) == GGML_STATUS_SUCCESS, "not computed");
    scheduled_free(&it);
}

// Measuring allocates nothing, and a graph without memory is not counted.
CASE(nothing_is_held) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "counting", 32, 0);
    struct layer          layer  = layer_of(1);
    ggml_gallocr_t        galloc = ggml_gallocr_new(dummy_buft_type(&dummy));
    struct ggml_cgraph *  empty  = ggml_new_graph(layer.ctx);
    struct ggml_cgraph *  graphs[] = { layer.graph, empty };
    struct lastuse_accounting_params params = no_params();
    size_t                size   = 0;
    ggml_gallocr_reserve_n_size(galloc, layer.graph, NULL, NULL, &size);
    CHECK(size > 0 && dummy.counts.alloc_buffer == 0, "it is measured");
    params.graphs   = graphs;
    params.n_graphs = 2;
    struct lastuse_accounting * accounting = accounting_of(&params);
    CHECK(lastuse_accounting_device_count(accounting) == 0, "nothing is held");
    char * text = lastuse_accounting_text(accounting, "txt");
    CHECK(strstr(text, "no buffers were recorded") != NULL, "%s", text);
    lastuse_string_free(text);
    lastuse_accounting_free(accounting);
    ggml_gallocr_free(galloc);
    layer_free(&layer);
}

// ---------------------------------------------------------------------------------------------------
// A split FFN as PowerInfer builds it
// ---------------------------------------------------------------------------------------------------

#define NEURONS 32768
#define ON_GPU  1024

// The lines of a text that contain a part.
static int lines_with(const char * text, const char * part) {
    int count = 0;
    for (const char * at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

CASE(every_tensor_of_a_split_ffn_has_a_line) {
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

    struct lastuse_accounting_params params = no_params();
    params.graphs                           = &graph;
    params.n_graphs                         = 1;
    params.sched                            = sched;
    struct lastuse_accounting * accounting  = accounting_of(&params);
    CHECK(sums_of(accounting, "GPU0").total == devices.dummies[0].live_bytes, "the GPU");
    CHECK(sums_of(accounting, "CPU").total == devices.dummies[1].live_bytes, "the host");
    char * text = lastuse_accounting_text(accounting, "log");
    CHECK(strstr(text, "lastuse:                    blk.0.gpu_idx: CPU [32768, 1, 1, 1] i32, 131072 bytes at ") != NULL,
          "%s", text);
    CHECK(strstr(text, "lastuse:                 blk.0.gpu_bucket: GPU (GPU0) [1024, 1, 1, 1] i32, 4096 bytes at 0 of") != NULL,
          "%s", text);
    CHECK(strstr(text, " gpu_idx (view): CPU [1024, 1, 1, 1] i32, 4096 bytes at 0 of buffer ") != NULL, "%s", text);
    CHECK(strstr(text, ", view of blk.0.gpu_idx") != NULL, "%s", text);
    for (int i = 0; i < graph->n_nodes; i++) {
        char name[GGML_MAX_NAME + 4];
        snprintf(name, sizeof(name), " %s: ", graph->nodes[i]->name);
        CHECK(lines_with(text, name) >= 1, "%s has no line in %s", graph->nodes[i]->name, text);
    }
    int  lines = lines_with(text, "\n");
    char processed[64];
    snprintf(processed, sizeof(processed), "lastuse: tensors processed: %d/%d\n", lines - 2, lines - 2);
    CHECK(strstr(text, processed) != NULL, "%d lines in %s", lines, text);
    const char * owners = strstr(text, "non-view tensors processed: ");
    int          a      = 0;
    int          b      = 0;
    CHECK(owners != NULL && sscanf(owners, "non-view tensors processed: %d/%d", &a, &b) == 2 && a == b, "%s", text);
    CHECK(lines - 2 - a == lines_with(text, ", view of "), "%d of %d", a, lines);
    CHECK(lines - 2 >= graph->n_nodes + 5, "nodes, weights, indices and the input");

    lastuse_string_free(text);
    lastuse_accounting_free(accounting);
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

static void check_refused(struct lastuse_accounting * accounting, const char * path, const char * part) {
    CHECK(!lastuse_accounting_write(accounting, path), "%s is written", path);
    CHECK(strstr(lastuse_last_error(), part) != NULL, "\"%s\" does not contain \"%s\"", lastuse_last_error(), part);
}

CASE(files_are_written_and_never_overwritten) {
    struct lastuse_accounting_params params     = no_params();
    struct lastuse_accounting *      accounting = accounting_of(&params);
    char                             path[128];
    static const char * const        endings[] = { "", ".txt", ".json", ".HTML", ".log" };
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        snprintf(path, sizeof(path), "/tmp/lastuse-accounting-%d%s", (int) getpid(), endings[i]);
        CHECK(lastuse_accounting_write(accounting, path), "%s", lastuse_last_error());
        FILE * file = fopen(path, "r");
        CHECK(file != NULL && fgetc(file) != EOF, "%s is empty", path);
        fclose(file);
        check_refused(accounting, path, " exists: name another file");
        remove(path);
    }
    check_refused(accounting, "/no/such/folder/x.json", "cannot write to /no/such/folder/x.json: ");
    check_refused(accounting, "/dev/null/x.json", "cannot write to /dev/null/x.json: ");
    check_refused(accounting, "/tmp/x.xml", "/tmp/x.xml has an unknown ending; expected .txt, .json, .html, .log");
    CHECK(lastuse_accounting_write(accounting, "/dev/null"), "%s", lastuse_last_error());
    CHECK(lastuse_accounting_text(accounting, "xml") == NULL, "no such format");
    CHECK(strstr(lastuse_last_error(), "there is no format \"xml\"; known are txt, json, html, log") != NULL, "%s",
          lastuse_last_error());
    CHECK(!lastuse_set("accounting", "/no/such/folder/x.json"), "not recorded");
    CHECK(strstr(lastuse_last_error(), "lastuse_set: accounting: cannot write to /no/such/folder/x.json: ") != NULL, "%s",
          lastuse_last_error());
    lastuse_accounting_free(accounting);
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
    CHECK(strstr(lastuse_last_error(), "nothing is recorded: set LASTUSE_ACCOUNTING, or call ") != NULL, "%s", lastuse_last_error());
    CHECK(!lastuse_buffer_note_free(early), "nothing is recorded");
    ggml_backend_buffer_free(early);

    CHECK(lastuse_set("accounting", "/dev/null"), "%s", lastuse_last_error());
    struct layer          layer = layer_of(2);
    ggml_backend_buffer_t weights;
    ggml_backend_buffer_t caches;
    place_in(layer.weights, type, &weights);
    place_in(layer.caches, type, &caches);
    ggml_backend_buffer_t outputs = ggml_backend_buft_alloc_buffer(type, 1001);
    CHECK(lastuse_buffer_note(outputs, 1001, false), "%s", lastuse_last_error());
    ggml_gallocr_t galloc = ggml_gallocr_new(type);
    CHECK(ggml_gallocr_alloc_graph(galloc, layer.graph), "not allocated");

    struct lastuse_accounting_params params     = no_params();
    struct lastuse_accounting *      accounting = accounting_of(&params);
    struct lastuse_device_sums       sums       = sums_of(accounting, "CPU");
    CHECK(sums.total == dummy.live_bytes && sums.other == 1001, "%zu of %zu, %zu", sums.total, dummy.live_bytes, sums.other);
    CHECK(sums.kv == ggml_nbytes(layer.cache), "%zu", sums.kv);
    char * text = lastuse_accounting_text(accounting, "txt");
    CHECK(strstr(text, "graph of allocator 1: ") != NULL && strstr(text, "rope_freqs.weight") != NULL, "%s", text);
    lastuse_string_free(text);
    lastuse_accounting_free(accounting);

    CHECK(lastuse_buffer_note_free(outputs), "%s", lastuse_last_error());
    ggml_backend_buffer_free(outputs);
    ggml_gallocr_free(galloc);
    check_total(&params, "CPU", dummy.live_bytes);
    lastuse_buffer_note_free(weights);
    ggml_backend_buffer_free(weights);
    lastuse_buffer_note_free(caches);
    ggml_backend_buffer_free(caches);
    check_total(&params, "CPU", 0);
    CHECK(lastuse_set("accounting", NULL), "%s", lastuse_last_error());
    layer_free(&layer);
}

// The plan of a scheduler is recorded with its copies, and with the device that executes each node.
CASE(recorded_graphs_of_schedulers_have_devices) {
    static struct scheduled it;
    CHECK(lastuse_set("accounting", "/dev/null"), "%s", lastuse_last_error());
    schedule(&it);
    ggml_backend_buffer_t outputs = ggml_backend_buft_alloc_buffer(it.devices.types[0], 100);
    CHECK(lastuse_buffer_note(outputs, 100, false), "%s", lastuse_last_error());
    struct lastuse_accounting_params params     = no_params();
    struct lastuse_accounting *      accounting = accounting_of(&params);
    CHECK(sums_of(accounting, "GPU0").total == it.devices.dummies[0].live_bytes, "the GPU");
    CHECK(sums_of(accounting, "CPU").total == it.devices.dummies[1].live_bytes, "the host");
    CHECK(sums_of(accounting, "GPU0").other == 100, "the noted bytes");
    char * text = lastuse_accounting_text(accounting, "log");
    CHECK(strstr(text, "MUL_MAT on GPU0\n") != NULL && strstr(text, "#inp_embd#0: GPU (GPU0) ") != NULL, "%s", text);
    CHECK(strstr(text, " k_cache_write-0: CPU [64, 1, 1, 1] f32, 256 bytes at 512 of buffer ") != NULL, "%s", text);
    lastuse_string_free(text);
    lastuse_accounting_free(accounting);
    CHECK(lastuse_buffer_note_free(outputs), "%s", lastuse_last_error());
    ggml_backend_buffer_free(outputs);
    CHECK(lastuse_set("accounting", NULL), "%s", lastuse_last_error());
    scheduled_free(&it);
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
            lastuse_buffer_note_free(buffers[i]);
            ggml_backend_buffer_free(buffers[i]);
        }
        layer_free(&layer);
    }
    return NULL;
}

// Threads plan and free while another one queries the memory held.
CASE(threads_allocate_meanwhile) {
    pthread_t threads[THREADS];
    CHECK(lastuse_set("accounting", "/dev/null"), "%s", lastuse_last_error());
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, plan_and_free, NULL) == 0, "no thread");
    }
    struct lastuse_accounting_params params = no_params();
    for (int round = 0; round < 200; round++) {
        struct lastuse_accounting * accounting = accounting_of(&params);
        sums_of(accounting, "CPU"); // checks that the parts add up
        lastuse_accounting_free(accounting);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    check_total(&params, "CPU", 0);
    CHECK(lastuse_set("accounting", NULL), "%s", lastuse_last_error());
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
    CHECK(lastuse_set("accounting", "/dev/null"), "%s", lastuse_last_error());
    CHECK(using.calls > 0, "the type was not asked");
    int calls = using.calls;
    for (int round = 0; round < 2; round++) {
        struct lastuse_accounting_params params = no_params();
        lastuse_accounting_free(accounting_of(&params));
        CHECK(using.calls > calls, "the type was not asked again");
    }
    using.is_busy = true;
    struct lastuse_accounting_params params = no_params();
    check_total(&params, "CPU", using.asked.live_bytes + (using.galloc == NULL ? 0 : ggml_gallocr_get_buffer_size(using.galloc, 0)));
    CHECK(lastuse_set("accounting", NULL), "%s", lastuse_last_error());
    ggml_gallocr_free(using.galloc);
    ggml_gallocr_free(galloc);
    for (int i = 0; i < 4; i++) {
        ggml_backend_buffer_free(buffers[i]);
    }
    layer_free(&using.layer);
    layer_free(&layer);
}
