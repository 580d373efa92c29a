//! Sequences of nodes that a backend computes by one kernel, as ggml-alloc places them and as lastuse does.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use lastuse::graph::kernels::KernelCosts;
use lastuse_c_tests::{HostProgram, Result, Variable, aligned_table};

use super::log::Logged;
use super::replayed::replayed;
use super::{DeviceTests, Findings};

/// Runs all sequences on a device, with lastuse preloaded and without.
///
/// # Errors
/// When the program cannot be run.
pub fn test(program: &HostProgram, device: &str, tests: &DeviceTests<'_>, findings: &mut Findings) -> Result<()> {
    let listed = program.run(&[], false, &[])?;
    let mut compared = 0;
    let heading = [
        "sequence",
        "graphs",
        "bits",
        "fused",
        "with lastuse",
        "kernels",
        "with lastuse",
        "barriers",
        "with lastuse",
        "replayed",
    ];
    let mut table = vec![heading.map(str::to_owned).to_vec()];
    for line in listed.stdout.lines() {
        let mut words = line.split(' ');
        let sequence = words.next().unwrap_or_default();
        let mut row = Row { is_replayed: !tests.not_fused.contains(&sequence), ..Row::default() };
        let variants: Vec<&str> = words.collect();
        for some in variants.chunks(side_by_side()) {
            for of_one in run_side_by_side(program, device, sequence, some, tests) {
                row.add(of_one?);
            }
        }
        compared += usize::from(row.is_replayed());
        findings.wrong.extend(row.wrong().map(|wrong| format!("{device}, {sequence}: {wrong}")));
        table.push(row.cells(sequence));
    }
    if compared == 0 && tests.logs_fusions {
        findings.wrong.push(format!("{device}: no sequence is fused, so nothing that was replayed could be compared"));
    }
    findings.add(&format!("\n{device}, sequences that are fused\n\n{}", aligned_table(&table, 1)));
    Ok(())
}

/// A process on a device takes most of its time to start, on one of the processors that are there for two runs each.
fn side_by_side() -> usize {
    thread::available_parallelism().map_or(1, |count| count.get().div_ceil(2))
}

fn run_side_by_side(
    program: &HostProgram,
    device: &str,
    sequence: &str,
    variants: &[&str],
    tests: &DeviceTests<'_>,
) -> Vec<Result<Row>> {
    thread::scope(|scope| {
        let start = |variant| scope.spawn(move || Row::of(program, [device, sequence, variant], tests));
        let threads: Vec<_> = variants.iter().map(|variant| start(*variant)).collect();
        let panicked = |_| Err("the thread that runs a sequence panicked".to_owned());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    })
}

/// How the variants of a sequence ran, as they are and with lastuse.
#[derive(Default)]
struct Row {
    graphs: usize,
    /// How many of them the device cannot compute whatever the placement.
    impossible: usize,
    /// How many have the bits of a run without fusions with lastuse alone.
    corrected: usize,
    other_bits: Vec<String>,
    /// Without lastuse, and with it; `None` without a log.
    logged: Option<[Logged; 2]>,
    /// Whether the devices fuse it as a whole, so that the log shows what lastuse replays.
    is_replayed: bool,
    /// The kernels that lastuse replays for its plans.
    replayed: KernelCosts,
}

impl Row {
    /// Runs one variant.
    fn of(program: &HostProgram, arguments: [&str; 3], tests: &DeviceTests<'_>) -> Result<Self> {
        let &DeviceTests { logging, unfused, ref folder, .. } = tests;
        let run = |with_lastuse: bool, more: &[Variable]| program.run(&arguments, with_lastuse, more);
        let (plain, ours) = (run(false, &[])?, run(true, &[])?);
        let mut row = Self { graphs: 1, ..Self::default() };
        if plain.code != Some(0) {
            row.impossible = 1;
            return Ok(row);
        }
        if ours.code == Some(0) && plain.stdout != ours.stdout && ours.stdout == run(false, unfused)?.stdout {
            row.corrected = 1;
        } else if ours.code != Some(0) || plain.stdout != ours.stdout {
            row.other_bits.push(format!("{arguments:?}: {}, without: {}", ours.describe(), plain.stdout));
        }
        if !logging.is_empty() {
            let before = Logged::read(&run(false, logging)?.stderr);
            let captures = Captures::in_folder(&folder.join("captured").join(arguments[1..].join("-")))?;
            let with = Logged::read(&program.run(&arguments, true, &captures.with(logging))?.stderr);
            row.logged = Some([before, with]);
            row.replayed = replayed(&captures.0, arguments[0])?;
        }
        Ok(row)
    }

    fn add(&mut self, other: Self) {
        self.graphs += other.graphs;
        self.impossible += other.impossible;
        self.corrected += other.corrected;
        self.other_bits.extend(other.other_bits);
        if let Some([before, with]) = other.logged {
            let [all_before, all_with] = self.logged.get_or_insert_default();
            *all_before += before;
            *all_with += with;
        }
        self.replayed.fused += other.replayed.fused;
        self.replayed.barriers += other.replayed.barriers;
    }

    fn is_replayed(&self) -> bool {
        self.is_replayed && self.logged.is_some_and(|[plain, _]| plain.fused > 0)
    }

    fn wrong(&self) -> impl Iterator<Item = String> {
        let other_bits = self.other_bits.iter().map(|which| format!("other bits with lastuse: {which}"));
        let less_fused = self.logged.filter(|[plain, ours]| ours.fused < plain.fused || ours.kernels > plain.kernels);
        let less_fused = less_fused.map(|[plain, ours]| format!("less is fused: {plain:?} becomes {ours:?}"));
        let KernelCosts { fused, barriers, .. } = self.replayed;
        let is_other = |ours: &Logged| (ours.fused, ours.barriers) != (fused.into(), barriers.into());
        let others = self.logged.filter(|[_, ours]| self.is_replayed() && is_other(ours));
        let others = others.map(|[_, ours]| format!("{fused} fused and {barriers} barriers were replayed: {ours:?}"));
        other_bits.chain(less_fused).chain(others)
    }

    fn cells(&self, sequence: &str) -> Vec<String> {
        let graphs = match self.impossible {
            0 => self.graphs.to_string(),
            some => format!("{}, {some} fail without lastuse, too", self.graphs),
        };
        let bits = match self.corrected {
            _ if !self.other_bits.is_empty() => "OTHER".to_owned(),
            0 => "equal".to_owned(),
            some => format!("equal, {some} right with lastuse alone"),
        };
        let mut cells = vec![sequence.to_owned(), graphs, bits];
        let numbers: [fn(&Logged) -> u64; 3] = [|it| it.fused, |it| it.kernels, |it| it.barriers];
        for number in numbers {
            let of = |which: usize| self.logged.map_or("-".to_owned(), |both| number(&both[which]).to_string());
            cells.extend([of(0), of(1)]);
        }
        let barriers = self.is_replayed().then(|| self.replayed.barriers.to_string());
        cells.push(barriers.unwrap_or_else(|| "-".to_owned()));
        cells
    }
}

/// An empty folder for captures.
struct Captures(PathBuf);

impl Captures {
    fn in_folder(captures: &Path) -> Result<Self> {
        let failed = |error: std::io::Error| format!("{}: {error}", captures.display());
        if captures.exists() {
            fs::remove_dir_all(captures).map_err(failed)?;
        }
        fs::create_dir_all(captures).map_err(failed)?;
        Ok(Self(captures.to_owned()))
    }

    /// Returns variables with the one by which lastuse captures graphs there.
    fn with<'a>(&'a self, variables: &[Variable]) -> Vec<(&'a str, &'a str)> {
        let mut all: Vec<(&str, &str)> = variables.to_vec();
        all.push(("LASTUSE_CAPTURE", self.0.to_str().unwrap_or_default()));
        all
    }
}
