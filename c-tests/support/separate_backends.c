#include "separate_backends.h"

#include "computing.h"

// The type is the first buffer type that the device has; its name contains that of the device.
static bool supports_only_its_own(ggml_backend_dev_t dev, ggml_backend_buffer_type_t type) {
    const struct separate_backends * separate = dev->context;
    return type == separate->types[dev - separate->devices];
}

static bool supports_all_operations(ggml_backend_dev_t dev, const struct ggml_tensor * op) {
    (void) dev;
    (void) op;
    return true;
}

void separate_backends_init(struct separate_backends * separate, int n_threads) {
    separate_backends_init_n(separate, BACKENDS, n_threads);
}

void separate_backends_init_n(struct separate_backends * separate, int count, int n_threads) {
    static const char * const names[MOST_BACKENDS] = { "first", "second", "third" };
    CHECK(count >= 1 && count <= MOST_BACKENDS, "%d backends", count);
    separate->count = count;
    for (int i = 0; i < count; i++) {
        separate->cpu[i] = new_cpu(n_threads);
        dummy_buft_init(&separate->dummies[i], names[i], 64, 0);
        separate->types[i]                       = dummy_buft_type(&separate->dummies[i]);
        separate->devices[i]                     = *separate->cpu[i]->device;
        separate->devices[i].context             = separate;
        separate->devices[i].iface.supports_buft = supports_only_its_own;
        separate->devices[i].iface.supports_op   = supports_all_operations;
        separate->structs[i]                     = *separate->cpu[i];
        separate->structs[i].device              = &separate->devices[i];
        separate->backends[i]                    = &separate->structs[i];
    }
}

void separate_backends_free(struct separate_backends * separate) {
    for (int i = 0; i < separate->count; i++) {
        ggml_backend_free(separate->cpu[i]);
    }
}
