//! Files of GGUF.

use std::path::Path;

use crate::Result;
use lastuse_neurons::gguf::{DEFAULT_ALIGNMENT, GgufHeader, GgufTensor, GgufValue, pad};

use super::weight::Weight;
use super::write_whole;

/// Writes a file with these keys and tensors.
///
/// # Errors
/// The error of the system.
pub fn write_gguf(path: &Path, keys: &[(String, GgufValue)], weights: &[Weight], seed: u64) -> Result<()> {
    let mut offset = 0;
    let tensors: Vec<GgufTensor> = weights
        .iter()
        .map(|weight| {
            let start = offset;
            offset = (start + weight.size()).next_multiple_of(DEFAULT_ALIGNMENT);
            let type_id = weight.kind.in_ggml().id;
            GgufTensor { name: weight.name.clone(), dimensions: weight.extents.clone(), type_id, offset: start }
        })
        .collect();
    write_whole(path, |file| {
        file.write_all(&GgufHeader::bytes(*b"GGUF", keys, &tensors))?;
        weights.iter().try_for_each(|weight| {
            let mut data = weight.data(seed);
            pad(&mut data);
            file.write_all(&data)
        })
    })
}
