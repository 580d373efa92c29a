//! Which test runs which program of `programs/`, read from the sources of the tests.

use std::fs;
use std::path::Path;

use crate::{Result, folder};

/// Functions that build the program which they name, besides those that begin with `build`.
const BUILDERS: [&str; 4] = ["of_cases", "survey::run", "fuzz_program", "compiles_and_runs"];

/// Functions that run all cases of a program.
const ALL_CASES: [&str; 3] = ["listed_cases(", "of_cases(", "survey::run("];

/// A test target: its code without comments.
#[derive(Debug)]
pub struct Driver {
    /// The name of the target.
    pub name: String,
    code: String,
}

impl Driver {
    /// Returns all test targets: the files and folders of `tests`, without shared ones.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn all() -> Result<Vec<Self>> {
        let mut drivers = Vec::new();
        for path in entries(&folder().join("tests"))? {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if name != "support" {
                let mut code = String::new();
                add_code(&path, &mut code)?;
                drivers.push(Self { name, code });
            }
        }
        Ok(drivers)
    }

    /// Creates a target with this source.
    pub fn new(name: &str, source: &str) -> Self {
        Self { name: name.to_owned(), code: without_comments(source) }
    }

    /// Returns `true` if it builds the program of this file in `programs`: names it in a call that builds a program or in its
    /// list of `PROGRAMS`, or the file among the sources of a program.
    pub fn builds(&self, file: &str) -> bool {
        let name = file.split('.').next().unwrap_or(file);
        let is_builder = |callee: &str| {
            let function = callee.rsplit("::").next().unwrap_or(callee);
            function.starts_with("build") || BUILDERS.iter().any(|builder| callee.ends_with(builder))
        };
        self.openers(name).any(|opener| match opener {
            Opener::Call(callee) => is_builder(callee),
            Opener::List(before) => before.contains("const PROGRAMS:"),
        }) || self.openers(&format!("programs/{file}")).any(|opener| match opener {
            Opener::Call(callee) => is_builder(callee),
            Opener::List(_) => true,
        })
    }

    /// Returns those of the cases of a program that it neither names nor runs with all others.
    pub fn not_run<'c>(&self, cases: &'c [String]) -> Vec<&'c str> {
        let runs_all = ALL_CASES.iter().any(|call| self.code.contains(call));
        let is_named = |case: &&String| self.code.contains(&format!("\"{case}\""));
        cases.iter().filter(|case| !runs_all && !is_named(case)).map(String::as_str).collect()
    }

    /// Returns what each string with this text is directly inside of.
    fn openers(&self, text: &str) -> impl Iterator<Item = Opener<'_>> {
        let literal = format!("\"{text}\"");
        let places: Vec<usize> = self.code.match_indices(&literal).map(|(at, _)| at).collect();
        places.into_iter().filter_map(|at| Opener::of(&self.code[..at]))
    }
}

/// The syntax that directly encloses a string.
enum Opener<'c> {
    /// The arguments of this function.
    Call(&'c str),
    /// A list, after this line of code.
    List(&'c str),
}

impl<'c> Opener<'c> {
    /// Finds the bracket that is open at the end of `code`; `None` for blocks and where there is none.
    fn of(code: &'c str) -> Option<Self> {
        let mut closed = 0_usize;
        for (at, character) in code.char_indices().rev() {
            match character {
                ')' | ']' | '}' => closed += 1,
                '(' | '[' | '{' if closed > 0 => closed -= 1,
                '(' => {
                    let before = &code[..at];
                    let is_part = |character: char| character.is_alphanumeric() || character == '_' || character == ':';
                    return Some(Self::Call(&before[before.trim_end_matches(is_part).len()..]));
                }
                '[' => return Some(Self::List(code[..at].lines().next_back().unwrap_or_default())),
                '{' => return None,
                _ => {}
            }
        }
        None
    }
}

/// Appends the code of a file, or of all files of a folder.
fn add_code(path: &Path, code: &mut String) -> Result<()> {
    if path.is_dir() {
        return entries(path)?.iter().try_for_each(|path| add_code(path, code));
    }
    if path.extension().is_some_and(|extension| extension == "rs") {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        code.push_str(&without_comments(&text));
    }
    Ok(())
}

/// The files and folders of a folder, by name.
fn entries(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Removes the comments to the end of lines; strings may contain slashes.
fn without_comments(source: &str) -> String {
    let mut code = String::new();
    for line in source.lines() {
        let mut is_string = false;
        let mut before = ' ';
        let mut end = line.len();
        for (at, character) in line.char_indices() {
            match character {
                '"' if before != '\\' && before != '\'' => is_string = !is_string,
                '/' if before == '/' && !is_string => {
                    end = at - 1;
                    break;
                }
                _ => {}
            }
            before = character;
        }
        code.push_str(&line[..end]);
        code.push('\n');
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_built_by_calls_that_build_and_among_sources() {
        for source in [
            "let program = support::build(\"a-name\", \"probe\", &ggml, linked);",
            "support::build_with_both(\"probe\")",
            "trials::of_cases(label, \"probe\", build, passes)",
            "support::survey::run(\"probe\", package, name)",
            "Program::build(name, &[\"programs/probe.c\"], &ggml, linked, &[])",
            "let sources = [\"programs/two.c\", \"programs/probe.c\"];",
            "const PROGRAMS: [&str; 2] = [\"two\", \"probe\"];",
        ] {
            assert!(Driver::new("driver", source).builds("probe.c"), "{source}");
        }
    }

    #[test]
    fn program_that_is_only_named_is_not_built() {
        for source in [
            "tool::command(&[\"probe\"])",
            "// support::build_with_both(\"probe\")",
            "let url = \"https://x\"; /// build(\"probe\")",
            "const COMMANDS: [&str; 1] = [\"probe\"];",
            "folder.join(\"programs/probe.c\")",
            "build(name, &[\"probe\"])",
            "support::build(\"probed\", \"prober\", &ggml, linked)",
            "println!(\"probe\")",
        ] {
            assert!(!Driver::new("driver", source).builds("probe.c"), "{source}");
        }
    }

    #[test]
    fn cases_are_run_all_or_by_name() {
        let cases = ["first", "second"].map(str::to_owned);
        assert_eq!(Driver::new("driver", "passes(&program, &[\"first\"]); // \"second\"").not_run(&cases), ["second"]);
        assert_eq!(Driver::new("driver", "for case in listed_cases(&program, &[]) {}").not_run(&cases), [""; 0]);
    }
}
