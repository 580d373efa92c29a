// Prints the element types of ggml, and the keys and tensors of a GGUF file. Does not use lastuse.

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ggml.h"
#include "gguf.h"

static void print_types(void) {
    for (int id = 0; id < GGML_TYPE_COUNT; id++) {
        enum ggml_type type = (enum ggml_type) id;
        if (ggml_blck_size(type) > 0 && ggml_type_size(type) > 0) {
            printf("%d %s %" PRId64 " %zu\n", id, ggml_type_name(type), ggml_blck_size(type), ggml_type_size(type));
        }
    }
}

static void print_keys(const struct gguf_context * file) {
    for (int64_t id = 0; id < gguf_get_n_kv(file); id++) {
        printf("%s ", gguf_get_key(file, id));
        switch (gguf_get_kv_type(file, id)) {
            case GGUF_TYPE_STRING: printf("%s\n", gguf_get_val_str(file, id)); break;
            case GGUF_TYPE_UINT32: printf("%" PRIu32 "\n", gguf_get_val_u32(file, id)); break;
            case GGUF_TYPE_UINT64: printf("%" PRIu64 "\n", gguf_get_val_u64(file, id)); break;
            default: printf("?\n");
        }
    }
}

// Prints the name, the number of elements, their sum and the last one.
static void print_tensors(struct ggml_context * context) {
    for (struct ggml_tensor * tensor = ggml_get_first_tensor(context); tensor != NULL;
         tensor                      = ggml_get_next_tensor(context, tensor)) {
        if (tensor->type != GGML_TYPE_I32) {
            continue;
        }
        int64_t sum = 0;
        for (int64_t i = 0; i < ggml_nelements(tensor); i++) {
            sum += ((const int32_t *) tensor->data)[i];
        }
        printf("%s %" PRId64 " %" PRId64 "\n", tensor->name, ggml_nelements(tensor), sum);
    }
}

int main(int argc, char ** argv) {
    if (argc == 2 && strcmp(argv[1], "types") == 0) {
        print_types();
        return 0;
    }
    if (argc != 2) {
        return 2;
    }
    struct ggml_context *   context = NULL;
    struct gguf_init_params params  = { .no_alloc = false, .ctx = &context };
    struct gguf_context *   file    = gguf_init_from_file(argv[1], params);
    if (file == NULL) {
        return 1;
    }
    print_keys(file);
    print_tensors(context);
    gguf_free(file);
    ggml_free(context);
    return 0;
}
