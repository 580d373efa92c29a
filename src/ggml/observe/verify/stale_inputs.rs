//! Inputs that hold the result of a node when their graph is computed again.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::buffer_copy::BufferCopy;
use super::watched_graph::{LostInput, WatchedGraph};

/// The number of graphs whose latest runs are remembered.
const REMEMBERED: usize = 8;

/// The bytes of the lost inputs of a graph, around its latest run.
#[derive(Debug)]
struct Run {
    /// [`WatchedGraph::identity`].
    graph: u64,
    at_start: Vec<Vec<u8>>,
    /// Empty until the run has ended.
    at_end: Vec<Vec<u8>>,
    /// Whether stale inputs of the graph were reported.
    is_reported: bool,
}

/// The latest runs in this process, the latest last.
static RUNS: Mutex<Vec<Run>> = Mutex::new(Vec::new());

fn runs() -> MutexGuard<'static, Vec<Run>> {
    RUNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes that a run of `graph` starts. Returns a message for each input that the program has not set since the run before,
/// which has changed it; for each graph once.
pub fn start_run(graph: &WatchedGraph, copies: &[BufferCopy]) -> Vec<String> {
    if graph.lost.is_empty() {
        return Vec::new();
    }
    let (now, mut runs) = (bytes(graph, copies), runs());
    let known = runs.iter().position(|run| run.graph == graph.identity).map(|at| runs.remove(at));
    let mut is_reported = known.as_ref().is_some_and(|run| run.is_reported);
    let mut messages = Vec::new();
    if let Some(Run { at_start, at_end, .. }) = known.filter(|run| !run.is_reported && !run.at_end.is_empty()) {
        for (lost, ((now, start), end)) in graph.lost.iter().zip(now.iter().zip(&at_start).zip(&at_end)) {
            if now == end && now != start {
                messages.push(message(lost));
            }
        }
        is_reported = !messages.is_empty();
    }
    let forgotten = (runs.len() + 1).saturating_sub(REMEMBERED);
    runs.drain(..forgotten);
    runs.push(Run { graph: graph.identity, at_start: now, at_end: Vec::new(), is_reported });
    messages
}

/// Notes that a run of `graph` has ended.
pub fn end_run(graph: &WatchedGraph, copies: &[BufferCopy]) {
    if let Some(run) = runs().iter_mut().find(|run| run.graph == graph.identity) {
        run.at_end = bytes(graph, copies);
    }
}

/// Returns the bytes of the lost inputs, as far as they lie in copied buffers.
fn bytes(graph: &WatchedGraph, copies: &[BufferCopy]) -> Vec<Vec<u8>> {
    let of = |lost: &LostInput| copies.iter().find_map(|copy| copy.bytes(&lost.place)).unwrap_or_default();
    graph.lost.iter().map(of).collect()
}

fn message(LostInput { name, writer, .. }: &LostInput) -> String {
    let writer = writer.as_deref().unwrap_or("a node");
    format!(
        "lastuse: a graph is computed again, and its input {name} holds what {writer} has written there since its last use: \
         set it before each run, or let the rule keep-inputs keep it (LASTUSE_RULES=keep-inputs) where ggml-alloc would not \
         overwrite it\n"
    )
}
