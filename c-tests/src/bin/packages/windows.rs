//! Windows, by mingw-w64 and Wine: programs on a real ggml with its own allocator, with lastuse linked before it, and with
//! lastuse inside a `ggml-base.dll` that takes the place of ggml's own.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lastuse_c_tests::packages::{Served, check_served, output_of, packages_folder, printed_size, results, served};
use lastuse_c_tests::{Result, folder};
use lastuse_vendor::{Language, Package, WindowsGgml, ggml_for_windows, run, windows_compiler};

use crate::files::write;
use crate::zig::check_standard_library;

pub const TRIPLE: &str = "x86_64-pc-windows-gnu";

/// Where Debian has the program that runs others.
pub const WINE: &str = "/usr/lib/wine/wine64";

/// Libraries of Windows that Rust's standard library needs.
const OF_RUST: [&str; 3] = ["-lntdll", "-luserenv", "-lws2_32"];

/// Programs that know nothing of lastuse.
const PROGRAMS: [&str; 2] = ["plain_allocator", "plain_scheduler"];

/// The function of Windows that Rust's standard library takes its seeds from, which old versions of Wine do not have.
const SEEDS: &str = "\
#include <windows.h>
#include <ntsecapi.h>
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T bytes) { return RtlGenRandom(data, (ULONG) bytes); }
";

/// Builds all and runs it.
///
/// # Errors
/// What does not hold, or the message of a build.
pub fn test() -> Result<()> {
    check_standard_library(TRIPLE)?;
    let names = folder().with_file_name("packaging").join("cmake/original-names.h");
    let build = Build {
        ggml: ggml_for_windows(Package::LlamaCpp, &names)?,
        lastuse: build_lastuse()?,
        folder: packages_folder().join("windows"),
    };
    let [plain, linked, replaced] = ["ggml-alloc", "linked", "replaced"].map(|name| build.folder.join(name));
    build.link_static(&plain, &[])?;
    build.link_static(&linked, &["-Wl,-u,ggml_gallocr_new_n", &build.lastuse.to_string_lossy()])?;
    build.link_replaced(&replaced)?;
    for name in PROGRAMS {
        check(name, &[plain.as_path(), &linked, &replaced].map(|folder| folder.join(format!("{name}.exe"))))?;
    }
    Ok(())
}

/// Has cargo build the static library.
fn build_lastuse() -> Result<PathBuf> {
    eprintln!("[windows] building lastuse");
    let target = packages_folder().with_file_name("libraries");
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command.args(["rustc", "--quiet", "--release", "--locked", "--lib", "--package", "lastuse"]);
    command.args(["--crate-type", "staticlib", "--target", TRIPLE, "--target-dir"]).arg(&target);
    command.arg("--manifest-path").arg(folder().with_file_name("Cargo.toml"));
    output_of(command)?;
    Ok(target.join(TRIPLE).join("release/liblastuse.a"))
}

/// What programs are linked of.
struct Build {
    ggml: WindowsGgml,
    lastuse: PathBuf,
    folder: PathBuf,
}

impl Build {
    /// Links the programs with static libraries of ggml, behind these arguments.
    fn link_static(&self, folder: &Path, before: &[&str]) -> Result<()> {
        let base = [&self.ggml.base[..], std::slice::from_ref(&self.ggml.allocator)].concat();
        // As ggml's own build makes it: what needs no other allocator does not take the one that is there.
        let archive = folder.join("libggml-base.a");
        make_folder(folder)?;
        let _ = fs::remove_file(&archive);
        run(Command::new("x86_64-w64-mingw32-ar").arg("rcs").arg(&archive).args(base))?;
        for name in PROGRAMS {
            let mut command = linker();
            command.arg("-static").arg("-o").arg(folder.join(format!("{name}.exe"))).arg(self.compile(name)?);
            command.args(before).args(&self.ggml.others).arg(&archive).args(OF_RUST);
            run(&mut command)?;
        }
        write_seeds(folder)
    }

    /// Links a `ggml-base.dll` with lastuse inside, and the programs with that.
    fn link_replaced(&self, folder: &Path) -> Result<()> {
        make_folder(folder)?;
        let (library, exports) = (folder.join("ggml-base.dll"), folder.join("ggml-base.def"));
        write(&exports, self.exports()?.as_bytes())?;
        let mut command = linker();
        command.args(["-shared", "-static", "-o"]).arg(&library).arg(&exports).args(&self.ggml.base);
        command.arg(&self.ggml.renamed_allocator).arg("-Wl,-u,ggml_gallocr_new_n").arg(&self.lastuse).args(OF_RUST);
        run(&mut command)?;
        for name in PROGRAMS {
            let mut command = linker();
            command.arg("-static").arg("-o").arg(folder.join(format!("{name}.exe"))).arg(self.compile(name)?);
            run(command.args(&self.ggml.others).arg(&library))?;
        }
        write_seeds(folder)
    }

    /// Returns what the DLL exports, for the linker: ggml's own names, as mingw-w64 does by itself, and lastuse's functions.
    fn exports(&self) -> Result<String> {
        let mut nm = Command::new("x86_64-w64-mingw32-nm");
        nm.args(["--defined-only", "--extern-only", "--format=posix"]).args(&self.ggml.base);
        let text = output_of(nm)?;
        let own = text.lines().filter_map(|line| line.split(' ').next()).filter(|name| is_name_of_c(name));
        let list = folder().join("exports.txt");
        let added = fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
        let mut names: Vec<&str> = own.chain(added.lines()).collect();
        names.sort_unstable();
        names.dedup();
        Ok(format!("EXPORTS\n{}\n", names.join("\n")))
    }

    /// Compiles a program.
    fn compile(&self, name: &str) -> Result<PathBuf> {
        let object = self.folder.join(format!("{name}.o"));
        let mut command = windows_compiler(Language::C)?;
        command.args(self.ggml.ggml.include_flags()).arg("-O1").arg("-c").arg("-o").arg(&object);
        run(command.arg(folder().join(format!("tests/support/{name}.c"))))?;
        Ok(object)
    }
}

/// Returns `true` for the name of a C function, which other libraries may call: not for those of C++ or of one object alone.
fn is_name_of_c(name: &str) -> bool {
    !name.is_empty() && !name.starts_with("_Z") && !name.contains(['.', ':'])
}

fn linker() -> Command {
    Command::new("x86_64-w64-mingw32-g++-posix")
}

fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Puts the function of Windows that Wine may lack beside programs.
fn write_seeds(folder: &Path) -> Result<()> {
    let source = folder.join("seeds.c");
    write(&source, SEEDS.as_bytes())?;
    let mut command = windows_compiler(Language::C)?;
    command.arg("-shared").arg("-o").arg(folder.join("bcryptprimitives.dll")).arg(source);
    run(command.arg("-ladvapi32"))
}

/// Runs a program in three ways: on ggml's own allocator, with lastuse linked before it, and on the DLL with lastuse inside,
/// the last also with `LASTUSE=off`.
fn check(name: &str, [plain, linked, replaced]: &[PathBuf; 3]) -> Result<()> {
    let prefix = packages_folder().join("windows/wine");
    let variables: [(&str, &OsStr); 2] = [("WINEPREFIX", prefix.as_os_str()), ("WINEDEBUG", OsStr::new("-all"))];
    let run = |program: &Path| served(Path::new(WINE), &[&program.to_string_lossy()], &variables);
    let (plain, linked) = (run(plain)?, run(linked)?);
    let [with, off] = check_served(Path::new(WINE), &[&replaced.to_string_lossy()], &variables)?;
    let replaced = run(replaced)?;
    let differ = |served: &&Served| results(&served.outcome).ne(results(&plain.outcome));
    if let Some(other) = [&linked, &replaced].into_iter().find(differ) {
        return Err(format!("{name}: the results differ\n{}{}", plain.outcome.describe(), other.outcome.describe()));
    }
    if results(&plain.outcome).next().is_none() || !plain.server.is_empty() || linked.server != "lastuse" {
        return Err(format!("{name}: lastuse does not serve as it should: {plain:?}, {linked:?}"));
    }
    let printed = [&plain, &linked, &replaced].map(|served| printed_size(&served.outcome));
    // A program with an allocator of its own prints what that takes.
    let is_printed = printed == [None; 3] || printed == [Some(off), Some(with), Some(with)] && with < off;
    if linked.bytes != with || !is_printed {
        return Err(format!("{name}: {with} and {} bytes with lastuse, {off} without: {printed:?}", linked.bytes));
    }
    println!(
        "windows: {name}: {with} bytes with lastuse, linked and in ggml-base.dll; {off} with LASTUSE=off; same results"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_c_are_exported() {
        for (name, is_one) in
            [("ggml_nbytes", true), ("_ZN4ggml1fEv", false), (".weak.f", false), ("a.o:", false), ("", false)]
        {
            assert_eq!(is_name_of_c(name), is_one, "{name}");
        }
    }
}
