//! The two formats of `torch.save`.

use crate::malformed::{Result, malformed};

use super::archive::{Archive, SIGNATURE};
use super::pickle::unpickle;
use super::tensor::StoredTensor;
use super::value::PickleValue;

/// The first number of the older format.
const MAGIC: i128 = 0x1950_a86a_20f9_469c_fc6c;

/// The first bytes of the older format: a pickle of [`MAGIC`].
const MAGIC_PICKLE: &[u8; 15] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.";

/// The second number of the older format.
const PROTOCOL_VERSION: i128 = 1001;

/// Returns whether a file begins as torch's files do.
pub fn is_torch(file: &[u8]) -> bool {
    file.starts_with(SIGNATURE) || file.starts_with(MAGIC_PICKLE)
}

/// Reads the elements of the tensor in a file: one dimension, any type of real numbers.
///
/// # Errors
/// [`crate::Malformed`]: the file is no such tensor, is damaged, or has more in it.
pub fn read(file: &[u8]) -> Result<Vec<f64>> {
    match () {
        () if file.starts_with(SIGNATURE) => read_archive(file),
        () if file.starts_with(MAGIC_PICKLE) => read_pickles(file),
        () => malformed("it is not a file of torch.save"),
    }
}

fn read_archive(file: &[u8]) -> Result<Vec<f64>> {
    let archive = Archive::read(file)?;
    let folder = archive.folder()?;
    let record = |name: &str| {
        let name = format!("{folder}/{name}");
        archive.record(&name).map_or_else(|| malformed(format!("record {name:?} is missing")), Ok)
    };
    match archive.record(&format!("{folder}/byteorder")) {
        // It is missing before torch 2.1.
        None | Some(b"little") => {}
        Some(order) => {
            return malformed(format!("the byte order is \"{}\"; \"little\" is supported", order.escape_ascii()));
        }
    }
    let (value, rest) = unpickle(record("data.pkl")?)?;
    if !rest.is_empty() {
        return malformed(format!("{} bytes follow the pickle", rest.len()));
    }
    let tensor = tensor(value)?;
    tensor.values(record(&format!("data/{}", tensor.storage().key))?)
}

fn read_pickles(file: &[u8]) -> Result<Vec<f64>> {
    let (magic, rest) = unpickle(file)?;
    let (version, rest) = unpickle(rest)?;
    if !matches!((&magic, &version), (PickleValue::Int(MAGIC), PickleValue::Int(PROTOCOL_VERSION))) {
        return malformed(format!("the version of the format is not {PROTOCOL_VERSION}"));
    }
    let (system, rest) = unpickle(rest)?;
    if !matches!(system.get("little_endian"), Some(PickleValue::Bool(true))) {
        return malformed("the byte order is not little-endian");
    }
    let (value, rest) = unpickle(rest)?;
    let tensor = tensor(value)?;
    let storage = tensor.storage();
    let (keys, rest) = unpickle(rest)?;
    let names: Option<&[PickleValue]> = if let PickleValue::List(names) = &keys { Some(&names.values) } else { None };
    let is_only = matches!(names, Some([PickleValue::Text(key)]) if *key == storage.key);
    if !is_only {
        return malformed(format!("the list of storages is not just {:?}, that of the tensor", storage.key));
    }
    let Some((count, bytes)) = rest.split_first_chunk() else {
        return malformed("it ends before the storage: is the file whole?");
    };
    let count = u64::from_le_bytes(*count);
    if count != storage.count {
        return malformed(format!("storage {:?} has {count} elements; {} are stated", storage.key, storage.count));
    }
    tensor.values(bytes)
}

fn tensor(value: PickleValue) -> Result<StoredTensor> {
    match value {
        PickleValue::Tensor(tensor) => Ok(tensor),
        _ => malformed("the pickle is not a tensor; a single one is expected"),
    }
}
