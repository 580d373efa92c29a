//! What is to be seen of a plan: rectangles over time, and curves below. No pixels yet.

mod blocks;

use std::collections::HashSet;
use std::ops::Range;

use crate::graph::{BufferIndex, TensorId};
use crate::placement::{Bytes, ChunkId, Offset, Step, memory_profile};

use super::View;

/// A plan, ready to be drawn.
pub struct Scene<'a> {
    pub label: &'a str,
    /// The time axis ends here; step `i` is from `i` to `i + 1`.
    pub steps: Step,
    /// The buffers that hold something.
    pub buffers: Vec<BufferPicture<'a>>,
    /// What lies where and when; later ones are drawn over earlier ones.
    pub spans: Vec<Span>,
}

/// A buffer type.
pub struct BufferPicture<'a> {
    pub id: BufferIndex,
    pub name: &'a str,
    /// Bytes of each chunk.
    pub chunks: &'a [Bytes],
    pub lower_bound: Bytes,
    /// No plan with the same live ranges is smaller.
    pub is_optimal: bool,
    /// By step, the bytes alive.
    pub live: Vec<Bytes>,
    /// The steps with the most bytes alive, as ranges.
    pub peaks: Vec<Range<Step>>,
}

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub tensor: TensorId,
    pub buffer: BufferIndex,
    pub chunk: ChunkId,
    /// Tensors with the same number of the same buffer share memory.
    pub block: u32,
    pub offset: Offset,
    pub size: Bytes,
    /// First step.
    pub start: Step,
    /// The step after the last.
    pub end: Step,
    /// From here on another tensor has the memory; otherwise the same as `end`.
    pub seen_until: Step,
    pub sharing: Sharing,
}

/// How a rectangle has its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Memory that nobody else is in when it comes.
    Own,
    /// That of a source which nobody else reads: computed in place.
    TakesOver,
    /// A part of the result of a CONCAT, computed where it is wanted.
    Inside,
    /// No value yet: kept free for the result of a CONCAT, of which parts are there already.
    Kept,
}

impl<'a> Scene<'a> {
    /// What is to be seen of a plan; of one buffer alone where that is wanted.
    pub fn of(view: &View<'a>, buffer: Option<&str>) -> Self {
        let steps = view.snapshot.graph.steps();
        let ids = (0..).zip(&view.snapshot.buffers);
        let wanted = ids.filter(|(_, info)| buffer.is_none_or(|name| info.name == name));
        let buffers = wanted.map(|(id, _)| BufferPicture::of(view, id, steps)).filter(|buffer| buffer.size() > 0);
        let buffers: Vec<BufferPicture<'a>> = buffers.collect();
        let mut spans = blocks::spans(view);
        let shown: HashSet<BufferIndex> = buffers.iter().map(|buffer| buffer.id).collect();
        spans.retain(|span| shown.contains(&span.buffer));
        Self { label: view.label, steps, buffers, spans }
    }

    /// Bytes of all buffers.
    pub fn size(&self) -> Bytes {
        self.buffers.iter().map(BufferPicture::size).fold(0, Bytes::saturating_add)
    }

    /// Is there no smaller plan with the same live ranges, for no buffer?
    pub fn is_optimal(&self) -> bool {
        self.buffers.iter().all(|buffer| buffer.is_optimal)
    }

    /// Have all buffers the bytes of the step that has the most?
    pub fn is_at_bound(&self) -> bool {
        self.buffers.iter().all(|buffer| buffer.size() == buffer.lower_bound)
    }
}

impl<'a> BufferPicture<'a> {
    fn of(view: &View<'a>, id: BufferIndex, steps: Step) -> Self {
        let buffer = &view.plan.buffers[id as usize];
        let mut live = memory_profile(&view.plan.problems[id as usize]);
        live.resize(steps as usize, 0);
        Self {
            id,
            name: &view.snapshot.buffers[id as usize].name,
            chunks: &buffer.placement.chunks,
            lower_bound: buffer.lower_bound,
            is_optimal: buffer.is_optimal(),
            peaks: peaks(&live, buffer.lower_bound),
            live,
        }
    }

    /// Bytes of all its chunks.
    pub fn size(&self) -> Bytes {
        self.chunks.iter().sum()
    }
}

/// The steps with so many bytes alive, as ranges.
fn peaks(live: &[Bytes], most: Bytes) -> Vec<Range<Step>> {
    let mut peaks: Vec<Range<Step>> = Vec::new();
    for (step, _) in (0..).zip(live).filter(|(_, load)| **load == most) {
        match peaks.last_mut() {
            Some(last) if last.end == step => last.end = step + 1,
            _ => peaks.push(step..step + 1),
        }
    }
    peaks
}
