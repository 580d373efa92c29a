//! lastuse's functions of `ggml-alloc.h` have the names, arguments and return types that the header declares.
//!
//! cbindgen writes C declarations of the Rust functions. The C compiler reads them after those of ggml and refuses
//! conflicting declarations.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support;
use lastuse_vendor::{Ggml, Language, Package, compiler};

/// The files that define the functions.
const SOURCES: [&str; 3] = ["gallocr_new.rs", "gallocr.rs", "tensors_in_buffers.rs"];

/// Types of ggml.
const STRUCTS: [&str; 8] = [
    "ggml_backend",
    "ggml_backend_buffer",
    "ggml_backend_buffer_type",
    "ggml_cgraph",
    "ggml_context",
    "ggml_gallocr",
    "ggml_tallocr",
    "ggml_tensor",
];

/// Returns C declarations of what Rust defines.
fn ours() -> String {
    let mut config = cbindgen::Config { language: cbindgen::Language::C, no_includes: true, ..Default::default() };
    config.documentation = false;
    config.usize_is_size_t = true;
    config.export.rename = STRUCTS.map(|name| (name.to_owned(), format!("struct {name}"))).into();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(lastuse_c_tests::folder().with_file_name("src/abi").join(source));
    }
    let mut text = Vec::new();
    builder.generate().unwrap_or_else(|error| panic!("cbindgen: {error}")).write(&mut text);
    String::from_utf8(text).expect("cbindgen writes UTF-8")
}

/// Compiles the declarations after those of ggml.
fn compile(name: &str, ggml: &Ggml, declarations: &str) -> Output {
    let folder = lastuse_vendor::target_folder().join("c-tests");
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
    let file = folder.join(format!("declarations-{name}-{}.c", ggml.version));
    let headers = "#include \"ggml-alloc.h\"\n#include \"ggml-impl.h\"\n";
    fs::write(&file, format!("{headers}{declarations}")).unwrap_or_else(|error| panic!("{error}"));
    let mut command = support::expect(compiler(Language::C));
    command.args(ggml.include_flags()).args(["-fsyntax-only", "-D_GNU_SOURCE"]).arg(&file);
    command.output().unwrap_or_else(|error| panic!("{error}"))
}

fn both_versions() -> [Ggml; 2] {
    [support::ggml(Package::LlamaCpp), support::ggml(Package::WhisperCpp)]
}

/// Returns the names that "(" follows in C.
fn functions(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let ends = text.match_indices('(').map(|(at, _)| &text[..at]);
    let names = ends.filter_map(|before| before.rsplit(|letter| !is_part(letter)).next());
    names.filter(|name| name.starts_with("ggml_")).map(str::to_owned).collect()
}

/// Returns the functions that a header declares, without comments.
fn declared(header: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(header).unwrap_or_else(|error| panic!("{}: {error}", header.display()));
    let without_blocks: String = text
        .split("/*")
        .enumerate()
        .map(|(i, part)| if i == 0 { part } else { part.split("*/").nth(1).unwrap_or("") })
        .collect();
    let lines = without_blocks.lines().map(|line| line.split("//").next().unwrap_or_default());
    functions(&lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn types_are_those_of_ggmls_header() {
    for ggml in both_versions() {
        let output = compile("ours", &ggml, &ours());
        assert!(output.status.success(), "ggml {}: {}", ggml.version, String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn every_function_of_the_header_is_there_and_no_other() {
    let mut ours = functions(&ours());
    assert!(ours.remove("ggml_op_can_inplace"), "it is declared in ggml-impl.h");
    for ggml in both_versions() {
        let header: PathBuf = ggml.sources.join("include/ggml-alloc.h");
        assert_eq!(ours, declared(&header), "ggml {}", ggml.version);
    }
}

/// Each difference in a declaration is refused.
#[test]
fn differences_are_refused() {
    let correct = ours();
    for (from, to) in [
        ("size_t ggml_gallocr_get_buffer_size(", "int ggml_gallocr_get_buffer_size("),
        ("int buffer_id", "long buffer_id"),
        ("const int *leaf_buffer_ids", "int *leaf_buffer_ids"),
        ("struct ggml_cgraph *graph", "struct ggml_tensor *graph"),
        (", int n_bufs)", ")"),
        ("struct ggml_tallocr ggml_tallocr_new", "struct ggml_tallocr *ggml_tallocr_new"),
    ] {
        let wrong = correct.replace(from, to);
        assert_ne!(wrong, correct, "{from} is not in:\n{correct}");
        let output = compile("wrong", &both_versions()[0], &wrong);
        assert!(!output.status.success(), "{to} is accepted");
    }
}
