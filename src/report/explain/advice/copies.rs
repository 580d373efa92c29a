//! Removes copies.

use crate::graph::Effect;
use crate::graph::copies::{CopyFacts, CopyTarget, Found, Freedom, Known, Storage, find};
use crate::graph::{CopyKind, Flags, GraphEdit, Layout, Op, Rules, Strides, Tensor, TensorId, View};
use crate::placement::{Bytes, Step};

use super::super::case::Case;
use super::super::change::Change;
use super::again::is_written;
use super::tried::{Candidate, Tried, try_change};

/// A node with more sources has no free slot for the destination of its result.
const SOURCES: usize = 8;

/// Tries to replace a copy in its own memory by its source.
pub fn try_no_copy(case: &Case<'_>, candidate: Candidate) -> Option<Tried> {
    let Candidate { tensor, .. } = candidate;
    let graph = &case.planned.snapshot.graph;
    let copies = graph.tensor(tensor).op.copies();
    let &source = graph.sources(tensor).first().filter(|_| matches!(copies, Some(CopyKind::Into | CopyKind::Whole)))?;
    let [own, other] = [tensor, source].map(|id| graph.layout(id));
    let alike = own.element == other.element && own.ne == other.ne && source != tensor;
    if !alike || !can_be_read(case, tensor, other) || !is_unchanged(case, tensor, source) {
        return None;
    }
    let edit = as_view(case, tensor, source)?;
    let change = Change::NoCopy { tensor: case.named(tensor), bytes: candidate.bytes, source: case.named(source) };
    try_change(case, change, Some(tensor), edit)
}

/// Returns whether all nodes that read a copy can read `layout` instead.
fn can_be_read(case: &Case<'_>, copy: TensorId, layout: &Layout) -> bool {
    let graph = &case.planned.snapshot.graph;
    let own = graph.layout(copy);
    let is_free = case.uses.views[copy as usize].is_empty() && case.uses.kept[copy as usize].is_none();
    let reads = |&step: &Step| {
        let node = graph.nodes()[step as usize];
        let op = graph.tensor(node).op;
        let mut slots = graph.sources(node).iter().enumerate().filter(|&(_, &source)| source == copy);
        case.uses.effects[node as usize] == Effect::Result && slots.all(|(slot, _)| op.reads(slot).allows(own, layout))
    };
    is_free && case.uses.accesses[copy as usize].iter().all(reads)
}

/// Returns whether the source of a copy keeps its bytes until the last use of the copy.
fn is_unchanged(case: &Case<'_>, copy: TensorId, source: TensorId) -> bool {
    let graph = &case.planned.snapshot.graph;
    let root = graph.root(source);
    let steps = case.uses.step[copy as usize].zip(case.uses.last_use(copy));
    let is_input = graph.tensor(copy).flags.has(Flags::INPUT);
    steps.is_some_and(|(def, last)| !is_input && def <= last && !is_written(case, &[root], def, last + 1))
}

fn as_view(case: &Case<'_>, copy: TensorId, source: TensorId) -> Option<GraphEdit> {
    let graph = &case.planned.snapshot.graph;
    let offset = graph.tensor(source).view.map_or(0, |view| view.offset);
    let mut edit = case.new_edit()?;
    let tensor = edit.tensor_mut(copy);
    tensor.view = Some(View { root: graph.root(source), offset });
    tensor.set_op(Op::Unknown);
    edit.set_layout(copy, *graph.layout(source));
    edit.set_sources(copy, &[source]);
    Some(edit)
}

/// Tries to remove all copies whose source can be computed where the copy goes. A file does not record which device
/// external memory belongs to: it is assumed to be the CPU if the rules are those of the CPU.
pub fn try_remove_copies(case: &Case<'_>) -> Vec<Tried> {
    if case.planned.snapshot.graph.tensors().iter().all(|tensor| tensor.op.copies().is_none()) {
        return Vec::new();
    }
    [Freedom::LiveRanges, Freedom::Owners, Freedom::Nothing]
        .into_iter()
        .filter_map(|freedom| {
            // The search takes about as much work as a trial.
            let found = case.may_try(1).then(|| removable(case, freedom))?;
            let copies = Some(found.removed.len()).filter(|&count| count > 0)?;
            let edit = found.edit.filter(|_| case.may_try(1))?;
            try_change(case, Change::RemoveCopies { copies }, None, edit)
        })
        .min_by_key(|tried| tried.trial.bounds.iter().sum::<Bytes>())
        .into_iter()
        .collect()
}

fn removable(case: &Case<'_>, freedom: Freedom) -> Found {
    let graph = &case.planned.snapshot.graph;
    let on_cpu = case.planned.allowed.iter().all(|&rules| rules == Rules::ALL);
    let is_norm = |&source: &TensorId| graph.tensor(source).op == Op::RmsNorm;
    let known = |(id, tensor): (TensorId, &Tensor)| {
        let fused = u8::from(tensor.op == Op::Mul && graph.sources(id).iter().any(is_norm));
        let writes = tensor.op.writes();
        Known {
            writes: if fused > 0 { writes.min(Strides::Rows) } else { writes },
            memory: match graph.tensor(graph.root(id)).external {
                // Far enough apart that none overlaps another.
                true => Storage::Buffer { start: (Bytes::from(id) + 1) << 38, cpu: on_cpu },
                false => Storage::Planned,
            },
            has_slot: graph.sources(id).len() <= SOURCES,
            fused,
        }
    };
    let tensors: Vec<Known> = (0..).zip(graph.tensors()).map(known).collect();
    let facts = CopyFacts {
        tensors: &tensors,
        same_memory: case.planned.same_memory,
        target: match case.planned.buffers.len() {
            1 if on_cpu => CopyTarget::Cpu,
            1 => CopyTarget::Other,
            _ => CopyTarget::Unknown,
        },
        alignment: case.planned.buffers.iter().map(|buffer| buffer.alignment).max().unwrap_or(1),
        runs_at: &|_, _| true,
    };
    find(graph, facts, freedom)
}
