//! Sequences of nodes that a backend computes by one kernel, as ggml-alloc places them and as lastuse does.

use std::fmt::Write;

use lastuse_c_tests::{HostProgram, Result, Variable, aligned_table};

use super::Findings;
use super::log::Logged;

/// Runs all sequences on a device, with lastuse preloaded and without. `modes` are the variables of the runs that log, and
/// of those without fusions.
///
/// # Errors
/// When the program cannot be run.
pub fn test(program: &HostProgram, device: &str, modes: [&[Variable]; 2], findings: &mut Findings) -> Result<()> {
    let listed = program.run(&[], false, &[])?;
    let heading =
        ["sequence", "graphs", "bits", "fused", "with lastuse", "kernels", "with lastuse", "barriers", "with lastuse"];
    let mut table = vec![heading.map(str::to_owned).to_vec()];
    for line in listed.stdout.lines() {
        let mut words = line.split(' ');
        let sequence = words.next().unwrap_or_default();
        let mut row = Row::default();
        for variant in words {
            row.add(program, &[device, sequence, variant], modes)?;
        }
        findings.wrong.extend(row.wrong().map(|wrong| format!("{device}, {sequence}: {wrong}")));
        table.push(row.cells(sequence));
    }
    let _ = write!(findings.text, "\n{device}, sequences that are fused\n\n{}", aligned_table(&table, 1));
    Ok(())
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
}

impl Row {
    fn add(&mut self, program: &HostProgram, arguments: &[&str], [logging, unfused]: [&[Variable]; 2]) -> Result<()> {
        let run = |with_lastuse: bool, more: &[Variable]| program.run(arguments, with_lastuse, more);
        let (plain, ours) = (run(false, &[])?, run(true, &[])?);
        self.graphs += 1;
        if plain.code != Some(0) {
            self.impossible += 1;
            return Ok(());
        }
        if ours.code == Some(0) && plain.stdout != ours.stdout && ours.stdout == run(false, unfused)?.stdout {
            self.corrected += 1;
        } else if ours.code != Some(0) || plain.stdout != ours.stdout {
            self.other_bits.push(format!("{arguments:?}: {}, without: {}", ours.describe(), plain.stdout));
        }
        if !logging.is_empty() {
            let [before, with] = self.logged.get_or_insert_default();
            *before += Logged::read(&run(false, logging)?.stderr);
            *with += Logged::read(&run(true, logging)?.stderr);
        }
        Ok(())
    }

    fn wrong(&self) -> impl Iterator<Item = String> {
        let other_bits = self.other_bits.iter().map(|which| format!("other bits with lastuse: {which}"));
        let less_fused = self.logged.filter(|[plain, ours]| ours.fused < plain.fused || ours.kernels > plain.kernels);
        let less_fused = less_fused.map(|[plain, ours]| format!("less is fused: {plain:?} becomes {ours:?}"));
        other_bits.chain(less_fused)
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
        cells
    }
}
