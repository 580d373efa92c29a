//! The check of a file, as text and as JSON.

use std::fmt::Write;

use serde::Serialize;

use crate::Bytes;
use crate::division::GRANULE_UNIT;
use crate::gpuidx::{Dialect, GpuIndex, IndexDefect, LayerIndex};

/// The most defects of a file that are listed.
const MOST_LISTED: usize = 20;

/// Formats the check of a file as text: its content, or a line for each of the first defects and their number.
pub fn checked_index_text(file: Option<&(GpuIndex, Dialect)>, defects: &[IndexDefect]) -> String {
    let mut text: String = defects.iter().take(MOST_LISTED).map(|defect| format!("{defect}\n")).collect();
    if let Some(more) = defects.len().checked_sub(MOST_LISTED).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {more} more");
    }
    match (file, defects.len()) {
        (Some((index, dialect)), 0) => text.push_str(&summary(index, *dialect)),
        (_, 1) => text.push_str("The file is invalid: 1 defect\n"),
        (_, count) => _ = writeln!(text, "The file is invalid: {count} defects"),
    }
    text
}

fn summary(index: &GpuIndex, dialect: Dialect) -> String {
    let magic = dialect.magic();
    let (layers, neurons) = (index.layers.len(), index.layers.first().map_or(0, |layer| layer.neurons));
    let on_gpu: usize = index.layers.iter().map(|layer| layer.bucket.len()).sum();
    let mut text = format!(
        "OK: {}, layers: {layers}, neurons in each: {neurons}, on the GPU: {on_gpu}, bytes allowed: {}\n",
        magic.escape_ascii(),
        index.vram_capacity
    );
    for (number, layer) in index.layers.iter().enumerate().filter(|(_, layer)| !suits_large_batches(layer)) {
        let _ = writeln!(
            text,
            "note: blk.{number}.gpu_bucket has {} neurons, no multiple of {GRANULE_UNIT}: batches of more than 100 columns fail",
            layer.bucket.len()
        );
    }
    text
}

/// Returns whether PowerInfer can compute batches of more than 100 columns.
fn suits_large_batches(layer: &LayerIndex) -> bool {
    let count = layer.bucket.len();
    count.is_multiple_of(GRANULE_UNIT as usize) || count == layer.neurons as usize
}

#[derive(Serialize)]
struct IndexCheckDocument {
    format: &'static str,
    version: u64,
    ok: bool,
    magic: Option<String>,
    vram_capacity: Option<Bytes>,
    layers: Vec<CheckedLayer>,
    defects: Vec<DefectEntry>,
}

#[derive(Serialize)]
struct CheckedLayer {
    neurons: u32,
    on_gpu: usize,
    suits_large_batches: bool,
}

#[derive(Serialize)]
struct DefectEntry {
    rule: String,
    place: Option<String>,
    message: String,
}

/// Serializes the check of a file as one line of JSON, format "lastuse-split-check", version 1.
///
/// # Errors
/// None is known: the data is plain.
pub fn checked_index_json(file: Option<&(GpuIndex, Dialect)>, defects: &[IndexDefect]) -> serde_json::Result<String> {
    let layer = |layer: &LayerIndex| CheckedLayer {
        neurons: layer.neurons,
        on_gpu: layer.bucket.len(),
        suits_large_batches: suits_large_batches(layer),
    };
    let defect = |defect: &IndexDefect| DefectEntry {
        rule: defect.rule.to_string(),
        place: defect.place.clone(),
        message: defect.message.clone(),
    };
    serde_json::to_string(&IndexCheckDocument {
        format: "lastuse-split-check",
        version: 1,
        ok: defects.is_empty(),
        magic: file.map(|(_, dialect)| dialect.magic().escape_ascii().to_string()),
        vram_capacity: file.map(|(index, _)| index.vram_capacity),
        layers: file.map_or(Vec::new(), |(index, _)| index.layers.iter().map(layer).collect()),
        defects: defects.iter().map(defect).collect(),
    })
}
