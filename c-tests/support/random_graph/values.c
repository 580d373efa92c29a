// The values of tensors without operation.

#include <stdlib.h>

#include "builder.h"
#include "check.h"
#include "random.h"

static void draw_reals(const struct ggml_tensor * tensor, uint64_t * random, void * data) {
    int64_t n = ggml_nelements(tensor);
    for (int64_t i = 0; i < n; i++) {
        float value = random_unit(random);
        if (tensor->type == GGML_TYPE_F32) {
            ((float *) data)[i] = value;
        } else {
            ((ggml_fp16_t *) data)[i] = ggml_fp32_to_fp16(value);
        }
    }
}

static void draw_integers(const struct leaf * leaf, uint64_t * random, void * data) {
    int64_t n     = ggml_nelements(leaf->tensor);
    int64_t start = random_below(random, leaf->limit);
    for (int64_t i = 0; i < n; i++) {
        int64_t value = leaf->unique ? (start + i) % leaf->limit : random_below(random, leaf->limit);
        if (leaf->tensor->type == GGML_TYPE_I32) {
            ((int32_t *) data)[i] = (int32_t) value;
        } else {
            ((int64_t *) data)[i] = value;
        }
    }
}

void random_graph_set_data(const struct random_graph * graph) {
    const struct random_graph_detail * d = graph->detail;
    for (int i = 0; i < d->n_leafs; i++) {
        struct ggml_tensor * tensor = d->leafs[i].tensor;
        if (tensor->buffer == NULL) {
            continue; // made, and not used by anything that entered the graph
        }
        uint64_t random = graph->seed * 0x10001u + (uint64_t) i;
        size_t   size   = ggml_nbytes(tensor);
        void *   data   = malloc(size);
        CHECK(data != NULL, "out of memory");
        if (d->leafs[i].limit > 0) {
            draw_integers(&d->leafs[i], &random, data);
        } else {
            draw_reals(tensor, &random, data);
        }
        ggml_backend_tensor_set(tensor, data, 0, size);
        free(data);
    }
}
