//! The rules for a file.

use std::fmt;

/// A rule for files. Its name is in messages and in the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IndexRule {
    /// The header is that of GGUF, version 3: magic number, version, keys and tensors, none of them twice.
    Header,
    /// There are three keys, with their names, types and order.
    Keys,
    /// The architecture is "generic.gpu_index".
    Architecture,
    /// There are two tensors for each layer, and at least one layer.
    TensorCount,
    /// The block count is the number of layers.
    BlockCount,
    /// The tensors are named by layer, `gpu_idx` before `gpu_bucket`.
    TensorName,
    /// Each tensor has one dimension.
    Dimensions,
    /// The elements are signed integers of 32 bits, by the number that the dialect has for them.
    Type,
    /// All layers have the same number of neurons, at least one and at most 2^31 - 1.
    Neurons,
    /// A bucket has at most as many ids as the layer has neurons.
    BucketLength,
    /// Each tensor starts where the tensor before it ends, at a multiple of 32 bytes.
    Offset,
    /// The file ends with the last tensor.
    Length,
    /// The bytes between header and data, and behind each tensor, are zero.
    Padding,
    /// `gpu_idx` has zeros and ones only.
    IndexValues,
    /// Ids in a bucket are neurons of the layer.
    BucketRange,
    /// Ids in a bucket are strictly ascending.
    BucketOrder,
    /// The bucket has exactly the neurons whose `gpu_idx` is 1.
    BucketAgrees,
    /// The file fits the model.
    Model,
}

impl IndexRule {
    /// All rules.
    pub const ALL: [Self; 18] = [
        Self::Header,
        Self::Keys,
        Self::Architecture,
        Self::TensorCount,
        Self::BlockCount,
        Self::TensorName,
        Self::Dimensions,
        Self::Type,
        Self::Neurons,
        Self::BucketLength,
        Self::Offset,
        Self::Length,
        Self::Padding,
        Self::IndexValues,
        Self::BucketRange,
        Self::BucketOrder,
        Self::BucketAgrees,
        Self::Model,
    ];
}

impl fmt::Display for IndexRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "header",
            Self::Keys => "keys",
            Self::Architecture => "architecture",
            Self::TensorCount => "tensor-count",
            Self::BlockCount => "block-count",
            Self::TensorName => "tensor-name",
            Self::Dimensions => "dimensions",
            Self::Type => "type",
            Self::Neurons => "neurons",
            Self::BucketLength => "bucket-length",
            Self::Offset => "offset",
            Self::Length => "length",
            Self::Padding => "padding",
            Self::IndexValues => "index-values",
            Self::BucketRange => "bucket-range",
            Self::BucketOrder => "bucket-order",
            Self::BucketAgrees => "bucket-agrees",
            Self::Model => "model",
        })
    }
}

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDefect {
    /// The rule.
    pub rule: IndexRule,
    /// The tensor or key, if it is about one.
    pub place: Option<String>,
    /// The expected and the actual value.
    pub message: String,
}

impl IndexDefect {
    /// Returns a defect of a tensor or key.
    pub fn at(rule: IndexRule, place: &str, message: impl Into<String>) -> Self {
        // Names come from the file: they must not control a terminal.
        Self { rule, place: Some(place.escape_debug().to_string()), message: message.into() }
    }

    /// Returns a defect of the file.
    pub fn of_file(rule: IndexRule, message: impl Into<String>) -> Self {
        Self { rule, place: None, message: message.into() }
    }
}

impl fmt::Display for IndexDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{} (rule {})", self.message, self.rule)
    }
}

/// The rules that do not hold for a file: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedIndex {
    /// Each rule once for a tensor, in the order of the file. Where the header is wrong, the data is not looked at.
    pub defects: Vec<IndexDefect>,
}

impl MalformedIndex {
    /// Fails if there are defects.
    pub(super) fn unless_none(defects: Vec<IndexDefect>) -> Result<(), Self> {
        if defects.is_empty() { Ok(()) } else { Err(Self { defects }) }
    }
}

impl fmt::Display for MalformedIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, defect) in self.defects.iter().enumerate() {
            let separator = if position == 0 { "" } else { "\n" };
            write!(f, "{separator}{defect}")?;
        }
        Ok(())
    }
}

impl std::error::Error for MalformedIndex {}
