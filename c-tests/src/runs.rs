//! What the first line of a test program says: where its cases run.

use std::fs;
use std::path::Path;

use lastuse_vendor::Package;

use crate::sources::{Case, cases};
use crate::{Result, folder};

/// The words of the ggmls.
const GGMLS: [(&str, Package); 3] =
    [("ggml-0.26", Package::LlamaCpp), ("ggml-0.9.5", Package::WhisperCpp), ("ggml-0.28", Package::LlamaCpp4)];

/// What a first line may say.
const WORDS: &str = "\
the first line says where the cases run, such as \"// runs: ggml-0.26 ggml-0.9.5 off\". The words are
  ggml-0.26 ggml-0.9.5 ggml-0.28   on lastuse and this ggml, with ggml's own allocator under the names of upstream.h
  off                              with shared libraries, and with LASTUSE=off too, unless it is a LASTUSE_CASE
  without-lastuse                  on ggml alone
  faults                           with \"lastuse\" they pass, and with \"upstream\" they show a fault of ggml's allocator
  sanitized                        on the first ggml also under AddressSanitizer and LeakSanitizer
  NAME=VALUE                       with this environment variable";

/// How the cases of a program are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// With both allocators in the program.
    Both,
    /// With lastuse, and with lastuse switched off.
    OnAndOff,
    /// On ggml alone.
    WithoutLastuse,
    /// Each shows a fault of ggml's own allocator that lastuse does not have.
    Faults,
}

/// A test program of `programs`, and where its cases run.
#[derive(Clone, Debug)]
pub struct Runs {
    /// Its file without the ending.
    pub name: String,
    /// The ggmls, each with its word. Cases that are compiled under a condition exist on the first.
    pub ggmls: Vec<(&'static str, Package)>,
    /// How they are run.
    pub way: Way,
    /// The cases run under sanitizers too.
    pub is_sanitized: bool,
    /// Environment variables.
    pub variables: Vec<(String, String)>,
    /// Its cases.
    pub cases: Vec<Case>,
}

impl Runs {
    /// Returns all programs, or for each that cannot be run the reason.
    ///
    /// # Errors
    /// When the folder of the programs cannot be read.
    pub fn all() -> Result<Vec<Result<Self>>> {
        let programs = folder().join("programs");
        let entries = fs::read_dir(&programs).map_err(|error| format!("{}: {error}", programs.display()))?;
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        Ok(files.iter().map(|file| Self::of(file)).collect())
    }

    fn of(file: &Path) -> Result<Self> {
        let named = |why: &str| format!("{}: {why}", file.display());
        let text = fs::read_to_string(file).map_err(|error| named(&error.to_string()))?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&name, &text).map_err(|why| named(&why))
    }

    /// Reads the first line of a source, and its cases.
    fn parse(name: &str, text: &str) -> Result<Self> {
        let first = text.lines().next().unwrap_or_default();
        let words = first.strip_prefix("// runs: ").ok_or_else(|| format!("it begins with {first:?}, but {WORDS}"))?;
        let mut runs = Self {
            name: name.to_owned(),
            ggmls: Vec::new(),
            way: Way::Both,
            is_sanitized: false,
            variables: Vec::new(),
            cases: cases(text),
        };
        for word in words.split_whitespace() {
            match word {
                "off" => runs.way = Way::OnAndOff,
                "without-lastuse" => runs.way = Way::WithoutLastuse,
                "sanitized" => runs.is_sanitized = true,
                "faults" => runs.way = Way::Faults,
                _ => match (GGMLS.iter().find(|(ggml, _)| *ggml == word), word.split_once('=')) {
                    (Some(&ggml), _) => runs.ggmls.push(ggml),
                    (None, Some((name, value))) => runs.variables.push((name.to_owned(), value.to_owned())),
                    (None, None) => return Err(format!("{word:?} is unknown: {WORDS}")),
                },
            }
        }
        if runs.ggmls.is_empty() {
            return Err(format!("{first:?} names no ggml: {WORDS}"));
        }
        if runs.cases.is_empty() {
            return Err(
                "it has no line CASE(name) {: programs that only one Rust test runs lie beside that test".to_owned()
            );
        }
        Ok(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_first_line_are_read() {
        let runs = Runs::parse("probe", "// runs: ggml-0.26 ggml-0.9.5 off LASTUSE_REORDER=on\nCASE(first) {\n");
        let runs = runs.expect("it is right");
        assert_eq!(runs.ggmls, [("ggml-0.26", Package::LlamaCpp), ("ggml-0.9.5", Package::WhisperCpp)]);
        assert_eq!((runs.name.as_str(), runs.way, runs.cases.len()), ("probe", Way::OnAndOff, 1));
        assert_eq!(runs.variables, [("LASTUSE_REORDER".to_owned(), "on".to_owned())]);
    }

    #[test]
    fn wrong_lines_are_refused_with_all_words() {
        for (text, why) in [
            ("// A test.\nCASE(first) {\n", "it begins with \"// A test.\""),
            ("// runs: ggml-0.26 of\nCASE(first) {\n", "\"of\" is unknown"),
            ("// runs: off\nCASE(first) {\n", "names no ggml"),
        ] {
            let message = Runs::parse("probe", text).expect_err("it is wrong");
            assert!(message.contains(why) && message.ends_with(WORDS), "{message}");
        }
        let message = Runs::parse("probe", "// runs: ggml-0.26\n").expect_err("it has no case");
        assert!(message.contains("no line CASE(name)"), "{message}");
    }
}
