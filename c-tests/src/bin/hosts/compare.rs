//! A job on both allocators.

use std::path::Path;

use lastuse_c_tests::Result;

use crate::counted::Counted;
use crate::job::Job;
use crate::run::{Run, run, run_beside};
use crate::speed::{SpeedRatio, median};

/// Factor for the number of runs of jobs that seem too slow: medians of few runs differ by more than the limit.
const MORE_ROUNDS: usize = 3;

/// Total factor for jobs that still seem too slow after all other jobs: load on a machine may last for minutes, and so
/// may be there in all runs of a job that follow each other.
const MOST_ROUNDS: usize = 9;

/// A job, and what both allocators made of it.
#[derive(Debug)]
pub struct Compared<'a> {
    /// The job that was run.
    pub job: &'a Job,
    /// On ggml's own allocator, and on lastuse.
    pub sides: [Side; 2],
    /// By round, how many units a second it made on ggml's own allocator, and on lastuse.
    pub speeds: Vec<[f64; 2]>,
    /// How fast it is on lastuse.
    pub speed: SpeedRatio,
    /// The bytes of results that were compared, in one run.
    pub results: usize,
    /// A failed check.
    pub wrong: Vec<String>,
}

/// One allocator.
#[derive(Debug)]
pub struct Side {
    /// Bytes requested from buffer types.
    pub counted: Counted,
    /// The median of the runs.
    pub units_per_second: f64,
}

/// Runs a job `rounds` times on both allocators side by side, and three times as often if it seems too slow. Files go
/// to `folder`. All runs must have the same results.
///
/// # Errors
/// When the job fails without lastuse, or gives other results from run to run: it proves nothing then.
pub fn compare<'a>(job: &'a Job, rounds: usize, folder: &Path) -> Result<Compared<'a>> {
    // It also reads the model into the cache of the system, for all that follow.
    let first = run(job, &job.without, folder).map_err(|why| no_test(job, &why))?;
    let mut compared = Compared {
        job,
        sides: [side(&first.counted), side(&Counted::default())],
        speeds: Vec::new(),
        speed: ratio(&[]),
        results: first.results.len(),
        wrong: Vec::new(),
    };
    compared.add_rounds(rounds, &first, folder)?;
    if compared.seems_slow() {
        compared.add_rounds((MORE_ROUNDS - 1) * rounds, &first, folder)?;
    }
    Ok(compared)
}

fn no_test(job: &Job, why: &str) -> String {
    format!("{}, without lastuse: {why}", job.label())
}

fn ratio(speeds: &[[f64; 2]]) -> SpeedRatio {
    SpeedRatio::of(speeds.iter().map(|[before, after]| after / before))
}

fn side(counted: &Counted) -> Side {
    Side { counted: counted.clone(), units_per_second: f64::NAN }
}

impl Compared<'_> {
    /// Returns `true` if only its speed fails the check.
    pub fn seems_slow(&self) -> bool {
        self.wrong.is_empty() && self.speed.seems_slow()
    }

    /// Runs a job that [`compare`] ran with the same `rounds`, and that seems slow, again. All runs count.
    ///
    /// # Errors
    /// Those of [`compare`].
    pub fn compare_again(&mut self, rounds: usize, folder: &Path) -> Result<()> {
        let first = run(self.job, &self.job.without, folder).map_err(|why| no_test(self.job, &why))?;
        self.add_rounds((MOST_ROUNDS - MORE_ROUNDS) * rounds, &first, folder)
    }

    /// Runs the job `rounds` times on both allocators side by side, until a check fails.
    fn add_rounds(&mut self, rounds: usize, first: &Run, folder: &Path) -> Result<()> {
        let job = self.job;
        for _ in 0..rounds {
            let [without, with] = run_beside(job, self.speeds.len(), folder);
            let without = without.map_err(|why| no_test(job, &why))?;
            if without.results != first.results {
                return Err(format!("{}: its results differ from run to run without lastuse", job.label()));
            }
            match with {
                Ok(with) => {
                    self.add(first, &with);
                    self.speeds.push([without.units_per_second, with.units_per_second]);
                }
                Err(why) => self.wrong.push(format!("with lastuse it failed: {why}")),
            }
            if !self.wrong.is_empty() {
                return Ok(());
            }
        }
        for (at, side) in self.sides.iter_mut().enumerate() {
            side.units_per_second = median(self.speeds.iter().map(|pair| pair[at]));
        }
        self.speed = ratio(&self.speeds);
        Ok(())
    }

    /// Adds a run on lastuse to one on ggml's own allocator.
    fn add(&mut self, without: &Run, with: &Run) {
        self.wrong.extend(first_difference(&without.results, &with.results));
        self.wrong.extend(with.counted.wrong(&without.counted));
        if with.reallocations > without.reallocations {
            let counts = [without, with].map(|run| run.reallocations);
            self.wrong.push(format!("graphs were refused {} times, and {} times with lastuse", counts[0], counts[1]));
        }
        self.wrong.extend(self.job.most_resident.and_then(|most| too_much_resident(most, without, with)));
        self.sides[1].counted = with.counted.clone();
    }
}

/// Returns what is wrong where the peak of resident memory with lastuse is more than `most` of that without.
fn too_much_resident(most: f64, without: &Run, with: &Run) -> Option<String> {
    let (Some(before), Some(after)) = (without.peak_resident, with.peak_resident) else {
        return Some("the program did not print peak_resident=".to_owned());
    };
    #[allow(clippy::cast_precision_loss, reason = "a ratio")]
    let ratio = after as f64 / before as f64;
    (ratio > most).then(|| format!("at most {after} bytes are resident, {ratio:.3} of {before}; {most} is promised"))
}

/// Returns where two results differ, if they do.
pub fn first_difference(without: &[u8], with: &[u8]) -> Option<String> {
    if without == with {
        return None;
    }
    let at = without.iter().zip(with).position(|(left, right)| left != right);
    let at = at.unwrap_or_else(|| without.len().min(with.len()));
    Some(format!("the results differ from byte {at} on ({} bytes without, {} with lastuse)", without.len(), with.len()))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::job::{Launch, OUTPUT, Threads, Way};

    /// Returns a job whose programs are shells: they write these results and this report of the counter.
    pub fn job(without: &str, with: &str) -> Job {
        let launch = |script: &str| Launch {
            program: "sh".into(),
            variables: vec![("SCRIPT", format!("{script}; echo units_per_second=2").into())],
        };
        Job {
            host: "host",
            version: String::new(),
            model: String::new(),
            name: String::new(),
            way: Way::Preloaded,
            arguments: ["-c", "OUT=$0; eval \"$SCRIPT\"", OUTPUT].map(str::to_owned).to_vec(),
            unit: "tokens",
            threads: Threads::One,
            most_resident: None,
            may_reallocate: false,
            without: launch(without),
            with: launch(with),
        }
    }

    /// Returns a folder for one test.
    pub fn folder(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("lastuse-hosts-{name}-{}", std::process::id()))
    }

    fn compared<R>(name: &str, [without, with]: [&str; 2], look: impl FnOnce(Result<Compared<'_>>) -> R) -> R {
        let folder = folder(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let job = job(without, with);
        let looked = look(compare(&job, 2, &folder));
        let _ = std::fs::remove_dir_all(&folder);
        looked
    }

    pub const ON_GGML: &str = "echo results >$OUT; printf 'buffer 1 9 CPU\\nmost 9\\n' >$BUFFER_COUNTER_REPORT";
    pub const ON_LASTUSE: &str =
        "echo results >$OUT; printf 'buffer 1 8 CPU\\nmost 8\\nlastuse 1 1\\n' >$BUFFER_COUNTER_REPORT";

    fn wrong(name: &str, with: &str) -> Vec<String> {
        compared(name, [ON_GGML, with], |compared| compared.expect("a comparison").wrong)
    }

    #[test]
    fn resident_memory_is_at_most_the_promised_share() {
        let run = |peak_resident| Run {
            results: Vec::new(),
            counted: Counted::default(),
            units_per_second: 1.0,
            reallocations: 0,
            peak_resident,
        };
        let wrong = |before, after| too_much_resident(0.5, &run(before), &run(after));
        assert_eq!(wrong(Some(100), Some(50)), None);
        assert!(wrong(Some(100), Some(51)).is_some_and(|why| why.contains("51 bytes") && why.contains("of 100")));
        assert!(wrong(None, Some(1)).is_some() && wrong(Some(1), None).is_some());
    }

    #[test]
    fn equal_results_in_smaller_buffers_are_right() {
        compared("right", [ON_GGML, ON_LASTUSE], |compared| {
            let compared = compared.expect("a comparison");
            assert_eq!(compared.wrong, Vec::<String>::new());
            assert_eq!((compared.results, compared.speed.median.to_bits()), (8, 1.0_f64.to_bits()));
            assert_eq!(compared.sides.map(|side| side.counted.most), [9, 8]);
        });
    }

    #[test]
    fn other_results_larger_buffers_and_failures_are_wrong() {
        let other = wrong("other", &ON_LASTUSE.replace("echo results", "echo resulte"));
        assert!(other[0].contains("the results differ from byte 6"), "{other:?}");
        let larger = wrong("larger", &ON_LASTUSE.replace("1 8 CPU", "1 10 CPU"));
        assert!(larger[0].contains("10 bytes, was 9"), "{larger:?}");
        let refused = wrong("refused", &format!("{ON_LASTUSE}; echo reallocations=2"));
        assert!(refused[0].contains("refused 0 times, and 2 times with lastuse"), "{refused:?}");
        let no_effect = wrong("no-effect", ON_GGML);
        assert!(no_effect[0].contains("no effect"), "{no_effect:?}");
        let failed = wrong("failed", "kill -SEGV $$");
        assert!(failed[0].contains("with lastuse it failed") && failed[0].contains("signal Some(11)"), "{failed:?}");
        let no_results = wrong("no-results", ": >$OUT; exit 0");
        assert!(no_results[0].contains("has no results"), "{no_results:?}");
    }

    #[test]
    fn slow_jobs_are_run_more_often() {
        let counting =
            |units: &str| format!("echo run >>${{OUT%/*}}/times; {ON_LASTUSE}; echo units_per_second={units}; exit 0");
        for (units, runs) in [("1.99", [2, 14]), ("1.5", [6, 18])] {
            let name = format!("runs-{units}");
            let folder = folder(&name);
            let counts = compared(&name, [ON_GGML, &counting(units)], |compared| {
                let count = || std::fs::read_to_string(folder.join("times")).expect("it was run").lines().count();
                let mut compared = compared.expect("a comparison");
                let first = count();
                assert!(compared.seems_slow() == (first == 6), "{compared:?}");
                compared.compare_again(2, &folder).expect("a comparison");
                assert_eq!(compared.speeds.len(), count());
                [first, count()]
            });
            assert_eq!(counts, runs, "{units} units a second, and 2 without lastuse");
        }
    }

    #[test]
    fn jobs_that_prove_nothing_are_refused() {
        let failed = compared("no-test", ["exit 3", ON_LASTUSE], |compared| compared.expect_err("a failure"));
        assert!(failed.contains("without lastuse: exit code Some(3)"), "{failed}");
        let random = ON_GGML.replace("echo results", "date +%N");
        let random = compared("random", [&random, ON_LASTUSE], |compared| compared.expect_err("a failure"));
        assert!(random.contains("differ from run to run"), "{random}");
    }

    #[test]
    fn the_first_byte_that_differs_is_named() {
        assert_eq!(first_difference(b"abc", b"abc"), None);
        assert!(first_difference(b"abc", b"abd").is_some_and(|why| why.contains("byte 2 ")));
        assert!(first_difference(b"abc", b"ab").is_some_and(|why| why.contains("byte 2 on (3 bytes without, 2 with")));
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 9.0].into_iter()).to_bits(), 3.0_f64.to_bits());
        assert_eq!(median([4.0, 1.0, 2.0, 9.0].into_iter()).to_bits(), 3.0_f64.to_bits());
        assert!(median(std::iter::empty()).is_nan());
    }
}
