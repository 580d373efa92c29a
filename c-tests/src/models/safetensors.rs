//! Files of safetensors: the bytes of the header, the header as JSON, the data.

use std::path::Path;

use crate::Result;
use serde_json::{Map, Value, json};

use super::weight::{Kind, Weight};
use super::write_whole;

/// Writes a file with these tensors, which have no types of blocks.
///
/// # Errors
/// The error of the system.
pub fn write_safetensors(path: &Path, weights: &[Weight], seed: u64) -> Result<()> {
    let header = header(weights).to_string();
    write_whole(path, |file| {
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        weights.iter().try_for_each(|weight| file.write_all(&weight.data(seed)))
    })
}

fn header(weights: &[Weight]) -> Value {
    let mut offset = 0;
    let mut entries = Map::new();
    for weight in weights {
        let kind = match weight.kind {
            Kind::F32 => "F32",
            Kind::F16 => "F16",
            Kind::Q8 | Kind::Q4 => panic!("{}: safetensors have no types of blocks", weight.name),
        };
        let end = offset + weight.size();
        let shape: Vec<u64> = weight.extents.iter().rev().copied().collect();
        entries.insert(weight.name.clone(), json!({"dtype": kind, "shape": shape, "data_offsets": [offset, end]}));
        offset = end;
    }
    Value::Object(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_the_slowest_extent_first_and_offsets_without_gaps() {
        let weight =
            |name: &str, kind| Weight { name: name.to_owned(), kind, extents: vec![3, 2], center: 0.0, spread: 1.0 };
        let header = header(&[weight("a", Kind::F32), weight("b", Kind::F16)]);
        assert_eq!(header["a"], json!({"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}));
        assert_eq!(header["b"], json!({"dtype": "F16", "shape": [2, 3], "data_offsets": [24, 36]}));
    }
}
