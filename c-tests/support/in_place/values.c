// The values of operands.

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "in_place.h"
#include "random_graph/random.h"

// In [-3, 3), or (0, 3].
static float draw_real(uint64_t * random, const struct rule * rule) {
    float value = 3.0f * random_unit(random);
    return rule->positive ? 3.0f - (value + 3.0f) / 2.0f : value;
}

static void fill_bytes(const struct ggml_tensor * tensor, char * bytes, uint64_t random) {
    size_t size  = ggml_nbytes(tensor);
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t drawn = next_random(&random);
        memcpy(bytes + i, &drawn, size - i < sizeof(drawn) ? size - i : sizeof(drawn));
    }
}

static void fill_quantized(const struct ggml_tensor * tensor, void * data, uint64_t random, const struct rule * rule) {
    int64_t n      = ggml_nelements(tensor);
    float * values = malloc((size_t) n * sizeof(float));
    CHECK(values != NULL, "out of memory");
    for (int64_t i = 0; i < n; i++) {
        values[i] = draw_real(&random, rule);
    }
    ggml_quantize_chunk(tensor->type, values, data, 0, ggml_nrows(tensor), tensor->ne[0], NULL);
    free(values);
}

static void fill_indices(const struct ggml_tensor * tensor, int32_t * data) {
    int64_t n     = ggml_nelements(tensor);
    int64_t limit = tensor->op_params[0];
    for (int64_t i = 0; i < n; i++) {
        data[i] = (int32_t) ((n - 1 - i) % limit);
    }
}

static void fill_reals(const struct ggml_tensor * tensor, void * data, uint64_t random, const struct rule * rule) {
    for (int64_t i = 0; i < ggml_nelements(tensor); i++) {
        float value = draw_real(&random, rule);
        switch (tensor->type) {
            case GGML_TYPE_F32:
                ((float *) data)[i] = value;
                break;
            case GGML_TYPE_F16:
                ((ggml_fp16_t *) data)[i] = ggml_fp32_to_fp16(value);
                break;
            case GGML_TYPE_BF16:
                ((ggml_bf16_t *) data)[i] = ggml_fp32_to_bf16(value);
                break;
            default:
                CHECK(false, "%s: there are no values for type %s", rule->name, ggml_type_name(tensor->type));
        }
    }
}

void fill_values(const struct ggml_tensor * tensor, void * data, uint64_t seed, const struct rule * rule) {
    uint64_t random = seed * 0x100000001b3u + (uint64_t) tensor->ne[0];
    if (tensor->type == GGML_TYPE_I32 && tensor->op_params[0] > 0) {
        fill_indices(tensor, data);
    } else if (rule->any_bytes) {
        fill_bytes(tensor, data, random);
    } else if (ggml_is_quantized(tensor->type)) {
        fill_quantized(tensor, data, random, rule);
    } else {
        fill_reals(tensor, data, random, rule);
    }
}
