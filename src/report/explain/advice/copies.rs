//! Copies that need not be made.

use crate::graph::copies::{Facts, Found, Freedom, Kind, Memory, Target, find};
use crate::graph::order::Effect;
use crate::graph::{Flags, Layout, Operation, Rules, Strides, TensorId, View};
use crate::placement::{Bytes, Step};

use super::super::Change;
use super::super::case::Case;
use super::super::draft::Draft;
use super::again::is_written;
use super::{Suspect, Tried, try_change};

/// So many sources ggml's operations have room for when none of them says where the result is wanted.
const SOURCES: usize = 8;

/// Of a copy in memory of its own: whoever reads it reads what is copied.
pub fn try_no_copy(case: &Case<'_>, suspect: Suspect) -> Option<Tried> {
    let Suspect { tensor, .. } = suspect;
    let graph = &case.subject.snapshot.graph;
    let op = case.subject.snapshot.tensors[tensor as usize].op.as_str();
    let &source = graph.sources(tensor).first().filter(|_| matches!(op, "CONT" | "CPY" | "DUP"))?;
    let [own, other] = [tensor, source].map(|id| graph.layout(id));
    let alike = own.element == other.element && own.ne == other.ne && source != tensor;
    if !alike || !can_be_read(case, tensor, other) || !stays(case, tensor, source) {
        return None;
    }
    let draft = as_view(case, tensor, source)?;
    let change = Change::NoCopy { tensor: case.named(tensor), bytes: suspect.bytes, source: case.named(source) };
    try_change(case, change, Some(tensor), &draft)
}

/// Can all readers of a copy read it with other strides?
fn can_be_read(case: &Case<'_>, copy: TensorId, layout: &Layout) -> bool {
    let graph = &case.subject.snapshot.graph;
    let own = graph.layout(copy);
    let is_free = case.uses.views[copy as usize].is_empty() && case.uses.kept[copy as usize].is_none();
    let reads = |&step: &Step| {
        let node = graph.nodes()[step as usize];
        let op = case.subject.snapshot.tensors[node as usize].op.as_str();
        let mut slots = graph.sources(node).iter().enumerate().filter(|&(_, &source)| source == copy);
        case.uses.effects[node as usize] == Effect::Result
            && slots.all(|(slot, _)| Strides::read_by(op, slot).allows(own, layout))
    };
    is_free && case.uses.touched[copy as usize].iter().all(reads)
}

/// Has what is copied the same bytes until the last reader of the copy?
fn stays(case: &Case<'_>, copy: TensorId, source: TensorId) -> bool {
    let graph = &case.subject.snapshot.graph;
    let root = graph.root(source);
    let steps = case.uses.step[copy as usize].zip(case.uses.last(copy));
    let is_input = graph.tensor(copy).flags.has(Flags::INPUT);
    steps.is_some_and(|(made, last)| !is_input && made <= last && !is_written(case, &[root], made, last + 1))
}

fn as_view(case: &Case<'_>, copy: TensorId, source: TensorId) -> Option<Draft> {
    let graph = &case.subject.snapshot.graph;
    let offset = graph.tensor(source).view.map_or(0, |view| view.offset);
    let mut draft = case.new_draft()?;
    let drafted = draft.tensor_mut(copy);
    drafted.tensor.view = Some(View { root: graph.root(source), offset });
    drafted.tensor.operation = Operation::Other;
    drafted.layout = *graph.layout(source);
    drafted.sources = vec![source];
    Some(draft)
}

/// All copies that can go where who computes what is copied writes where the copy would go. What a file does not say is
/// taken to be as it mostly is: memory from elsewhere belongs to the CPU where the rules are those of the CPU.
pub fn try_remove_copies(case: &Case<'_>) -> Vec<Tried> {
    let tensors = &case.subject.snapshot.tensors;
    if tensors.iter().all(|tensor| Kind::of(&tensor.op) == Kind::Other) {
        return Vec::new();
    }
    [Freedom::Births, Freedom::Owners, Freedom::Nothing]
        .into_iter()
        .filter_map(|freedom| {
            // To look for them is about as much work as a trial.
            let found = case.may_try(1).then(|| removable(case, freedom))?;
            let copies = Some(found.removed.len()).filter(|&count| count > 0)?;
            try_change(case, Change::RemoveCopies { copies }, None, &without(case, &found)?)
        })
        .min_by_key(|tried| tried.trial.bounds.iter().sum::<Bytes>())
        .into_iter()
        .collect()
}

fn removable(case: &Case<'_>, freedom: Freedom) -> Found {
    let (graph, tensors) = (&case.subject.snapshot.graph, &case.subject.snapshot.tensors);
    let on_cpu = case.subject.allowed.iter().all(|&rules| rules == Rules::ALL);
    let ids = (0..).take(tensors.len());
    let memory = ids.clone().map(|id: TensorId| match graph.tensor(graph.root(id)).external {
        // As far from each other as can be, so that none overlaps with another.
        true => Memory::Buffer { start: (Bytes::from(id) + 1) << 38, cpu: on_cpu },
        false => Memory::Planned,
    });
    let is_norm = |&source: &TensorId| tensors[source as usize].op == "RMS_NORM";
    let fused: Vec<u8> = ids
        .clone()
        .map(|id| u8::from(tensors[id as usize].op == "MUL" && graph.sources(id).iter().any(is_norm)))
        .collect();
    let writes = tensors.iter().zip(&fused).map(|(tensor, &fused)| {
        let writes = Strides::written_by(&tensor.op);
        if fused > 0 { writes.min(Strides::Rows) } else { writes }
    });
    let facts = Facts {
        effects: &case.uses.effects,
        kinds: &tensors.iter().map(|tensor| Kind::of(&tensor.op)).collect::<Vec<_>>(),
        writes: &writes.collect::<Vec<_>>(),
        memory: &memory.collect::<Vec<_>>(),
        same_memory: case.subject.same_memory,
        has_slot: &ids.map(|id| graph.sources(id).len() <= SOURCES).collect::<Vec<_>>(),
        fused: &fused,
        target: match case.subject.buffers.len() {
            1 if on_cpu => Target::Cpu,
            1 => Target::Other,
            _ => Target::Unknown,
        },
        alignment: case.subject.buffers.iter().map(|buffer| buffer.alignment).max().unwrap_or(1),
        runs_at: &|_, _| true,
    };
    find(graph, facts, freedom)
}

fn without(case: &Case<'_>, found: &Found) -> Option<Draft> {
    let changed = found.applied_to(&case.subject.snapshot.graph);
    let mut draft = case.new_draft()?;
    for (id, drafted) in (0..).zip(&mut draft.tensors) {
        drafted.tensor = changed.tensor(id).clone();
        drafted.layout = *changed.layout(id);
        drafted.sources = changed.sources(id).to_vec();
    }
    Some(draft)
}
