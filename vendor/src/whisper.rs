//! whisper.cpp as a shared library, unmodified.

use crate::compile::{compiler, link_shared};
use crate::{Ggml, Objects, Package, Result, ggml};

/// A compiled whisper.cpp.
#[derive(Clone, Debug)]
pub struct Whisper {
    /// The ggml that it uses; `libwhisper.so` is next to its libraries.
    pub ggml: Ggml,
    /// Flags to compile a program against its headers.
    pub include_flags: Vec<String>,
}

/// Compiles whisper.cpp with the ggml of its package.
///
/// # Errors
/// When the package cannot be fetched or compiled.
pub fn whisper() -> Result<Whisper> {
    let ggml = ggml(Package::WhisperCpp)?;
    let root = ggml.sources.with_file_name("");
    let include_flags: Vec<String> =
        ["include", "ggml/include"].map(|part| format!("-I{}", root.join(part).display())).into();
    let library = ggml.libraries.join("libwhisper.so");
    if !library.exists() {
        let mut flags = include_flags.clone();
        let fixed = ["-O1", "-fPIC", "-w", "-DNDEBUG", "-D_GNU_SOURCE", "-DWHISPER_SHARED", "-DWHISPER_BUILD"];
        flags.extend(fixed.map(str::to_owned));
        flags.push("-DWHISPER_VERSION=\"unknown\"".to_owned());
        let folder = ggml.libraries.join("whisper");
        let sources = [root.join("src/whisper.cpp")];
        let objects = Objects { label: "whisper.cpp", folder: &folder, flags: &flags, compiler }.compile(&sources)?;
        let search = format!("-L{}", ggml.libraries.display());
        let needs = ["-Wl,--no-undefined", &search, "-lggml", "-lggml-cpu", "-lggml-base"];
        link_shared(&library, &objects, &needs.map(str::to_owned))?;
    }
    Ok(Whisper { ggml, include_flags })
}
