#include "counted_devices.h"

#include <stdint.h>
#include <string.h>

#include "check.h"
#include "ggml-backend-impl.h"

enum { MOST_DEVICES = 8, MOST_BUFFERS = 256, USAGES = 3 };

struct counted_buffer {
    ggml_backend_buffer_t buffer;
    size_t                bytes; // as they were asked for
    void (*free_buffer)(ggml_backend_buffer_t buffer);
};

struct counted_device {
    const char *               name;
    ggml_backend_buffer_type_t type;
    ggml_backend_buffer_t (*alloc_buffer)(ggml_backend_buffer_type_t type, size_t size);
    size_t                     limit;
    size_t                     live;
    size_t                     peak;
    size_t                     refused;
    size_t                     free_at_start; // as the driver reports it
    struct counted_buffer      buffers[MOST_BUFFERS];
    size_t                     n_buffers;
};

static struct counted_device devices[MOST_DEVICES];
static size_t                n_devices;

static struct counted_device * device_of(ggml_backend_buffer_type_t type) {
    for (size_t i = 0; i < n_devices; i++) {
        if (devices[i].type == type) {
            return &devices[i];
        }
    }
    CHECK(false, "only counted types call this");
    return NULL;
}

static void free_counted(ggml_backend_buffer_t buffer) {
    struct counted_device * device = device_of(buffer->buft);
    for (size_t i = 0; i < device->n_buffers; i++) {
        if (device->buffers[i].buffer == buffer) {
            const struct counted_buffer freed = device->buffers[i];
            device->live -= freed.bytes;
            device->buffers[i] = device->buffers[--device->n_buffers];
            if (freed.free_buffer != NULL) {
                freed.free_buffer(buffer);
            }
            return;
        }
    }
    CHECK(false, "a buffer is freed twice");
}

static ggml_backend_buffer_t alloc_counted(ggml_backend_buffer_type_t type, size_t size) {
    struct counted_device * device = device_of(type);
    if (size > device->limit - device->live) {
        device->refused++;
        return NULL;
    }
    ggml_backend_buffer_t buffer = device->alloc_buffer(type, size);
    if (buffer == NULL) {
        device->refused++;
        return NULL;
    }
    CHECK(device->n_buffers < MOST_BUFFERS, "fewer buffers");
    device->buffers[device->n_buffers++] = (struct counted_buffer) { buffer, size, buffer->iface.free_buffer };
    buffer->iface.free_buffer = free_counted;
    device->live += size;
    device->peak = device->live > device->peak ? device->live : device->peak;
    return buffer;
}

static size_t free_bytes(ggml_backend_dev_t device) {
    size_t free_now = 0, total = 0;
    ggml_backend_dev_memory(device, &free_now, &total);
    return free_now;
}

bool counted_devices_start(void) {
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t dev = ggml_backend_dev_get(i);
        if (ggml_backend_dev_type(dev) == GGML_BACKEND_DEVICE_TYPE_CPU) {
            continue;
        }
        if (n_devices == MOST_DEVICES) {
            return false;
        }
        ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(dev);
        devices[n_devices++] = (struct counted_device) {
            .name = ggml_backend_dev_name(dev), .type = type, .alloc_buffer = type->iface.alloc_buffer, .limit = SIZE_MAX,
            .free_at_start = free_bytes(dev),
        };
        type->iface.alloc_buffer = alloc_counted;
    }
    return true;
}

bool counted_devices_limit(const char * device, size_t bytes) {
    for (size_t i = 0; i < n_devices; i++) {
        if (strcmp(devices[i].name, device) == 0) {
            devices[i].limit = bytes;
            return true;
        }
    }
    return false;
}

void counted_devices_print(FILE * file) {
    for (size_t i = 0; i < n_devices; i++) {
        const struct counted_device * device = &devices[i];
        size_t                        by_usage[USAGES] = { 0 };
        for (size_t j = 0; j < device->n_buffers; j++) {
            by_usage[device->buffers[j].buffer->usage] += device->buffers[j].bytes;
        }
        const size_t free_now = free_bytes(ggml_backend_buft_get_device(device->type));
        const size_t taken    = device->free_at_start > free_now ? device->free_at_start - free_now : 0;
        fprintf(file, "device=%s type=%s alignment=%zu max_buffer=%zu weights=%zu compute=%zu other=%zu peak=%zu refused=%zu "
                      "taken=%zu\n",
                device->name, ggml_backend_buft_name(device->type), ggml_backend_buft_get_alignment(device->type),
                ggml_backend_buft_get_max_size(device->type), by_usage[GGML_BACKEND_BUFFER_USAGE_WEIGHTS],
                by_usage[GGML_BACKEND_BUFFER_USAGE_COMPUTE], by_usage[GGML_BACKEND_BUFFER_USAGE_ANY], device->peak,
                device->refused, taken);
    }
}
