//! Which runs are made.

use lastuse_c_tests::{Build, PLAIN, Result, TrainingDriver, TrainingPrograms, TrainingRun, TrainingSetup, lastuse};
use lastuse_vendor::{Package, ggml};

/// The requirement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Not to the end.
    pub is_quick: bool,
    /// Threads of the CPU.
    pub threads: u32,
}

/// Runs with one network: the first of each group is ggml's own allocator.
#[derive(Debug)]
pub struct Section {
    /// The training run.
    pub title: String,
    /// The runs with the same driver and the same accumulation.
    pub groups: Vec<Group>,
}

/// Runs that differ in the method.
#[derive(Debug)]
pub struct Group {
    /// The setups and what they have shown; the first is ggml's own allocator.
    pub runs: Vec<(TrainingSetup, TrainingRun)>,
}

impl Section {
    /// Returns whether the losses are those that are expected of such a run.
    pub fn is_equal(&self, setup: &TrainingSetup, run: &TrainingRun) -> bool {
        let of_same_batches = |other: &&(TrainingSetup, TrainingRun)| other.0.accumulate == setup.accumulate;
        self.groups
            .iter()
            .flat_map(|group| &group.runs)
            .find(of_same_batches)
            .is_some_and(|it| it.1.losses == run.losses)
    }

    /// Names the runs with other losses.
    pub fn differing(&self) -> Vec<String> {
        let runs = self.groups.iter().flat_map(|group| &group.runs);
        runs.filter(|(setup, run)| !self.is_equal(setup, run)).map(|(setup, _)| format!("{setup:?}")).collect()
    }
}

/// Which groups use every method; the others use ggml's own allocator and lastuse as it is.
const GROUPS: [(TrainingDriver, u32, bool); 6] = [
    (TrainingDriver::Static, 1, true),
    (TrainingDriver::Static, 2, false),
    (TrainingDriver::Batches, 1, false),
    (TrainingDriver::Batches, 2, true),
    (TrainingDriver::Loop, 1, true),
    (TrainingDriver::Loop, 2, false),
];

/// Makes all runs.
///
/// # Errors
/// When something cannot be built, or a run fails.
pub fn all(plan: &Plan, progress: impl Fn(&str)) -> Result<Vec<Section>> {
    let programs = TrainingPrograms::build("", &ggml(Package::LlamaCpp)?, &lastuse(Build::Release)?)?;
    Ok(vec![small(plan, &programs, &progress)?, large(plan, &programs, &progress)?])
}

fn small(plan: &Plan, programs: &TrainingPrograms, progress: impl Fn(&str)) -> Result<Section> {
    let end = if plan.is_quick { "2 epochs of 320 data points" } else { "to the end" };
    let title = format!("2 layers, width 64, 64 data points for each step of the optimizer, {end}");
    let more: &[&str] = if plan.is_quick { &["--points", "320", "--epochs", "2"] } else { &[] };
    let mut groups = Vec::new();
    for (driver, accumulate, every_method) in GROUPS {
        let batch = (64 / accumulate).to_string();
        let mut setups = TrainingSetup::all_of(driver, accumulate);
        setups.retain(|setup| every_method || setup.method == PLAIN);
        groups.push(group(plan, programs, &setups, &[&["--batch", &*batch], more].concat(), &progress)?);
    }
    Ok(Section { title, groups })
}

fn large(plan: &Plan, programs: &TrainingPrograms, progress: impl Fn(&str)) -> Result<Section> {
    let options = ["--layers", "8", "--width", "128", "--modulus", "59", "--batch", "256", "--points", "1280"];
    let (epochs, rounds) = if plan.is_quick { ("1", 1) } else { ("2", 3) };
    let title = format!("8 layers, width 128, 256 data points for each of {} steps", if plan.is_quick { 4 } else { 8 });
    let setups = TrainingSetup::all_of(TrainingDriver::Loop, 1);
    let more = [&options[..], &["--epochs", epochs]].concat();
    // Few steps are disturbed by whatever else the machine does, so all methods take turns.
    let mut fastest = group(plan, programs, &setups, &more, &progress)?;
    for _ in 1..rounds {
        fastest.keep_fastest(group(plan, programs, &setups, &more, &progress)?)?;
    }
    Ok(Section { title, groups: vec![fastest] })
}

impl Group {
    /// Takes the runs of `other` that were faster.
    fn keep_fastest(&mut self, other: Self) -> Result<()> {
        for (kept, new) in self.runs.iter_mut().zip(other.runs) {
            if new.1.losses != kept.1.losses {
                return Err(format!("{:?}: two equal runs have different losses", kept.0));
            }
            if new.1.number("step_us")? < kept.1.number("step_us")? {
                *kept = new;
            }
        }
        Ok(())
    }
}

fn group(
    plan: &Plan,
    programs: &TrainingPrograms,
    setups: &[TrainingSetup],
    more: &[&str],
    progress: impl Fn(&str),
) -> Result<Group> {
    let threads = plan.threads.to_string();
    let more = [more, &["--threads", &*threads]].concat();
    let mut runs = Vec::new();
    for setup in setups {
        let (driver, batches) = (setup.driver.name(), setup.accumulate);
        progress(&format!("train: {driver}, accumulate {batches}, {} {}", setup.allocator(), setup.method.name));
        runs.push((*setup, programs.run(setup, &more)?));
    }
    Ok(Group { runs })
}
