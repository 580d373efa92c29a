// Given to the compiler with -include when it compiles upstream's ggml-alloc.c, so that upstream's
// allocator and lastuse can live in one process. These are all the functions that file defines.
#pragma once

#define ggml_tallocr_new                             upstream_ggml_tallocr_new
#define ggml_tallocr_alloc                           upstream_ggml_tallocr_alloc
#define ggml_gallocr_new                             upstream_ggml_gallocr_new
#define ggml_gallocr_new_n                           upstream_ggml_gallocr_new_n
#define ggml_gallocr_free                            upstream_ggml_gallocr_free
#define ggml_gallocr_reserve                         upstream_ggml_gallocr_reserve
#define ggml_gallocr_reserve_n                       upstream_ggml_gallocr_reserve_n
#define ggml_gallocr_reserve_n_size                  upstream_ggml_gallocr_reserve_n_size
#define ggml_gallocr_alloc_graph                     upstream_ggml_gallocr_alloc_graph
#define ggml_gallocr_get_buffer_size                 upstream_ggml_gallocr_get_buffer_size
#define ggml_backend_alloc_ctx_tensors               upstream_ggml_backend_alloc_ctx_tensors
#define ggml_backend_alloc_ctx_tensors_from_buft     upstream_ggml_backend_alloc_ctx_tensors_from_buft
#define ggml_backend_alloc_ctx_tensors_from_buft_size upstream_ggml_backend_alloc_ctx_tensors_from_buft_size
#define ggml_op_can_inplace                          upstream_ggml_op_can_inplace
