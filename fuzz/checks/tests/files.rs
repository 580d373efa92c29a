//! Every reader with the committed corpus, and with inputs made from it, deterministically.
//!
//! `FUZZ_INPUTS` sets how many are made for each reader; see `docs/internals/fuzzing.md`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use lastuse_fuzz_checks::{Counting, Random, mutated};

#[global_allocator]
static MEMORY: Counting = Counting;

/// Default number of inputs for a reader, which take a few seconds.
const INPUTS: usize = 1000;

/// For one input. None takes a second on an idle machine.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Returns the committed inputs for a reader, with their names.
fn corpus(reader: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("corpus").join(reader);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("the folder can be read").path()).collect();
    paths.sort();
    assert!(paths.len() > 5, "{} has {} files", folder.display(), paths.len());
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        (name, fs::read(&path).expect("a file of the corpus can be read"))
    };
    paths.into_iter().map(read).collect()
}

fn count() -> usize {
    std::env::var("FUZZ_INPUTS").map_or(INPUTS, |count| count.parse().expect("FUZZ_INPUTS is a number"))
}

/// Runs `check` on the corpus and on inputs made from it. An input that fails is written to a file.
fn try_all(reader: &'static str, check: fn(&[u8])) {
    let corpus = corpus(reader);
    let (done, progress) = channel();
    let work = std::thread::spawn(move || {
        let mut random = Random::new(1);
        for (name, bytes) in &corpus {
            try_one(reader, name, bytes, check);
            let _ = done.send(());
        }
        for number in 0..count() {
            let (_, input) = &corpus[random.below(corpus.len())];
            let (_, other) = &corpus[random.below(corpus.len())];
            try_one(reader, &number.to_string(), &mutated(input, other, &mut random), check);
            let _ = done.send(());
        }
    });
    loop {
        match progress.recv_timeout(TIME_LIMIT) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => panic!("{reader}: an input takes longer than {TIME_LIMIT:?}"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    work.join().unwrap_or_else(|failure| std::panic::resume_unwind(failure));
}

fn try_one(reader: &str, name: &str, bytes: &[u8], check: fn(&[u8])) {
    /// Writes the input to a file when the check panics.
    struct Keep<'b>(String, &'b [u8]);

    impl Drop for Keep<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                let path = std::env::temp_dir().join(format!("lastuse-fuzz-{}", self.0));
                let written = fs::write(&path, self.1);
                eprintln!("the input is in {}: {written:?}", path.display());
            }
        }
    }
    let _keep = Keep(format!("{reader}-{name}"), bytes);
    check(bytes);
}

#[test]
fn graphs() {
    try_all("graph", lastuse_fuzz_checks::graph);
}

#[test]
fn plans() {
    try_all("plan", lastuse_fuzz_checks::plan);
}

#[test]
fn plans_of_other_graphs() {
    try_all("pair", lastuse_fuzz_checks::pair);
}

#[test]
fn problems() {
    try_all("csv", lastuse_fuzz_checks::csv);
}

#[test]
fn headers_of_models() {
    try_all("gguf", lastuse_fuzz_checks::gguf);
}

#[test]
fn lists_of_neurons() {
    try_all("gpuidx", lastuse_fuzz_checks::gpuidx);
}

#[test]
fn arrays() {
    try_all("npy", lastuse_fuzz_checks::npy);
}

#[test]
fn tensors() {
    try_all("torch", lastuse_fuzz_checks::torch);
}
