//! The layout, in pixels: a panel for each plan, with rows of maps and curves.

use std::collections::BTreeMap;

use lastuse::graph::BufferIndex;
use lastuse::placement::{Bytes, ChunkId, Offset, Step};

use crate::report::picture::DrawnGraph;
use crate::report::picture::scene::{BufferPicture, Scene};
use crate::report::sizes::as_float;

use super::pen::Area;

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
pub const STEPS: f64 = 34.0;

/// A row of all panels: the map of a chunk, or the curve of a buffer.
pub struct Row {
    pub buffer: BufferIndex,
    /// The chunk; `None` for the curve.
    pub chunk: Option<ChunkId>,
    /// The end of its byte axis: the largest size in any of the plans.
    pub bytes: Bytes,
    pub top: f64,
    pub bottom: f64,
    /// The name above it.
    pub name: Option<String>,
}

impl Row {
    /// Returns the position of an offset; 0 is at the bottom.
    pub fn y(&self, bytes: Offset) -> f64 {
        self.bottom - as_float(bytes) / as_float(self.bytes.max(1)) * (self.bottom - self.top)
    }
}

/// Lays out the maps of a buffer's chunks, then its curve, then the next buffer.
pub fn rows(drawn: &DrawnGraph<'_>, mut top: f64) -> Vec<Row> {
    let buffers = largest(drawn);
    let total = buffers.values().map(|buffer| buffer.size).fold(0, Bytes::saturating_add);
    let are_several = buffers.len() > 1 || buffers.values().any(|buffer| buffer.chunks.len() > 1);
    let mut rows = Vec::new();
    for (id, Largest { name, chunks, size }) in buffers {
        for (chunk, &bytes) in (0..).zip(&chunks) {
            top += if are_several { NAME } else { 0.0 };
            let bottom = top + (as_float(bytes) / as_float(total.max(1)) * MAPS).max(MIN_MAP);
            let name = if chunks.len() > 1 { format!("{name}, chunk {}", chunk + 1) } else { name.to_owned() };
            rows.push(Row {
                buffer: id,
                chunk: Some(chunk),
                bytes,
                top,
                bottom,
                name: Some(name).filter(|_| are_several),
            });
            top = bottom + GAP;
        }
        let bottom = top + REMARK + CURVE;
        rows.push(Row { buffer: id, chunk: None, bytes: size, top: top + REMARK, bottom, name: None });
        top = bottom + GAP;
    }
    rows
}

/// The largest sizes of a buffer in any of the plans.
struct Largest<'a> {
    name: &'a str,
    chunks: Vec<Bytes>,
    size: Bytes,
}

fn largest<'a>(drawn: &DrawnGraph<'a>) -> BTreeMap<BufferIndex, Largest<'a>> {
    let mut buffers: BTreeMap<BufferIndex, Largest<'a>> = BTreeMap::new();
    for buffer in drawn.scenes.iter().flat_map(|scene| &scene.buffers) {
        let first = || Largest { name: buffer.name, chunks: Vec::new(), size: 0 };
        let Largest { chunks, size, .. } = buffers.entry(buffer.id).or_insert_with(first);
        *size = buffer.size().max(*size);
        chunks.resize(chunks.len().max(buffer.chunks.len()), 0);
        chunks.iter_mut().zip(buffer.chunks).for_each(|(largest, &bytes)| *largest = bytes.max(*largest));
    }
    buffers
}

/// A column of the picture, with one plan.
pub struct Panel<'a> {
    pub scene: &'a Scene<'a>,
    pub left: f64,
    pub right: f64,
}

impl<'a> Panel<'a> {
    pub fn new(scene: &'a Scene<'a>, index: usize, count: usize) -> Self {
        let column = (WIDTH - MARGIN) / as_float(count as u64);
        let left = column * as_float(index as u64) + AXIS + MARGIN / 2.0;
        Self { scene, left, right: left + column - AXIS - MARGIN / 2.0 }
    }

    /// Returns the start of a step.
    pub fn x(&self, step: Step) -> f64 {
        self.left + f64::from(step) / f64::from(self.scene.steps) * (self.right - self.left)
    }

    /// Returns the area of steps and of bytes of a row.
    pub fn area(&self, row: &Row, steps: [Step; 2], bytes: [Bytes; 2]) -> Area {
        let ([left, right], [bottom, top]) = (steps.map(|step| self.x(step)), bytes.map(|bytes| row.y(bytes)));
        Area { left, top, right, bottom }
    }

    /// Returns the whole area of a row.
    pub fn field(&self, row: &Row) -> Area {
        Area { left: self.left, top: row.top, right: self.right, bottom: row.bottom }
    }

    pub fn buffer(&self, id: BufferIndex) -> Option<&BufferPicture<'a>> {
        self.scene.buffers.iter().find(|buffer| buffer.id == id)
    }

    /// Returns the middle of the step of a buffer's first peak.
    pub fn peak_x(&self, buffer: &BufferPicture<'_>) -> Option<f64> {
        let first = buffer.peaks.first()?.start;
        Some(f64::midpoint(self.x(first), self.x(first + 1)))
    }
}
