//! macOS: the libraries, built by zig and looked at. Nothing of macOS runs here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use lastuse_c_tests::packages::output_of;
use lastuse_c_tests::{Result, folder};
use object::read::macho::MachOFile64;
use object::{Architecture, Endianness, Object, ObjectSymbol};

use crate::archive::bytes;
use crate::zig::{Zig, check_standard_library};

const TRIPLE: &str = "aarch64-apple-darwin";

/// Builds both libraries, and checks what the shared one exports, and that programs without a ggml would load it.
///
/// # Errors
/// What does not hold, or the message of a build.
pub fn test() -> Result<()> {
    check_standard_library(TRIPLE)?;
    let (zig, target) = (Zig::install()?, Zig::target_folder());
    eprintln!("[macos] building the libraries, which takes minutes");
    let mut command = zig.command(&zig.cargo());
    command.args(["build", "--quiet", "--release", "--locked", "--lib", "--package", "lastuse", "--target", TRIPLE]);
    command.arg("--target-dir").arg(&target).arg("--manifest-path").arg(folder().with_file_name("Cargo.toml"));
    // The programs that strip symbols do not know the format.
    command.env("CARGO_PROFILE_RELEASE_STRIP", "false");
    output_of(command)?;
    let built = target.join(TRIPLE).join("release");
    let (archive, shared) = (built.join("liblastuse.a"), built.join("liblastuse.dylib"));
    let (exported, weak) = check(&shared)?;
    println!("macos: liblastuse.a has {} bytes", bytes(&archive)?);
    println!(
        "macos: liblastuse.dylib has {} bytes; it exports lastuse's {exported} functions, and {weak} of ggml's may be missing",
        bytes(&shared)?
    );
    println!("macos: not run");
    Ok(())
}

/// Checks a shared library, and returns how many of lastuse's functions it exports and how many of ggml's it refers to.
fn check(library: &Path) -> Result<(usize, usize)> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", library.display());
    let data = fs::read(library).map_err(|error| failed(&error))?;
    let file = MachOFile64::<Endianness>::parse(&*data).map_err(|error| failed(&error))?;
    if file.architecture() != Architecture::Aarch64 {
        return Err(failed(&format!("it is for {:?}", file.architecture())));
    }
    let list = folder().join("exports.txt");
    let list = fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    let wanted: BTreeSet<&str> = list.lines().collect();
    let defined = file.symbols().filter(|symbol| symbol.is_definition() && symbol.is_global());
    let found: BTreeSet<&str> = defined.filter_map(|symbol| symbol.name().ok()?.strip_prefix('_')).collect();
    // zig takes no list of what to export, so that functions of Rust are visible, too.
    let missing: Vec<_> = wanted.difference(&found).collect();
    if !missing.is_empty() {
        return Err(failed(&format!("it does not export {missing:?}")));
    }
    let is_ggmls = |name: &str| name.starts_with("_ggml_") || name.starts_with("_lastuse_original_");
    let undefined = file.symbols().filter(|symbol| symbol.is_undefined() && symbol.name().is_ok_and(is_ggmls));
    let (weak, strong): (Vec<_>, Vec<_>) = undefined.partition(ObjectSymbol::is_weak);
    if !strong.is_empty() || weak.is_empty() {
        return Err(failed(&format!("{} functions of ggml are needed, {} may be missing", strong.len(), weak.len())));
    }
    Ok((wanted.len(), weak.len()))
}
