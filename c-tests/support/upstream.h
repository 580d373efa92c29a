// Upstream's allocator under its other names (see upstream_names.h), and both allocators as values, so
// that one test body runs on either.
#pragma once

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

struct ggml_tallocr   upstream_ggml_tallocr_new(ggml_backend_buffer_t buffer);
enum ggml_status      upstream_ggml_tallocr_alloc(struct ggml_tallocr * talloc, struct ggml_tensor * tensor);
ggml_gallocr_t        upstream_ggml_gallocr_new(ggml_backend_buffer_type_t buft);
ggml_gallocr_t        upstream_ggml_gallocr_new_n(ggml_backend_buffer_type_t * bufts, int n_bufs);
void                  upstream_ggml_gallocr_free(ggml_gallocr_t galloc);
bool                  upstream_ggml_gallocr_reserve(ggml_gallocr_t galloc, struct ggml_cgraph * graph);
bool                  upstream_ggml_gallocr_reserve_n(ggml_gallocr_t galloc, struct ggml_cgraph * graph,
                                                      const int * node_buffer_ids, const int * leaf_buffer_ids);
void                  upstream_ggml_gallocr_reserve_n_size(ggml_gallocr_t galloc, struct ggml_cgraph * graph,
                                                           const int * node_buffer_ids,
                                                           const int * leaf_buffer_ids, size_t * sizes);
bool                  upstream_ggml_gallocr_alloc_graph(ggml_gallocr_t galloc, struct ggml_cgraph * graph);
size_t                upstream_ggml_gallocr_get_buffer_size(ggml_gallocr_t galloc, int buffer_id);
ggml_backend_buffer_t upstream_ggml_backend_alloc_ctx_tensors(struct ggml_context * ctx, ggml_backend_t backend);
ggml_backend_buffer_t upstream_ggml_backend_alloc_ctx_tensors_from_buft(struct ggml_context *      ctx,
                                                                        ggml_backend_buffer_type_t buft);
size_t                upstream_ggml_backend_alloc_ctx_tensors_from_buft_size(struct ggml_context *      ctx,
                                                                             ggml_backend_buffer_type_t buft);
bool                  upstream_ggml_op_can_inplace(enum ggml_op op);

// One graph allocator. A ggml_gallocr_t may only be passed to functions of the allocator that made it.
struct allocator_api {
    const char * name;
    ggml_gallocr_t (*new)(ggml_backend_buffer_type_t buft);
    ggml_gallocr_t (*new_n)(ggml_backend_buffer_type_t * bufts, int n_bufs);
    void (*free)(ggml_gallocr_t galloc);
    bool (*reserve)(ggml_gallocr_t galloc, struct ggml_cgraph * graph);
    bool (*reserve_n)(ggml_gallocr_t galloc, struct ggml_cgraph * graph, const int * node_buffer_ids,
                      const int * leaf_buffer_ids);
    void (*reserve_n_size)(ggml_gallocr_t galloc, struct ggml_cgraph * graph, const int * node_buffer_ids,
                           const int * leaf_buffer_ids, size_t * sizes);
    bool (*alloc_graph)(ggml_gallocr_t galloc, struct ggml_cgraph * graph);
    size_t (*get_buffer_size)(ggml_gallocr_t galloc, int buffer_id);
};

static const struct allocator_api lastuse_api = {
    .name            = "lastuse",
    .new             = ggml_gallocr_new,
    .new_n           = ggml_gallocr_new_n,
    .free            = ggml_gallocr_free,
    .reserve         = ggml_gallocr_reserve,
    .reserve_n       = ggml_gallocr_reserve_n,
    .reserve_n_size  = ggml_gallocr_reserve_n_size,
    .alloc_graph     = ggml_gallocr_alloc_graph,
    .get_buffer_size = ggml_gallocr_get_buffer_size,
};

static const struct allocator_api upstream_api = {
    .name            = "upstream",
    .new             = upstream_ggml_gallocr_new,
    .new_n           = upstream_ggml_gallocr_new_n,
    .free            = upstream_ggml_gallocr_free,
    .reserve         = upstream_ggml_gallocr_reserve,
    .reserve_n       = upstream_ggml_gallocr_reserve_n,
    .reserve_n_size  = upstream_ggml_gallocr_reserve_n_size,
    .alloc_graph     = upstream_ggml_gallocr_alloc_graph,
    .get_buffer_size = upstream_ggml_gallocr_get_buffer_size,
};
