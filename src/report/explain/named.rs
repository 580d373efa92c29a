//! Tensors and steps by name.

use std::fmt;

use crate::graph::snapshot::TensorInfo;
use crate::placement::{Bytes, Step};

/// A tensor, by name and operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Named {
    /// The name, which may be empty.
    pub name: String,
    /// The operation, as ggml describes it; for a unary operation, which one. NONE computes nothing.
    pub op: String,
    /// The origin, if the name has only the suffixes that ggml appends, such as " (reshaped) (cont)".
    #[cfg_attr(feature = "cli", serde(skip_serializing_if = "Option::is_none"))]
    pub of: Option<String>,
}

impl Named {
    /// Returns the name and the operation of a tensor.
    pub fn plain(tensor: &TensorInfo) -> Self {
        Self { name: tensor.name.clone(), op: tensor.desc.to_string(), of: None }
    }
}

/// A step and the node that runs in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Node {
    /// Counted from 0.
    pub step: Step,
    /// The node; `None` in a graph without nodes.
    #[cfg_attr(feature = "cli", serde(flatten))]
    pub tensor: Option<Named>,
}

/// A tensor that lies in the memory of another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Alias {
    /// The tensor.
    #[cfg_attr(feature = "cli", serde(flatten))]
    pub tensor: Named,
    /// The step that computes it.
    pub step: Step,
    /// Bytes that it would need in its own memory, padded.
    pub bytes: Bytes,
    /// The tensor whose memory it lies in.
    pub memory_of: Named,
}

impl fmt::Display for Named {
    /// Names are quoted, and unprintable characters are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.op.as_str(), self.name.as_str()) {
            ("NONE" | "", name) => write!(f, "{name:?}")?,
            (op, "") => write!(f, "{}", op.escape_debug())?,
            (op, name) => write!(f, "{} {name:?}", op.escape_debug())?,
        }
        self.of.as_ref().map_or(Ok(()), |of| write!(f, " of {of}"))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tensor {
            Some(tensor) => write!(f, "step {}, {tensor}", self.step),
            None => write!(f, "step {}", self.step),
        }
    }
}
