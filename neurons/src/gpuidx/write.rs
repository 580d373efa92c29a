//! Writes a file.

use crate::division::MAX_NEURONS;
use crate::gguf::{GgufHeader, GgufTensor, pad};

use super::layout::{keys, tensor_name};
use super::rule::{IndexDefect, IndexRule, MalformedIndex};
use super::{Dialect, GpuIndex, LayerIndex, padded_bytes};

impl GpuIndex {
    /// Returns the bytes of a file.
    ///
    /// # Errors
    /// [`MalformedIndex`] if the file would break a rule.
    pub fn write(&self, dialect: Dialect) -> Result<Vec<u8>, MalformedIndex> {
        MalformedIndex::unless_none(self.defects())?;
        let layers = u32::try_from(self.layers.len()).expect("the layers have been checked");
        let mut offset = 0;
        let mut tensors = Vec::new();
        let counts = self.layers.iter().flat_map(|layer| [u64::from(layer.neurons), layer.bucket.len() as u64]);
        for (position, elements) in counts.enumerate() {
            let name = tensor_name(position);
            tensors.push(GgufTensor { name, dimensions: vec![elements], type_id: dialect.i32_type(), offset });
            offset += padded_bytes(elements).expect("neurons are counted in 31 bits");
        }
        let mut out = GgufHeader::bytes(dialect.magic(), &keys(layers, self.vram_capacity), &tensors);
        for layer in &self.layers {
            append(&mut out, layer.index());
            append(&mut out, layer.bucket.iter().copied());
        }
        Ok(out)
    }

    /// Returns the defects that a file must not have.
    fn defects(&self) -> Vec<IndexDefect> {
        if self.layers.is_empty() || u32::try_from(self.layers.len()).is_err() {
            let message = format!("there are {} layers; 1 to {} are possible", self.layers.len(), u32::MAX);
            return vec![IndexDefect::of_file(IndexRule::TensorCount, message)];
        }
        let of_first = self.layers[0].neurons;
        self.layers.iter().enumerate().filter_map(|(layer, it)| it.defect(layer, of_first)).collect()
    }
}

impl LayerIndex {
    /// Returns 1 for each neuron on the GPU, and 0 for the others.
    fn index(&self) -> impl Iterator<Item = u32> {
        let mut bucket = self.bucket.iter().copied().peekable();
        (0..self.neurons).map(move |neuron| u32::from(bucket.next_if_eq(&neuron).is_some()))
    }

    fn defect(&self, layer: usize, of_first: u32) -> Option<IndexDefect> {
        let Self { neurons, bucket } = self;
        let at_bucket = |rule, message| Some(IndexDefect::at(rule, &tensor_name(2 * layer + 1), message));
        if *neurons == 0 || *neurons > MAX_NEURONS || *neurons != of_first {
            let message =
                format!("there are {neurons} neurons, and {of_first} in layer 0; 1 to {MAX_NEURONS} are possible");
            return Some(IndexDefect::at(IndexRule::Neurons, &tensor_name(2 * layer), message));
        }
        if let Some(id) = bucket.iter().find(|id| *id >= neurons) {
            return at_bucket(IndexRule::BucketRange, format!("id {id} is not a neuron: there are {neurons}"));
        }
        let unordered = bucket.windows(2).find(|pair| pair[0] >= pair[1])?;
        at_bucket(
            IndexRule::BucketOrder,
            format!("id {} follows {}; ids must ascend strictly", unordered[1], unordered[0]),
        )
    }
}

/// Appends elements, and zeros up to where the next tensor starts.
fn append(out: &mut Vec<u8>, elements: impl Iterator<Item = u32>) {
    out.extend(elements.flat_map(u32::to_le_bytes));
    pad(out);
}
