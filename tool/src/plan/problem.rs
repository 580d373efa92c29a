//! Placement problems from CSV files: the smallest placement, or one that fits a capacity.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use lastuse::placement::{Bytes, Effort, Outcome, Placement, Problem, Workspace, choose, lower_bound, padded, solve};

use crate::foreign::unwritable;
use crate::formats::csv::Sheet;
use crate::output::{Progress, by_ending, is_stream, print};
use crate::planning::check_placement;
use crate::report::{ProblemRow, Verdict};

/// Takes some seconds.
const DEFAULT_EFFORT: Effort = Effort::units(1_000_000_000);

/// Options for placement problems.
#[derive(clap::Args)]
pub struct Options {
    /// For CSV: find any placement that fits this many bytes, instead of the smallest.
    #[arg(long, value_name = "BYTES", conflicts_with = "json")]
    capacity: Option<Bytes>,

    /// For CSV: write all rows with a column "offset" to this file (*.csv); "-" is the standard output.
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,
}

impl Options {
    /// Fails if an output is set for several files, or has another ending than .csv.
    pub fn check_usage(&self, files: usize) -> Result<(), String> {
        match &self.output {
            Some(_) if files > 1 => Err("--output needs a single file".to_owned()),
            Some(file) if !is_stream(file) => by_ending(file, &[(".csv", ())]),
            _ => Ok(()),
        }
    }

    /// Returns whether the rows go to the standard output.
    pub fn prints_rows(&self) -> bool {
        self.output.as_deref() == Some(Path::new("-"))
    }

    /// Fails if an option is set that graphs do not support.
    pub fn refuse_graph(&self) -> Result<(), String> {
        match self {
            Self { capacity: Some(_), .. } => Err("--capacity is for CSV files, but this is a graph".to_owned()),
            Self { output: Some(_), .. } => Err("--output is for CSV files, but this is a graph".to_owned()),
            _ => Ok(()),
        }
    }
}

/// Places the blocks of `sheet`, and writes the rows if requested and a placement was found.
pub fn plan(
    file: String,
    sheet: &Sheet,
    options: &Options,
    effort: Option<Effort>,
    progress: &Progress,
) -> Result<ProblemRow, String> {
    let problem = sheet.problem();
    let start = Instant::now();
    progress.set("searching");
    let (placement, verdict) = place(problem, options.capacity, effort.unwrap_or(DEFAULT_EFFORT));
    progress.set("checking and writing");
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    if let Some(placement) = &placement {
        check(problem, placement, options.capacity)?;
        write(sheet, placement, options)?;
    }
    Ok(ProblemRow {
        file,
        blocks: problem.blocks().len(),
        capacity: options.capacity,
        bytes: placement.as_ref().map(Placement::size),
        lower_bound: lower_bound(problem),
        milliseconds,
        verdict,
    })
}

fn place(problem: &Problem, capacity: Option<Bytes>, effort: Effort) -> (Option<Placement>, Verdict) {
    let Some(capacity) = capacity else {
        let choice = choose(problem, None, effort, &mut Workspace::default());
        let verdict = Verdict::of_smallest(choice.is_optimal());
        return (Some(choice.placement), verdict);
    };
    match fit(problem, capacity, effort) {
        Outcome::Found(placement) => (Some(placement), Verdict::Fits),
        Outcome::Infeasible => (None, Verdict::Infeasible),
        Outcome::OutOfEffort => (None, Verdict::NotFound),
    }
}

/// Finds a placement that fits the capacity. Sizes are padded to the alignment, so the capacity is rounded down to a multiple
/// of it to find a placement, and up to prove that there is none.
fn fit(problem: &Problem, capacity: Bytes, effort: Effort) -> Outcome {
    let (below, above) = (capacity - capacity % problem.alignment(), padded(capacity, problem.alignment()));
    if lower_bound(problem) > above {
        return Outcome::Infeasible;
    }
    let quick = choose(problem, None, Effort::NONE, &mut Workspace::default()).placement;
    if quick.size() <= below {
        return Outcome::Found(quick);
    }
    match solve(problem, below, effort) {
        Outcome::Infeasible if below < above => match solve(problem, above, effort) {
            Outcome::Infeasible => Outcome::Infeasible,
            _ => Outcome::OutOfEffort,
        },
        outcome => outcome,
    }
}

/// Checks a placement. An invalid one is a defect of lastuse, and must not be shown.
fn check(problem: &Problem, placement: &Placement, capacity: Option<Bytes>) -> Result<(), String> {
    check_placement(problem, placement)?;
    match capacity {
        Some(capacity) if placement.size() > capacity => Err("the plan is invalid: it exceeds the capacity".to_owned()),
        _ => Ok(()),
    }
}

fn write(sheet: &Sheet, placement: &Placement, options: &Options) -> Result<(), String> {
    let Some(file) = &options.output else { return Ok(()) };
    if options.prints_rows() {
        let mut rows = Vec::new();
        let written = sheet.write(placement, &mut rows);
        return written.map_err(|error| error.to_string()).and_then(|()| print(&rows));
    }
    let written = File::create(file).and_then(|file| {
        let mut output = BufWriter::new(file);
        sheet.write(placement, &mut output)?;
        output.flush()
    });
    written.map_err(|error: io::Error| format!("cannot write {}: {}", file.display(), unwritable(file, &error)))
}
