#include "apart.h"

#include "computing.h"

// The type is the first buffer type that the device has; its name tells whose it is.
static bool supports_only_its_own(ggml_backend_dev_t dev, ggml_backend_buffer_type_t type) {
    const struct apart * apart = dev->context;
    return dev == &apart->devices[0] ? type == apart->types[0] : type == apart->types[1];
}

static bool supports_all_operations(ggml_backend_dev_t dev, const struct ggml_tensor * op) {
    (void) dev;
    (void) op;
    return true;
}

void apart_init(struct apart * apart, int n_threads) {
    for (int i = 0; i < APART; i++) {
        apart->cpu[i] = new_cpu(n_threads);
        dummy_buft_init(&apart->dummies[i], i == 0 ? "first" : "second", 64, 0);
        apart->types[i]                       = dummy_buft_type(&apart->dummies[i]);
        apart->devices[i]                     = *apart->cpu[i]->device;
        apart->devices[i].context             = apart;
        apart->devices[i].iface.supports_buft = supports_only_its_own;
        apart->devices[i].iface.supports_op   = supports_all_operations;
        apart->structs[i]                     = *apart->cpu[i];
        apart->structs[i].device              = &apart->devices[i];
        apart->backends[i]                    = &apart->structs[i];
    }
}

void apart_free(struct apart * apart) {
    for (int i = 0; i < APART; i++) {
        ggml_backend_free(apart->cpu[i]);
    }
}
