//! `cargo capture`: writes the committed graphs anew.

use std::fs;
use std::process::ExitCode;

use lastuse_c_tests::{Capture, Result, captured_graphs};

const HELP: &str = "\
Captures the graphs in c-tests/graphs anew, with the programs in c-tests/captures.

Usage: cargo capture [--check] [NAME]...

  NAME      only graphs whose names begin so, such as \"sd-\" or \"deep48-llama\"
  --check   write nothing, and list the graphs that differ from the committed ones

llama.cpp and whisper.cpp come from pinned registry packages and are compiled the first time, which takes minutes.
Exit codes: 0 done, 1 something failed or, with --check, a graph differs, 2 wrong usage.";

fn main() -> ExitCode {
    let (options, names): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|it| it.starts_with('-'));
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let check = match options.as_slice() {
        [] => false,
        ["--check"] => true,
        ["--help" | "-h"] => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        other => {
            eprintln!("capture: {:?} is not known\n\n{HELP}", other.join(" "));
            return ExitCode::from(2);
        }
    };
    match run(&names, check) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("capture: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(names: &[String], check: bool) -> Result<ExitCode> {
    let is_selected =
        |capture: &Capture| names.is_empty() || names.iter().any(|name| capture.name.starts_with(name.as_str()));
    let captures: Vec<Capture> = Capture::all().into_iter().filter(is_selected).collect();
    if captures.is_empty() {
        return Err(format!("no graph has a name that begins with {}", names.join(" or ")));
    }
    fs::create_dir_all(captured_graphs()).map_err(|error| format!("{}: {error}", captured_graphs().display()))?;
    let mut differing = 0;
    for capture in &captures {
        let differs = if check { !capture.is_up_to_date()? } else { capture.update()? };
        if differs {
            println!("{} {}", if check { "differs:" } else { "written:" }, capture.path().display());
            differing += 1;
        }
    }
    println!("{} graphs, {differing} of them {}", captures.len(), if check { "differ" } else { "new or changed" });
    Ok(if check && differing > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
