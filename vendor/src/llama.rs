//! llama.cpp as a shared library, unmodified.

use std::fs;
use std::path::{Path, PathBuf};

use crate::compile::{compiler, link_shared};
use crate::ggml::{files, link_registry};
use crate::{Ggml, Objects, Package, Result, ggml};

/// A compiled llama.cpp.
#[derive(Clone, Debug)]
pub struct Llama {
    /// The ggml that it uses; `libllama.so` is next to its libraries.
    pub ggml: Ggml,
    /// Flags to compile a program against its headers.
    pub include_flags: Vec<String>,
}

/// How many model files are compiled as one, as in llama.cpp's own build.
const MODELS_TOGETHER: usize = 16;

/// Compiles llama.cpp with the ggml of its package.
///
/// # Errors
/// When the package cannot be fetched or compiled.
pub fn llama() -> Result<Llama> {
    let ggml = ggml(Package::LlamaCpp)?;
    let root = ggml.sources.with_file_name("");
    let folder = ggml.libraries.join("llama");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let library = ggml.libraries.join("libllama.so");
    if !library.exists() {
        write_if_changed(
            &folder.join("llama-version.h"),
            "#pragma once\n#define LLAMA_VERSION \"0.6.0\"\n#define LLAMA_COMMIT \"unknown\"\n",
        )?;
        let mut sources = files(&root.join("src"), |file| file.extension().is_some_and(|it| it == "cpp"))?;
        sources.extend(model_groups(&root, &folder)?);
        let objects = Objects { label: "llama.cpp", folder: &folder, flags: &flags(&root, &folder), compiler }
            .compile(&sources)?;
        let search = format!("-L{}", ggml.libraries.display());
        let needs = ["-Wl,--no-undefined", &search, "-lggml", "-lggml-cpu", "-lggml-base"];
        link_shared(&library, &objects, &needs.map(str::to_owned))?;
    }
    let include_flags = ["include", "ggml/include"].map(|part| format!("-I{}", root.join(part).display())).into();
    Ok(Llama { ggml, include_flags })
}

/// Completes a folder with ggml's base library and that of a backend, `libggml-<backend>.so`, which were built elsewhere: by a
/// registry that knows the backend, the backend of the CPU, and llama.cpp.
///
/// # Errors
/// When something cannot be compiled, or not be copied to the folder.
pub fn llama_with_backend(folder: &Path, backend: &str) -> Result<Llama> {
    let Llama { ggml, include_flags } = llama()?;
    for name in ["libggml-cpu.so", "libllama.so"] {
        let copied = fs::copy(ggml.libraries.join(name), folder.join(name));
        copied.map_err(|error| format!("{name} cannot be copied to {}: {error}", folder.display()))?;
    }
    link_registry(&ggml, folder, backend)?;
    Ok(Llama { ggml: Ggml { libraries: folder.to_owned(), ..ggml }, include_flags })
}

fn flags(root: &Path, generated: &Path) -> Vec<String> {
    let mut flags: Vec<String> =
        ["src", "include", "ggml/include"].iter().map(|part| format!("-I{}", root.join(part).display())).collect();
    flags.push(format!("-I{}", generated.display()));
    let fixed = ["-O1", "-fPIC", "-w", "-DNDEBUG", "-D_GNU_SOURCE", "-DLLAMA_BUILD", "-DLLAMA_SHARED"];
    flags.extend(fixed.map(str::to_owned));
    flags
}

/// Writes files that include the models in groups, so that the compiler reads their common headers once per group.
fn model_groups(root: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let models = files(&root.join("src/models"), |file| file.extension().is_some_and(|it| it == "cpp"))?;
    let mut groups = Vec::new();
    for (number, group) in models.chunks(MODELS_TOGETHER).enumerate() {
        let text: String = group.iter().map(|model| format!("#include \"{}\"\n", model.display())).collect();
        let file = folder.join(format!("models-{number}.cpp"));
        write_if_changed(&file, &text)?;
        groups.push(file);
    }
    Ok(groups)
}

fn write_if_changed(file: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(file).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}
