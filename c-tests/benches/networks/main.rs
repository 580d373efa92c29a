//! The cost of computing networks in tiles: the time of Stable Diffusion's decoder and UNet, cut to fit a budget,
//! divided by the time of the whole.
//!
//! `cargo bench -p lastuse-c-tests --bench networks`; `-- --help` lists the options.

use std::process::ExitCode;

use lastuse_c_tests::{Build, Linked, Program, Result, lastuse};
use lastuse_vendor::{Package, ggml};

const HELP: &str = "\
Computes networks of Stable Diffusion at 512 x 512 pixels with the kernels of ggml's CPU backend, whole and in tiles, in
turns, and prints a table in Markdown. Weights are random. A network takes about 7 GiB of memory, and each round up to a
minute.

Usage: cargo bench -p lastuse-c-tests --bench networks -- [--image PIXELS] [--rounds N] [NAME]...

  --image PIXELS  another size of the image                            (default 512)
  --rounds N      how often both are timed                             (default 5)
  NAME            only networks whose names begin so: vae-decoder, sd1-unet

Exit codes: 0 done, 1 something failed, 2 wrong usage.";

/// The networks, and hundredths of the bytes of the whole that they are cut to fit.
const NETWORKS: [(&str, &str); 4] =
    [("vae-decoder", "60"), ("vae-decoder", "40"), ("sd1-unet", "50"), ("sd1-unet", "22")];

const THREADS: [&str; 2] = ["1", "2"];

struct Options {
    image: String,
    rounds: String,
    names: Vec<String>,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("networks: {message}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("networks: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the options; `None` if help is wanted.
fn options(mut words: impl Iterator<Item = String>) -> Result<Option<Options>> {
    let mut options = Options { image: "512".to_owned(), rounds: "5".to_owned(), names: Vec::new() };
    while let Some(word) = words.next() {
        match word.as_str() {
            // Cargo passes it to benchmarks.
            "--bench" => {}
            "--help" | "-h" => return Ok(None),
            "--image" => options.image = words.next().ok_or("--image needs a number")?,
            "--rounds" => options.rounds = words.next().ok_or("--rounds needs a number")?,
            _ if word.starts_with('-') => return Err(format!("{word:?} is not known")),
            _ => options.names.push(word),
        }
    }
    Ok(Some(options))
}

fn run(options: &Options) -> Result<()> {
    let ggml = ggml(Package::LlamaCpp)?;
    let lastuse = lastuse(Build::Release)?;
    let sources = ["benches/networks/networks.c"];
    let program = Program::build("networks", &sources, &ggml, Linked::LastuseArchive(&lastuse), &[])?;
    println!(
        "| network | threads | bytes, whole | in tiles | ratio | cuts | s, whole | in tiles | time / whole | from | to |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for (network, percent) in NETWORKS {
        if !options.names.is_empty() && !options.names.iter().any(|name| network.starts_with(name)) {
            continue;
        }
        for threads in THREADS {
            let outcome = program.run(&[network, &options.image, percent, threads, &options.rounds])?;
            if outcome.code != Some(0) {
                return Err(outcome.describe());
            }
            let line = outcome.stdout.trim();
            println!("{}", row(network, threads, line).ok_or_else(|| format!("not a measurement: {line}"))?);
        }
    }
    Ok(())
}

/// Makes a row of the table from the program's output.
fn row(network: &str, threads: &str, line: &str) -> Option<String> {
    let [before, after, cuts, whole, cut, ratio, from, to] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let bytes = after.parse::<f64>().ok()? / before.parse::<f64>().ok()?;
    Some(format!(
        "| {network} | {threads} | {before} | {after} | {bytes:.3} | {cuts} | {whole} | {cut} | {ratio} | {from} | {to} |"
    ))
}
