//! Programs whose compute buffers are refused: each request for one in turn.

use std::path::Path;

use lastuse_c_tests::Result;

use crate::job::Job;
use crate::jobs::Options;
use crate::run::{Ended, run_to_its_end};

/// Makes a request fail, by its number: see `hosts/buffer_counter.c`.
const FAILS: &str = "BUFFER_COUNTER_FAILS";

/// How a program took it that a buffer was refused.
#[derive(Debug, PartialEq, Eq)]
enum Reaction {
    /// It has results all the same, as from a smaller batch.
    WentOn,
    /// It reported an error and ended.
    Ended,
    /// It ended itself by a signal, with a message: an assertion of its own.
    Aborted { signal: i32, message: String },
}

/// Runs the jobs of a host on lastuse, and refuses each buffer that an allocator asks for once: in a run of its own.
/// Files go to `folder`.
///
/// # Errors
/// When a job fails without a refusal, or a program is killed by one or ends without a word, other than on ggml-alloc.
pub fn run_faults(host: &str, folder: &Path, jobs: &[Job], options: &Options) -> Result<()> {
    let mut wrong = 0;
    let mut all = 0;
    for job in options.wanted(host, jobs)? {
        let requests = requests(job, folder)?;
        let (mut went_on, mut aborted) = (0, 0);
        for number in 1..=requests {
            let number = number.to_string();
            let refused = |launch| reaction(&run_to_its_end(job, launch, folder, &[(FAILS, &number)])?);
            match refused(&job.with) {
                Ok(Reaction::WentOn) => went_on += 1,
                Ok(Reaction::Ended) => {}
                // What the program does on its own allocator is its normal error.
                Ok(abort) if refused(&job.without).as_ref() == Ok(&abort) => aborted += 1,
                Ok(Reaction::Aborted { signal, message }) => {
                    wrong += 1;
                    eprintln!(
                        "[{host}]   NOT as promised: {}, buffer {number} refused: signal {signal}, not on ggml-alloc: {message}",
                        job.label()
                    );
                }
                Err(why) => {
                    wrong += 1;
                    eprintln!("[{host}]   NOT as promised: {}, buffer {number} refused: {why}", job.label());
                }
            }
        }
        all += requests;
        let as_before =
            if aborted > 0 { format!(", aborted {aborted} times, as on ggml-alloc") } else { String::new() };
        println!("{}: {requests} buffers, each refused once: went on {went_on} times{as_before}", job.label());
    }
    match wrong {
        0 => {
            println!("{all} refusals: each time the program went on, or ended with its error, as on ggml-alloc");
            Ok(())
        }
        count => Err(format!("{count} of {all} refusals were not borne, see above")),
    }
}

/// Returns how many buffers the allocators of a job ask for.
fn requests(job: &Job, folder: &Path) -> Result<u64> {
    let Ended { outcome, counted, .. } = run_to_its_end(job, &job.with, folder, &[])?;
    let counted = counted.filter(|counted| outcome.code == Some(0) && counted.plans > Some(0));
    match counted {
        Some(counted) if counted.requested > 0 => Ok(counted.requested),
        _ => Err(format!("{} without a refusal: {}", job.label(), outcome.describe())),
    }
}

fn reaction(ended: &Ended) -> Result<Reaction> {
    let Ended { outcome, results, counted } = ended;
    if let Some(signal) = outcome.signal {
        // Programs that are killed say nothing.
        let message = outcome.stderr.lines().rfind(|line| !line.trim().is_empty());
        let message = message.ok_or_else(|| outcome.describe())?.to_owned();
        return Ok(Reaction::Aborted { signal, message });
    }
    if counted.as_ref().is_none_or(|counted| counted.refused != 1) {
        return Err(format!("nothing was refused: {}", outcome.describe()));
    }
    match (outcome.code, results.is_empty(), outcome.stderr.trim().is_empty()) {
        (Some(0), false, _) => Ok(Reaction::WentOn),
        (Some(0), true, _) => Err("it exited normally without results".to_owned()),
        (_, _, false) => Ok(Reaction::Ended),
        (_, _, true) => Err(format!("it said nothing: {}", outcome.describe())),
    }
}

#[cfg(test)]
mod tests {
    use lastuse_c_tests::Outcome;

    use super::*;
    use crate::counted::Counted;

    fn ended(code: Option<i32>, results: &[u8], stderr: &str, refused: u64) -> Ended {
        let signal = code.is_none().then_some(11);
        let outcome = Outcome { code, signal, stdout: String::new(), stderr: stderr.to_owned() };
        Ended { outcome, results: results.to_vec(), counted: Some(Counted { refused, ..Counted::default() }) }
    }

    #[test]
    fn programs_go_on_or_end_with_an_error() {
        assert_eq!(reaction(&ended(Some(0), b"logits", "", 1)), Ok(Reaction::WentOn));
        assert_eq!(reaction(&ended(Some(1), b"", "no memory", 1)), Ok(Reaction::Ended));
    }

    #[test]
    fn aborts_are_told_apart_by_their_last_message() {
        let [one, same, other] = ["no memory\nASSERT(x)\n", "failed\nASSERT(x)\n", "ASSERT(y)\n"]
            .map(|stderr| reaction(&ended(None, b"", stderr, 1)));
        assert_eq!(one, Ok(Reaction::Aborted { signal: 11, message: "ASSERT(x)".to_owned() }));
        assert!(one == same && one != other, "{other:?}");
    }

    #[test]
    fn crashes_silence_and_refusals_without_effect_are_wrong() {
        assert!(reaction(&ended(None, b"", " ", 1)).is_err_and(|why| why.contains("signal Some(11)")));
        assert!(reaction(&ended(Some(1), b"", " \n", 1)).is_err_and(|why| why.contains("said nothing")));
        assert!(reaction(&ended(Some(0), b"", "", 1)).is_err_and(|why| why.contains("without results")));
        assert!(reaction(&ended(Some(0), b"logits", "", 0)).is_err_and(|why| why.contains("nothing was refused")));
        let without_report = Ended { counted: None, ..ended(Some(0), b"logits", "", 1) };
        assert!(reaction(&without_report).is_err());
    }
}
