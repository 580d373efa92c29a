//! The bytes that neurons take on a device.

use std::num::NonZeroU64;

use crate::Bytes;

/// Bytes of the entry of a neuron in the bucket, the list of the neurons on the GPU.
pub const BUCKET_BYTES: Bytes = 4;

/// The rows of one matrix of a feed-forward network: up, gate, or the transposed down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixRow {
    /// Bytes of the row of one neuron.
    pub row: Bytes,
    /// Bytes that a device adds behind the last row, once for the matrix.
    pub padding: Bytes,
}

/// The bytes of the neurons of a layer on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerCost {
    /// Bytes of each neuron.
    pub neuron: NonZeroU64,
    /// Bytes of the layer besides its neurons, if at least one is on the device.
    pub layer: Bytes,
}

impl LayerCost {
    /// Each neuron counts as one: the budget is a number of neurons.
    pub const COUNT: Self = Self { neuron: NonZeroU64::MIN, layer: 0 };

    /// Returns the true bytes of neurons with a row in each of `matrices`: the rows, and [`BUCKET_BYTES`]. `None` if
    /// the sum overflows.
    pub fn of_matrices(matrices: &[MatrixRow]) -> Option<Self> {
        let sum =
            |part: fn(&MatrixRow) -> Bytes| matrices.iter().try_fold(0, |sum: Bytes, it| sum.checked_add(part(it)));
        let neuron = sum(|matrix| matrix.row)?.checked_add(BUCKET_BYTES).and_then(NonZeroU64::new)?;
        Some(Self { neuron, layer: sum(|matrix| matrix.padding)? })
    }

    /// Returns the bytes of `count` neurons, or `None` if they overflow.
    pub fn bytes(&self, count: u64) -> Option<Bytes> {
        if count == 0 { Some(0) } else { self.neuron.get().checked_mul(count)?.checked_add(self.layer) }
    }
}

/// The inputs of PowerInfer's estimate of the bytes of a neuron: not the width of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerInferShape {
    /// Neurons of a layer, `n_ff`.
    pub neurons: u64,
    /// Bytes of a block of elements.
    pub block_bytes: u64,
    /// Elements of a block.
    pub block_elements: u64,
    /// Whether there is a gate matrix.
    pub gated: bool,
}

/// Returns how many neurons PowerInfer takes for fitting `budget`: `floor(budget / int(S * 4.5)) * 4`, where `S` is
/// the bytes of `n_ff` elements, and 2 in place of 4.5 without a gate. `None` if the estimate is zero or overflows.
pub fn powerinfer_capacity(budget: Bytes, shape: &PowerInferShape) -> Option<u64> {
    let halves = if shape.gated { 9 } else { 4 };
    let numerator = shape.neurons.checked_mul(shape.block_bytes)?.checked_mul(halves)?;
    let four_neurons = numerator.checked_div(shape.block_elements.checked_mul(2)?)?;
    budget.checked_div(four_neurons)?.checked_mul(4)
}
