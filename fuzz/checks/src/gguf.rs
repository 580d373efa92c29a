//! Files in the layout of GGUF.

use lastuse_neurons::gguf::{GgufHeader, GgufValue};
use lastuse_neurons::gpuidx::GpuIndex;

use crate::in_proportion;

/// Reads a header, and the values in it.
///
/// # Panics
/// When it takes too much memory, or is refused without a reason.
pub fn gguf(bytes: &[u8]) {
    let read = || GgufHeader::read(bytes, bytes.len() as u64, &[*b"GGUF", *b"PWRI"]);
    match in_proportion(bytes.len(), read) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(header) => {
            assert!(header.end <= bytes.len() as u64 && header.end <= header.data_start);
            let arrays = header.keys.iter().filter_map(|(_, value)| match value {
                GgufValue::Array(array) => Some(array),
                _ => None,
            });
            arrays.for_each(|array| assert_eq!(array.values().count() as u64, array.count));
        }
    }
}

/// Reads which neurons are on the GPU.
///
/// # Panics
/// When it takes too much memory, is refused without a reason, or is written back as other bytes.
pub fn gpuidx(bytes: &[u8]) {
    match in_proportion(bytes.len(), || GpuIndex::read(bytes)) {
        Err(malformed) => assert!(!malformed.defects.is_empty() && !malformed.to_string().is_empty()),
        Ok((index, dialect)) => assert_eq!(index.write(dialect).as_deref(), Ok(bytes)),
    }
}
