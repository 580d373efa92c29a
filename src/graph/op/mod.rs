//! Operations of ggml: one table with what each part of this crate needs to know of them.
//!
//! A new operation of ggml is a row in `table`; until it has one, it is [`Op::Unknown`], of which the worst is assumed.
//!
//! - `in_place`: which sources a node may write over
//! - `effect`: what running a node can change
//! - `strides`: the layouts that a node can read and write
//! - `facts`: the other columns, and how a row is written
//! - `table`: the rows
//!
//! The numbers of operations change between versions of ggml, so they are identified by name.

mod in_place;
mod effect;
mod strides;
mod facts;
mod table;
#[cfg(test)]
mod tests;

pub use effect::Effect;
pub use facts::{CopyKind, OpGroup, TileKind, Window, Work};
pub use in_place::{InPlace, Slots};
pub use strides::Strides;
pub use table::Op;

/// A version of ggml: major, minor, patch.
pub type Version = [u32; 3];

impl Op {
    /// Returns the operation with ggml's name `name`.
    pub fn named(name: &str) -> Self {
        Self::KNOWN.binary_search_by_key(&name, |op| op.name()).map_or(Self::Unknown, |at| Self::KNOWN[at])
    }

    /// Returns ggml's name; that of [`Op::Unknown`] is empty.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Returns what running a node can change.
    pub fn effect(self) -> Effect {
        self.row().1.effect
    }

    /// Returns `true` for operations that only view memory in another layout.
    pub fn is_view(self) -> bool {
        self.effect() == Effect::View
    }

    /// Returns `true` for operations for which no kernel runs: views and no-ops.
    pub fn computes_nothing(self) -> bool {
        matches!(self.effect(), Effect::View | Effect::Nothing)
    }

    /// Returns the layouts in which a node can write its result, for ggml 0.9.5 and 0.26.
    pub fn writes(self) -> Strides {
        self.row().1.writes
    }

    /// Returns the layouts in which a node can read its source in `slot`, for ggml 0.9.5 and 0.26, if it was created for
    /// a source without gaps.
    pub fn reads(self, slot: usize) -> Strides {
        self.row().1.reads.get(slot).copied().unwrap_or(Strides::Contiguous)
    }

    /// Returns how it copies its sources, if it is a copy.
    pub fn copies(self) -> Option<CopyKind> {
        self.row().1.copies
    }

    /// Returns how it can be computed in tiles, where nothing is known of its parameters.
    pub fn tiles(self) -> TileKind {
        self.row().1.tiles
    }

    /// Returns how its floating-point operations are counted.
    pub fn work(self) -> Work {
        self.row().1.work
    }

    /// Returns the group of operations that it is shown with.
    pub fn group(self) -> OpGroup {
        self.row().1.group
    }

    /// Returns `true` if `ggml_op_can_inplace` lists it in a version of ggml; of an unknown version, only what is listed
    /// in all.
    pub fn is_listed_in(self, version: Option<Version>) -> bool {
        self.row().1.listed_since.is_some_and(|since| version.unwrap_or_default() >= since)
    }

    /// Returns which sources it may write over, by the kernels of recent versions of ggml. `listed` is the result of
    /// `ggml_op_can_inplace`.
    pub fn in_place(self, listed: bool) -> InPlace {
        let facts = &self.row().1;
        // Live ranges move the operands of CONCAT into its result instead.
        let never = self.computes_nothing() || self == Self::Concat;
        if listed && !never { InPlace::Listed(facts.listed_slots) } else { facts.unlisted }
    }

    /// Returns [`Op::in_place`] for a version of ggml, where known.
    pub fn in_place_in(self, listed: bool, version: Option<Version>) -> InPlace {
        match self.row().1.older_slots {
            Some((before, slots)) if listed && version.is_none_or(|version| version < before) => InPlace::Listed(slots),
            _ => self.in_place(listed),
        }
    }
}
