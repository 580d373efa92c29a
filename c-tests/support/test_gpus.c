#include "test_gpus.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

enum { MOST_GPUS = 4, OFFLOAD_BATCH = 32 };

struct test_gpu {
    char                            name[16];
    struct ggml_backend_device      device;
    struct ggml_backend_buffer_type type;
};

static struct test_gpu gpus[MOST_GPUS];
static int             n_gpus;
static size_t          gpu_alignment;
static size_t          gpu_max_buffer;
static bool            has_pipelines;

static ggml_backend_dev_t cpu_device(void) {
    return ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0);
}

// ---------------------------------------------------------------------------------------------------
// Memory
// ---------------------------------------------------------------------------------------------------

static void buffer_free(ggml_backend_buffer_t buffer) {
    free(buffer->context);
}

static void * buffer_base(ggml_backend_buffer_t buffer) {
    return buffer->context;
}

static void buffer_memset(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, uint8_t value, size_t offset, size_t size) {
    (void) buffer;
    memset((char *) tensor->data + offset, value, size);
}

static void buffer_set(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, const void * data, size_t offset, size_t size) {
    (void) buffer;
    memcpy((char *) tensor->data + offset, data, size);
}

static void buffer_get(ggml_backend_buffer_t buffer, const struct ggml_tensor * tensor, void * data, size_t offset, size_t size) {
    (void) buffer;
    memcpy(data, (const char *) tensor->data + offset, size);
}

static void buffer_clear(ggml_backend_buffer_t buffer, uint8_t value) {
    memset(buffer->context, value, buffer->size);
}

static const char * type_name(ggml_backend_buffer_type_t type) {
    return ((const struct test_gpu *) type->context)->name;
}

static ggml_backend_buffer_t type_alloc(ggml_backend_buffer_type_t type, size_t size) {
    const struct ggml_backend_buffer_i functions = {
        .free_buffer   = buffer_free,
        .get_base      = buffer_base,
        .memset_tensor = buffer_memset,
        .set_tensor    = buffer_set,
        .get_tensor    = buffer_get,
        .clear         = buffer_clear,
    };
    // The kernels of the CPU want some bytes behind the last tensor.
    void * memory = aligned_alloc(4096, (size + 4096 + 4095) / 4096 * 4096);
    return memory != NULL ? ggml_backend_buffer_init(type, functions, memory, size) : NULL;
}

static size_t type_alignment(ggml_backend_buffer_type_t type) {
    (void) type;
    return gpu_alignment;
}

static size_t type_max_size(ggml_backend_buffer_type_t type) {
    (void) type;
    return gpu_max_buffer;
}

// ---------------------------------------------------------------------------------------------------
// Computing
// ---------------------------------------------------------------------------------------------------

static const char * backend_name(ggml_backend_t backend) {
    return ggml_backend_dev_name(backend->device);
}

static void backend_free(ggml_backend_t backend) {
    ggml_backend_free(backend->context);
    free(backend);
}

static enum ggml_status backend_compute(ggml_backend_t backend, struct ggml_cgraph * graph) {
    return ggml_backend_graph_compute(backend->context, graph);
}

// Everything is done when a function returns.
static void backend_synchronize(ggml_backend_t backend) {
    (void) backend;
}

static void backend_event(ggml_backend_t backend, ggml_backend_event_t event) {
    (void) backend;
    (void) event;
}

static ggml_backend_t device_init(ggml_backend_dev_t dev, const char * params) {
    (void) params;
    static uint8_t        guid[16] = "lastuse test GPU";
    struct ggml_backend * backend  = calloc(1, sizeof(*backend));
    CHECK(backend != NULL, "out of memory");
    backend->guid                = &guid;
    backend->device              = dev;
    backend->context             = ggml_backend_dev_init(cpu_device(), NULL);
    // Threads of ggml wait for each other by spinning, and other tests run at the same time.
    ggml_backend_cpu_set_n_threads(backend->context, 1);
    backend->iface.get_name      = backend_name;
    backend->iface.free          = backend_free;
    backend->iface.graph_compute = backend_compute;
    backend->iface.synchronize   = backend_synchronize;
    backend->iface.event_record  = backend_event;
    backend->iface.event_wait    = backend_event;
    return backend;
}

// ---------------------------------------------------------------------------------------------------
// The device
// ---------------------------------------------------------------------------------------------------

static const char * device_name(ggml_backend_dev_t dev) {
    return ((const struct test_gpu *) dev->context)->name;
}

static void device_memory(ggml_backend_dev_t dev, size_t * free, size_t * total) {
    (void) dev;
    *free  = (size_t) 64 << 30;
    *total = (size_t) 64 << 30;
}

static enum ggml_backend_dev_type device_type(ggml_backend_dev_t dev) {
    (void) dev;
    return GGML_BACKEND_DEVICE_TYPE_GPU;
}

static void device_props(ggml_backend_dev_t dev, struct ggml_backend_dev_props * props) {
    props->name        = device_name(dev);
    props->description = device_name(dev);
    props->type        = device_type(dev);
    props->device_id   = NULL;
    props->caps        = (struct ggml_backend_dev_caps) { .async = has_pipelines, .events = has_pipelines };
    device_memory(dev, &props->memory_free, &props->memory_total);
}

static ggml_backend_buffer_type_t device_type_of_buffers(ggml_backend_dev_t dev) {
    return &((struct test_gpu *) dev->context)->type;
}

static bool is_test_gpu(ggml_backend_buffer_type_t type) {
    return type->iface.get_name == type_name;
}

static bool device_supports_buft(ggml_backend_dev_t dev, ggml_backend_buffer_type_t type) {
    return type == device_type_of_buffers(dev);
}

// As CUDA: nothing with a source in the memory of another device.
static bool device_supports_op(ggml_backend_dev_t dev, const struct ggml_tensor * op) {
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        const struct ggml_tensor * source = op->src[i];
        if (source != NULL && source->buffer != NULL && is_test_gpu(source->buffer->buft)
            && !device_supports_buft(dev, source->buffer->buft)) {
            return false;
        }
    }
    return ggml_backend_dev_supports_op(cpu_device(), op);
}

static int64_t batch_of(const struct ggml_tensor * op) {
    switch (op->op) {
        case GGML_OP_GET_ROWS:   return 0;
        case GGML_OP_MUL_MAT:    return op->ne[1];
        case GGML_OP_MUL_MAT_ID:
        case GGML_OP_ROPE:
        case GGML_OP_ROPE_BACK:  return op->ne[2];
        default:                 return ggml_nrows(op);
    }
}

static bool device_offload_op(ggml_backend_dev_t dev, const struct ggml_tensor * op) {
    (void) dev;
    return batch_of(op) >= OFFLOAD_BATCH;
}

static ggml_backend_event_t device_event_new(ggml_backend_dev_t dev) {
    struct ggml_backend_event * event = calloc(1, sizeof(*event));
    CHECK(event != NULL, "out of memory");
    event->device = dev;
    return event;
}

static void device_event_free(ggml_backend_dev_t dev, ggml_backend_event_t event) {
    (void) dev;
    free(event);
}

static void device_event_synchronize(ggml_backend_dev_t dev, ggml_backend_event_t event) {
    (void) dev;
    (void) event;
}

// ---------------------------------------------------------------------------------------------------
// The backend
// ---------------------------------------------------------------------------------------------------

static const char * reg_name(ggml_backend_reg_t reg) {
    (void) reg;
    return "test GPUs";
}

static size_t reg_count(ggml_backend_reg_t reg) {
    (void) reg;
    return (size_t) n_gpus;
}

static ggml_backend_dev_t reg_device(ggml_backend_reg_t reg, size_t index) {
    (void) reg;
    return &gpus[index].device;
}

static struct ggml_backend_reg reg = {
    .api_version = GGML_BACKEND_API_VERSION,
    .iface       = { .get_name = reg_name, .get_device_count = reg_count, .get_device = reg_device },
};

static void init_gpu(struct test_gpu * gpu, int index) {
    snprintf(gpu->name, sizeof(gpu->name), "GPU%d", index);
    gpu->device = (struct ggml_backend_device) {
        .iface = {
            .get_name          = device_name,
            .get_description   = device_name,
            .get_memory        = device_memory,
            .get_type          = device_type,
            .get_props         = device_props,
            .init_backend      = device_init,
            .get_buffer_type   = device_type_of_buffers,
            .supports_op       = device_supports_op,
            .supports_buft     = device_supports_buft,
            .offload_op        = device_offload_op,
            .event_new         = has_pipelines ? device_event_new : NULL,
            .event_free        = has_pipelines ? device_event_free : NULL,
            .event_synchronize = has_pipelines ? device_event_synchronize : NULL,
        },
        .reg     = &reg,
        .context = gpu,
    };
    gpu->type = (struct ggml_backend_buffer_type) {
        .iface = {
            .get_name      = type_name,
            .alloc_buffer  = type_alloc,
            .get_alignment = type_alignment,
            .get_max_size  = type_max_size,
        },
        .device  = &gpu->device,
        .context = gpu,
    };
}

ggml_backend_reg_t test_gpus_make(int count, size_t alignment, size_t max_buffer, bool pipelines) {
    if (count > MOST_GPUS || n_gpus != 0) {
        return NULL;
    }
    gpu_alignment  = alignment;
    gpu_max_buffer = max_buffer;
    has_pipelines  = pipelines;
    n_gpus         = count;
    for (int i = 0; i < count; i++) {
        init_gpu(&gpus[i], i);
    }
    return &reg;
}
