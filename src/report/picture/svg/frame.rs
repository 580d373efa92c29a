//! The layout, in pixels.

use crate::graph::BufferIndex;
use crate::placement::{Bytes, ChunkId, Offset, Step};
use crate::report::picture::graphs::DrawnGraph;
use crate::report::picture::scene::{BufferPicture, Scene};
use crate::report::sizes::as_float;

/// The width of the whole picture.
pub const WIDTH: f64 = 1200.0;
/// The margin.
pub const MARGIN: f64 = 20.0;
/// The width of the byte axis, left of each panel.
const AXIS: f64 = 62.0;
/// The height of all maps of a graph.
const MAPS: f64 = 400.0;
/// The least height of a map.
const MIN_MAP: f64 = 36.0;
/// The height of a curve.
const CURVE: f64 = 84.0;
/// The height of a name above a map, if there are several.
const NAME: f64 = 30.0;
/// The height of the text above a curve.
const REMARK: f64 = 26.0;
/// The space below each row.
const GAP: f64 = 8.0;
/// The height of the step axis, below the last row.
const STEPS: f64 = 34.0;

/// A row of all panels: the map of a chunk, or the curve of a buffer.
pub struct Row {
    pub buffer: BufferIndex,
    /// The chunk; `None` for the curve.
    pub chunk: Option<ChunkId>,
    /// The end of its byte axis: the largest size in any of the plans.
    pub bytes: Bytes,
    pub top: f64,
    pub height: f64,
    /// The name above it.
    pub name: Option<String>,
}

impl Row {
    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Returns the position of an offset; 0 is at the bottom.
    pub fn y(&self, bytes: Offset) -> f64 {
        self.bottom() - as_float(bytes) / as_float(self.bytes.max(1)) * self.height
    }
}

/// All rows of a graph.
pub struct Rows {
    pub rows: Vec<Row>,
    pub bottom: f64,
}

impl Rows {
    /// Lays out the maps of a buffer's chunks, then its curve, then the next buffer.
    pub fn of(drawn: &DrawnGraph<'_>, mut top: f64) -> Self {
        let total: Bytes = buffers(drawn).iter().map(|&buffer| size(drawn, buffer)).fold(0, Bytes::saturating_add);
        let are_several =
            buffers(drawn).len() > 1 || buffers(drawn).iter().any(|&buffer| chunks(drawn, buffer).len() > 1);
        let mut rows = Vec::new();
        for buffer in buffers(drawn) {
            for (chunk, bytes) in (0..).zip(chunks(drawn, buffer)) {
                let height = (as_float(bytes) / as_float(total.max(1)) * MAPS).max(MIN_MAP);
                let name = are_several.then(|| name(drawn, buffer, chunk));
                top += if are_several { NAME } else { 0.0 };
                rows.push(Row { buffer, chunk: Some(chunk), bytes, top, height, name });
                top += height + GAP;
            }
            let (bytes, height) = (size(drawn, buffer), CURVE);
            rows.push(Row { buffer, chunk: None, bytes, top: top + REMARK, height, name: None });
            top += REMARK + height + GAP;
        }
        Self { rows, bottom: top - GAP + STEPS }
    }
}

fn buffers(drawn: &DrawnGraph<'_>) -> Vec<BufferIndex> {
    let mut buffers: Vec<BufferIndex> =
        drawn.scenes.iter().flat_map(|scene| &scene.buffers).map(|buffer| buffer.id).collect();
    buffers.sort_unstable();
    buffers.dedup();
    buffers
}

fn plans<'a>(drawn: &'a DrawnGraph<'_>, id: BufferIndex) -> impl Iterator<Item = &'a BufferPicture<'a>> {
    drawn.scenes.iter().flat_map(|scene| &scene.buffers).filter(move |buffer| buffer.id == id)
}

fn size(drawn: &DrawnGraph<'_>, buffer: BufferIndex) -> Bytes {
    plans(drawn, buffer).map(BufferPicture::size).max().unwrap_or(0)
}

/// Returns the largest size of each chunk in any plan.
fn chunks(drawn: &DrawnGraph<'_>, buffer: BufferIndex) -> Vec<Bytes> {
    let mut largest: Vec<Bytes> = Vec::new();
    for plan in plans(drawn, buffer) {
        largest.resize(largest.len().max(plan.chunks.len()), 0);
        largest.iter_mut().zip(plan.chunks).for_each(|(size, &chunk)| *size = (*size).max(chunk));
    }
    largest
}

fn name(drawn: &DrawnGraph<'_>, buffer: BufferIndex, chunk: ChunkId) -> String {
    let name = plans(drawn, buffer).next().map_or("", |buffer| buffer.name);
    if chunks(drawn, buffer).len() > 1 { format!("{name}, chunk {}", chunk + 1) } else { name.to_owned() }
}

/// A column of the picture, with one plan.
pub struct Panel<'a> {
    pub scene: &'a Scene<'a>,
    pub rows: &'a Rows,
    pub left: f64,
    pub width: f64,
    /// True for all but the first, which the others are compared with.
    pub is_compared: bool,
}

impl<'a> Panel<'a> {
    pub fn new(scene: &'a Scene<'a>, index: usize, count: usize, rows: &'a Rows) -> Self {
        let column = (WIDTH - MARGIN) / as_float(count as u64);
        let left = column * as_float(index as u64) + AXIS + MARGIN / 2.0;
        Self { scene, rows, left, width: column - AXIS - MARGIN / 2.0, is_compared: index > 0 }
    }

    pub fn right(&self) -> f64 {
        self.left + self.width
    }

    /// Returns the start of a step.
    pub fn x(&self, step: Step) -> f64 {
        self.left + f64::from(step) / f64::from(self.scene.steps) * self.width
    }

    pub fn buffer(&self, id: BufferIndex) -> Option<&BufferPicture<'a>> {
        self.scene.buffers.iter().find(|buffer| buffer.id == id)
    }
}

/// Formats pixels with at most two decimals.
pub fn px(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
