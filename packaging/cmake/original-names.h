// Given to the compiler with -include when it compiles ggml's own ggml-alloc.c, so that it and lastuse can be in one program:
// its functions get other names. These are all that it defines.
#pragma once

#ifndef LASTUSE_ORIGINAL_NAME
// Where lastuse looks for them. They are hidden in the library that they are in, so they are not for export either.
#define LASTUSE_ORIGINAL_NAME(name) lastuse_original_##name
#undef GGML_SHARED
#endif

#define ggml_tallocr_new                              LASTUSE_ORIGINAL_NAME(ggml_tallocr_new)
#define ggml_tallocr_alloc                            LASTUSE_ORIGINAL_NAME(ggml_tallocr_alloc)
#define ggml_gallocr_new                              LASTUSE_ORIGINAL_NAME(ggml_gallocr_new)
#define ggml_gallocr_new_n                            LASTUSE_ORIGINAL_NAME(ggml_gallocr_new_n)
#define ggml_gallocr_free                             LASTUSE_ORIGINAL_NAME(ggml_gallocr_free)
#define ggml_gallocr_reserve                          LASTUSE_ORIGINAL_NAME(ggml_gallocr_reserve)
#define ggml_gallocr_reserve_n                        LASTUSE_ORIGINAL_NAME(ggml_gallocr_reserve_n)
#define ggml_gallocr_reserve_n_size                   LASTUSE_ORIGINAL_NAME(ggml_gallocr_reserve_n_size)
#define ggml_gallocr_alloc_graph                      LASTUSE_ORIGINAL_NAME(ggml_gallocr_alloc_graph)
#define ggml_gallocr_get_buffer_size                  LASTUSE_ORIGINAL_NAME(ggml_gallocr_get_buffer_size)
#define ggml_backend_alloc_ctx_tensors                LASTUSE_ORIGINAL_NAME(ggml_backend_alloc_ctx_tensors)
#define ggml_backend_alloc_ctx_tensors_from_buft      LASTUSE_ORIGINAL_NAME(ggml_backend_alloc_ctx_tensors_from_buft)
#define ggml_backend_alloc_ctx_tensors_from_buft_size LASTUSE_ORIGINAL_NAME(ggml_backend_alloc_ctx_tensors_from_buft_size)
#define ggml_op_can_inplace                           LASTUSE_ORIGINAL_NAME(ggml_op_can_inplace)
