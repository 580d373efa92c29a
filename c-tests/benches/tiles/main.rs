//! The cost of computing operations in tiles: time of a chain in 2 to 32 tiles divided by its time in one, and the
//! bytes of its intermediates.
//!
//! `cargo bench -p lastuse-c-tests --bench tiles`; `-- --help` lists the options.

use std::process::ExitCode;

use lastuse_c_tests::{Linked, Program, Result, bench_of_names};
use lastuse_vendor::{Package, ggml};

const HELP: &str = "\
Computes chains of operations whole and in tiles with the kernels of ggml's CPU backend, and prints a table in Markdown:
medians over rounds in which all numbers of tiles take turns.

Usage: cargo bench -p lastuse-c-tests --bench tiles -- [NAME]...

  NAME      only chains whose names begin so, such as \"convolution\" or \"attention\"

Exit codes: 0 done, 1 something failed, 2 wrong usage.";

const THREADS: [&str; 3] = ["1", "2", "4"];
const ROUNDS: &str = "9";

fn main() -> ExitCode {
    bench_of_names("tiles", HELP, run)
}

fn run(names: &[String]) -> Result<()> {
    let ggml = ggml(Package::LlamaCpp)?;
    let program = Program::build("tiles", &["benches/tiles/tiles.c"], &ggml, Linked::Ggml, &[])?;
    println!("| chain | threads | tiles | elements in a tile | intermediates, MiB | ms | time / whole |");
    println!("|---|---|---|---|---|---|---|");
    for threads in THREADS {
        let arguments: Vec<&str> = [threads, ROUNDS].into_iter().chain(names.iter().map(String::as_str)).collect();
        let outcome = program.run(&arguments)?;
        if outcome.code != Some(0) {
            return Err(outcome.describe());
        }
        for line in outcome.stdout.lines() {
            println!("{}", row(line).ok_or_else(|| format!("not a measurement: {line}"))?);
        }
    }
    Ok(())
}

/// Makes a row of the table of a line of the program.
fn row(line: &str) -> Option<String> {
    let [chain, threads, tiles, count, bytes, us, ratio] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let mib = bytes.parse::<f64>().ok()? / f64::from(1 << 20);
    let ms = us.parse::<f64>().ok()? / 1000.0;
    Some(format!("| {chain} | {threads} | {tiles} | {count} | {mib:.2} | {ms:.3} | {ratio} |"))
}
