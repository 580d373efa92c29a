//! The peak explained: why a graph needs the memory that it needs, and what would lower that.
//!
//! ```text
//!  graph + plan -> peak   (the worst step of each buffer, and who is alive there)
//!               -> reuse  (whose memory was taken over, and what that saves)
//!               -> advice (changes that were tried, and what each brings)
//!               -> text for people, JSON for programs
//! ```

mod advice;
mod case;
mod change;
mod draft;
#[cfg(feature = "cli")]
mod json;
mod members;
mod peak;
mod reuse;
mod sizes;
#[cfg(test)]
mod tests;
mod text;
mod trial;
mod uses;
mod work;

use std::cmp::Reverse;
use std::fmt;

use crate::graph::snapshot::Snapshot;
use crate::graph::{BufferSpec, GraphPlan, Rules, TensorId};
use crate::placement::{Bytes, Step};

use case::Case;

#[cfg(feature = "cli")]
pub use json::explanation_json;
pub use sizes::human;
pub use text::{DEFAULT_TOP, explanation_text};

/// What is to be explained.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The graph, with the names of its tensors and buffers.
    pub snapshot: &'a Snapshot,
    /// How each buffer is planned.
    pub buffers: &'a [BufferSpec],
    /// By buffer: the rules of sharing that are right there, whether they are switched on or not.
    pub allowed: &'a [Rules],
    /// By tensor: the first of those whose memory, which they came with, overlaps with its own; itself where there is none.
    pub same_memory: &'a [TensorId],
    /// Its plan.
    pub plan: &'a GraphPlan,
    /// How much work trying changes may take: so many tensors and buffers of changed graphs are planned.
    pub trials: u64,
}

/// Enough for every change in graphs of some thousand tensors, and for a few in graphs of a hundred thousand: some tenths of a
/// second.
pub const DEFAULT_TRIALS: u64 = 500_000;

/// Why a graph needs the memory that it needs.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Explanation {
    /// What the graph is called.
    pub label: String,
    /// How many nodes it has; step `i` is the run of the `i`-th, counted from 0.
    pub nodes: usize,
    /// Was every change tried? Otherwise [`Subject::trials`] was too low for that.
    pub all_tried: bool,
    /// By buffer.
    pub buffers: Vec<BufferExplanation>,
}

/// Why a buffer is as large as it is.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct BufferExplanation {
    /// Its index.
    pub id: usize,
    /// The name of its type.
    pub name: String,
    /// Bytes of the plan.
    pub size: Bytes,
    /// In how many pieces.
    pub chunks: usize,
    /// Bytes alive at the worst step. No plan with these live ranges is smaller.
    pub lower_bound: Bytes,
    /// What lies between the two: bytes that are lost to the places of tensors, not to their sizes and live ranges.
    pub fragmentation: Bytes,
    /// Is the plan proven to be the smallest with these live ranges?
    pub optimal: bool,
    /// What ggml's own allocator takes; nothing when the tensors add up to more than can be addressed.
    pub ggml_alloc: Option<Bytes>,
    /// The worst step; nothing when the buffer holds nothing.
    pub peak: Option<Peak>,
    /// Memory that was not taken, since other memory did.
    pub reuse: Reuse,
    /// Single changes that lower the bound, the best first.
    pub advice: Vec<Advice>,
    /// Where no single change lowers the bound: the one that lowers the worst step most, and the step that is in the way.
    pub limit: Option<Limit>,
}

/// A tensor as people know it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Named {
    /// Its name, which may be empty.
    pub name: String,
    /// Its operation: which of the unary ones it is, say. NONE computes nothing.
    pub op: String,
}

/// A step and the node that runs then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Node {
    /// Counted from 0.
    pub step: Step,
    /// The node; nothing in a graph without nodes.
    #[cfg_attr(feature = "cli", serde(flatten))]
    pub tensor: Option<Named>,
}

/// The step at which the most bytes are alive.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Peak {
    /// The first such step.
    #[cfg_attr(feature = "cli", serde(flatten))]
    pub node: Node,
    /// Bytes alive.
    pub bytes: Bytes,
    /// The other steps at which as many are alive: the first and the last of each run of them.
    pub as_high: Vec<(Step, Step)>,
    /// Who is alive, the largest first: blocks of memory, whose bytes add up to those of the peak.
    pub alive: Vec<AliveBlock>,
}

/// Memory that is taken at the peak.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct AliveBlock {
    /// Bytes, padded to the alignment of the buffer.
    pub bytes: Bytes,
    /// The tensors that live in it at that step: one, or several that share it.
    pub tensors: Vec<AliveTensor>,
    /// The result whose operands lie in it already, at the place that they will have there.
    pub room_for: Option<Named>,
}

/// A tensor that is alive at the peak.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct AliveTensor {
    /// The tensor.
    #[cfg_attr(feature = "cli", serde(flatten))]
    pub tensor: Named,
    /// Bytes, padded to the alignment of the buffer.
    pub bytes: Bytes,
    /// The step that makes it; nothing when it has memory from the start.
    pub made: Option<Node>,
    /// The last step that reads it or a view of it.
    pub last_read: Option<Node>,
    /// Why it outlasts that step.
    pub kept: Option<Kept>,
}

/// Why memory lasts to the end of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Kept {
    /// It, or a view of it, is an output.
    Output,
    /// Nobody reads it, or a view of it.
    Unread,
}

/// Memory that was not taken, since other memory did.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Reuse {
    /// Results in the memory of a source, the largest first.
    pub in_place: Vec<TakenOver>,
    /// Operands that were computed inside the result of a CONCAT, the largest first.
    pub inside_concat: Vec<TakenOver>,
    /// Inputs that nobody reads, whose memory is free once the graph starts; the largest first.
    pub unread_inputs: Vec<Freed>,
    /// Nodes that no backend computes, which have no memory of their own, and leafs that only they read, whose memory is
    /// free once the graph starts; the largest first.
    pub inactive: Vec<Freed>,
    /// Bytes of all these tensors together.
    pub bytes: Bytes,
    /// What the lower bound would be without any of it; nothing when the tensors would add up to too much.
    pub lower_bound_without: Option<Bytes>,
}

/// A tensor in the memory of another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct TakenOver {
    /// The tensor.
    #[cfg_attr(feature = "cli", serde(flatten))]
    pub tensor: Named,
    /// The step that computes it.
    pub step: Step,
    /// Bytes that it would have needed, padded.
    pub bytes: Bytes,
    /// In whose memory it is.
    pub memory_of: Named,
}

/// A tensor whose memory is free early.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Freed {
    /// The tensor.
    #[cfg_attr(feature = "cli", serde(flatten))]
    pub tensor: Named,
    /// Its bytes, padded.
    pub bytes: Bytes,
}

/// A change that was tried, alone.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Advice {
    /// How much lower the bound of the buffer is with it.
    pub saves: Bytes,
    /// The bound then.
    pub lower_bound: Bytes,
    /// The worst step then.
    pub worst: Node,
    /// The change.
    #[cfg_attr(feature = "cli", serde(flatten))]
    pub change: Change,
}

/// Why no single change is enough.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Limit {
    /// How many bytes fewer are alive at the worst step with the change that was tried.
    pub frees: Bytes,
    /// The step that needs as much nevertheless.
    pub worst: Node,
    /// The bytes alive there.
    pub lower_bound: Bytes,
    /// The change.
    #[cfg_attr(feature = "cli", serde(flatten))]
    pub change: Change,
}

/// What could be changed in a graph, or in how it is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize), serde(tag = "change", rename_all = "snake_case"))]
pub enum Change {
    /// Something has memory long before anybody reads it: make it right before that.
    Later {
        /// The tensor.
        tensor: Named,
        /// Its bytes, padded.
        bytes: Bytes,
        /// The step that makes it; nothing when it has memory from the start.
        made: Option<Step>,
        /// Who reads it first.
        first_read: Node,
        /// How many nodes before it move with it.
        with: usize,
    },
    /// Nobody reads it for long: let it go, and make it again.
    Again {
        /// The tensor.
        tensor: Named,
        /// Its bytes, padded.
        bytes: Bytes,
        /// Is it computed, and not filled from outside?
        is_computed: bool,
        /// Who reads it last before the peak.
        last_read: Node,
        /// Who reads it first after the peak.
        next_read: Node,
    },
    /// An output is kept to the end: read it as soon as the graph does not need it any more, and do not flag it.
    NoOutput {
        /// The tensor.
        tensor: Named,
        /// Bytes of the memory that it keeps, padded.
        bytes: Bytes,
        /// The last step that needs it.
        needed_until: Node,
    },
    /// Nobody reads it and it is no output: leave it out.
    LeaveOut {
        /// The tensor.
        tensor: Named,
        /// Its bytes, padded.
        bytes: Bytes,
        /// How many other nodes are there for it alone.
        with: usize,
        /// Do backends pass over it? It then is an alternative that was not selected (`ggml_build_forward_select`).
        is_passed_over: bool,
    },
    /// Nobody needs the copy: read what is copied.
    NoCopy {
        /// The copy.
        tensor: Named,
        /// Its bytes, padded.
        bytes: Bytes,
        /// What is copied.
        source: Named,
    },
    /// `lastuse_graph_remove_copies`.
    RemoveCopies {
        /// How many it removes.
        copies: usize,
    },
    /// A rule of sharing memory that is switched off.
    Rule {
        /// Its name.
        rule: String,
        /// The largest tensor that then is in the memory of another.
        example: Option<TakenOver>,
    },
    /// All rules of sharing memory.
    AllRules,
    /// `lastuse_graph_reorder`.
    Reorder {
        /// How many nodes move.
        moved: usize,
    },
}

/// Explains the memory of a graph. Tries as many changes as [`Subject::trials`] allows, those of the largest buffers first.
pub fn explain(subject: Subject<'_>) -> Explanation {
    let case = Case::new(subject);
    let bounds_without_reuse = case.bounds_without_reuse();
    let everywhere = advice::for_all_buffers(&case);
    let mut buffers: Vec<usize> = (0..subject.snapshot.buffers.len()).collect();
    buffers.sort_by_key(|&buffer| Reverse(case.bound(buffer)));
    let explain =
        |buffer| explain_buffer(&case, buffer, &everywhere, bounds_without_reuse.as_ref().map(|it| it[buffer]));
    let mut buffers: Vec<BufferExplanation> = buffers.into_iter().map(explain).collect();
    buffers.sort_by_key(|buffer| buffer.id);
    Explanation {
        label: subject.snapshot.label.clone(),
        nodes: subject.snapshot.graph.nodes().len(),
        all_tried: !case.work.is_cut(),
        buffers,
    }
}

fn explain_buffer(
    case: &Case<'_>,
    buffer: usize,
    everywhere: &[advice::Tried],
    bound_without_reuse: Option<Bytes>,
) -> BufferExplanation {
    let Subject { snapshot, plan, .. } = case.subject;
    let (found, size) = (&plan.buffers[buffer], plan.buffers[buffer].placement.size());
    let peak = case.peak(buffer);
    let (advice, limit) = match &peak {
        Some(peak) => advice::for_buffer(case, buffer, peak.node.step, everywhere),
        None => (Vec::new(), None),
    };
    BufferExplanation {
        id: buffer,
        name: snapshot.buffers[buffer].name.clone(),
        size,
        chunks: found.placement.chunks.len(),
        lower_bound: found.lower_bound,
        fragmentation: size - found.lower_bound,
        optimal: found.is_optimal(),
        ggml_alloc: case.ggml_alloc[buffer],
        peak,
        reuse: case.reuse(buffer, bound_without_reuse),
        advice,
        limit,
    }
}

impl fmt::Display for Named {
    /// Names are quoted, and what could not be printed is escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.op.as_str(), self.name.as_str()) {
            ("NONE" | "", name) => write!(f, "{name:?}"),
            (op, "") => write!(f, "{}", op.escape_debug()),
            (op, name) => write!(f, "{} {name:?}", op.escape_debug()),
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tensor {
            Some(tensor) => write!(f, "step {}, {tensor}", self.step),
            None => write!(f, "step {}", self.step),
        }
    }
}
