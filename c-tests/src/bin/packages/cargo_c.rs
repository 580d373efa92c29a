//! What `cargo cinstall` of cargo-c installs.

use std::fs;
use std::path::Path;
use std::process::Command;

use lastuse_c_tests::packages::{Prefix, Tool, check_example, check_served, output_of, packages_folder};
use lastuse_c_tests::{Linked, Program, Result, folder};
use lastuse_vendor::{Package, ggml};

/// The newest version for the Rust that builds everything here.
const VERSION: &str = "0.10.24+cargo-0.98.0";

/// Installs lastuse to an empty folder by `cargo cinstall`, and tests it: the SONAME, the examples of Make and Meson by
/// pkg-config, and a program on ggml with the shared library preloaded.
///
/// # Errors
/// What does not hold, or the message of a build.
pub fn test() -> Result<()> {
    let mut version = Command::new("cargo");
    version.args(["cinstall", "--version"]);
    let missing = || format!("cargo-c is missing: cargo install --locked cargo-c --version {VERSION}");
    let version = output_of(version).map_err(|_| missing())?;
    let to = packages_folder().join("cargo-c/prefix");
    let _ = fs::remove_dir_all(&to);
    eprintln!("[cargo-c] building the libraries, which takes minutes");
    let mut install = Command::new("cargo");
    install.args(["cinstall", "--release", "--locked", "-p", "lastuse", "--no-default-features"]);
    install.arg("--manifest-path").arg(folder().with_file_name("Cargo.toml"));
    install.arg("--target-dir").arg(to.with_file_name("target"));
    install.arg("--prefix").arg(&to).arg("--libdir").arg(to.join("lib"));
    output_of(install)?;
    let prefix = Prefix::at(&to, "lib")?;
    println!("cargo-c: {}", version.trim());
    check_soname(&to.join("lib/liblastuse.so.0"))?;
    let ggml = ggml(Package::LlamaCpp)?;
    for tool in [Tool::Make, Tool::Meson] {
        print!("cargo-c: the example of {tool:?}\n{}", check_example(tool, &prefix, &ggml)?);
    }
    let source = ["tests/support/plain_allocator.c"];
    let program = Program::build("packages-cargo-c", &source, &ggml, Linked::SharedGgml, &[])?;
    let library = to.join("lib/liblastuse.so.0");
    let [with, without] = check_served(program.path(), &[], &[("LD_PRELOAD", library.as_os_str())])?;
    println!("cargo-c: preloaded: {with} bytes, {without} with LASTUSE=off");
    Ok(())
}

/// Checks the name that programs record of a library.
fn check_soname(library: &Path) -> Result<()> {
    let mut readelf = Command::new("readelf");
    readelf.args(["--wide", "--dynamic"]).arg(library);
    let text = output_of(readelf)?;
    let soname = text.lines().find(|line| line.contains("(SONAME)")).unwrap_or_default();
    if soname.ends_with("[liblastuse.so.0]") {
        return Ok(());
    }
    Err(format!("the SONAME of {} is not liblastuse.so.0: {soname:?}", library.display()))
}
