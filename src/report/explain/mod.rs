//! Explains the peak of a planned graph: which tensors are live there, and which changes would lower it.
//!
//! ```text
//!  graph + plan -> peak   (the step of each buffer, and the tensors that are live there)
//!               -> advice (changes that were tried, and what each saves)
//!               -> passes (tiling, recomputation and other passes of lastuse, and what each saves)
//!               -> remedies (the kinds of the largest of the tensors, and known remedies)
//!               -> reuse  (results in place and other shared memory, and what they save)
//!               -> text, JSON
//! ```

mod named;
mod program;
mod change;
mod uses;
mod remedies;
mod explanation;
mod case;
mod trial;
mod advice;
mod passes;
mod remedy;
mod reuse;
mod peak;
mod remedy_text;
mod text;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use crate::placement::Bytes;

use advice::Tried;
use case::Case;
use passes::Passes;

pub use case::{DEFAULT_TRIALS, PlannedGraph};
pub use change::Change;
pub use explanation::{
    Advice, BufferExplanation, Explanation, FreedInput, KernelUse, Limit, LiveBlock, LiveTensor, Peak, Reuse,
};
pub use named::{Alias, Named, Node, Shape, Source};
pub use program::Program;
pub use remedies::{Batch, Inherent, Large, Lowered, Pass, Pattern, Remedies, Tiled};
pub use text::{DEFAULT_TOP, explanation_text};
pub use uses::Kept;

/// Explains the memory of a graph. Tries as many changes as [`PlannedGraph::trials`] allows, those of the largest buffers
/// first.
pub fn explain(planned: PlannedGraph<'_>) -> Explanation {
    let case = Case::new(planned);
    let bounds_without_reuse = case.bounds_without_reuse();
    let everywhere = advice::for_all_buffers(&case);
    let passes = Passes::of(&case, &everywhere);
    let mut buffers: Vec<usize> = (0..planned.snapshot.buffers.len()).collect();
    buffers.sort_by_key(|&buffer| Reverse(case.bound(buffer)));
    let bound_without_reuse = |buffer: usize| bounds_without_reuse.as_ref().map(|bounds| bounds[buffer]);
    let explain = |buffer| explain_buffer(&case, buffer, &everywhere, &passes, bound_without_reuse(buffer));
    let mut buffers: Vec<BufferExplanation> = buffers.into_iter().map(explain).collect();
    buffers.sort_by_key(|buffer| buffer.id);
    Explanation {
        label: planned.snapshot.label.clone(),
        program: Program::of(planned.snapshot),
        nodes: planned.snapshot.graph.nodes().len(),
        tiling: passes.tiled,
        all_tried: case.all_tried(),
        buffers,
    }
}

fn explain_buffer(
    case: &Case<'_>,
    buffer: usize,
    everywhere: &[Tried],
    passes: &Passes,
    bound_without_reuse: Option<Bytes>,
) -> BufferExplanation {
    let PlannedGraph { snapshot, plan, .. } = case.planned;
    let (found, size) = (&plan.buffers[buffer], plan.buffers[buffer].placement.size());
    let peak = case.peak(buffer);
    let remedies = |peak: &Peak| case.remedies(buffer, peak.node.step, peak.bytes, passes);
    let remedies = peak.as_ref().map(remedies).unwrap_or_default();
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
        remedies,
        reuse: case.reuse(buffer, bound_without_reuse),
        kernels: reuse::kernels(case.planned, buffer),
        advice,
        limit,
    }
}
