//! ggml: its base library, which holds the allocator, and its CPU backend.

use std::fs;
use std::path::{Path, PathBuf};

use crate::compile::{compiler, link_shared, link_static};
use crate::{FolderLock, Objects, Package, Result, target_folder};

/// A compiled ggml.
#[derive(Clone, Debug)]
pub struct Ggml {
    /// Its version.
    pub version: String,
    /// The folder with `include` and `src`.
    pub sources: PathBuf,
    /// The folder with `libggml-base.a`, `libggml-cpu.a` and `libggml-base.so`, `libggml-cpu.so`, `libggml.so`.
    pub libraries: PathBuf,
    /// True if it is compiled for all instruction sets of this machine.
    pub is_native: bool,
}

impl Ggml {
    /// Flags to compile a program against its headers, the internal ones among them.
    pub fn include_flags(&self) -> Vec<String> {
        ["include", "src"].map(|folder| format!("-I{}", self.sources.join(folder).display())).into()
    }

    /// Describes the ggml of a package whose libraries were built elsewhere, in the folder `libraries`.
    ///
    /// # Errors
    /// When the package cannot be fetched, or its ggml names no version.
    pub fn built(package: Package, libraries: PathBuf) -> Result<Self> {
        let sources = package.sources()?.join("ggml");
        Ok(Self { version: version(&sources)?, sources, libraries, is_native: true })
    }

    /// Returns the path of `ggml-alloc.c`, the allocator that lastuse replaces.
    pub fn allocator_source(&self) -> PathBuf {
        self.sources.join("src/ggml-alloc.c")
    }

    /// Flags that its own sources are compiled with on Linux.
    pub fn flags(&self, optimize: &str) -> Vec<String> {
        let mut flags = self.flags_of_any_system(optimize);
        // Threads that wait for one another leave the core to others, which may be those that they wait for: tests run on few cores.
        flags.extend(["-include", "sched.h", "-D__builtin_ia32_pause=sched_yield"].map(str::to_owned));
        flags
    }

    /// Flags that its own sources are compiled with.
    pub(crate) fn flags_of_any_system(&self, optimize: &str) -> Vec<String> {
        let mut flags = self.include_flags();
        flags.push(format!("-I{}", self.libraries.display()));
        flags.push(format!("-I{}", self.sources.join("src/ggml-cpu").display()));
        if !self.sources.join("src/ggml-version.h.in").exists() {
            flags.push(format!("-DGGML_VERSION=\"{}\"", self.version));
            flags.push("-DGGML_COMMIT=\"unknown\"".to_owned());
        }
        flags.push(optimize.to_owned());
        flags.extend(self.is_native.then(|| "-march=native".to_owned()));
        let fixed = ["-fPIC", "-w", "-DNDEBUG", "-D_GNU_SOURCE", "-D_XOPEN_SOURCE=600"];
        let features = ["-DGGML_USE_CPU", "-DGGML_USE_LLAMAFILE", "-DGGML_USE_CPU_REPACK", "-DGGML_SCHED_MAX_COPIES=4"];
        flags.extend(fixed.iter().chain(&features).map(|&flag| flag.to_owned()));
        flags
    }
}

/// Compiles the ggml of a package, with base library, CPU backend and registry, for all instruction sets of this
/// machine.
///
/// # Errors
/// When the package cannot be fetched or compiled.
pub fn ggml(package: Package) -> Result<Ggml> {
    let sources = package.sources()?.join("ggml");
    let ggml = prepare(&sources, package.name(), true)?;
    let _lock = FolderLock::wait(&ggml.libraries)?;
    let optimize = package.optimization();
    let base = library(&ggml, "ggml-base", &base_sources(&ggml)?, optimize, &[])?;
    let cpu = library(&ggml, "ggml-cpu", &cpu_sources(&ggml)?, optimize, &["-lggml-base"])?;
    if base || cpu {
        // The registry knows the backends, so it is linked anew with them.
        let _ = fs::remove_file(ggml.libraries.join("libggml.so"));
    }
    library(&ggml, "ggml", &registry_sources(&ggml), optimize, &["-lggml-cpu", "-lggml-base", "-ldl"])?;
    Ok(ggml)
}

/// Compiles the base library of a package's ggml without `-march=native`: valgrind does not know all instructions of
/// the newest machines.
///
/// # Errors
/// When the package cannot be fetched or compiled.
pub fn ggml_base_for_any_machine(package: Package) -> Result<Ggml> {
    let sources = package.sources()?.join("ggml");
    let ggml = prepare(&sources, package.name(), false)?;
    let _lock = FolderLock::wait(&ggml.libraries)?;
    library(&ggml, "ggml-base", &base_sources(&ggml)?, "-O1", &[])?;
    Ok(ggml)
}

/// Compiles the base library of a ggml whose tensors have more sources than any released one: to test what lastuse does
/// with an unknown layout. Only the shared library is made.
///
/// # Errors
/// When the package cannot be fetched or compiled.
pub fn ggml_with_another_layout(package: Package) -> Result<Ggml> {
    let original = package.sources()?.join("ggml");
    let copy = target_folder().join("ggml").join(format!("{}-another-layout", package.name())).join("sources");
    let libraries = copy.with_file_name("libraries");
    fs::create_dir_all(&libraries).map_err(|error| format!("{}: {error}", libraries.display()))?;
    let _lock = FolderLock::wait(&libraries)?;
    for folder in ["include", "src", "src/ggml-cpu"] {
        copy_files(&original.join(folder), &copy.join(folder))?;
    }
    let _ = fs::copy(original.join("CMakeLists.txt"), copy.join("CMakeLists.txt"));
    let header = copy.join("include/ggml.h");
    let text = fs::read_to_string(&header).map_err(|error| format!("{}: {error}", header.display()))?;
    let changed: String = text
        .lines()
        .map(|line| if is_max_sources(line) { "#define GGML_MAX_SRC 12\n".to_owned() } else { format!("{line}\n") })
        .collect();
    if changed != text {
        fs::write(&header, changed).map_err(|error| format!("{}: {error}", header.display()))?;
    }
    let ggml = prepare(&copy, "another layout", true)?;
    library(&ggml, "ggml-base", &base_sources(&ggml)?, "-O1", &[])?;
    Ok(ggml)
}

fn is_max_sources(line: &str) -> bool {
    line.starts_with("#define GGML_MAX_SRC ")
}

/// Copies the files of a folder that are not there yet, without its subfolders.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(|error| format!("{}: {error}", to.display()))?;
    for file in files(from, |_| true)? {
        let target = to.join(file.file_name().unwrap_or_default());
        if !target.exists() {
            fs::copy(&file, &target).map_err(|error| format!("{}: {error}", target.display()))?;
        }
    }
    Ok(())
}

/// Finds out the version and writes the header that ggml's own build would generate.
pub(crate) fn prepare(sources: &Path, name: &str, is_native: bool) -> Result<Ggml> {
    let version = version(sources)?;
    let libraries = match sources.parent() {
        Some(parent) if name == "another layout" => parent.join("libraries"),
        _ => target_folder()
            .join("ggml")
            .join(format!("{name}-{version}{}", if is_native { "" } else { "-any-machine" })),
    };
    fs::create_dir_all(&libraries).map_err(|error| format!("{}: {error}", libraries.display()))?;
    let header = libraries.join("ggml-version.h");
    if !header.exists() {
        let text = format!("#pragma once\n#define GGML_VERSION \"{version}\"\n#define GGML_COMMIT \"unknown\"\n");
        fs::write(&header, text).map_err(|error| format!("{}: {error}", header.display()))?;
    }
    Ok(Ggml { version, sources: sources.to_owned(), libraries, is_native })
}

/// `major.minor.patch`, from the variables of ggml's own build.
fn version(sources: &Path) -> Result<String> {
    let file = sources.join("CMakeLists.txt");
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let part = |name: &str| {
        let (_, rest) = text.split_once(&format!("set(GGML_VERSION_{name} "))?;
        rest.split_once(')').map(|(number, _)| number.trim().to_owned())
    };
    match (part("MAJOR"), part("MINOR"), part("PATCH")) {
        (Some(major), Some(minor), Some(patch)) => Ok(format!("{major}.{minor}.{patch}")),
        _ => Err(format!("{} names no version", file.display())),
    }
}

/// Builds `lib<name>.a` and `lib<name>.so` if they are missing. Returns whether they were.
fn library(ggml: &Ggml, name: &str, sources: &[PathBuf], optimize: &str, needs: &[&str]) -> Result<bool> {
    let (archive, shared) = (ggml.libraries.join(format!("lib{name}.a")), ggml.libraries.join(format!("lib{name}.so")));
    if archive.exists() && shared.exists() {
        return Ok(false);
    }
    let folder = ggml.libraries.join("objects");
    let label = format!("ggml {}", ggml.version);
    let objects =
        Objects { label: &label, folder: &folder, flags: &ggml.flags(optimize), compiler }.compile(sources)?;
    let mut arguments = vec![format!("-L{}", ggml.libraries.display())];
    arguments.extend(needs.iter().chain(&["-lm", "-lpthread"]).map(|&need| need.to_owned()));
    link_shared(&shared, &objects, &arguments)?;
    link_static(&archive, &objects)?;
    Ok(true)
}

pub(crate) fn registry_sources(ggml: &Ggml) -> Vec<PathBuf> {
    ["ggml-backend-reg.cpp", "ggml-backend-dl.cpp"]
        .map(|name| ggml.sources.join("src").join(name))
        .into_iter()
        .filter(|file| file.exists())
        .collect()
}

/// Links a `libggml.so` that knows a backend, for `folder`, which has the library of that and ggml's others.
pub(crate) fn link_registry(ggml: &Ggml, folder: &Path, backend: &str) -> Result<()> {
    let mut flags = ggml.flags("-O1");
    flags.push(format!("-DGGML_USE_{}", backend.to_uppercase()));
    let objects = Objects { label: "ggml", folder: &folder.join("objects"), flags: &flags, compiler };
    let objects = objects.compile(&registry_sources(ggml))?;
    let needs = [&*format!("-lggml-{backend}"), "-lggml-cpu", "-lggml-base", "-ldl"].map(str::to_owned);
    link_shared(&folder.join("libggml.so"), &objects, &[&[format!("-L{}", folder.display())], &needs[..]].concat())
}

pub(crate) fn base_sources(ggml: &Ggml) -> Result<Vec<PathBuf>> {
    let registry = registry_sources(ggml);
    files(&ggml.sources.join("src"), |file| is_source(file) && !registry.contains(file))
}

pub(crate) fn cpu_sources(ggml: &Ggml) -> Result<Vec<PathBuf>> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "arch/x86",
        "aarch64" => "arch/arm",
        other => return Err(format!("lastuse does not know how to compile ggml for {other}")),
    };
    let folder = ggml.sources.join("src/ggml-cpu");
    let mut all = Vec::new();
    for part in ["", "amx", "llamafile", "tiled", arch] {
        let folder = folder.join(part);
        if folder.exists() {
            all.extend(files(&folder, |file| is_source(file) && !file.ends_with("cpu-feats.cpp"))?);
        }
    }
    Ok(all)
}

fn is_source(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "c" || extension == "cpp")
}

/// The files of a folder, by name.
pub fn files(folder: &Path, keep: impl Fn(&PathBuf) -> bool) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file() && keep(path)).collect();
    files.sort();
    Ok(files)
}
