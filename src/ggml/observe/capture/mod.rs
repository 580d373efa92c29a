//! Captures: every graph that is planned goes to a file, each distinct graph once.
//!
//! `destination` says where, `file` writes so that nobody ever sees half a file, `gzip` compresses with the zlib of the system.
//! A capture that cannot be written is said once, and disturbs nothing.

mod destination;
mod file;
mod gzip;

use std::collections::HashSet;
use std::ffi::CStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};

use crate::ggml::environment::path_in;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::log::{Level, say};
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::read::snapshot::Subject;
use crate::ggml::version::SIGNATURE;
use file::Written;

pub use destination::{Destination, NoDestination};

/// Says where graphs go: see [`Destination`].
const CAPTURE: &CStr = c"LASTUSE_CAPTURE";

/// The captures of a process.
#[derive(Debug)]
pub struct Captures {
    /// Was the environment read?
    environment: Once,
    /// Is there a destination? Asked at each plan.
    is_on: AtomicBool,
    state: Mutex<State>,
    written: AtomicU64,
    failed: AtomicU64,
    /// Was it said that a graph cannot be written?
    has_told_failure: AtomicBool,
    /// Was it said that files are not compressed?
    has_told_uncompressed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    destination: Option<Arc<Destination>>,
    /// The live graphs that were looked at since there is this destination.
    seen: HashSet<u64>,
    /// What is in the files that are there, or about to be.
    contents: HashSet<u64>,
}

/// Where the graphs of this process go.
pub fn captures() -> &'static Captures {
    static OF_PROCESS: OnceLock<Captures> = OnceLock::new();
    OF_PROCESS.get_or_init(Captures::new)
}

impl Captures {
    /// Graphs go nowhere.
    fn new() -> Self {
        let [is_on, has_told_failure, has_told_uncompressed] = [const { AtomicBool::new(false) }; 3];
        let [written, failed] = [const { AtomicU64::new(0) }; 2];
        let (environment, state) = (Once::new(), Mutex::default());
        Self { environment, is_on, state, written, failed, has_told_failure, has_told_uncompressed }
    }

    /// Takes the destination from the environment, the first time; `complain` is called with what is wrong with it.
    pub fn follow_environment(&self, complain: impl Fn(&str)) {
        self.environment.call_once(|| {
            let Some(said) = path_in(CAPTURE) else { return };
            match Destination::new(&said) {
                Ok(destination) => self.set(Some(destination)),
                Err(wrong) => {
                    complain(&format!("{SIGNATURE}{} has no effect: {wrong}\n", CAPTURE.to_string_lossy()));
                }
            }
        });
    }

    /// From now on graphs go to `destination`, or nowhere.
    pub fn set(&self, destination: Option<Destination>) {
        let mut state = self.state();
        self.is_on.store(destination.is_some(), Ordering::Relaxed);
        *state = State { destination: destination.map(Arc::new), ..State::default() };
        for has_told in [&self.has_told_failure, &self.has_told_uncompressed] {
            has_told.store(false, Ordering::Relaxed);
        }
    }

    /// How many graphs this process has written, and how many it could not write.
    pub fn counts(&self) -> [u64; 2] {
        [&self.written, &self.failed].map(|count| count.load(Ordering::Relaxed))
    }

    /// Do graphs go anywhere?
    pub fn are_wanted(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Writes the graph, unless it is there already.
    pub fn capture(&self, subject: Subject<'_, '_>) {
        let Some(destination) = self.destination_for(appearance(subject)) else { return };
        let text = subject.snapshot().text();
        let content = content_hash(text.as_bytes());
        if !self.state().contents.insert(content) {
            return;
        }
        match file::write(&destination, content, text.as_bytes()) {
            Ok(Written::Already) => {}
            Ok(Written::New) => _ = self.written.fetch_add(1, Ordering::Relaxed),
            Ok(Written::Uncompressed(why)) => {
                self.written.fetch_add(1, Ordering::Relaxed);
                let message = format!("graphs are written uncompressed: {why}");
                tell_once(&self.has_told_uncompressed, subject.runtime, Level::Warn, &message);
            }
            Err(error) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                let message = failure(&destination, &error);
                tell_once(&self.has_told_failure, subject.runtime, Level::Error, &message);
            }
        }
    }

    /// Where to write a graph of this appearance; `None` when it was seen already.
    fn destination_for(&self, appearance: Option<u64>) -> Option<Arc<Destination>> {
        let mut state = self.state();
        let is_new = appearance.is_none_or(|appearance| state.seen.insert(appearance));
        state.destination.as_ref().filter(|_| is_new).map(Arc::clone)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Once: the reason is mostly the same for all.
fn tell_once(has_told: &AtomicBool, runtime: &Runtime, level: Level, what: &str) {
    if !has_told.swap(true, Ordering::Relaxed) {
        say(&runtime.functions, level, &format!("{SIGNATURE}{what}; this is said once\n"));
    }
}

fn failure(destination: &Destination, error: &io::Error) -> String {
    format!("a graph cannot be written to {}: {error}", destination.folder().display())
}

/// What is the same for a live graph that would be written just as it was before: so that a program that plans the same
/// graph again and again does not pay for its text each time. `None` where that takes as long as the text.
fn appearance(subject: Subject<'_, '_>) -> Option<u64> {
    let reading = subject.reading;
    // Fingerprints tell nothing of tensors that are in no list.
    if reading.listed != reading.tensors.len() {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    let (leafs, nodes) = reading.tensors.split_at(reading.graph.leafs().len().min(reading.tensors.len()));
    Fingerprint::of(&subject.runtime.operations, GraphRef { leafs, nodes }).hash(&mut hasher);
    reading.tensors.iter().for_each(|tensor| tensor.with_name(|name| name.hash(&mut hasher)));
    subject.requested.hash(&mut hasher);
    for (buffer_type, buffer) in subject.types.iter().zip(subject.buffers) {
        (buffer_type.as_ptr() as usize, buffer.rules, buffer.effort).hash(&mut hasher);
    }
    Some(hasher.finish())
}

/// The same in all processes and builds.
fn content_hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    words.chain([bytes.len() as u64]).fold(0x243F_6A88_85A3_08D3, |hash, word| {
        let product = u128::from(hash ^ word) * u128::from(0x9E37_79B9_7F4A_7C15_u64);
        low(product) ^ low(product >> 64)
    })
}

#[allow(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
fn low(wide: u128) -> u64 {
    wide as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_that_differ_have_other_names() {
        let texts = ["", "\0", "a", "b", "a\0", "12345678", "123456789", "12345678\0", "87654321"];
        let hashes: HashSet<u64> = texts.iter().map(|text| content_hash(text.as_bytes())).collect();
        assert_eq!(hashes.len(), texts.len());
    }

    #[test]
    fn every_byte_counts() {
        let text: Vec<u8> = (0..1000u32).map(|at| u8::try_from(at % 251).expect("a byte")).collect();
        let mut hashes = HashSet::from([content_hash(&text)]);
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut changed = text.clone();
                changed[at] ^= 1 << bit;
                assert!(hashes.insert(content_hash(&changed)), "bit {bit} of byte {at}");
            }
        }
    }
}
