//! The pages quote the tool's output: quoted output, tables of numbers, and single numbers; commands, options and files
//! that they name exist. Times cannot be compared: they are left out, or must be within sane bounds.
//!
//! Items found by their form need no other entry here:
//! - a block that begins with `$ lastuse ...`: the lines below are the output of the command (`quoted`)
//! - a table whose first title is a `lastuse` command: its words in capitals are columns (`tables`)
//! - a block of JSON below a command with `--json`: the output has at least that (`quoted`)
//! - everything in code that looks like a command, a file or a variable of lastuse (`named`)
//! - links (`links`), and blocks of C, which compile (`snippets`)

mod compatibility;
mod examples;
mod families;
mod gpus;
mod links;
mod named;
mod numbers;
mod production;
mod quoted;
mod readme;
mod scratch_buffers;
#[path = "../support/mod.rs"]
mod support;
mod snippets;
mod tables;
mod worth;

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use lastuse_c_tests::Linked;
use lastuse_vendor::Package;
use support::llama_style;
use support::tool::{self, command, stderr, stdout};

/// The program that pages run, as `cargo demo` builds it.
const PROGRAM: &str = "target/c-tests/llama_style";

/// A page of the documents.
struct Page {
    /// Its path in the repository.
    name: String,
    text: String,
}

/// Returns the folder of the repository.
fn repository() -> PathBuf {
    lastuse_c_tests::folder().with_file_name("")
}

/// Returns a page.
fn page(name: &str) -> Page {
    let text = fs::read_to_string(repository().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    Page { name: name.to_owned(), text }
}

/// Returns all pages that users and contributors read.
fn pages() -> Vec<Page> {
    let mut names: Vec<String> = ["README.md", "CONTRIBUTING.md", "c-tests/README.md"].map(str::to_owned).to_vec();
    names.extend(["docs/*.md", "docs/internals/*.md"].iter().flat_map(|pattern| matching(pattern)));
    names.iter().map(|name| page(name)).collect()
}

/// Returns the files of the repository that match a path, in which one `*` matches any characters of a name.
fn matching(pattern: &str) -> Vec<String> {
    let Some((start, end)) = pattern.split_once('*') else {
        return Vec::from_iter(repository().join(pattern).exists().then(|| pattern.to_owned()));
    };
    let folder = start.rsplit_once('/').map_or("", |(folder, _)| folder);
    let entries = fs::read_dir(repository().join(folder)).into_iter().flatten().flatten();
    let names = entries.map(|entry| format!("{folder}/{}", entry.file_name().to_string_lossy()));
    let mut found: Vec<String> = names
        .filter(|name| name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end))
        .collect();
    found.sort();
    found
}

/// Returns the words of a command as a shell would pass them: without a comment and quotes, with files for patterns.
fn words(line: &str) -> Vec<String> {
    let line = line.split(" #").next().unwrap_or(line);
    let unquoted = line.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    unquoted
        .flat_map(|word| if word.starts_with("c-tests/") { matching(word) } else { vec![word.to_owned()] })
        .collect()
}

/// Runs the tool with the words after `lastuse`, and returns the report of a program, or the output.
fn printed(arguments: &[String]) -> String {
    let arguments: Vec<&str> = arguments.iter().map(|word| if word == PROGRAM { program() } else { word }).collect();
    let output = command(&arguments).current_dir(repository()).output().expect("the tool starts");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    if arguments[0] != "run" || arguments.contains(&"--help") {
        stdout(&output).to_owned()
    } else if arguments.contains(&"--json") {
        tool::report(&output).to_string()
    } else {
        stderr(&output).to_owned()
    }
}

fn program() -> &'static str {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || llama_style::build("llama_style", Package::LlamaCpp, Linked::SharedGgml).path().to_owned();
    BUILT.get_or_init(build).to_str().expect("a path in UTF-8")
}

/// Returns the tables of a page: the cells of each line, the titles first.
fn tables(page: &Page) -> Vec<Vec<Vec<&str>>> {
    let mut tables = vec![Vec::new()];
    for line in page.text.lines().map(str::trim).chain([""]) {
        match line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) {
            Some(line) => tables.last_mut().expect("one is there").push(line.split('|').map(str::trim).collect()),
            None => tables.push(Vec::new()),
        }
    }
    let is_rule = |cells: &Vec<&str>| cells.iter().all(|cell| cell.starts_with(['-', ':']));
    tables.retain(|lines| lines.get(1).is_some_and(is_rule));
    tables.iter_mut().for_each(|lines| _ = lines.remove(1));
    tables
}

/// Returns the code in a line of a page: the text between backquotes.
fn code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns the number in a word, without the text around it.
fn number(word: &str) -> Option<&str> {
    let word = word.trim_matches(['(', ')', ',', ';', ':', '`']);
    word.parse::<f64>().is_ok().then_some(word)
}

#[test]
fn files_are_found_by_patterns() {
    assert_eq!(matching("c-tests/graphs/llama-8-*.gz").len(), 2);
    assert_eq!(matching("docs/faq.md"), ["docs/faq.md"]);
    assert!(matching("docs/none-*.md").is_empty() && matching("docs/none.md").is_empty());
    assert_eq!(words("plan --retain \"l_out-*\" docs # a comment"), ["plan", "--retain", "l_out-*", "docs"]);
}
