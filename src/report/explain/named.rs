//! Tensors and steps by name, with their shapes.

use std::fmt;

use crate::graph::extents;
use crate::graph::snapshot::TensorInfo;
use crate::placement::{Bytes, Step};

/// A tensor, by name and operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Named {
    /// The name, which may be empty.
    pub name: String,
    /// The operation, as ggml describes it; for a unary operation, which one. NONE computes nothing.
    pub op: String,
    /// The origin, if the name has only the suffixes that ggml appends, such as " (reshaped) (cont)".
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
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
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Node {
    /// Counted from 0.
    pub step: Step,
    /// The node; `None` in a graph without nodes.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub tensor: Option<Named>,
}

/// A tensor that lies in the memory of another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Alias {
    /// The tensor.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub tensor: Named,
    /// The step that computes it.
    pub step: Step,
    /// Bytes that it would need in its own memory, padded.
    pub bytes: Bytes,
    /// The tensor whose memory it lies in.
    pub memory_of: Named,
}

/// The element type and the extents of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Shape {
    /// ggml's name of the element type.
    #[cfg_attr(feature = "serde", serde(rename = "type"))]
    pub element: String,
    /// Extents in elements, fastest first.
    pub ne: [i64; 4],
}

/// A source of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Source {
    /// The tensor.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub tensor: Named,
    /// Its shape.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub shape: Shape,
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

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.element.escape_debug(), extents(&self.ne))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.tensor, self.shape)
    }
}

/// Returns whether a name has more than what ggml appends to the names of views and copies: " (reshaped) (cont)".
pub fn tells(name: &str) -> bool {
    let mut rest = name.trim_end();
    while let Some(start) = rest.strip_suffix(')').and_then(|inner| inner.rfind('(')) {
        rest = rest[..start].trim_end();
    }
    !rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_appended_words_alone_do_not_tell() {
        let names = ["kq-0", "kq-0 (view)", " (reshaped) (permuted) (cont)", "(cont)", "", "a)", "f(x)"];
        assert_eq!(names.map(tells), [true, true, false, false, false, true, true]);
    }

    #[test]
    fn shapes_end_with_their_last_extent_above_one() {
        let shape = |ne| Shape { element: "f16".to_owned(), ne }.to_string();
        assert_eq!(shape([512, 1, 8, 1]), "f16 [512, 1, 8]");
        assert_eq!(shape([1, 1, 1, 1]), "f16 [1]");
    }
}
