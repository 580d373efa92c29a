//! The keys of a file, and its tensors with their positions.

use crate::division::MAX_NEURONS;
use crate::gguf::{GgufHeader, GgufTensor, GgufValue, ValueType};

use super::rule::{IndexDefect, IndexRule};
use super::{Dialect, padded_bytes};

const ARCHITECTURE: &str = "general.architecture";
const BLOCK_COUNT: &str = "generic.gpu_index.block_count";
const VRAM_CAPACITY: &str = "split.vram_capacity";

/// The keys, in their order, with the types of their values.
const KEYS: [(&str, ValueType); 3] =
    [(ARCHITECTURE, ValueType::String), (BLOCK_COUNT, ValueType::U32), (VRAM_CAPACITY, ValueType::U64)];

/// The only architecture.
const GPU_INDEX: &str = "generic.gpu_index";

/// Returns the keys of a file.
pub fn keys(layers: u32, vram_capacity: u64) -> Vec<(String, GgufValue)> {
    let values = [GgufValue::String(GPU_INDEX.to_owned()), GgufValue::u32(layers), GgufValue::u64(vram_capacity)];
    KEYS.iter().zip(values).map(|((key, _), value)| ((*key).to_owned(), value)).collect()
}

/// Returns the name of a tensor by its position.
pub fn tensor_name(position: usize) -> String {
    let kind = if position.is_multiple_of(2) { "gpu_idx" } else { "gpu_bucket" };
    format!("blk.{}.{kind}", position / 2)
}

/// The parts of a header that the data is read with.
#[derive(Debug)]
pub struct FileLayout {
    pub dialect: Dialect,
    pub vram_capacity: u64,
    /// Where the header ends, and the data starts.
    pub header: (u64, u64),
    pub tensors: Vec<TensorRange>,
}

/// Where a tensor is in the file.
#[derive(Debug)]
pub struct TensorRange {
    pub name: String,
    /// The position in the file.
    pub start: u64,
    pub elements: u64,
}

impl FileLayout {
    /// Checks a header.
    pub fn of(header: &GgufHeader) -> Result<Self, Vec<IndexDefect>> {
        let mut defects = Vec::new();
        let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.magic() == header.magic);
        let dialect = dialect.expect("only the magic numbers of dialects are read");
        check_keys(header, &mut defects);
        check_counts(header, &mut defects);
        let mut next = Some(0);
        for (position, tensor) in header.tensors.iter().enumerate() {
            check_entry(position, tensor, dialect, &mut defects);
            check_offset(tensor, next, &mut defects);
            let bytes = tensor.elements().and_then(padded_bytes);
            next = bytes.and_then(|bytes| tensor.offset.checked_add(bytes));
        }
        check_elements(header, &mut defects);
        let extent = |tensor: &GgufTensor| {
            let start = header.data_start.checked_add(tensor.offset)?;
            Some(TensorRange { name: tensor.name.clone(), start, elements: tensor.elements()? })
        };
        let tensors: Option<Vec<TensorRange>> = header.tensors.iter().map(extent).collect();
        let vram_capacity = header.value(VRAM_CAPACITY).and_then(GgufValue::as_u64);
        match (tensors, vram_capacity) {
            (Some(tensors), Some(vram_capacity)) if defects.is_empty() => {
                Ok(Self { dialect, vram_capacity, header: (header.end, header.data_start), tensors })
            }
            _ => Err(defects),
        }
    }
}

fn check_keys(header: &GgufHeader, defects: &mut Vec<IndexDefect>) {
    if header.keys.len() != KEYS.len() {
        let message = format!("there are {} keys; {} are expected", header.keys.len(), KEYS.len());
        defects.push(IndexDefect::of_file(IndexRule::Keys, message));
    }
    for (position, (key, value_type)) in KEYS.iter().enumerate() {
        match header.keys.get(position) {
            Some((name, value)) if name == key && value.value_type() == *value_type => {}
            Some((name, value)) if name == key => {
                let message = format!("the type is {}; {value_type} is expected", value.value_type());
                defects.push(IndexDefect::at(IndexRule::Keys, key, message));
            }
            Some((name, _)) => {
                let message = format!("key {position} is {name:?}; {key:?} is expected there");
                defects.push(IndexDefect::at(IndexRule::Keys, key, message));
            }
            None => defects.push(IndexDefect::at(IndexRule::Keys, key, "the key is missing")),
        }
    }
    if let Some(GgufValue::String(found)) = header.value(ARCHITECTURE)
        && found != GPU_INDEX
    {
        let message = format!("it is {found:?}; {GPU_INDEX:?} is expected");
        defects.push(IndexDefect::at(IndexRule::Architecture, ARCHITECTURE, message));
    }
}

fn check_counts(header: &GgufHeader, defects: &mut Vec<IndexDefect>) {
    let count = header.tensors.len();
    if count == 0 || !count.is_multiple_of(2) {
        let message = format!("there are {count} tensors; two for each layer are expected");
        defects.push(IndexDefect::of_file(IndexRule::TensorCount, message));
    }
    let layers = (count / 2) as u64;
    if let Some(found) = header.value(BLOCK_COUNT).and_then(GgufValue::as_u64)
        && found != layers
    {
        let message = format!("it is {found}; the tensors are those of {layers} layers");
        defects.push(IndexDefect::at(IndexRule::BlockCount, BLOCK_COUNT, message));
    }
}

fn check_entry(position: usize, tensor: &GgufTensor, dialect: Dialect, defects: &mut Vec<IndexDefect>) {
    let mut defect = |rule, message: String| defects.push(IndexDefect::at(rule, &tensor.name, message));
    let expected = tensor_name(position);
    if tensor.name != expected {
        defect(IndexRule::TensorName, format!("tensor {position} has this name; {expected:?} is expected"));
    }
    if tensor.dimensions.len() != 1 {
        defect(IndexRule::Dimensions, format!("there are {} dimensions; 1 is expected", tensor.dimensions.len()));
    }
    if tensor.type_id != dialect.i32_type() {
        let magic = dialect.magic();
        let magic = magic.escape_ascii();
        let expected = dialect.i32_type();
        defect(IndexRule::Type, format!("the type is {}; {expected} is expected in a {magic} file", tensor.type_id));
    }
}

/// Checks that a tensor starts where the tensor before it ends. `None` if that is beyond any file.
fn check_offset(tensor: &GgufTensor, expected: Option<u64>, defects: &mut Vec<IndexDefect>) {
    if expected != Some(tensor.offset) {
        let expected = expected.map_or("none that fits a file".to_owned(), |offset| offset.to_string());
        let message = format!("the offset is {}; {expected} is expected: the end of the part before it", tensor.offset);
        defects.push(IndexDefect::at(IndexRule::Offset, &tensor.name, message));
    }
}

fn check_elements(header: &GgufHeader, defects: &mut Vec<IndexDefect>) {
    let in_first = header.tensors.first().and_then(GgufTensor::elements);
    for pair in header.tensors.chunks(2) {
        let neurons = pair[0].elements();
        if neurons.is_none_or(|it| it == 0 || it > MAX_NEURONS.into()) {
            let message = format!("the extents are {:?}; 1 to {MAX_NEURONS} neurons are possible", pair[0].dimensions);
            defects.push(IndexDefect::at(IndexRule::Neurons, &pair[0].name, message));
        } else if neurons != in_first {
            let (found, first) = (neurons.unwrap_or(0), in_first.unwrap_or(0));
            let message =
                format!("there are {found} neurons, and {first} in layer 0: all layers must have the same number");
            defects.push(IndexDefect::at(IndexRule::Neurons, &pair[0].name, message));
        }
        if let Some(bucket) = pair.get(1)
            && bucket.elements().is_none_or(|count| count > neurons.unwrap_or(0))
        {
            let message = format!(
                "there are {:?} ids, more than the {:?} neurons of the layer",
                bucket.dimensions, pair[0].dimensions
            );
            defects.push(IndexDefect::at(IndexRule::BucketLength, &bucket.name, message));
        }
    }
}
