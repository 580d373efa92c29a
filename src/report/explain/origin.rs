//! Properties of tensors besides their names: element type, extents, sources, and the origin of those whose names do
//! not tell.

use std::fmt;

use crate::graph::{TensorId, extents};

use super::case::Case;
use super::named::Named;

/// The element type and the extents of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Shape {
    /// ggml's name of the element type.
    #[cfg_attr(feature = "cli", serde(rename = "type"))]
    pub element: String,
    /// Extents in elements, fastest first.
    pub ne: [i64; 4],
}

/// A source of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Source {
    /// The tensor.
    #[cfg_attr(feature = "cli", serde(flatten))]
    pub tensor: Named,
    /// Its shape.
    #[cfg_attr(feature = "cli", serde(flatten))]
    pub shape: Shape,
}

impl Case<'_> {
    /// Returns the shape of a tensor.
    pub fn shape(&self, id: TensorId) -> Shape {
        let snapshot = self.planned.snapshot;
        Shape { element: snapshot.tensors[id as usize].element.to_string(), ne: snapshot.graph.layout(id).ne }
    }

    /// Returns the sources of a tensor, each once.
    pub fn sources(&self, id: TensorId) -> Vec<Source> {
        let mut seen = Vec::new();
        for &source in self.planned.snapshot.graph.sources(id) {
            if !seen.contains(&source) {
                seen.push(source);
            }
        }
        seen.into_iter().map(|source| Source { tensor: self.named(source), shape: self.shape(source) }).collect()
    }

    /// Returns what made a tensor whose name does not tell: among its first source and that one's first source, and so
    /// on, the nearest with its own name. `None` for a tensor whose name tells, and where there is none.
    pub fn origin(&self, id: TensorId) -> Option<String> {
        let snapshot = self.planned.snapshot;
        let is_telling = |id: TensorId| tells(&snapshot.tensors[id as usize].name);
        if is_telling(id) || snapshot.tensors[id as usize].name.is_empty() {
            return None;
        }
        let mut at = id;
        // A graph has no cycles; the limit is for files that claim one.
        for _ in 0..snapshot.tensors.len() {
            at = *snapshot.graph.sources(at).first()?;
            if is_telling(at) {
                return Some(Named::plain(&snapshot.tensors[at as usize]).to_string());
            }
        }
        None
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
fn tells(name: &str) -> bool {
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
