//! Projects that build a ggml, with lastuse put into it by `lastuse-inject.cmake`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lastuse_vendor::Package;

use super::prefix::{Prefix, root};
use super::project::output_of;
use super::served::{check_served, served};
use crate::cmake::CmakeBuild;
use crate::{Linked, Program, Result, copy_folder, folder};

/// How a project is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// By itself, as shared libraries.
    TopShared,
    /// As a part of another project, as static libraries.
    PartStatic,
    /// As a part of another project, as shared libraries.
    PartShared,
}

impl Form {
    /// Its words, for names.
    pub fn word(self) -> &'static str {
        match self {
            Self::TopShared => "top",
            Self::PartStatic => "part-static",
            Self::PartShared => "part-shared",
        }
    }

    fn is_part(self) -> bool {
        self != Self::TopShared
    }

    /// Returns `true` for shared libraries.
    pub fn is_shared(self) -> bool {
        self != Self::PartStatic
    }
}

/// A build of a project with lastuse inside.
#[derive(Clone, Copy, Debug)]
pub struct InjectedBuild<'a> {
    /// The name of the project.
    pub name: &'a str,
    /// Its folder.
    pub sources: &'a Path,
    /// How it is built.
    pub form: Form,
    /// Its settings, `NAME=VALUE`.
    pub settings: &'a [&'a str],
    /// How code is optimized, as a flag of the compiler: results are compared, not speed.
    pub optimize: &'a str,
    /// The target to build, which programs are linked with.
    pub target: &'a str,
    /// Sources of programs that are built with it, as a part.
    pub programs: &'a [PathBuf],
}

/// The most bytes that lastuse may add to `libggml-base.so`, without symbols.
pub const MOST_BYTES: u64 = 1_500_000;

impl InjectedBuild<'_> {
    /// The folder of the build.
    pub fn folder(&self) -> PathBuf {
        root().join("inject").join(format!("{}-{}", self.name, self.form.word())).join("build")
    }

    /// Builds it with an installed lastuse.
    ///
    /// # Errors
    /// The message of CMake, and that Rust's symbols are visible.
    pub fn build(&self, prefix: &Prefix) -> Result<()> {
        let inject = format!("CMAKE_PROJECT_INCLUDE={}", prefix.inject().display());
        self.build_in(&self.folder(), self.target, &[&inject], &prefix.files())?;
        let wrong: Vec<String> = self.visible()?.into_iter().filter(|name| is_rust(name)).collect();
        if !wrong.is_empty() {
            let library = self.base().display().to_string();
            return Err(format!("{library} has {} visible symbols of Rust, such as {}", wrong.len(), wrong[0]));
        }
        Ok(())
    }

    /// Builds the base library of its ggml as it is, and returns the bytes of that without symbols, and of the one with
    /// lastuse inside.
    ///
    /// # Errors
    /// The message of CMake; and the bytes, if lastuse adds more than 1,500,000.
    pub fn check_size(&self) -> Result<[u64; 2]> {
        self.build_plain()?;
        let [without, with] = [self.plain_library()?, self.base()].map(|library| stripped(&library));
        let (without, with) = (without?, with?);
        if with.saturating_sub(without) > MOST_BYTES {
            return Err(format!("libggml-base.so has {with} bytes with lastuse, and {without} without"));
        }
        Ok([without, with])
    }

    /// Builds the base library of its ggml as it is.
    ///
    /// # Errors
    /// The message of CMake.
    pub fn build_plain(&self) -> Result<()> {
        self.build_in(&self.plain_folder(), "ggml-base", &[], &[])
    }

    /// The base library of [`Self::build_plain`], which has no lastuse inside.
    ///
    /// # Errors
    /// It is not built.
    pub fn plain_library(&self) -> Result<PathBuf> {
        find(&self.plain_folder(), "libggml-base.so")
    }

    /// Builds its ggml and its programs as they are, and each program a second time as `NAME-linked`, with the static library
    /// of lastuse before ggml. Returns the folder of the programs.
    ///
    /// # Errors
    /// The message of CMake.
    pub fn build_linked(&self, lastuse: &Path) -> Result<PathBuf> {
        let library = format!("LASTUSE={}", lastuse.display());
        self.build_in(&self.plain_folder(), self.target, &[&library], &[lastuse.to_owned()])?;
        Ok(self.plain_folder())
    }

    fn plain_folder(&self) -> PathBuf {
        self.folder().with_file_name("plain")
    }

    /// The library that lastuse is in.
    pub fn base(&self) -> PathBuf {
        let name = if self.form.is_shared() { "libggml-base.so" } else { "libggml-base.a" };
        self.find(name).unwrap_or_else(|_| self.folder().join(name))
    }

    /// The path of a file of this name that is built.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, name: &str) -> Result<PathBuf> {
        find(&self.folder(), name)
    }

    /// A program that is built with it.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    fn build_in(&self, build: &Path, target: &str, more: &[&str], inputs: &[PathBuf]) -> Result<()> {
        let part = folder().join("packages/part");
        let shared = format!("BUILD_SHARED_LIBS={}", if self.form.is_shared() { "ON" } else { "OFF" });
        let host = format!("HOST={}", self.sources.display());
        let programs: Vec<String> = self.programs.iter().map(|path| path.display().to_string()).collect();
        let (programs, uses) = (format!("PROGRAMS={}", programs.join(";")), format!("TARGET={}", self.target));
        let optimize = ["C", "CXX"].map(|language| format!("CMAKE_{language}_FLAGS_RELEASE={}", self.optimize));
        let mut settings = [self.settings, &[&*optimize[0], &optimize[1], &shared], more].concat();
        if self.form.is_part() {
            settings.extend([&*host, &programs, &uses]);
        }
        let own = self.programs.iter().cloned().chain([part.join("CMakeLists.txt")]);
        let inputs: Vec<PathBuf> = inputs.iter().cloned().chain(own).collect();
        let has_programs = self.form.is_part() && target == self.target && !self.programs.is_empty();
        CmakeBuild {
            host: self.name,
            sources: if self.form.is_part() { &part } else { self.sources },
            folder: build.parent().unwrap_or(build),
            settings: &settings,
            target: if has_programs { "programs" } else { target },
            inputs: &inputs,
        }
        .build_to(build)
    }

    /// Returns the names of the symbols that other libraries and programs see.
    fn visible(&self) -> Result<Vec<String>> {
        let mut command = Command::new("nm");
        command.args(if self.form.is_shared() { ["-D", "--defined-only"] } else { ["-g", "--defined-only"] });
        command.arg(self.base());
        let text = output_of(command)?;
        Ok(text.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect())
    }
}

/// Returns `true` for the names that Rust gives, in both of its forms, and for those of its runtime.
fn is_rust(symbol: &str) -> bool {
    let is_hashed =
        || symbol.strip_suffix('E').and_then(|name| name.rsplit_once("17h")).is_some_and(|(_, hash)| hash.len() == 16);
    symbol.starts_with("_R") || symbol.contains("rust_") || (symbol.starts_with("_ZN") && is_hashed())
}

/// Returns the path of a file below a folder.
fn find(folder: &Path, name: &str) -> Result<PathBuf> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name() == name {
                return Ok(entry.path());
            }
            if entry.file_type().map_err(failed)?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Err(format!("there is no {name} in {}", folder.display()))
}

/// Returns the bytes of a library without symbols.
fn stripped(library: &Path) -> Result<u64> {
    let copy = root().join(format!("stripped-{}", std::process::id()));
    let mut command = Command::new("strip");
    command.arg("--strip-unneeded").arg("-o").arg(&copy).arg(library);
    output_of(command)?;
    let bytes = fs::metadata(&copy).map(|data| data.len()).map_err(|error| format!("{}: {error}", copy.display()));
    let _ = fs::remove_file(&copy);
    bytes
}

/// Builds a ggml with programs that know nothing of lastuse, and checks that lastuse serves these, that `LASTUSE=off` hands
/// all to ggml's own allocator, and that functions that are looked up in a shared ggml are lastuse's. Returns the bytes of
/// the programs on lastuse and ggml-alloc.
///
/// # Errors
/// What does not hold, or the message of CMake.
pub fn check_ggml(prefix: &Prefix, form: Form) -> Result<Vec<[u64; 2]>> {
    let names = ["plain_allocator", "plain_scheduler"];
    let programs = names.map(|name| folder().join(format!("tests/support/{name}.c")));
    let sources = Package::LlamaCpp.sources()?.join("ggml");
    let build = InjectedBuild {
        name: "ggml",
        sources: &sources,
        form,
        settings: &[],
        optimize: "-O0",
        target: "ggml",
        programs: &programs,
    };
    build.build(prefix)?;
    if form.is_shared() {
        check_lookups(&build)?;
    }
    names.into_iter().map(|name| check_served(&build.program(name), &[], &[])).collect()
}

/// Checks that lastuse serves a program that looks the functions up in the library, past everything that is preloaded.
fn check_lookups(build: &InjectedBuild<'_>) -> Result<()> {
    let ggml = lastuse_vendor::ggml(Package::LlamaCpp)?;
    let program =
        Program::build("packages-lookups", &["tests/support/dlsym_functions.c"], &ggml, Linked::Ggml, &["-ldl"])?;
    let library = build.base().display().to_string();
    check_served(program.path(), &[&library], &[]).map(|_| ())
}

/// Builds the base library of a ggml that lastuse does not know, with lastuse inside, and checks that ggml's own allocator
/// serves a program, with a line in the log that says so.
///
/// # Errors
/// What does not hold, or the message of CMake.
pub fn check_unknown_layout(prefix: &Prefix) -> Result<()> {
    let copy = root().join("inject/unknown/sources");
    if !copy.exists() {
        copy_folder(&Package::LlamaCpp.sources()?.join("ggml"), &copy)?;
    }
    let header = copy.join("include/ggml.h");
    let failed = |error: std::io::Error| format!("{}: {error}", header.display());
    let text = fs::read_to_string(&header).map_err(failed)?;
    let line = text.lines().find(|line| line.starts_with("#define GGML_MAX_SRC "));
    let line = line.ok_or_else(|| format!("{} does not define GGML_MAX_SRC", header.display()))?;
    if !line.ends_with(" 12") {
        fs::write(&header, text.replace(line, "#define GGML_MAX_SRC 12")).map_err(failed)?;
    }
    let programs = [folder().join("tests/support/plan_two_graphs.c")];
    let form = Form::PartStatic;
    let build = InjectedBuild {
        name: "unknown",
        sources: &copy,
        form,
        settings: &[],
        optimize: "-O0",
        target: "ggml-base",
        programs: &programs,
    };
    build.build(prefix)?;
    let found = served(&build.program("plan_two_graphs"), &[], &[("LASTUSE_LOG", OsStr::new("info"))])?;
    let is_said = found.outcome.stderr.contains("ggml's own allocator does the work");
    if found.server == "ggml-alloc" && is_said {
        return Ok(());
    }
    Err(format!("the server of an unknown ggml is {:?}: {}", found.server, found.outcome.describe()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rust_are_known() {
        for name in
            ["_RNvCs1_4core3fmt", "_ZN4core3fmt5write17h0123456789abcdefE", "rust_eh_personality", "__rust_alloc"]
        {
            assert!(is_rust(name), "{name}");
        }
        for name in ["ggml_gallocr_new", "lastuse_version", "_ZN7gguf_kvD1Ev", "_ZNSt6vectorIaSaIaEE"] {
            assert!(!is_rust(name), "{name}");
        }
    }
}
