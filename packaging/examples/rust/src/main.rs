//! A program on llama.cpp's ggml that uses lastuse: prints which allocator serves it, and the bytes of its compute buffer.

// The crate that is named last is linked first, and lastuse must be linked before ggml. In the other order the linker finds each
// function of ggml-alloc.h twice.
extern crate llama_cpp_sys_2 as ggml;
extern crate lastuse as _;

use std::ptr::null_mut;

unsafe extern "C" {
    safe fn lastuse_enabled() -> bool;
}

fn main() {
    let params = ggml::ggml_init_params { mem_size: 1 << 20, mem_buffer: null_mut(), no_alloc: true };
    // SAFETY: each pointer comes from the call before it and is used before ggml_free, and the backend outlives its scheduler.
    unsafe {
        let ctx = ggml::ggml_init(params);
        let x = ggml::ggml_new_tensor_2d(ctx, ggml::GGML_TYPE_F32, 64, 64);
        let wide = ggml::ggml_repeat_4d(ctx, x, 64, 4096, 1, 1);
        let graph = ggml::ggml_new_graph(ctx);
        ggml::ggml_build_forward_expand(graph, ggml::ggml_sum(ctx, ggml::ggml_sqr(ctx, wide)));
        let mut backend = ggml::ggml_backend_cpu_init();
        let sched = ggml::ggml_backend_sched_new(&mut backend, null_mut(), 1, 2048, false, true);
        assert!(ggml::ggml_backend_sched_reserve(sched, graph), "no memory");
        let bytes = ggml::ggml_backend_sched_get_buffer_size(sched, backend);
        println!("allocator={}\nbytes={bytes}", if lastuse_enabled() { "lastuse" } else { "ggml" });
        ggml::ggml_backend_sched_free(sched);
        ggml::ggml_backend_free(backend);
        ggml::ggml_free(ctx);
    }
}
