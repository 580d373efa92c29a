//! Neurons of feed-forward networks: the most active ones are kept on a GPU, the others on the host.
//!
//! A neuron is a row of the up matrix, of the gate matrix if there is one, and of the transposed down matrix. The input
//! is the hotness of each neuron: how often it was active in a run. Hotness is always given, never assumed.
//!
//! ```text
//!   hotness of a layer            sorted, summed by granule        chosen by benefit per byte
//!   3 0 9 1 7 0 2 5 ...    ->     9 7 5 3 | 2 1 0 0 | ...    ->    24 | 3 | ...  of all layers
//! ```
//!
//! - `cost`: the bytes of a neuron, and [`powerinfer_capacity`]: what PowerInfer takes them for
//! - `granule`: how many neurons are taken at a time
//! - `groups`: what numbers are valid, and the groups of a layer
//! - `divide`: the choice
//!
//! [`divide()`] takes the groups with the highest hotness per byte. Where every group has the same bytes, the result is
//! the optimum of the integer program that maximizes the hotness on the GPU; elsewhere [`NeuronDivision::bound`] states
//! a value that no choice can exceed. `docs/internals/neurons.md` has the arguments.

mod cost;
mod granule;
mod groups;
mod divide;
#[cfg(test)]
mod tests;

pub use cost::{BUCKET_BYTES, LayerCost, MatrixRow, PowerInferShape, powerinfer_capacity};
pub use divide::{Inactive, LayerDivision, LayerNeurons, NeuronDivision, UnusableLayer, divide};
pub use granule::{DEFAULT_GRANULE, GRANULE_UNIT, Granule, InvalidGranule};
pub use groups::{HotnessDefect, MAX_NEURONS, check_hotness};
