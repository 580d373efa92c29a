//! Sets the SONAME of the shared library, and that it stays loaded. Features add generators of committed files, which compare
//! or update these; a plain build runs none.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    set_link_arguments();
    #[cfg(feature = "header")]
    header::generate();
    #[cfg(feature = "bindings")]
    bindings::generate();
}

/// Sets the name by which linked programs find the shared library: without a version, see docs/stability.md. A cdylib
/// has no SONAME by default, and a program linked with it would then record the path of the file on the build machine. With
/// the feature `capi` cargo-c sets it, and of two names linkers take the last.
///
/// Allocators, and functions that run at the end of the process, stay where a program closes the library that it has
/// loaded, as Node does with one that is not an add-on. macOS keeps libraries with thread-local variables, and takes functions of
/// ggml for missing unless it is told that they are found when the library is loaded.
///
/// The export list needs no version script: rustc passes one that exports exactly the `no_mangle` functions.
fn set_link_arguments() {
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let (name, others) = match &*system {
        "windows" => return,
        "macos" => ("-Wl,-install_name,@rpath/liblastuse.dylib", "-Wl,-undefined,dynamic_lookup"),
        _ => ("-Wl,-soname,liblastuse.so", "-Wl,-z,nodelete"),
    };
    if std::env::var_os("CARGO_FEATURE_CAPI").is_none() {
        println!("cargo:rustc-cdylib-link-arg={name}");
    }
    println!("cargo:rustc-cdylib-link-arg={others}");
}

#[cfg(any(feature = "header", feature = "bindings"))]
mod committed {
    /// Compares `text` with the committed file, or writes it there with `LASTUSE_UPDATE`.
    pub fn write(committed: &str, text: &str, feature: &str) {
        println!("cargo:rerun-if-env-changed=LASTUSE_UPDATE");
        println!("cargo:rerun-if-changed={committed}");
        if std::env::var_os("LASTUSE_UPDATE").is_some() {
            std::fs::write(committed, text).unwrap_or_else(|error| panic!("{committed}: {error}"));
        }
        let is_same = std::fs::read_to_string(committed).is_ok_and(|known| known == text);
        let update = format!("LASTUSE_UPDATE=1 cargo build -p lastuse --features {feature}");
        assert!(is_same, "{committed} is not what its generator writes; update it with: {update}");
    }
}

#[cfg(feature = "header")]
mod header {
    /// The files that define lastuse's own C functions, in the order of the header.
    const SOURCES: [&str; 15] = [
        "src/abi/process.rs",
        "src/abi/records.rs",
        "src/abi/arena.rs",
        "src/abi/inspect.rs",
        "src/abi/context.rs",
        "src/abi/tensor.rs",
        "src/abi/passes.rs",
        "src/abi/budget_passes.rs",
        "src/abi/scheduler.rs",
        "src/abi/steps.rs",
        "src/abi/offload.rs",
        "src/abi/offload_device.rs",
        "src/abi/offload_item.rs",
        "src/abi/offload_solve.rs",
        "src/abi/checks.rs",
    ];

    /// The first function of each topic of the header's first page.
    const TOPICS: [(&str, &str); 18] = [
        ("lastuse_version", "is lastuse in use, and what it has done"),
        ("lastuse_set", "settings: rules of sharing, effort, files"),
        ("lastuse_gallocr_trim", "memory that the latest graph does not need, and who allocates buffers"),
        ("lastuse_accounting_json", "what devices hold"),
        ("lastuse_graph_dump_begin", "values of tensors in files"),
        ("lastuse_arena_new", "memory that allocators share"),
        ("lastuse_gallocr_report", "sizes, lower bounds, why a graph needs its memory"),
        ("lastuse_context_new", "contexts that need no size"),
        ("lastuse_tensor_retain", "values that can be read later"),
        ("lastuse_tensor_set_output", "order as a part of the graph, results without copies"),
        ("lastuse_tensor_dedicate", "results that survive later graphs"),
        ("lastuse_graph_remove_copies", "results without copies, a better order of the nodes"),
        ("lastuse_graph_recompute", "a training graph that fits a budget"),
        ("lastuse_graph_tile", "tiling, to fit a budget"),
        ("lastuse_sched_allocator", "graphs of schedulers"),
        ("lastuse_steps_new", "a graph computed in steps"),
        ("lastuse_offload_new", "weights and caches on devices, within budgets"),
        ("lastuse_graph_verify", "checks of plans and of memory"),
    ];

    /// Heads the functions of each topic.
    fn with_topics(text: &str) -> String {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (function, topic) in TOPICS {
            let declares = |line: &String| !line.starts_with(['/', ' ', '#']) && line.contains(&format!("{function}("));
            let at = lines.iter().rposition(declares).expect("each topic has its function");
            let comment = lines[..at].iter().rposition(|line| !line.starts_with("//")).map_or(0, |before| before + 1);
            lines.splice(comment..comment, [format!("// ---- {topic} ----"), String::new()]);
        }
        lines.join("\n") + "\n"
    }

    /// Generates include/lastuse.h.
    pub fn generate() {
        println!("cargo:rerun-if-changed=cbindgen.toml");
        let config = cbindgen::Config::from_file("cbindgen.toml").expect("cbindgen.toml is valid");
        let mut builder = cbindgen::Builder::new().with_config(config);
        for source in SOURCES {
            println!("cargo:rerun-if-changed={source}");
            builder = builder.with_src(source);
        }
        let bindings = builder.generate();
        let mut text = Vec::new();
        bindings.expect("the sources parse").write(&mut text);
        let text = String::from_utf8(text).expect("the header is UTF-8");
        super::committed::write("include/lastuse.h", &with_topics(&refilled(&for_c(&text))), "header");
    }

    /// Breaks the lines of comments at 118 columns. Lines that begin with more than one space, code and tables
    /// among them, stay.
    fn refilled(text: &str) -> String {
        /// The beginning of a line of a comment: its indentation, `// `, and `- ` of a list.
        fn beginning(line: &str) -> Option<(&str, &str)> {
            let words = line.trim_start().strip_prefix("// ")?;
            let words = words.strip_prefix("- ").unwrap_or(words);
            (!words.starts_with([' ', '|'])).then(|| line.split_at(line.len() - words.len()))
        }
        let begins_anew = |words: &str| words.starts_with([' ', '|']) || words.starts_with("- ");
        let mut lines = text.lines().peekable();
        let mut filled = String::new();
        while let Some(line) = lines.next() {
            let Some((first, words)) = beginning(line) else {
                filled += &format!("{line}\n");
                continue;
            };
            let rest = first.replace("- ", "  ");
            let mut words = words.to_owned();
            while let Some(more) =
                lines.next_if(|line| line.strip_prefix(&*rest).is_some_and(|words| !begins_anew(words)))
            {
                words += &format!(" {}", &more[rest.len()..]);
            }
            let options = textwrap::Options::new(118).initial_indent(first).subsequent_indent(&rest).break_words(false);
            filled +=
                &format!("{}\n", textwrap::fill(&words, options.word_splitter(textwrap::WordSplitter::NoHyphenation)));
        }
        filled
    }

    /// Leaves out what the header says once for all functions and structs: sections "# Safety", which are for callers in
    /// Rust, and that struct_size is the size of the struct. Of several empty lines, one is kept.
    fn for_c(text: &str) -> String {
        let mut kept: Vec<&str> = Vec::new();
        let mut is_safety = false;
        for line in text.lines() {
            if line == "// # Safety" {
                is_safety = true;
                // The empty line of the comment before the section.
                kept.pop_if(|line| *line == "//");
            }
            is_safety &= line.starts_with("//");
            let is_repeated = line.is_empty() && kept.last().is_some_and(|line| line.is_empty());
            if !is_safety && !is_repeated && !line.starts_with("  // sizeof(struct ") {
                kept.push(line);
            }
        }
        kept.join("\n") + "\n"
    }
}

#[cfg(feature = "bindings")]
mod bindings {
    use std::path::PathBuf;
    use std::process::Command;

    const TYPES: &[&str] = &[
        "ggml_(tensor|cgraph|init_params|tallocr|context|hash_set|bitset_t|cgraph_eval_order|log_callback)",
        "ggml_(type_traits|to_float_t|from_float_t|backend_sched_eval_callback)",
    ];
    const FUNCTIONS: &[&str] = &[
        "ggml_(abort|is_contiguous|is_quantized|log_(internal|get|set)|version|op_(name|desc)|type_name|get_data|get_(first|next)_tensor)",
        "ggml_get_(no_alloc|mem_buffer|mem_size)",
        "ggml_(init|free|new_tensor_1d|view_(1d|tensor)|neg|set_input|set_output|tensor_overhead|nbytes)",
        "ggml_(new_graph_custom|graph_overhead_custom|build_forward_expand|cont)",
        "ggml_(get_type_traits|type_size|set_name|used_mem)",
        "ggml_backend_buft_(name|alloc_buffer|get_alignment|get_max_size|get_alloc_size)",
        "ggml_backend_buft_(alloc_buffer_n|get_alloc_size_n|is_meta|is_host|get_device)",
        "ggml_backend_dev_(type|supports_op|name|description|memory)",
        "ggml_backend_buffer_(free|get_type|get_base|get_size|get_alignment|get_alloc_size|init_tensor|reset|set_usage)",
        "ggml_backend_(tensor_alloc|view_init|get_default_buffer_type|cpu_buffer_type|multi_buffer_alloc_buffer)",
        "ggml_backend_(supports_op|supports_buft|offload_op)",
        "ggml_backend_(graph_compute|tensor_(get|set|memset)|buffer_(get_usage|is_host|clear))",
        "ggml_backend_sched_(graph_compute|set_eval_callback|get_n_backends|get_n_copies|get_backend|get_buffer_type)",
        "ggml_backend_sched_(new|free|split_graph|reset|reserve|get_buffer_size)",
        "ggml_backend_(name|get_device)",
        "ggml_backend_sched_(get_tensor_backend|set_tensor_backend)",
    ];

    /// Types that lastuse only has pointers to.
    const OPAQUE: [&str; 5] = [
        "ggml_backend",
        "ggml_backend_buffer",
        "ggml_backend_buffer_type",
        "ggml_backend_device",
        "ggml_backend_sched",
    ];

    fn opaque(name: &str) -> String {
        let pointer = name.replace("device", "dev");
        format!("#[repr(C)]\npub struct {name}([u8; 0]);\npub type {pointer}_t = *mut {name};\n")
    }

    /// Generates src/ggml/bindings.rs from ggml's headers: those in the folder `GGML_DIR`, or else the vendored ones.
    pub fn generate() {
        println!("cargo:rerun-if-env-changed=GGML_DIR");
        let ggml = std::env::var_os("GGML_DIR").map_or_else(vendored, PathBuf::from);
        let headers = ["ggml-impl.h", "ggml-backend-impl.h", "ggml-alloc.h"];
        let mut builder = bindgen::Builder::default()
            .header_contents("lastuse.h", &headers.map(|name| format!("#include \"{name}\"\n")).concat())
            .clang_args([format!("-I{}", ggml.join("include").display()), format!("-I{}", ggml.join("src").display())])
            .allowlist_recursively(false)
            .default_enum_style(bindgen::EnumVariation::Consts)
            .raw_line("//! ggml's types and functions, as far as lastuse uses them. Generated by bindgen from ggml's headers:")
            .raw_line("//! `LASTUSE_UPDATE=1 cargo build -p lastuse --features bindings`. Functions are types here, since the")
            .raw_line("//! functions themselves are found when the program runs.")
            .raw_line("#![allow(missing_docs, non_camel_case_types, missing_debug_implementations, dead_code, clippy::all, clippy::restriction, reason = \"generated\")]")
            .raw_line("")
            .raw_line("pub type ggml_op = u32;\npub type ggml_type = u32;\npub type ggml_status = i32;")
            .raw_line("pub type ggml_log_level = u32;\npub type ggml_backend_buffer_usage = u32;")
            .raw_line(OPAQUE.map(opaque).concat())
            .raw_line("// Between 2026-04 and the first ggml with `ggml_backend_buft_alloc_buffer_n`.")
            .raw_line("pub type ggml_backend_meta_alloc_ctx_tensors_from_buft =")
            .raw_line("    unsafe extern \"C\" fn(ctx: *mut ggml_context, buft: ggml_backend_buffer_type_t) -> ggml_backend_buffer_t;")
            .raw_line("/// Room for the `ggml_cgraph` of any ggml.")
            .raw_line("#[repr(C)]\npub struct ggml_cgraph_of_any_size([u64; 64]);")
            .raw_line("pub type ggml_graph_view =")
            .raw_line("    unsafe extern \"C\" fn(graph: *mut ggml_cgraph, first: i32, end: i32) -> ggml_cgraph_of_any_size;")
            .disable_header_comment()
            .generate_comments(false)
            .merge_extern_blocks(true)
            .prepend_enum_name(false)
            .use_core();
        for name in TYPES {
            builder = builder.allowlist_type(name);
        }
        for pattern in FUNCTIONS {
            builder = builder.allowlist_function(pattern);
        }
        let text = builder.generate().expect("ggml's headers parse").to_string();
        super::committed::write("src/ggml/bindings.rs", &functions_as_types(&text), "bindings");
    }

    /// Replaces each `fn name(..)` in the extern block by `type name = fn(..)` outside of it.
    fn functions_as_types(text: &str) -> String {
        let (before, block) = text.split_once("unsafe extern \"C\" {\n").expect("bindgen writes one extern block");
        let (block, after) = block.split_once("\n}\n").expect("the extern block ends");
        let types = block.lines().map(|line| {
            let line = line.strip_prefix("    ").unwrap_or(line);
            match line.strip_prefix("pub fn ").and_then(|rest| rest.split_once('(')) {
                // A function may have the name of the enum that it returns.
                Some((name, rest)) => {
                    let rest = rest.replace(&format!("-> {name};"), "-> u32;");
                    format!("pub type {name} = unsafe extern \"C\" fn({rest}\n")
                }
                None => format!("{line}\n"),
            }
        });
        format!("{before}{}{after}", types.collect::<String>())
    }

    /// Returns the folder of ggml in the pinned registry package.
    fn vendored() -> PathBuf {
        println!("cargo:rerun-if-changed=vendor/packages/Cargo.lock");
        let args = ["fetch", "--quiet", "--locked", "--manifest-path", "vendor/packages/Cargo.toml"];
        let status = Command::new(env!("CARGO")).args(args).status().expect("cargo runs");
        assert!(status.success(), "cargo cannot fetch the pinned packages");
        let args = ["metadata", "--format-version=1", "--locked", "--manifest-path", "vendor/packages/Cargo.toml"];
        let output = Command::new(env!("CARGO")).args(args).output().expect("cargo runs");
        let text = String::from_utf8(output.stdout).expect("cargo prints UTF-8");
        let manifest = text.split('"').find(|part| part.contains("/llama-cpp-sys-2-") && part.ends_with("/Cargo.toml"));
        let manifest = manifest.expect("the package is in the lock file");
        PathBuf::from(manifest).with_file_name("llama.cpp").join("ggml")
    }
}
