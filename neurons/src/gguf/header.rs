//! The part of a file before the data.

use std::collections::HashSet;
use std::io::Read;

use crate::malformed::{Result, malformed};

use super::input::HeaderReader;
use super::value::{GgufValue, write_string};

/// The version that is read and written.
pub const VERSION: u32 = 3;

/// The alignment of data where no key states another.
pub const DEFAULT_ALIGNMENT: u64 = 32;

/// The longest header, in bytes. Those of models with large vocabularies have some megabytes.
pub const MAX_HEADER: u64 = 1 << 28;

/// The longest name of a key, in bytes.
const MAX_KEY: u64 = u16::MAX as u64;

/// The longest name of a tensor. ggml's are shorter than 64 bytes.
const MAX_TENSOR_NAME: u64 = 1024;

/// ggml's tensors have at most four extents.
const MAX_DIMENSIONS: u32 = 4;

/// Keys and tensors of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufHeader {
    /// The first four bytes: `GGUF`, or those of a dialect.
    pub magic: [u8; 4],
    /// The keys with their values, in the order of the file; no key is there twice.
    pub keys: Vec<(String, GgufValue)>,
    /// The tensors, in the order of the file; no name is there twice.
    pub tensors: Vec<GgufTensor>,
    /// The end of the header.
    pub end: u64,
    /// The start of the data: the next multiple of the alignment.
    pub data_start: u64,
}

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufTensor {
    /// Its name.
    pub name: String,
    /// Its extents, the fastest first.
    pub dimensions: Vec<u64>,
    /// The number of its element type.
    pub type_id: u32,
    /// The position of its elements, counted from the start of the data.
    pub offset: u64,
}

impl GgufTensor {
    /// Returns the number of elements, or `None` if it overflows.
    pub fn elements(&self) -> Option<u64> {
        self.dimensions.iter().try_fold(1, |count: u64, &extent| count.checked_mul(extent))
    }
}

impl GgufHeader {
    /// Reads the header of a file of `length` bytes that begins with one of `magics`; nothing behind it is read.
    ///
    /// Whether the data is as long as the tensors need is for the caller to check.
    ///
    /// # Errors
    /// The first defect, with the key or tensor.
    pub fn read(reader: impl Read, length: u64, magics: &[[u8; 4]]) -> Result<Self> {
        let mut input = HeaderReader::new(reader, length, MAX_HEADER);
        let magic = input.array("the magic number")?;
        if !magics.contains(&magic) {
            let expected: Vec<String> = magics.iter().map(|magic| magic.escape_ascii().to_string()).collect();
            let expected = expected.join(" or ");
            return malformed(format!("the file starts with \"{}\"; {expected} is expected", magic.escape_ascii()));
        }
        let version = input.u32("the version")?;
        if version != VERSION {
            return malformed(format!("version {version} is not supported; {VERSION} is"));
        }
        let tensor_count = input.u64("the number of tensors")?;
        let key_count = input.u64("the number of keys")?;
        let keys = read_keys(&mut input, key_count)?;
        let alignment = alignment(&keys)?;
        let tensors = read_tensors(&mut input, tensor_count)?;
        let end = input.position();
        // The header is shorter than `MAX_HEADER`, and the alignment is 32 bits.
        Ok(Self { magic, keys, tensors, end, data_start: end.next_multiple_of(alignment) })
    }

    /// Returns the value of a key.
    pub fn value(&self, key: &str) -> Option<&GgufValue> {
        self.keys.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Returns the bytes of a header with zeros up to the start of the data, at a multiple of [`DEFAULT_ALIGNMENT`].
    pub fn bytes(magic: [u8; 4], keys: &[(String, GgufValue)], tensors: &[GgufTensor]) -> Vec<u8> {
        let mut out = magic.to_vec();
        out.extend(VERSION.to_le_bytes());
        out.extend((tensors.len() as u64).to_le_bytes());
        out.extend((keys.len() as u64).to_le_bytes());
        for (name, value) in keys {
            write_string(&mut out, name);
            value.write(&mut out);
        }
        for tensor in tensors {
            write_string(&mut out, &tensor.name);
            let dimensions = u32::try_from(tensor.dimensions.len()).expect("tensors have four extents");
            out.extend(dimensions.to_le_bytes());
            out.extend(tensor.dimensions.iter().flat_map(|extent| extent.to_le_bytes()));
            out.extend(tensor.type_id.to_le_bytes());
            out.extend(tensor.offset.to_le_bytes());
        }
        pad(&mut out);
        out
    }
}

/// Appends zeros up to a multiple of [`DEFAULT_ALIGNMENT`].
pub fn pad(out: &mut Vec<u8>) {
    const ALIGNMENT: usize = 32;
    const { assert!(ALIGNMENT as u64 == DEFAULT_ALIGNMENT) };
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
}

fn read_keys<R: Read>(input: &mut HeaderReader<R>, count: u64) -> Result<Vec<(String, GgufValue)>> {
    let (mut keys, mut names) = (Vec::new(), HashSet::new());
    for position in 0..count {
        let name = input.string(MAX_KEY, &format!("the name of key {position}"))?;
        let value = GgufValue::read(input, &format!("key {name:?}"))?;
        if !names.insert(name.clone()) {
            return malformed(format!("key {name:?} is there twice"));
        }
        keys.push((name, value));
    }
    Ok(keys)
}

fn read_tensors<R: Read>(input: &mut HeaderReader<R>, count: u64) -> Result<Vec<GgufTensor>> {
    let (mut tensors, mut names) = (Vec::new(), HashSet::new());
    for position in 0..count {
        let name = input.string(MAX_TENSOR_NAME, &format!("the name of tensor {position}"))?;
        let what = format!("the entry of tensor {name:?}");
        let dimension_count = input.u32(&what)?;
        if dimension_count > MAX_DIMENSIONS {
            return malformed(format!(
                "tensor {name:?} has {dimension_count} dimensions; at most {MAX_DIMENSIONS} are possible"
            ));
        }
        let dimensions: Result<Vec<u64>> = (0..dimension_count).map(|_| input.u64(&what)).collect();
        let tensor =
            GgufTensor { name, dimensions: dimensions?, type_id: input.u32(&what)?, offset: input.u64(&what)? };
        if !names.insert(tensor.name.clone()) {
            return malformed(format!("tensor {:?} is there twice", tensor.name));
        }
        tensors.push(tensor);
    }
    Ok(tensors)
}

/// Returns the alignment of the data.
fn alignment(keys: &[(String, GgufValue)]) -> Result<u64> {
    let Some((key, value)) = keys.iter().find(|(name, _)| name == "general.alignment") else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    let valid = value.as_u64().filter(|it| it.is_power_of_two() && u32::try_from(*it).is_ok());
    valid.map_or_else(|| malformed(format!("key {key:?} is {value}; a power of two below 2^32 is expected")), Ok)
}
