#include "dummy_buffer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct dummy_memory {
    struct dummy_buft * owner;
    ggml_backend_buffer_t buffer;
    char * base;
    size_t size;    // bytes
    bool imaginary; // base points at nothing
    struct dummy_memory * older;
};

// Where imaginary buffers start: far from anything that a process maps, so that touching them
// crashes. No address is used twice, so that two buffers never seem to overlap.
#define IMAGINARY_START ((uintptr_t) 1 << 56)

static _Thread_local uintptr_t next_imaginary = IMAGINARY_START;

static struct dummy_buft * of_type(ggml_backend_buffer_type_t type) {
    return type->context;
}

static struct dummy_memory * of_buffer(ggml_backend_buffer_t buffer) {
    return buffer->context;
}

static size_t round_up(size_t size, size_t alignment) {
    return (size + alignment - 1) / alignment * alignment;
}

// Decrements a countdown. Returns false when it is at 0.
static bool take_one(long * left) {
    if (*left == DUMMY_UNLIMITED) {
        return true;
    }
    if (*left == 0) {
        return false;
    }
    *left -= 1;
    return true;
}

// The buffer

static char * memory_take(const struct dummy_buft * dummy, size_t size) {
    if (dummy->imaginary) {
        // One alignment unit stays free behind each buffer.
        uintptr_t base = round_up(next_imaginary, dummy->alignment);
        next_imaginary = base + round_up(size, dummy->alignment) + dummy->alignment;
        return (char *) base;
    }
    // aligned_alloc requires at least a pointer's alignment and a whole number of units.
    size_t alignment = dummy->alignment < sizeof(void *) ? sizeof(void *) : dummy->alignment;
    return aligned_alloc(alignment, round_up(size, alignment));
}

static void buffer_free(ggml_backend_buffer_t buffer) {
    struct dummy_memory * memory = of_buffer(buffer);
    struct dummy_buft * owner = memory->owner;
    struct dummy_memory ** link = &owner->newest;
    while (*link != memory) {
        link = &(*link)->older;
    }
    *link = memory->older;

    owner->counts.free_buffer += 1;
    owner->live_buffers -= 1;
    owner->live_bytes -= memory->size;
    if (!memory->imaginary) {
        free(memory->base);
    }
    free(memory);
}

static void * buffer_get_base(ggml_backend_buffer_t buffer) {
    return of_buffer(buffer)->base;
}

static enum ggml_status buffer_init_tensor(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor) {
    (void) tensor;
    struct dummy_buft * owner = of_buffer(buffer)->owner;
    owner->counts.init_tensor += 1;
    return take_one(&owner->inits_left) ? GGML_STATUS_SUCCESS : GGML_STATUS_ALLOC_FAILED;
}

static void buffer_memset_tensor(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, uint8_t value,
                                 size_t offset, size_t size) {
    (void) buffer;
    memset((char *) tensor->data + offset, value, size);
}

static void buffer_set_tensor(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, const void * data,
                              size_t offset, size_t size) {
    (void) buffer;
    memcpy((char *) tensor->data + offset, data, size);
}

static void buffer_get_tensor(ggml_backend_buffer_t buffer, const struct ggml_tensor * tensor, void * data,
                              size_t offset, size_t size) {
    (void) buffer;
    memcpy(data, (const char *) tensor->data + offset, size);
}

static void buffer_clear(ggml_backend_buffer_t buffer, uint8_t value) {
    memset(of_buffer(buffer)->base, value, of_buffer(buffer)->size);
}

static void buffer_reset(ggml_backend_buffer_t buffer) {
    of_buffer(buffer)->owner->counts.reset += 1;
}

// Members are named because their order and number differ between ggml's versions.
static const struct ggml_backend_buffer_i buffer_iface = {
    .free_buffer   = buffer_free,
    .get_base      = buffer_get_base,
    .init_tensor   = buffer_init_tensor,
    .memset_tensor = buffer_memset_tensor,
    .set_tensor    = buffer_set_tensor,
    .get_tensor    = buffer_get_tensor,
    .clear         = buffer_clear,
    .reset         = buffer_reset,
};

// The buffer type

static const char * type_get_name(ggml_backend_buffer_type_t type) {
    return of_type(type)->name;
}

static ggml_backend_buffer_t type_alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
    struct dummy_buft * dummy = of_type(type);
    dummy->counts.alloc_buffer += 1;
    dummy->last_requested = size;
    bool over_cap = size > dummy->byte_cap || dummy->live_bytes > dummy->byte_cap - size;
    over_cap = over_cap || (dummy->is_strict && size > dummy->max_size);
    if (over_cap || !take_one(&dummy->allocs_left)) {
        return NULL;
    }
    struct dummy_memory * memory = malloc(sizeof(*memory));
    char * base = memory_take(dummy, size);
    if (memory == NULL || base == NULL) {
        abort(); // the machine is out of memory: no result of this test would mean anything
    }
    struct ggml_backend_buffer_i iface = buffer_iface;
    iface.reset                        = dummy->is_never_reset ? NULL : buffer_reset;
    *memory = (struct dummy_memory){
        .owner = dummy,
        .buffer = ggml_backend_buffer_init(type, iface, memory, size),
        .base = base,
        .size = size,
        .imaginary = dummy->imaginary,
        .older = dummy->newest,
    };
    dummy->newest = memory;
    dummy->live_buffers += 1;
    dummy->live_bytes += size;
    if (dummy->live_bytes > dummy->peak_bytes) {
        dummy->peak_bytes = dummy->live_bytes;
    }
    return memory->buffer;
}

static size_t type_get_alignment(ggml_backend_buffer_type_t type) {
    return of_type(type)->alignment;
}

static size_t type_get_max_size(ggml_backend_buffer_type_t type) {
    return of_type(type)->max_size;
}

static size_t type_get_alloc_size(ggml_backend_buffer_type_t type, const struct ggml_tensor * tensor) {
    struct dummy_buft * dummy = of_type(type);
    dummy->counts.get_alloc_size += 1;
    size_t extra = dummy->extra_bytes != NULL ? dummy->extra_bytes(tensor) : 0;
    return ggml_nbytes(tensor) + extra;
}

// True, so that the CPU backend may compute in these buffers, unless a test says otherwise.
static bool type_is_host(ggml_backend_buffer_type_t type) {
    return !of_type(type)->is_device;
}

static const struct ggml_backend_buffer_type_i type_iface = {
    .get_name       = type_get_name,
    .alloc_buffer   = type_alloc_buffer,
    .get_alignment  = type_get_alignment,
    .get_max_size   = type_get_max_size,
    .get_alloc_size = type_get_alloc_size,
    .is_host        = type_is_host,
};

void dummy_buft_init(struct dummy_buft * dummy, const char * name, size_t alignment, size_t max_size) {
    *dummy = (struct dummy_buft){
        .name = name,
        .alignment = alignment,
        .max_size = max_size != 0 ? max_size : SIZE_MAX,
        .byte_cap = SIZE_MAX,
        .allocs_left = DUMMY_UNLIMITED,
        .inits_left = DUMMY_UNLIMITED,
    };
    dummy->type.iface = type_iface;
    dummy->type.context = dummy;
}

ggml_backend_buffer_type_t dummy_buft_type(struct dummy_buft * dummy) {
    return &dummy->type;
}

ggml_backend_buffer_t dummy_buft_live(const struct dummy_buft * dummy, size_t age) {
    if (age >= dummy->live_buffers) {
        return NULL;
    }
    const struct dummy_memory * memory = dummy->newest;
    for (size_t i = dummy->live_buffers - 1; i > age; i--) {
        memory = memory->older;
    }
    return memory->buffer;
}

bool dummy_buft_all_have_usage(const struct dummy_buft * dummy, enum ggml_backend_buffer_usage usage) {
    for (const struct dummy_memory * memory = dummy->newest; memory != NULL; memory = memory->older) {
        if (ggml_backend_buffer_get_usage(memory->buffer) != usage) {
            return false;
        }
    }
    return true;
}

bool dummy_buft_contains(const struct dummy_buft * dummy, const void * data, size_t size) {
    for (const struct dummy_memory * memory = dummy->newest; memory != NULL; memory = memory->older) {
        const char * start = data;
        if (start >= memory->base && size <= memory->size && start + size <= memory->base + memory->size) {
            return true;
        }
    }
    return false;
}

void dummy_pair_init(struct dummy_pair * pair, size_t alignment) {
    for (int i = 0; i < 2; i++) {
        dummy_buft_init(&pair->dummies[i], i == 0 ? "first" : "second", alignment, 0);
        pair->types[i] = dummy_buft_type(&pair->dummies[i]);
    }
}

void dummy_types_init(struct dummy_types * types, size_t max_size) {
    static const size_t alignments[DUMMY_TYPES] = { 32, 128, 64 };
    static const char * names[DUMMY_TYPES]      = { "first", "second", "third" };
    for (int i = 0; i < DUMMY_TYPES; i++) {
        dummy_buft_init(&types->dummies[i], names[i], alignments[i], max_size);
        types->dummies[i].imaginary = true;
    }
    for (int i = 0; i < DUMMY_BUFFERS; i++) {
        types->bufts[i] = dummy_buft_type(&types->dummies[i < DUMMY_TYPES ? i : 1]);
    }
}

size_t dummy_row_padding(const struct ggml_tensor * tensor) {
    bool pads = tensor->op == GGML_OP_MUL_MAT || tensor->op == GGML_OP_NONE;
    return pads && tensor->ne[0] % 4 != 0 ? 96 : 0;
}
