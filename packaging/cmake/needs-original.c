// Linked to lastuse where that is put into a ggml: lastuse itself refers to ggml's own allocator weakly, since it is there in no
// other program, and a linker does not take from a static library what is only referred to weakly.

void lastuse_original_ggml_gallocr_new_n(void);

__attribute__((used, visibility("hidden"))) void (*const lastuse_needs_original)(void) = lastuse_original_ggml_gallocr_new_n;
