//! Reads a file, and checks all of it.

use crate::gguf::GgufHeader;

use super::layout::{FileLayout, TensorRange};
use super::rule::{IndexDefect, IndexRule, MalformedIndex};
use super::{Dialect, GpuIndex, KnownModel, LayerIndex, padded_bytes};

impl GpuIndex {
    /// Reads the content of a file in either dialect.
    ///
    /// # Errors
    /// [`MalformedIndex`] with the rules that do not hold.
    pub fn read(file: &[u8]) -> Result<(Self, Dialect), MalformedIndex> {
        let magics = Dialect::ALL.map(Dialect::magic);
        let header = GgufHeader::read(file, file.len() as u64, &magics).map_err(|malformed| MalformedIndex {
            defects: vec![IndexDefect::of_file(IndexRule::Header, malformed.to_string())],
        })?;
        let layout = FileLayout::of(&header).map_err(|defects| MalformedIndex { defects })?;
        let mut defects = Vec::new();
        check_length(file, &layout, &mut defects);
        MalformedIndex::unless_none(defects)?;
        let mut defects = Vec::new();
        check_padding(file, &layout, &mut defects);
        let layers = layout.tensors.chunks(2).map(|pair| read_layer(file, pair, &mut defects)).collect();
        MalformedIndex::unless_none(defects)?;
        Ok((Self { layers, vram_capacity: layout.vram_capacity }, layout.dialect))
    }

    /// Returns the differences from the known facts about a model.
    pub fn compare_with_model(&self, model: &KnownModel) -> Vec<IndexDefect> {
        let mut defects = Vec::new();
        let mut defect = |message: String| defects.push(IndexDefect::of_file(IndexRule::Model, message));
        let found = self.layers.len() as u64;
        if let Some(expected) = model.layers.filter(|&expected| expected != found) {
            defect(format!("there are {found} layers; the model has {expected}"));
        }
        let of_first = self.layers.first().map_or(0, |layer| u64::from(layer.neurons));
        if let Some(expected) = model.neurons.filter(|&expected| expected != of_first) {
            defect(format!("there are {of_first} neurons in a layer; the model has {expected}"));
        }
        if let Some(left) = model.vram_left.filter(|&left| left < self.vram_capacity) {
            defect(format!("{} bytes are allowed for neurons; {left} are left for them", self.vram_capacity));
        }
        defects
    }
}

fn check_length(file: &[u8], layout: &FileLayout, defects: &mut Vec<IndexDefect>) {
    let end_of = |extent: &TensorRange| padded_bytes(extent.elements).and_then(|bytes| extent.start.checked_add(bytes));
    let end = layout.tensors.last().map_or(Some(layout.header.1), end_of);
    let length = file.len() as u64;
    let message = match end {
        Some(end) if end == length => return,
        Some(end) if end < length => format!("the file has {length} bytes; the last tensor ends at {end}"),
        Some(end) => format!("the file has {length} bytes; the last tensor ends at {end}: is the file whole?"),
        None => "the last tensor ends beyond any file".to_owned(),
    };
    defects.push(IndexDefect::of_file(IndexRule::Length, message));
}

/// Returns bytes of the file; [`check_length`] has made sure that they are there.
fn bytes(file: &[u8], start: u64, end: u64) -> &[u8] {
    let position = |at: u64| usize::try_from(at).expect("the file is in memory");
    &file[position(start)..position(end)]
}

fn check_padding(file: &[u8], layout: &FileLayout, defects: &mut Vec<IndexDefect>) {
    let (header_end, data_start) = layout.header;
    if bytes(file, header_end, data_start).iter().any(|&byte| byte != 0) {
        let message = format!("the bytes {header_end} to {data_start}, between header and data, are not all zero");
        defects.push(IndexDefect::of_file(IndexRule::Padding, message));
    }
    for TensorRange { name, start, elements } in &layout.tensors {
        let (used, all) = (elements * 4, padded_bytes(*elements).expect("the tensor is in the file"));
        if bytes(file, start + used, start + all).iter().any(|&byte| byte != 0) {
            let message = format!("the bytes {} to {} behind it are not all zero", start + used, start + all);
            defects.push(IndexDefect::at(IndexRule::Padding, name, message));
        }
    }
}

fn elements<'f>(file: &'f [u8], extent: &TensorRange) -> impl Iterator<Item = i32> + use<'f> {
    let bytes = bytes(file, extent.start, extent.start + extent.elements * 4);
    bytes.as_chunks().0.iter().map(|&element| i32::from_le_bytes(element))
}

fn read_layer(file: &[u8], pair: &[TensorRange], defects: &mut Vec<IndexDefect>) -> LayerIndex {
    let [index, bucket] = pair else { unreachable!("the number of tensors is even") };
    let neurons = u32::try_from(index.elements).expect("neurons are counted in 31 bits");
    let mut on_gpu = vec![false; neurons as usize];
    let mut is_index_valid = true;
    for (neuron, value) in elements(file, index).enumerate() {
        on_gpu[neuron] = value == 1;
        if !matches!(value, 0 | 1) && is_index_valid {
            is_index_valid = false;
            let message = format!("neuron {neuron} has {value}; 0 or 1 is expected");
            defects.push(IndexDefect::at(IndexRule::IndexValues, &index.name, message));
        }
    }
    let ids = read_bucket(file, bucket, neurons, defects);
    if let Some(ids) = &ids
        && is_index_valid
    {
        check_agreement(&on_gpu, ids, &bucket.name, defects);
    }
    LayerIndex { neurons, bucket: ids.unwrap_or_default() }
}

/// Reads a bucket; `None` with a defect if an id is out of range, or not above the one before it.
fn read_bucket(file: &[u8], bucket: &TensorRange, neurons: u32, defects: &mut Vec<IndexDefect>) -> Option<Vec<u32>> {
    let (mut ids, mut found) = (Vec::new(), Vec::new());
    for (position, value) in elements(file, bucket).enumerate() {
        let in_range = u32::try_from(value).ok().filter(|&id| id < neurons);
        let (rule, message) = match (in_range, ids.last()) {
            (None, _) => (
                IndexRule::BucketRange,
                format!("id {value} at position {position} is not a neuron: there are {neurons}"),
            ),
            (Some(id), Some(&before)) if id <= before => (
                IndexRule::BucketOrder,
                format!("id {id} at position {position} follows {before}; ids must ascend strictly"),
            ),
            (Some(id), _) => {
                ids.push(id);
                continue;
            }
        };
        if found.iter().all(|known: &IndexDefect| known.rule != rule) {
            found.push(IndexDefect::at(rule, &bucket.name, message));
        }
    }
    let is_valid = found.is_empty();
    defects.append(&mut found);
    is_valid.then_some(ids)
}

fn check_agreement(on_gpu: &[bool], ids: &[u32], name: &str, defects: &mut Vec<IndexDefect>) {
    let ones = on_gpu.iter().filter(|&&is_on| is_on).count();
    let message = if let Some(id) = ids.iter().find(|&&id| !on_gpu[id as usize]) {
        format!("neuron {id} is in the bucket, and its gpu_idx is 0")
    } else if ones != ids.len() {
        format!("there are {} ids in the bucket, and gpu_idx has {ones} ones", ids.len())
    } else {
        return;
    };
    defects.push(IndexDefect::at(IndexRule::BucketAgrees, name, message));
}
