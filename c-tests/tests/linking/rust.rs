//! A program in Rust that has lastuse and ggml as dependencies: the example, on a package that stands for llama-cpp-sys-2, which
//! brings ggml's libraries as that does and is not compiled for minutes.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use lastuse_c_tests::{clear_variables, copy_folder, folder};
use lastuse_vendor::{Ggml, Package, target_folder};

use crate::support::{self, expect};

/// What the example uses of llama-cpp-sys-2, as bindgen writes it.
const BINDINGS: &str = r#"
#![allow(non_camel_case_types)]
use std::os::raw::{c_int, c_uint, c_void};
#[repr(C)]
pub struct ggml_init_params { pub mem_size: usize, pub mem_buffer: *mut c_void, pub no_alloc: bool }
pub enum ggml_context {}
pub enum ggml_tensor {}
pub enum ggml_cgraph {}
pub enum ggml_backend {}
pub enum ggml_backend_sched {}
pub enum ggml_backend_buffer_type {}
pub type ggml_type = c_uint;
pub const GGML_TYPE_F32: ggml_type = 0;
type T = *mut ggml_tensor;
type C = *mut ggml_context;
type B = *mut ggml_backend;
type S = *mut ggml_backend_sched;
unsafe extern "C" {
    pub fn ggml_init(params: ggml_init_params) -> C;
    pub fn ggml_free(ctx: C);
    pub fn ggml_new_tensor_2d(ctx: C, kind: ggml_type, ne0: i64, ne1: i64) -> T;
    pub fn ggml_repeat_4d(ctx: C, a: T, ne0: i64, ne1: i64, ne2: i64, ne3: i64) -> T;
    pub fn ggml_sqr(ctx: C, a: T) -> T;
    pub fn ggml_sum(ctx: C, a: T) -> T;
    pub fn ggml_new_graph(ctx: C) -> *mut ggml_cgraph;
    pub fn ggml_build_forward_expand(graph: *mut ggml_cgraph, t: T);
    pub fn ggml_backend_cpu_init() -> B;
    pub fn ggml_backend_free(backend: B);
    pub fn ggml_backend_sched_new(backends: *mut B, types: *mut *mut ggml_backend_buffer_type, count: c_int, size: usize, parallel: bool, offload: bool) -> S;
    pub fn ggml_backend_sched_free(sched: S);
    pub fn ggml_backend_sched_reserve(sched: S, graph: *mut ggml_cgraph) -> bool;
    pub fn ggml_backend_sched_get_buffer_size(sched: S, backend: B) -> usize;
}
"#;

const MANIFEST: &str =
    "[package]\nname = \"llama-cpp-sys-2\"\nversion = \"0.1.161\"\nedition = \"2024\"\n\n[workspace]\n";

/// Writes the package, and the example with lastuse by its path. Returns the folder of the example.
fn projects(name: &str, ggml: &Ggml, change: impl Fn(String) -> String) -> PathBuf {
    let root = target_folder().join("packages").join(name);
    let _ = fs::remove_dir_all(&root);
    let (package, example) = (root.join("ggml"), root.join("example"));
    expect(copy_folder(&folder().with_file_name("packaging/examples/rust"), &example));
    let write = |file: PathBuf, text: &str| {
        fs::create_dir_all(file.parent().expect("a folder")).and_then(|()| fs::write(&file, text)).expect("writable");
    };
    let libraries = ["ggml", "ggml-cpu", "ggml-base"].map(|name| format!("rustc-link-lib=static={name}"));
    let search = format!("rustc-link-search=native={}", ggml.libraries.canonicalize().expect("it is built").display());
    let lines = libraries.iter().map(String::as_str).chain([&*search, "rustc-link-lib=stdc++"]);
    let lines: String = lines.map(|line| format!("    println!({:?});\n", format!("cargo:{line}"))).collect();
    write(package.join("build.rs"), &format!("fn main() {{\n{lines}}}\n"));
    write(package.join("Cargo.toml"), MANIFEST);
    write(package.join("src/lib.rs"), BINDINGS);
    let manifest = fs::read_to_string(example.join("Cargo.toml")).expect("it is copied");
    let lastuse = folder().with_file_name("");
    let manifest = manifest.replace("../../..", lastuse.canonicalize().expect("a folder").to_str().expect("UTF-8"));
    write(
        example.join("Cargo.toml"),
        &format!("{manifest}\n[patch.crates-io]\nllama-cpp-sys-2 = {{ path = \"../ggml\" }}\n"),
    );
    let main = fs::read_to_string(example.join("src/main.rs")).expect("it is copied");
    write(example.join("src/main.rs"), &change(main));
    example
}

/// Both builds of lastuse are in one folder.
fn build(example: &PathBuf) -> (Output, PathBuf) {
    let target = target_folder().join("packages/rust-target");
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    clear_variables(&mut command);
    command.arg("build").current_dir(example).env("CARGO_TARGET_DIR", std::path::absolute(&target).expect("a path"));
    (command.output().expect("cargo starts"), target.join("debug/app"))
}

#[test]
fn a_program_in_rust_is_served_where_lastuse_is_named_last() {
    let ggml = support::ggml(Package::LlamaCpp);
    let (output, program) = build(&projects("rust", &ggml, |main| main));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = Command::new(&program).output().expect("it starts").stdout;
    assert!(String::from_utf8_lossy(&printed).starts_with("allocator=lastuse\nbytes="), "{printed:?}");
    let first = "extern crate lastuse as _;\n";
    let swapped =
        |main: String| main.replace(first, "").replace("extern crate llama", &format!("{first}extern crate llama"));
    let (output, _) = build(&projects("rust-swapped", &ggml, swapped));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && message.contains("ggml_gallocr_new_n"), "{message}");
}
