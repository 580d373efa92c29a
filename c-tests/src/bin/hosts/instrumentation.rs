//! Additions to a program for the comparison: the counter of buffers between it and its allocator, work memory at cache
//! lines, and lastuse linked before ggml.

use std::path::PathBuf;

use lastuse_c_tests::{Lastuse, Program, Result};
use lastuse_vendor::Ggml;

/// The counter, relative to the folder of the C programs.
const COUNTER: &str = "hosts/buffer_counter.c";

/// Sources that are preloaded into programs, or linked with them.
pub const INSTRUMENTATION: [&str; 2] = [COUNTER, "hosts/work_memory.cpp"];

/// Flags for sources of programs that the counter is linked with.
pub const COUNTER_IS_LINKED: &str = "-DCOUNTER_WRAPS";

/// The functions that it wraps.
const COUNTED: [&str; 9] = [
    "ggml_gallocr_new_n",
    "ggml_gallocr_new",
    "ggml_gallocr_free",
    "ggml_gallocr_reserve",
    "ggml_gallocr_reserve_n",
    "ggml_gallocr_alloc_graph",
    "ggml_backend_buft_alloc_buffer",
    "ggml_backend_buft_get_alloc_size",
    "ggml_backend_buffer_free",
];

/// Builds [`INSTRUMENTATION`] as a library to be preloaded.
///
/// # Errors
/// The message of the compiler or the linker.
pub fn preloaded_instrumentation(host: &str, ggml: &Ggml) -> Result<PathBuf> {
    Program::build_shared(&format!("libhosts-{host}-instrumentation.so"), &INSTRUMENTATION, ggml, &[])
}

/// Returns arguments of the linker for a static program: the counter before the allocator, and lastuse, if given, before
/// the libraries of ggml, which follow at a boundary of pages.
///
/// # Errors
/// The message of the compiler.
pub fn static_link(ggml: &Ggml, lastuse: Option<&Lastuse>) -> Result<Vec<String>> {
    let mut link: Vec<String> = COUNTED.iter().map(|function| format!("-Wl,--wrap={function}")).collect();
    if let Some(lastuse) = lastuse {
        // The counter asks lastuse for the number of its plans, if it is there.
        link.push("-Wl,-u,ggml_gallocr_new_n,-u,lastuse_stats_report".to_owned());
        link.push(lastuse.archive.to_string_lossy().into_owned());
    }
    let boundary = Program::build_object("hosts-page-boundary.o", "hosts/page_boundary.c", ggml)?;
    link.push(boundary.to_string_lossy().into_owned());
    Ok(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linker_wraps_what_the_counter_counts() {
        let file = lastuse_c_tests::folder().join(COUNTER);
        let text = std::fs::read_to_string(file).expect("the counter");
        let listed: Vec<&str> = text
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("F(")?.split_once(')'))
            .map(|(function, _)| function)
            .collect();
        assert_eq!(listed, COUNTED);
    }
}
