//! Tensors of torch.

use lastuse_neurons::torch;

use crate::in_proportion;

/// Reads a tensor.
///
/// # Panics
/// When it takes too much memory, is refused without a reason, or has more elements than bytes.
pub fn torch(bytes: &[u8]) {
    match in_proportion(bytes.len(), || torch::read(bytes)) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(values) => assert!(torch::is_torch(bytes) && values.len() <= bytes.len()),
    }
}
