//! The tensors that the nodes of a graph read and write.

use crate::graph::snapshot::Snapshot;
use crate::graph::{Op, TensorId};
use crate::placement::Bytes;

/// The accesses of a graph's nodes to its tensors, by tensor; those to a view are counted for its root.
#[derive(Clone, Debug)]
pub struct Reads {
    /// Bytes that a run reads of it.
    pub bytes: Vec<f64>,
    /// Whether a node writes to it.
    pub is_written: Vec<bool>,
    /// Selected rows are read, and nothing else.
    pub only_rows: Vec<bool>,
}

impl Reads {
    /// Counts them.
    pub fn of(snapshot: &Snapshot) -> Self {
        let graph = &snapshot.graph;
        let count = snapshot.tensors.len();
        let mut reads = Self { bytes: vec![0.0; count], is_written: vec![false; count], only_rows: vec![true; count] };
        for &node in graph.nodes() {
            if snapshot.graph.tensor(node).op.is_view() {
                continue;
            }
            reads.is_written[graph.root(node) as usize] = true;
            for (slot, &source) in graph.sources(node).iter().enumerate() {
                let read = bytes_read(snapshot, node, slot, source);
                #[expect(clippy::cast_precision_loss, reason = "for comparing")]
                let read = read as f64;
                let root = graph.root(source) as usize;
                reads.bytes[root] += read;
                reads.only_rows[root] &= slot == 0 && graph.tensor(node).op == Op::GetRows;
            }
        }
        reads
    }
}

/// Returns the bytes that a node reads of a source: for rows and experts, only the selected ones.
fn bytes_read(snapshot: &Snapshot, node: TensorId, slot: usize, source: TensorId) -> Bytes {
    let info = &snapshot.tensors[source as usize];
    let sources = snapshot.graph.sources(node);
    let elements = |id: TensorId| {
        let extents = snapshot.graph.layout(id).ne.map(i64::unsigned_abs);
        extents.into_iter().fold(1, u64::saturating_mul)
    };
    let layout = snapshot.graph.layout(source);
    match (snapshot.graph.tensor(node).op, slot) {
        (Op::GetRows, 0) => {
            let rows = sources.get(1).map_or(0, |&ids| elements(ids));
            info.nbytes.min(rows.saturating_mul(layout.nb[1]))
        }
        (Op::MulMatId, 0) => {
            let used = sources.get(2).map_or(0, |&ids| elements(ids));
            info.nbytes.min(used.saturating_mul(layout.nb[2]))
        }
        // Writes are counted for the node itself.
        (Op::SetRows | Op::Cpy | Op::Set, _) if snapshot.graph.root(source) == snapshot.graph.root(node) => 0,
        _ => info.nbytes,
    }
}
