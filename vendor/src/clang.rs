//! ggml's base library as clang and lld build it with link-time optimization: functions of one file are then inlined into
//! another, although the library exports them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::compile::{Language, run};
use crate::ggml::{base_sources, prepare};
use crate::{FolderLock, Ggml, Package, Result};

/// Compiles only the shared base library of a package's ggml.
///
/// # Errors
/// When the package cannot be fetched, clang or lld is missing, or the library cannot be compiled.
pub fn ggml_base_by_clang(package: Package) -> Result<Ggml> {
    for tool in ["clang", "clang++", "ld.lld"] {
        let found = Command::new(tool).arg("--version").output();
        found.map_err(|error| format!("{tool}: {error}; apt-get install clang lld"))?;
    }
    let ggml = prepare(&package.sources()?.join("ggml"), &format!("{}-by-clang", package.name()), true)?;
    let _lock = FolderLock::wait(&ggml.libraries)?;
    let library = ggml.libraries.join("libggml-base.so");
    if !library.exists() {
        let objects = compile(&ggml, &base_sources(&ggml)?)?;
        let partial = library.with_extension("partial");
        let mut command = Command::new("clang++");
        command.args(["-shared", "-flto", "-fuse-ld=lld", "-Wl,-soname,libggml-base.so", "-o"]).arg(&partial);
        run(command.args(objects).args(["-lm", "-lpthread"]))?;
        std::fs::rename(&partial, &library).map_err(|error| format!("{}: {error}", library.display()))?;
    }
    Ok(ggml)
}

/// Compiles sources to the code that the linker optimizes, on all cores.
fn compile(ggml: &Ggml, sources: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let object = |source: &Path| {
        let name = source.file_name().unwrap_or_default();
        ggml.libraries.join(format!("{}.o", name.display()))
    };
    let waiting = Mutex::new(sources.iter().collect::<Vec<_>>());
    let next = || waiting.lock().expect("no thread panics with the lock").pop();
    let work = || -> Result<()> {
        while let Some(source) = next() {
            let language = Language::of(source);
            let mut command = Command::new(if language == Language::C { "clang" } else { "clang++" });
            command.arg(language.standard()).args(ggml.flags("-O2")).args(["-flto", "-c"]).arg(source);
            run(command.arg("-o").arg(object(source)))?;
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("compiling does not panic"))
    })?;
    Ok(sources.iter().map(|source| object(source)).collect())
}
