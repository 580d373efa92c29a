//! The programs that write graphs.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use lastuse_vendor::{Ggml, Package, ggml, llama, whisper};

use crate::{Linked, Program, Result};

/// A program that writes a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generator {
    /// `captures/branches.c`
    Branches,
    /// `captures/diffusion.c`
    Diffusion,
    /// `captures/llama_cpp.c`, on all of llama.cpp.
    LlamaCpp,
    /// `llama_style.c`
    LlamaStyle,
    /// `captures/training.c`
    Training,
    /// `captures/whisper_cpp.c`, on all of whisper.cpp.
    WhisperCpp,
}

impl Generator {
    /// Returns whether it builds in seconds once ggml is compiled.
    pub fn is_cheap(self) -> bool {
        !matches!(self, Self::LlamaCpp | Self::WhisperCpp)
    }

    /// Returns the program, built once per process, and the folder of the shared libraries that it needs.
    pub(super) fn program(self) -> Result<(Program, PathBuf)> {
        static PROGRAMS: [OnceLock<Result<(Program, PathBuf)>>; 6] = [const { OnceLock::new() }; 6];
        PROGRAMS[self as usize].get_or_init(|| self.build()).clone()
    }

    fn build(self) -> Result<(Program, PathBuf)> {
        match self {
            Self::LlamaCpp => program_on_llama(&self.program_name(), self.source()),
            Self::WhisperCpp => {
                let whisper = whisper()?;
                build_on("-lwhisper", &self.program_name(), self.source(), &whisper.ggml, &whisper.include_flags)
            }
            _ => {
                let ggml = ggml(Package::LlamaCpp)?;
                let program = Program::build(&self.program_name(), &[self.source()], &ggml, Linked::Ggml, &[])?;
                Ok((program, ggml.libraries))
            }
        }
    }

    fn source(self) -> &'static str {
        match self {
            Self::Branches => "captures/branches.c",
            Self::Diffusion => "captures/diffusion.c",
            Self::LlamaCpp => "captures/llama_cpp.c",
            Self::LlamaStyle => "llama_style.c",
            Self::Training => "captures/training.c",
            Self::WhisperCpp => "captures/whisper_cpp.c",
        }
    }

    fn program_name(self) -> String {
        format!("capture-{}", Path::new(self.source()).file_stem().unwrap_or_default().to_string_lossy())
    }
}

/// Builds a program on llama.cpp; also returns the folder of the shared libraries that it needs.
///
/// # Errors
/// The message of the compiler or the linker.
pub fn program_on_llama(name: &str, source: &str) -> Result<(Program, PathBuf)> {
    let llama = llama()?;
    build_on("-lllama", name, source, &llama.ggml, &llama.include_flags)
}

/// Builds a program on a shared library in the folder of the libraries of its ggml.
fn build_on(
    library: &str,
    name: &str,
    source: &str,
    ggml: &Ggml,
    include_flags: &[String],
) -> Result<(Program, PathBuf)> {
    let search = format!("-L{}", ggml.libraries.display());
    let mut flags: Vec<&str> = include_flags.iter().map(String::as_str).collect();
    flags.extend(["-Wl,--no-as-needed", &search, library, "-lggml"]);
    let program = Program::build(name, &[source], ggml, Linked::SharedGgml, &flags)?;
    Ok((program, ggml.libraries.clone()))
}
