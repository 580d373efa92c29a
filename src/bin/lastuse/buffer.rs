//! Buffers named on the command line.

use lastuse::graph::snapshot::Snapshot;

/// Returns the index of the buffer with this name, or else with this number, counted from 0.
pub fn find_buffer(snapshot: &Snapshot, buffer: &str) -> Result<usize, String> {
    let by_number = || buffer.parse().ok().filter(|&number: &usize| number < snapshot.buffers.len());
    position(snapshot, buffer).or_else(by_number).ok_or_else(|| unknown(snapshot, buffer))
}

/// Fails if no buffer has this name.
pub fn expect_name(snapshot: &Snapshot, name: &str) -> Result<(), String> {
    position(snapshot, name).map(|_| ()).ok_or_else(|| unknown(snapshot, name))
}

/// Lists the buffers of a graph for a message: "0 (CPU), 1 (GPU)".
pub fn listed(snapshot: &Snapshot) -> String {
    let names = snapshot.buffers.iter().enumerate().map(|(number, buffer)| format!("{number} ({})", buffer.name));
    names.collect::<Vec<_>>().join(", ")
}

fn position(snapshot: &Snapshot, name: &str) -> Option<usize> {
    snapshot.buffers.iter().position(|buffer| buffer.name == name)
}

fn unknown(snapshot: &Snapshot, buffer: &str) -> String {
    format!("there is no buffer {buffer:?}; the graph has {}", listed(snapshot))
}
