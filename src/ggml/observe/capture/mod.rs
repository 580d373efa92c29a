//! Captures: every graph that is planned is written to a file, each distinct graph once.
//!
//! `destination` names the files, `gzip` compresses with the zlib of the system, `file` writes the files. The first
//! capture that cannot be written is logged; planning goes on.

mod destination;
mod gzip;
mod file;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::log::log_message;
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::read::snapshot::SnapshotSource;
use crate::ggml::version::SIGNATURE;
use crate::settings::Level;
use file::Written;

pub use destination::Destination;

/// The captures of a process.
#[derive(Debug)]
pub struct Captures {
    /// Whether there is a destination, which is checked at each plan.
    is_enabled: AtomicBool,
    state: Mutex<CaptureState>,
    written: AtomicU64,
    failed: AtomicU64,
    /// Whether it was logged that a graph cannot be written.
    has_logged_failure: AtomicBool,
    /// Whether it was logged that files are not compressed.
    has_logged_uncompressed: AtomicBool,
}

#[derive(Debug, Default)]
struct CaptureState {
    destination: Option<Arc<Destination>>,
    /// Hashes of the live graphs that were captured since this destination was set.
    live_graphs: HashSet<u64>,
    /// Hashes of the files that exist, or are being written.
    contents: HashSet<u64>,
}

/// Returns the captures of this process.
pub fn captures() -> &'static Captures {
    static OF_PROCESS: OnceLock<Captures> = OnceLock::new();
    OF_PROCESS.get_or_init(Captures::new)
}

impl Captures {
    /// Creates disabled captures.
    fn new() -> Self {
        let [is_enabled, has_logged_failure, has_logged_uncompressed] = [const { AtomicBool::new(false) }; 3];
        let [written, failed] = [const { AtomicU64::new(0) }; 2];
        let state = Mutex::default();
        Self { is_enabled, state, written, failed, has_logged_failure, has_logged_uncompressed }
    }

    /// Writes later graphs to `destination`, or to no file.
    pub fn set(&self, destination: Option<Destination>) {
        let mut state = self.state();
        self.is_enabled.store(destination.is_some(), Ordering::Relaxed);
        *state = CaptureState { destination: destination.map(Arc::new), ..CaptureState::default() };
        for has_logged in [&self.has_logged_failure, &self.has_logged_uncompressed] {
            has_logged.store(false, Ordering::Relaxed);
        }
    }

    /// Returns how many graphs this process has written, and how many it failed to write.
    pub fn counts(&self) -> [u64; 2] {
        [&self.written, &self.failed].map(|count| count.load(Ordering::Relaxed))
    }

    /// Returns `true` if graphs are captured.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Relaxed)
    }

    /// Writes the graph, unless that was done before.
    pub fn capture(&self, subject: SnapshotSource<'_, '_>) {
        let Some(destination) = self.destination_for(live_hash(subject)) else { return };
        let text = subject.snapshot().text();
        let content = content_hash(text.as_bytes());
        if !self.state().contents.insert(content) {
            return;
        }
        match file::write(&destination, content, text.as_bytes()) {
            Ok(Written::Exists) => {}
            Ok(Written::New) => _ = self.written.fetch_add(1, Ordering::Relaxed),
            Ok(Written::Uncompressed(reason)) => {
                self.written.fetch_add(1, Ordering::Relaxed);
                let message = format!("graphs are written uncompressed: {reason}");
                log_once(&self.has_logged_uncompressed, subject.runtime, Level::Warn, &message);
            }
            Err(error) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                let message = failure(&destination, &error);
                log_once(&self.has_logged_failure, subject.runtime, Level::Error, &message);
            }
        }
    }

    /// Returns where to write a live graph with this hash; `None` if captures are disabled or it was captured before.
    fn destination_for(&self, hash: Option<u64>) -> Option<Arc<Destination>> {
        let mut state = self.state();
        let is_new = hash.is_none_or(|hash| state.live_graphs.insert(hash));
        state.destination.as_ref().filter(|_| is_new).map(Arc::clone)
    }

    fn state(&self) -> MutexGuard<'_, CaptureState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs only the first message: the reason is usually the same for all.
fn log_once(has_logged: &AtomicBool, runtime: &Runtime, level: Level, message: &str) {
    if !has_logged.swap(true, Ordering::Relaxed) {
        log_message(&runtime.functions, level, &format!("{SIGNATURE}{message}; this is logged once\n"));
    }
}

fn failure(destination: &Destination, error: &io::Error) -> String {
    format!("a graph cannot be written to {}: {error}", destination.folder().display())
}

/// Returns a hash of everything in a live graph that its file contains, so that the text of a graph that is planned
/// again and again is made once. `None` if a tensor is unlisted: fingerprints do not cover those.
fn live_hash(subject: SnapshotSource<'_, '_>) -> Option<u64> {
    let reading = subject.reading;
    if reading.listed != reading.tensors.len() {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    let (leafs, nodes) = reading.tensors.split_at(reading.graph.leafs().len().min(reading.tensors.len()));
    Fingerprint::of(&subject.runtime.operations, GraphRef { leafs, nodes }).hash(&mut hasher);
    reading.tensors.iter().for_each(|tensor| tensor.with_name(|name| name.hash(&mut hasher)));
    subject.requested.hash(&mut hasher);
    reading.graph.retention().list().hash(&mut hasher);
    for (buffer_type, buffer) in subject.types.iter().zip(subject.buffers) {
        (buffer_type.as_ptr() as usize, buffer.rules, buffer.effort).hash(&mut hasher);
    }
    Some(hasher.finish())
}

/// Returns a hash that is the same in all processes and builds.
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

#[allow(clippy::cast_possible_truncation, reason = "only the low half is used")]
fn low(wide: u128) -> u64 {
    wide as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_contents_have_different_hashes() {
        let texts = ["", "\0", "a", "b", "a\0", "12345678", "123456789", "12345678\0", "87654321"];
        let hashes: HashSet<u64> = texts.iter().map(|text| content_hash(text.as_bytes())).collect();
        assert_eq!(hashes.len(), texts.len());
    }

    #[test]
    fn every_bit_changes_the_hash() {
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
