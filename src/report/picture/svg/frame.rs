//! Where everything is, in pixels.

use crate::graph::BufferIndex;
use crate::placement::{Bytes, ChunkId, Offset, Step};
use crate::report::picture::graphs::Drawn;
use crate::report::picture::scene::{BufferPicture, Scene};
use crate::report::picture::units::as_float;

/// The width of the whole picture.
pub const WIDTH: f64 = 1200.0;
/// Free space around.
pub const MARGIN: f64 = 20.0;
/// Left of each panel, for the numbers of its axis.
const AXIS: f64 = 62.0;
/// The maps of a graph together.
const MAPS: f64 = 400.0;
/// No map is lower.
const LOWEST_MAP: f64 = 36.0;
/// One curve.
const CURVE: f64 = 84.0;
/// Above a map, where several have names of their own.
const NAME: f64 = 30.0;
/// Above a curve, for what is said of the peak.
const REMARK: f64 = 26.0;
/// Below each row.
const GAP: f64 = 8.0;
/// Below the last row: the numbers of the steps.
const STEPS: f64 = 34.0;

/// A strip of all panels: the map of a chunk, or the curve of a buffer.
pub struct Row {
    pub buffer: BufferIndex,
    /// Which chunk; none for the curve.
    pub chunk: Option<ChunkId>,
    /// What its axis reaches to: the largest in any of the plans.
    pub bytes: Bytes,
    pub top: f64,
    pub height: f64,
    /// What is written above it.
    pub name: Option<String>,
}

impl Row {
    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Where so many bytes are; offset 0 is at the bottom.
    pub fn y(&self, bytes: Offset) -> f64 {
        self.bottom() - as_float(bytes) / as_float(self.bytes.max(1)) * self.height
    }
}

/// All strips of a graph.
pub struct Rows {
    pub rows: Vec<Row>,
    pub bottom: f64,
}

impl Rows {
    /// The maps of a buffer's chunks, then its curve, then the next buffer.
    pub fn of(drawn: &Drawn<'_>, mut top: f64) -> Self {
        let total: Bytes = buffers(drawn).iter().map(|&buffer| size(drawn, buffer)).fold(0, Bytes::saturating_add);
        let are_several =
            buffers(drawn).len() > 1 || buffers(drawn).iter().any(|&buffer| chunks(drawn, buffer).len() > 1);
        let mut rows = Vec::new();
        for buffer in buffers(drawn) {
            for (chunk, bytes) in (0..).zip(chunks(drawn, buffer)) {
                let height = (as_float(bytes) / as_float(total.max(1)) * MAPS).max(LOWEST_MAP);
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

fn buffers(drawn: &Drawn<'_>) -> Vec<BufferIndex> {
    let mut buffers: Vec<BufferIndex> =
        drawn.scenes.iter().flat_map(|scene| &scene.buffers).map(|buffer| buffer.id).collect();
    buffers.sort_unstable();
    buffers.dedup();
    buffers
}

fn plans<'a>(drawn: &'a Drawn<'_>, id: BufferIndex) -> impl Iterator<Item = &'a BufferPicture<'a>> {
    drawn.scenes.iter().flat_map(|scene| &scene.buffers).filter(move |buffer| buffer.id == id)
}

fn size(drawn: &Drawn<'_>, buffer: BufferIndex) -> Bytes {
    plans(drawn, buffer).map(BufferPicture::size).max().unwrap_or(0)
}

/// By chunk, the largest size in any plan.
fn chunks(drawn: &Drawn<'_>, buffer: BufferIndex) -> Vec<Bytes> {
    let mut largest: Vec<Bytes> = Vec::new();
    for plan in plans(drawn, buffer) {
        largest.resize(largest.len().max(plan.chunks.len()), 0);
        largest.iter_mut().zip(plan.chunks).for_each(|(size, &chunk)| *size = (*size).max(chunk));
    }
    largest
}

fn name(drawn: &Drawn<'_>, buffer: BufferIndex, chunk: ChunkId) -> String {
    let name = plans(drawn, buffer).next().map_or("", |buffer| buffer.name);
    if chunks(drawn, buffer).len() > 1 { format!("{name}, chunk {}", chunk + 1) } else { name.to_owned() }
}

/// One plan: a column of the picture.
pub struct Panel<'a> {
    pub scene: &'a Scene<'a>,
    pub rows: &'a Rows,
    pub left: f64,
    pub width: f64,
    /// Is it not the first? Then it is compared with the first.
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

    /// Where a step begins.
    pub fn x(&self, step: Step) -> f64 {
        self.left + f64::from(step) / f64::from(self.scene.steps) * self.width
    }

    pub fn buffer(&self, id: BufferIndex) -> Option<&BufferPicture<'a>> {
        self.scene.buffers.iter().find(|buffer| buffer.id == id)
    }
}

/// A number of pixels with no more digits than can be seen.
pub fn px(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
