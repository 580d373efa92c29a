//! The graphs that are committed, and the programs that write them.
//!
//! Names begin with the family; `cargo capture` writes the files anew.

mod generator;
mod list;

use std::fs;
use std::path::{Path, PathBuf};

use lastuse_vendor::target_folder;

use crate::Result;
use crate::graph_files::{captured_graphs, read_compressed, write_compressed};

pub use generator::{Generator, program_on_llama};
use list::model_description;

/// One committed graph.
#[derive(Clone, Debug)]
pub struct Capture {
    /// Its name.
    pub name: String,
    /// The program that writes it.
    pub generator: Generator,
    arguments: Vec<String>,
}

impl Capture {
    /// Every graph that is committed, by name.
    pub fn all() -> Vec<Self> {
        list::all()
    }

    /// `options` are separated by spaces.
    fn new(name: String, generator: Generator, options: &str) -> Self {
        Self { name, generator, arguments: options.split_whitespace().map(str::to_owned).collect() }
    }

    /// The committed file.
    pub fn path(&self) -> PathBuf {
        captured_graphs().join(&self.name).with_extension("jsonl.gz")
    }

    /// The text of the graph, captured anew.
    ///
    /// # Errors
    /// When the program cannot be built, or fails.
    pub fn text(&self) -> Result<String> {
        let out = target_folder().join("c-tests").join(format!("{}.{}.jsonl", self.name, std::process::id()));
        let (program, libraries) = self.generator.program()?;
        let out_text = out.to_string_lossy();
        let mut arguments: Vec<&str> = match self.generator {
            Generator::LlamaStyle => vec!["--capture", &out_text],
            _ => vec![&out_text],
        };
        arguments.extend(self.arguments.iter().map(String::as_str));
        let outcome = program.run_with(&arguments, &[("LD_LIBRARY_PATH", libraries.as_os_str())])?;
        let text = fs::read_to_string(&out);
        let _ = fs::remove_file(&out);
        match text {
            Ok(text) if outcome.code == Some(0) => Ok(text),
            _ => Err(format!("{}: {}", self.name, outcome.describe())),
        }
    }

    /// Captures the graph anew and writes it to its file. Returns whether the file changed.
    ///
    /// # Errors
    /// When the program cannot be built, fails, or the file cannot be written.
    pub fn update(&self) -> Result<bool> {
        let (text, path) = (self.text()?, self.path());
        let changed = read_compressed(&path).ok().is_none_or(|old| old != text);
        if changed {
            write_compressed(&path, &text)?;
        }
        Ok(changed)
    }

    /// Returns whether the committed file equals the program's output.
    ///
    /// # Errors
    /// When the program cannot be built, fails, or the file cannot be read.
    pub fn is_up_to_date(&self) -> Result<bool> {
        Ok(read_compressed(&self.path())? == self.text()?)
    }
}

/// Writes a model of llama.cpp without data to `file`: as large as a real one, and almost nothing on disk. Described by
/// `captures/llama_cpp/models/<model>.txt`.
///
/// # Errors
/// When the program cannot be built, or fails.
pub fn write_model_without_data(model: &str, layers: &str, file: &Path) -> Result<()> {
    let (program, libraries) = Generator::LlamaCpp.program()?;
    let (file, description) = (file.to_string_lossy(), model_description(model));
    let arguments = [&*file, "--what", "model", "--model", &description, "--layers", layers];
    let outcome = program.run_with(&arguments, &[("LD_LIBRARY_PATH", libraries.as_os_str())])?;
    if outcome.code == Some(0) { Ok(()) } else { Err(format!("{model}: {}", outcome.describe())) }
}
