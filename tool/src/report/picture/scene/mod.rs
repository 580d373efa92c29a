//! Rectangles over time and curves of a plan, in steps and bytes, not pixels.

mod blocks;
mod turned;

use std::collections::HashSet;
use std::ops::Range;

use lastuse::graph::{BufferIndex, TensorId};
use lastuse::placement::{Bytes, ChunkId, MemoryProfile, Offset, Step, peaks};

use crate::report::sizes::short;

use super::PlanView;

/// A plan, ready to be drawn.
pub struct Scene<'a> {
    pub label: &'a str,
    /// The end of the time axis; step `i` is from `i` to `i + 1`.
    pub steps: Step,
    /// The buffers that are not empty.
    pub buffers: Vec<BufferPicture<'a>>,
    /// The rectangles; later ones are drawn over earlier ones.
    pub spans: Vec<Span>,
}

/// A buffer of a plan.
pub struct BufferPicture<'a> {
    pub id: BufferIndex,
    pub name: &'a str,
    /// Bytes of each chunk.
    pub chunks: &'a [Bytes],
    /// By chunk: whether its map is upside down, with the end of the chunk at the bottom.
    pub turned: Vec<bool>,
    pub lower_bound: Bytes,
    /// True if no plan with the same live ranges is smaller.
    pub is_optimal: bool,
    /// By step: live bytes.
    pub live: Vec<Bytes>,
    /// The steps with the most live bytes, as ranges.
    pub peaks: Vec<Range<Step>>,
}

/// A tensor in a plan, as a rectangle of steps and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub tensor: TensorId,
    pub buffer: BufferIndex,
    pub chunk: ChunkId,
    /// Tensors in the same block of a buffer share memory.
    pub block: u32,
    pub offset: Offset,
    pub size: Bytes,
    /// First step.
    pub start: Step,
    /// The step after the last.
    pub end: Step,
    /// The step in which another tensor is computed in place of it; otherwise `end`.
    pub visible_until: Step,
    pub sharing: Sharing,
    /// True if it, or a view of it, is retained, and this plan keeps it as long.
    pub is_retained: bool,
}

/// How a tensor shares memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It is the first in its memory.
    Own,
    /// It is computed in place of a source.
    InPlace,
    /// It is an operand of a CONCAT, computed inside its result.
    Inside,
    /// It is the result of a CONCAT before that is computed: reserved, and partly filled by operands.
    Reserved,
}

impl<'a> Scene<'a> {
    /// Builds the scene of a plan, or of one of its buffers.
    pub fn of(view: &PlanView<'a>, buffer: Option<&str>) -> Self {
        let steps = view.snapshot.graph.steps();
        let ids = (0..).zip(&view.snapshot.buffers);
        let chosen = ids.filter(|(_, info)| buffer.is_none_or(|name| info.name == name));
        let buffers = chosen.map(|(id, _)| BufferPicture::of(view, id, steps)).filter(|buffer| buffer.size() > 0);
        let mut buffers: Vec<BufferPicture<'a>> = buffers.collect();
        let mut spans = blocks::spans(view);
        let shown: HashSet<BufferIndex> = buffers.iter().map(|buffer| buffer.id).collect();
        spans.retain(|span| shown.contains(&span.buffer));
        buffers.iter_mut().for_each(|buffer| buffer.turned = turned::chunks(buffer, &spans));
        Self { label: view.label, steps, buffers, spans }
    }

    /// Returns the bytes of all buffers.
    pub fn size(&self) -> Bytes {
        self.buffers.iter().map(BufferPicture::size).fold(0, Bytes::saturating_add)
    }

    /// Counts the tensors with memory.
    pub fn tensors(&self) -> usize {
        let tensors: HashSet<TensorId> = self.spans.iter().filter(|it| it.size > 0).map(|it| it.tensor).collect();
        tensors.len()
    }

    /// Returns whether any of its maps is upside down.
    pub fn is_turned(&self) -> bool {
        self.buffers.iter().any(|buffer| buffer.turned.contains(&true))
    }

    /// Describes how far the plan is from its lower bound.
    pub fn distance_from_bound(&self) -> String {
        let bound = self.buffers.iter().map(|buffer| buffer.lower_bound).fold(0, Bytes::saturating_add);
        if self.buffers.is_empty() {
            "the graph needs no memory".to_owned()
        } else if self.buffers.iter().all(|buffer| buffer.size() == buffer.lower_bound) {
            "at the lower bound: no plan with these live ranges is smaller".to_owned()
        } else if self.buffers.iter().all(|buffer| buffer.is_optimal) {
            format!("proven to be the smallest with these live ranges; the lower bound is {}", short(bound))
        } else {
            format!("{} above the lower bound", short(self.size().saturating_sub(bound)))
        }
    }
}

impl<'a> BufferPicture<'a> {
    fn of(view: &PlanView<'a>, id: BufferIndex, steps: Step) -> Self {
        let buffer = &view.plan.buffers[id as usize];
        let mut live = MemoryProfile::of(&view.plan.problems[id as usize]).live;
        live.resize(steps as usize, 0);
        Self {
            id,
            name: &view.snapshot.buffers[id as usize].name,
            chunks: &buffer.placement.chunks,
            turned: Vec::new(),
            lower_bound: buffer.lower_bound,
            is_optimal: buffer.is_optimal(),
            // Inactive nodes can raise the lower bound above the live bytes.
            peaks: if live.iter().max() == Some(&buffer.lower_bound) { peaks(&live) } else { Vec::new() },
            live,
        }
    }

    /// Returns the bytes of all chunks.
    pub fn size(&self) -> Bytes {
        self.chunks.iter().sum()
    }

    /// Returns the bytes below a rectangle in the map of its chunk.
    pub fn below(&self, span: &Span) -> Bytes {
        let chunk = span.chunk as usize;
        let end = span.offset.saturating_add(span.size);
        match self.chunks.get(chunk) {
            Some(bytes) if self.turned.get(chunk) == Some(&true) => bytes.saturating_sub(end),
            _ => span.offset,
        }
    }
}
