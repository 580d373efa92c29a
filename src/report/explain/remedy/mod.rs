//! The kinds of the largest tensors of a peak, and the remedies for them.
//!
//! - `without`: the peak if a block was not there
//! - `pattern`: the kind of a tensor by the nodes around it: scores of attention, logits, and others
//! - `batch`: what grows with the number of tokens
//! - `inherent`: bytes that are live at a node in every order of the nodes
//! - `text`: all of that for people

mod without;
mod pattern;
mod batch;
mod inherent;
mod text;

use crate::placement::{Bytes, Step};

use super::case::Case;
use super::named::{Named, Node};
use super::origin::Shape;

pub use batch::Batch;
pub use inherent::Inherent;
pub use pattern::Pattern;
pub use text::write_remedies;

/// How many of the largest blocks are looked at.
const MAX_LARGE: usize = 3;

/// Blocks after the first are looked at if they have this part of the peak, in hundredths.
const MIN_PART: Bytes = 5;

/// A peak is inherent if this part of it is live at a node in every order, in hundredths.
const INHERENT: Bytes = 90;

/// Facts about a peak besides its live tensors.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Remedies {
    /// The largest blocks, the largest first.
    pub largest: Vec<Large>,
    /// Tensors that grow with the number of tokens, if there is an input of tokens.
    pub batch: Option<Batch>,
    /// Bytes of the peak that are results of the forward pass, kept for the backward pass; 0 where nothing is trained.
    pub kept_for_backward: Bytes,
    /// Bytes that are live in every order, if they are most of the peak.
    pub inherent: Option<Inherent>,
}

/// One of the largest blocks at a peak.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Large {
    /// The tensor that is live in it, the last one of several.
    #[cfg_attr(feature = "cli", serde(flatten))]
    pub tensor: Named,
    /// Its shape.
    #[cfg_attr(feature = "cli", serde(flatten))]
    pub shape: Shape,
    /// Bytes of the block at the peak.
    pub bytes: Bytes,
    /// Live bytes at the peak that there would be without the block.
    pub lower_bound_without: Bytes,
    /// That peak.
    pub peak_without: Node,
    /// Its kind, if known.
    pub pattern: Option<Pattern>,
}

impl Case<'_> {
    /// Returns the facts about the peak of a buffer at `step`, which has `bytes` live bytes.
    pub fn remedies(&self, buffer: usize, step: Step, bytes: Bytes) -> Remedies {
        let blocks = self.blocks_at(buffer, step);
        let patterns = pattern::Patterns::of(self);
        let large = |&(block, held): &(u32, Bytes)| {
            let id = self.tensors_at(buffer, block, step).last().copied()?;
            let (lower_bound_without, peak_without) = self.peak_without(buffer, block);
            Some(Large {
                tensor: self.named(id),
                shape: self.shape(id),
                bytes: held,
                lower_bound_without,
                peak_without,
                pattern: patterns.pattern(id),
            })
        };
        let is_part =
            |part: Bytes, hundredths: Bytes| u128::from(part) * 100 >= u128::from(bytes) * u128::from(hundredths);
        let is_large = |(number, (_, held)): &(usize, &(u32, Bytes))| {
            *number == 0 || (*number < MAX_LARGE && is_part(*held, MIN_PART))
        };
        let is_kept = |&(block, _): &(u32, Bytes)| {
            let id = self.tensors_at(buffer, block, step).last().copied();
            id.is_some_and(|id| matches!(patterns.pattern(id), Some(Pattern::KeptForBackward { .. })))
        };
        let kept_for_backward = blocks.iter().filter(|block| is_kept(block)).map(|&(_, held)| held).sum();
        let inherent = self.inherent(buffer, step);
        Remedies {
            largest: blocks.iter().enumerate().filter(is_large).filter_map(|(_, block)| large(block)).collect(),
            batch: self.batch(buffer, step),
            kept_for_backward,
            inherent: inherent.filter(|inherent| is_part(inherent.bytes(), INHERENT)),
        }
    }
}
