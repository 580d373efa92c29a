//! The entries of a plan, by the tensors of a graph.

use crate::graph::TensorId;
use crate::graph::snapshot::Snapshot;

use super::{PlanFile, PlannedTensor};

/// The entries of a plan, matched with the tensors of a graph by id.
pub struct Entries<'p> {
    /// By tensor: its first entry.
    pub by_tensor: Vec<Option<&'p PlannedTensor>>,
    /// The ids of entries without a tensor in the graph.
    pub unknown: Vec<u64>,
    /// The tensors with several entries.
    pub twice: Vec<TensorId>,
}

impl<'p> Entries<'p> {
    /// Matches the entries of `plan` with the tensors of `snapshot`.
    pub fn new(snapshot: &Snapshot, plan: &'p PlanFile) -> Self {
        let ids = snapshot.tensor_ids();
        let mut found = Self { by_tensor: vec![None; snapshot.tensors.len()], unknown: Vec::new(), twice: Vec::new() };
        for entry in &plan.tensors {
            match ids.get(&entry.id) {
                None => found.unknown.push(entry.id),
                Some(&id) if found.by_tensor[id as usize].is_some() => found.twice.push(id),
                Some(&id) => found.by_tensor[id as usize] = Some(entry),
            }
        }
        found
    }
}
