//! Exported symbols: the committed list, and nothing else.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::support;
use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;

fn committed() -> BTreeSet<String> {
    include_str!("../../exports.txt").lines().map(str::to_owned).collect()
}

fn nm(arguments: &[&str], file: &Path) -> String {
    let output = Command::new("nm").args(arguments).arg(file).output().unwrap_or_else(|error| panic!("nm: {error}"));
    assert!(output.status.success(), "nm {}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn last_words(text: &str) -> BTreeSet<String> {
    text.lines().filter_map(|line| line.split_whitespace().next_back()).map(str::to_owned).collect()
}

#[test]
fn shared_library_exports_the_list() {
    let exported = last_words(&nm(&["-D", "--defined-only"], &support::release().shared));
    assert_eq!(exported, committed());
}

/// The archive also holds Rust's standard library, whose symbols are all of its own kind.
#[test]
fn static_library_defines_the_list() {
    let text = nm(&["-g", "--defined-only"], &support::release().archive);
    let ours = |name: &String| name.starts_with("ggml_") || name.starts_with("lastuse_") || name.starts_with("gguf_");
    let mut defined: BTreeSet<String> = last_words(&text).into_iter().filter(ours).collect();
    // Hidden, as the next test shows.
    defined.retain(|name| !TABLES.contains(&name.as_str()));
    assert_eq!(defined, committed());
}

/// Tables of ggml's functions, and of those of its own allocator under other names.
const TABLES: [&str; 2] = ["lastuse_ggml_functions", "lastuse_original_functions"];

/// They are visible inside the library only.
#[test]
fn tables_of_functions_are_hidden() {
    let output = Command::new("readelf").args(["-sW"]).arg(support::release().archive).output();
    let text = String::from_utf8_lossy(&output.unwrap_or_else(|error| panic!("readelf: {error}")).stdout).into_owned();
    for table in TABLES {
        let defined = |line: &&str| line.ends_with(&format!(" {table}")) && !line.contains("UND");
        let lines: Vec<&str> = text.lines().filter(defined).collect();
        assert!(!lines.is_empty(), "{table} is there");
        assert!(lines.iter().all(|line| line.contains("HIDDEN")), "{lines:?}");
    }
}

/// Rust's archive of compiler functions has some of the mathematical ones, hidden. One that lastuse needs would be linked, and
/// serve the whole program in place of that of the C library.
#[test]
fn linking_replaces_no_mathematical_function() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    let sources = ["tests/support/plain_allocator.c"];
    let program = Program::build("plain-allocator-archive", &sources, &ggml, Linked::LastuseArchive(&lastuse), &[]);
    let defined = last_words(&nm(&["--defined-only"], support::expect(program).path()));
    assert!(defined.contains("ggml_gallocr_new"), "lastuse is linked");
    let output = Command::new("cc").arg("-print-file-name=libm.so.6").output();
    let library = String::from_utf8_lossy(&output.unwrap_or_else(|error| panic!("cc: {error}")).stdout).into_owned();
    let exported = last_words(&nm(&["-D", "--defined-only"], Path::new(library.trim())));
    let exported: BTreeSet<&str> = exported.iter().filter_map(|name| name.split('@').next()).collect();
    assert!(exported.contains("round"), "{exported:?}");
    let replaced: Vec<&String> = defined.iter().filter(|name| exported.contains(name.as_str())).collect();
    assert!(replaced.is_empty(), "{replaced:?}");
}

#[test]
fn soname_is_set() {
    let output = Command::new("readelf").arg("-d").arg(support::release().shared).output();
    let text = String::from_utf8_lossy(&output.unwrap_or_else(|error| panic!("readelf: {error}")).stdout).into_owned();
    assert!(text.lines().any(|line| line.contains("SONAME") && line.contains("[liblastuse.so]")), "{text}");
}

/// cargo-c gives the library a name with a version, and a linker takes the last of two names.
#[test]
fn soname_is_left_to_cargo_c() {
    let folder = lastuse_vendor::target_folder().join("c-tests");
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
    let (script, source) = (folder.join("build-script"), lastuse_c_tests::folder().with_file_name("build.rs"));
    let status = Command::new("rustc").args(["--edition=2024", "-o"]).args([&script, &source]).status();
    assert!(status.unwrap_or_else(|error| panic!("rustc: {error}")).success());
    let arguments = |has_capi: bool| {
        let mut command = Command::new(&script);
        if has_capi {
            command.env("CARGO_FEATURE_CAPI", "1");
        }
        let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", script.display()));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ["-soname,liblastuse.so", "-z,nodelete"].map(|argument| text.lines().any(|line| line.ends_with(argument)))
    };
    assert_eq!(arguments(false), [true, true]);
    assert_eq!(arguments(true), [false, true]);
}

/// Two static libraries made by Rust bring two copies of its standard library.
#[test]
fn links_beside_another_rust_static_library() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    let folder = lastuse_vendor::target_folder().join("c-tests");
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
    let source = folder.join("another.rs");
    let code = "#[unsafe(no_mangle)] pub extern \"C\" fn another(n: u32) -> usize { vec![1u8; n as usize].len() }\n";
    std::fs::write(&source, code).unwrap_or_else(|error| panic!("{error}"));
    let archive = folder.join("libanother.a");
    let status = Command::new("rustc")
        .args(["--edition=2024", "--crate-type=staticlib", "-O", "-o"])
        .args([&archive, &source])
        .status();
    assert!(status.unwrap_or_else(|error| panic!("rustc: {error}")).success());
    let sources = ["tests/interface/two_rust_libraries.c"];
    let flags = [archive.to_str().unwrap_or_default()];
    let program = Program::build("two-rust-libraries", &sources, &ggml, Linked::LastuseArchive(&lastuse), &flags);
    support::passes(&support::expect(program), &[]);
}
