//! ggml for 64-bit Windows, by mingw-w64.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ggml::{base_sources, cpu_sources, prepare, registry_sources};
use crate::{FolderLock, Ggml, Language, Objects, Package, Result};

/// A ggml that is compiled for Windows and not linked.
#[derive(Clone, Debug)]
pub struct WindowsGgml {
    /// Its version and sources. The folder of its libraries has none.
    pub ggml: Ggml,
    /// The objects of the base library, but for the allocator.
    pub base: Vec<PathBuf>,
    /// The object of ggml's own allocator.
    pub allocator: PathBuf,
    /// The same with other names for its functions, which a header gives them.
    pub renamed_allocator: PathBuf,
    /// The objects of the CPU backend and of the registry.
    pub others: Vec<PathBuf>,
}

/// Compiles the ggml of a package for any 64-bit processor. `names` is a header that renames the functions of the allocator.
///
/// # Errors
/// When the package cannot be fetched or compiled.
pub fn ggml_for_windows(package: Package, names: &Path) -> Result<WindowsGgml> {
    let sources = package.sources()?.join("ggml");
    let ggml = prepare(&sources, &format!("{}-windows", package.name()), false)?;
    let _lock = FolderLock::wait(&ggml.libraries)?;
    let folder = ggml.libraries.join("objects");
    let mut flags = ggml.flags_of_any_system("-O1");
    // Windows 7: mingw-w64 lacks some of what ggml uses of later ones.
    flags.push("-D_WIN32_WINNT=0x0601".to_owned());
    let compile = |sources: &[PathBuf], flags: &[String]| {
        let label = format!("ggml {} for Windows", ggml.version);
        Objects { label: &label, folder: &folder, flags, compiler: windows_compiler }.compile(sources)
    };
    let own = ggml.allocator_source();
    let base: Vec<PathBuf> = base_sources(&ggml)?.into_iter().filter(|source| *source != own).collect();
    let others = [cpu_sources(&ggml)?, registry_sources(&ggml)].concat();
    let (base, others) = (compile(&base, &flags)?, compile(&others, &flags)?);
    let allocator = compile(std::slice::from_ref(&own), &flags)?.remove(0);
    flags.extend(["-include".to_owned(), names.display().to_string()]);
    let renamed_allocator = compile(&[own], &flags)?.remove(0);
    Ok(WindowsGgml { base, allocator, renamed_allocator, others, ggml })
}

/// Returns the compiler for Windows, with threads as C++ has them.
///
/// # Errors
/// None: it is found when it is run.
pub fn windows_compiler(language: Language) -> Result<Command> {
    let name = if language == Language::C { "gcc" } else { "g++" };
    let mut command = Command::new(format!("x86_64-w64-mingw32-{name}-posix"));
    command.arg(language.standard());
    Ok(command)
}
