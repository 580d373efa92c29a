//! Programs whose compute buffers are refused: each request for one in turn, with all later ones of its size or more.

use std::path::Path;

use lastuse_c_tests::Result;

use crate::job::Job;
use crate::jobs::Options;
use crate::run::{Ended, run_to_its_end};

/// Makes requests fail from this number on: see `hosts/buffer_counter.c`.
const FAILS: &str = "BUFFER_COUNTER_FAILS";

/// How the counter's line begins that names the function of a wrong access and its library.
const ACCESS: &str = "buffer_counter: signal ";

/// The library in that line.
const LASTUSE: &str = "liblastuse";

/// How a program took it that a buffer was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reaction {
    /// It has results all the same. Those of a smaller batch may be fewer: encoders do not divide their input.
    WentOn,
    /// It reported an error and ended.
    Ended,
    /// It ended itself by a signal, with a message: its own assertion.
    Aborted { signal: i32, message: String },
}

/// Runs the jobs of a host on lastuse, once for each buffer that their allocators ask for, and refuses that one and all
/// later ones that are not smaller. Files go to `folder`.
///
/// # Errors
/// When a job fails without a refusal, or a program is killed by one or ends without a word, other than on ggml-alloc.
pub fn run_faults(host: &str, folder: &Path, jobs: &[Job], options: &Options) -> Result<()> {
    let mut wrong = 0;
    let mut all = 0;
    for job in options.wanted(host, jobs)? {
        let Unrefused { requests, results } = unrefused(job, folder)?;
        let (mut went_on, mut aborted) = (0, 0);
        for number in 1..=requests {
            let number = number.to_string();
            let refused = |launch| reaction(&run_to_its_end(job, launch, folder, &[(FAILS, &number)])?, results);
            match refused(&job.with) {
                Ok(Reaction::WentOn) => went_on += 1,
                Ok(Reaction::Ended) => {}
                // The program's error on its own allocator is the normal one.
                Ok(abort) if is_normal(&abort, &refused(&job.without)) => aborted += 1,
                Ok(Reaction::Aborted { signal, message }) => {
                    wrong += 1;
                    eprintln!(
                        "[{host}]   FAILED: {}, buffer {number} refused: signal {signal}, not on ggml-alloc: {message}",
                        job.label()
                    );
                }
                Err(why) => {
                    wrong += 1;
                    eprintln!("[{host}]   FAILED: {}, buffer {number} refused: {why}", job.label());
                }
            }
        }
        all += requests;
        let as_before =
            if aborted > 0 { format!(", aborted {aborted} times, as on ggml-alloc") } else { String::new() };
        println!("{}: {requests} buffers, each refused: went on {went_on} times{as_before}", job.label());
    }
    match wrong {
        0 => {
            println!("{all} refusals: each time the program went on, or ended with its error, as on ggml-alloc");
            Ok(())
        }
        count => Err(format!("{count} of {all} refusals were not borne, see above")),
    }
}

/// Returns `true` if a program ends by the same signal where ggml-alloc is refused a buffer, and with the same last message. The
/// messages may differ if both name the function of a wrong access, and it is not in lastuse: ggml-alloc's own functions may crash
/// after a refusal, where those of lastuse tell the program of it.
fn is_normal(with: &Reaction, without: &Result<Reaction>) -> bool {
    let (Reaction::Aborted { signal, message }, Ok(Reaction::Aborted { signal: signal_before, message: before })) =
        (with, without)
    else {
        return false;
    };
    let are_accesses = message.starts_with(ACCESS) && before.starts_with(ACCESS);
    signal == signal_before && (message == before || (are_accesses && !message.contains(LASTUSE)))
}

/// A job to which nothing is refused.
struct Unrefused {
    /// How many buffers its allocators ask for.
    requests: u64,
    /// The bytes of its results.
    results: usize,
}

fn unrefused(job: &Job, folder: &Path) -> Result<Unrefused> {
    let Ended { outcome, counted, results } = run_to_its_end(job, &job.with, folder, &[])?;
    let counted = counted.filter(|counted| outcome.code == Some(0) && counted.plans > Some(0));
    match counted {
        Some(counted) if counted.requested > 0 && !results.is_empty() => {
            Ok(Unrefused { requests: counted.requested, results: results.len() })
        }
        _ => Err(format!("{} without a refusal: {}", job.label(), outcome.describe())),
    }
}

/// Returns how a program ended that has `expected` bytes of results where nothing is refused.
fn reaction(ended: &Ended, expected: usize) -> Result<Reaction> {
    let Ended { outcome, results, counted } = ended;
    if let Some(signal) = outcome.signal {
        // Programs that are killed say nothing.
        let message = outcome.stderr.lines().rfind(|line| !line.trim().is_empty());
        let message = message.ok_or_else(|| outcome.describe())?.to_owned();
        return Ok(Reaction::Aborted { signal, message });
    }
    if counted.as_ref().is_none_or(|counted| counted.refused == 0) {
        return Err(format!("nothing was refused: {}", outcome.describe()));
    }
    match (outcome.code, (1..=expected).contains(&results.len()), outcome.stderr.trim().is_empty()) {
        (Some(0), true, _) => Ok(Reaction::WentOn),
        (Some(0), false, _) => Err(format!("it exited normally with {} of {expected} bytes", results.len())),
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

    /// The length of "logits".
    const EXPECTED: usize = 6;

    #[test]
    fn programs_go_on_or_end_with_an_error() {
        assert_eq!(reaction(&ended(Some(0), b"logits", "", 1), EXPECTED), Ok(Reaction::WentOn));
        assert_eq!(reaction(&ended(Some(1), b"", "no memory", 3), EXPECTED), Ok(Reaction::Ended));
    }

    #[test]
    fn aborts_are_normal_where_ggml_alloc_has_them_and_not_in_lastuse() {
        let aborted = |stderr| reaction(&ended(None, b"", stderr, 1), EXPECTED);
        let [host, other] =
            ["no memory\nbuffer_counter: signal 11 in f of libhost.so\n", "buffer_counter: signal 11 in g of x\n"]
                .map(|stderr| aborted(stderr).expect("it says something"));
        let message = "buffer_counter: signal 11 in f of libhost.so".to_owned();
        assert_eq!(host, Reaction::Aborted { signal: 11, message });
        assert!(is_normal(&host, &Ok(other)));
        let before = aborted("buffer_counter: signal 11 in g of x\n");
        let ours = aborted("buffer_counter: signal 11 in f of /x/liblastuse.so\n").expect("it says something");
        assert!(!is_normal(&ours, &before));
        let [assertion, panic] = ["ASSERT(x)\n", "panicked\n"].map(aborted);
        assert!(is_normal(&assertion.clone().expect("it says something"), &assertion));
        assert!(!is_normal(&panic.expect("it says something"), &assertion));
        assert!(!is_normal(&host, &assertion) && !is_normal(&host, &Ok(Reaction::Ended)));
        assert!(!is_normal(
            &host,
            &Ok(Reaction::Aborted { signal: 6, message: "buffer_counter: signal 6".to_owned() })
        ));
    }

    #[test]
    fn crashes_silence_and_refusals_without_effect_are_wrong() {
        let why = |ended: &Ended| reaction(ended, EXPECTED).expect_err("it is wrong");
        assert!(why(&ended(None, b"", " ", 1)).contains("signal Some(11)"));
        assert!(why(&ended(Some(1), b"", " \n", 1)).contains("said nothing"));
        assert!(why(&ended(Some(0), b"", "", 1)).contains("with 0 of 6 bytes"));
        assert!(why(&ended(Some(0), b"logits and more", "", 1)).contains("with 15 of 6 bytes"));
        assert!(why(&ended(Some(0), b"logits", "", 0)).contains("nothing was refused"));
        let without_report = Ended { counted: None, ..ended(Some(0), b"logits", "", 1) };
        assert!(why(&without_report).contains("nothing was refused"));
    }
}
