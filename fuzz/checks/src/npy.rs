//! Arrays of NumPy.

use lastuse_neurons::npy::{NpyArray, is_npy};

use crate::in_proportion;

/// Reads an array.
///
/// # Panics
/// When it takes too much memory, is refused without a reason, or has more elements than bytes.
pub fn npy(bytes: &[u8]) {
    match in_proportion(bytes.len(), || NpyArray::read(bytes).map(|array| array.values())) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(values) => assert!(is_npy(bytes) && values.len() <= bytes.len()),
    }
}
