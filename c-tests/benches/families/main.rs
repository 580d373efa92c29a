//! Both allocators on all captured graphs, family by family: bytes, lower bounds, and times in one process.
//!
//! `cargo bench -p lastuse-c-tests --bench families`; `-- --help` lists the options.

mod measure;
mod table;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lastuse_c_tests::{Allocators, Result, captured_graphs, graph_name, graphs_in, read_graph};
use measure::{Measured, measure};
use table::{Lines, table};

const HELP: &str = "\
Compares lastuse with ggml's own allocator on captured graphs, and prints a table in Markdown.

Usage: cargo bench -p lastuse-c-tests --bench families -- [--each] [NAME]...

  NAME      only graphs whose names begin so, such as \"sd-\" or \"deep48-llama\"
  --each    a line for each graph, not for each family

The graphs are those in c-tests/graphs and, in a separate table, those of the folder that LASTUSE_GRAPHS names.
Exit codes: 0 done, 1 something failed, 2 wrong usage.";

fn main() -> ExitCode {
    let (options, names): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|it| it.starts_with('-'));
    // Cargo passes --bench to benchmarks.
    let options: Vec<&str> = options.iter().map(String::as_str).filter(|&option| option != "--bench").collect();
    let lines = match options.as_slice() {
        [] => Lines::Families,
        ["--each"] => Lines::Graphs,
        ["--help" | "-h"] => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        other => {
            eprintln!("families: {:?} is not known\n\n{HELP}", other.join(" "));
            return ExitCode::from(2);
        }
    };
    match run(&names, lines) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("families: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(names: &[String], lines: Lines) -> Result<()> {
    let allocators = Allocators::open()?;
    let extra = std::env::var_os("LASTUSE_GRAPHS").map(PathBuf::from);
    let mut found = false;
    for folder in [captured_graphs()].into_iter().chain(extra) {
        let measured = measure_folder(allocators, &folder, names)?;
        if !measured.is_empty() {
            println!("{}\n\n{}", from_here(&folder).display(), table(&measured, lines));
            found = true;
        }
    }
    if found { Ok(()) } else { Err(format!("no graph has a name that begins with {}", names.join(" or "))) }
}

/// Returns the path relative to the repository, if it is inside it.
fn from_here(folder: &Path) -> &Path {
    let repository = lastuse_c_tests::folder().parent();
    repository.and_then(|repository| folder.strip_prefix(repository).ok()).unwrap_or(folder)
}

/// Measures the selected graphs of a folder and returns the results by the name of the graph.
fn measure_folder(allocators: &'static Allocators, folder: &Path, names: &[String]) -> Result<Vec<(String, Measured)>> {
    let is_selected = |path: &PathBuf| names.is_empty() || names.iter().any(|name| graph_name(path).starts_with(name));
    let graphs: Vec<PathBuf> = graphs_in(folder)?.into_iter().filter(is_selected).collect();
    let mut measured = Vec::with_capacity(graphs.len());
    for (number, path) in graphs.iter().enumerate() {
        show_progress(number, graphs.len());
        let found = measure(allocators, &read_graph(path)?).map_err(|error| format!("{}: {error}", path.display()))?;
        measured.push((graph_name(path), found));
    }
    Ok(measured)
}

fn show_progress(number: usize, all: usize) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        let end = if number + 1 == all { "\r" } else { "" };
        let _ = write!(stderr, "\r{}/{all}{end}", number + 1);
    }
}
