//! Builds for other systems than glibc on x86-64, and programs run there.

use std::path::{Path, PathBuf};
use std::process::Command;

use lastuse_c_tests::packages::{
    Form, InjectedBuild, check_served, output_of, packages_folder, printed_size, results, served,
};
use lastuse_c_tests::{Program, Result, captured_graphs, folder, tool};
use lastuse_vendor::Package;

use crate::target::Target;
use crate::zig::{Zig, check_standard_library};

/// Programs that know nothing of lastuse: one uses an allocator itself, one a scheduler.
const PROGRAMS: [&str; 2] = ["plain_allocator", "plain_scheduler"];

const AARCH64: &str = "aarch64-unknown-linux-gnu";
const MUSL: &str = "x86_64-unknown-linux-musl";

/// Builds lastuse and ggml for 64-bit Arm, and runs programs there, by qemu on other processors: with lastuse preloaded, linked
/// statically, and with `LASTUSE=off`.
///
/// # Errors
/// What does not hold, or the message of a build.
pub fn test_aarch64() -> Result<()> {
    let target = Target::of(AARCH64)?;
    let linker = target.tool("gcc");
    let built = build_rust(AARCH64, "lastuse", &[("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", &linker)])?;
    let programs = build_ggml("aarch64", Form::PartShared, &target.settings(), &built.join("liblastuse.a"))?;
    for name in PROGRAMS {
        let preloaded = target.run(&programs.join(name), Some(&built.join("liblastuse.so")));
        let linked = target.run(&programs.join(format!("{name}-linked")), None);
        for (way, words) in [("preloaded", preloaded), ("linked", linked)] {
            check("aarch64", name, way, &words)?;
        }
    }
    Ok(())
}

/// Builds lastuse and ggml for musl, and runs programs without shared libraries, and the tool.
///
/// # Errors
/// What does not hold, or the message of a build.
pub fn test_musl() -> Result<()> {
    let zig = Zig::install()?;
    let built = build_rust(MUSL, "lastuse", &[])?;
    let compilers = [("C", "cc"), ("CXX", "c++")].map(|(language, name)| {
        let compiler = zig.compiler(name, "x86_64-linux-musl");
        compiler.map(|compiler| format!("CMAKE_{language}_COMPILER={}", compiler.display()))
    });
    let [c, cxx] = compilers;
    let settings = [c?, cxx?, "CMAKE_EXE_LINKER_FLAGS=-static".to_owned()];
    let programs = build_ggml("musl", Form::PartStatic, &settings, &built.join("liblastuse.a"))?;
    for name in PROGRAMS {
        check_static("musl", &programs, name)?;
    }
    check_tool(&build_rust(MUSL, "lastuse-tool", &[])?.join("lastuse"))
}

/// Checks that lastuse serves a program that is linked with it and without shared libraries, and that the program has the results
/// of the one that is linked with ggml alone. `LASTUSE=off` would have no effect, since lastuse replaces ggml-alloc in it.
fn check_static(system: &str, programs: &Path, name: &str) -> Result<()> {
    let plain = Program::existing(programs.join(name)).run_with(&[], &[])?;
    let linked = served(&programs.join(format!("{name}-linked")), &[], &[])?;
    let size = printed_size(&plain).unwrap_or(u64::MAX);
    let is_same = results(&plain).next().is_some() && results(&plain).eq(results(&linked.outcome));
    if plain.code != Some(0) || linked.server != "lastuse" || linked.bytes == 0 || linked.bytes > size || !is_same {
        let outputs = format!("{}{}", plain.describe(), linked.outcome.describe());
        return Err(format!(
            "{name}-linked is served by {:?}, needs more bytes, or its results differ\n{outputs}",
            linked.server
        ));
    }
    println!("{system}: {name}, static: {} bytes, and the results of ggml-alloc", linked.bytes);
    Ok(())
}

/// Checks that a tool finds in a graph what the one for this machine finds.
fn check_tool(built: &Path) -> Result<()> {
    let graph = captured_graphs().join("whisper-base-encode.jsonl.gz");
    let explained = |tool: &Path| {
        let mut command = Command::new(tool);
        command.arg("explain").arg(&graph);
        output_of(command)
    };
    let (found, wanted) = (explained(built)?, explained(&tool()?)?);
    if found.is_empty() || found != wanted {
        return Err(format!("{} explains a graph differently:\n{found}", built.display()));
    }
    println!("musl: the tool explains {} as the one for this machine does", graph.display());
    Ok(())
}

/// Has cargo build a package for a system, with these variables, and returns the folder with what it has built.
fn build_rust(triple: &str, package: &str, variables: &[(&str, &str)]) -> Result<PathBuf> {
    check_standard_library(triple)?;
    eprintln!("[{triple}] building {package}, which takes minutes");
    let target = packages_folder().join(package);
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--locked", "--target", triple, "--package", package, "--manifest-path"]);
    cargo.arg(folder().with_file_name("Cargo.toml")).arg("--target-dir").arg(&target);
    cargo.envs(variables.iter().copied());
    output_of(cargo)?;
    Ok(target.join(triple).join("debug"))
}

/// Builds a ggml for a system with the programs, each also with the static library of lastuse, and returns their folder.
fn build_ggml(name: &str, form: Form, settings: &[String], lastuse: &Path) -> Result<PathBuf> {
    let sources = Package::LlamaCpp.sources()?.join("ggml");
    let programs = PROGRAMS.map(|name| folder().join(format!("tests/support/{name}.c")));
    // ggml would ask this machine's processor.
    let settings: Vec<&str> = settings.iter().map(String::as_str).chain(["GGML_NATIVE=OFF"]).collect();
    InjectedBuild {
        name: &format!("system-{name}"),
        sources: &sources,
        form,
        settings: &settings,
        optimize: "-O1",
        target: "ggml",
        programs: &programs,
    }
    .build_linked(lastuse)
}

/// Checks that lastuse serves a program, and that it has the same results with `LASTUSE=off`. `words` run it.
fn check(system: &str, name: &str, way: &str, words: &[String]) -> Result<()> {
    let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    let [with, without] = check_served(Path::new(&words[0]), &arguments, &[])?;
    println!("{system}: {name}, {way}: {with} bytes, {without} with LASTUSE=off");
    Ok(())
}
