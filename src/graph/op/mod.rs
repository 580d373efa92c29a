//! Operations of ggml: one table with what each part of this crate needs to know of them.
//!
//! A new operation of ggml is a row in `table`; until it has one, it is [`Op::Unknown`], of which the worst is assumed.
//!
//! - `facts`: the columns that planning does not read, and how a row is written
//! - `table`: the rows
//!
//! The numbers of operations change between versions of ggml, so they are identified by name.

mod facts;
mod table;
#[cfg(test)]
mod tests;

pub use facts::{CopyKind, OpGroup, TileKind, Window, Work};
pub use table::Op;

use super::layouts::Layout;

/// A version of ggml: major, minor, patch.
pub type Version = [u32; 3];

/// Slots of sources, as a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots(u8);

impl Slots {
    /// The first source.
    pub const FIRST: Self = Self(1);
    /// The second source.
    pub const SECOND: Self = Self(2);
    /// The first two sources.
    pub const BOTH: Self = Self(3);
    /// Every source.
    pub const ALL: Self = Self(u8::MAX);

    /// Returns the set as a number: the lowest bit is the first source, and all bits are every source.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the set with this number, see [`Slots::bits`].
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Returns `true` if the slot is in the set.
    pub fn has(self, slot: usize) -> bool {
        self == Self::ALL || u8::try_from(slot).is_ok_and(|slot| slot < 8 && self.0 & 1 << slot != 0)
    }
}

/// Which sources a node may write over: its result may be computed in place of one of them, if that source has its
/// layout, and no other source is in that memory. The slots are those for which the kernels of ggml's CPU backend give
/// the same bits in place: `c-tests/programs/in_place_kernels.c` runs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// None: the node computes nothing, or may read any byte of a source after it has written any byte of its result.
    Never,
    /// In ggml's own list of operations that may write over a source.
    Listed(Slots),
    /// Not in that list, but reads an element, or a whole row, before it writes there.
    RowByRow(Slots),
    /// Not in that list, and goes through a row or a matrix step by step, or several times: some backends read their
    /// own output again, or need separate memory.
    Scan(Slots),
    /// Not in that list, but begins by moving the bytes of its first source to its result, where they may be already.
    Copy,
}

impl InPlace {
    /// Returns `true` if the node may write over a source in this slot, whatever the rules in force.
    pub fn may_write_over(self, slot: usize) -> bool {
        match self {
            Self::Listed(slots) | Self::RowByRow(slots) | Self::Scan(slots) => slots.has(slot),
            Self::Copy => slot == 0,
            Self::Never => false,
        }
    }

    /// Returns `true` if the operation is in ggml's own list.
    pub fn is_listed(self) -> bool {
        matches!(self, Self::Listed(_))
    }
}

/// The effect of running a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: the operation is NONE.
    Nothing,
    /// Nothing: the node is a view of its source.
    View,
    /// The node's own memory, or that of its root when it is a view.
    Result,
    /// The node's own memory and that of these sources.
    Sources(Slots),
    /// Anything: the program's own function runs.
    Anything,
}

impl Effect {
    /// Returns `true` if the node may change the memory of its source at this position.
    pub fn writes_source(self, position: usize) -> bool {
        match self {
            Self::Sources(slots) => slots.has(position),
            Self::Anything => true,
            Self::Nothing | Self::View | Self::Result => false,
        }
    }
}

/// Layouts that an operation can read or write; each kind includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strides {
    /// Its own memory, as ggml created it. Nothing is known of any other.
    OnlyItsOwn,
    /// The layout that ggml gave it, anywhere.
    Contiguous,
    /// Rows without gaps inside, in their order, with gaps of any size after rows, planes and volumes.
    PaddedRows,
    /// Rows without gaps inside, in any order.
    Rows,
    /// Elements in any order, with gaps of any size.
    Anything,
}

impl Strides {
    /// Returns `true` if a tensor that ggml created as `own`, without gaps, may have the layout `requested`, with the
    /// same elements. Strides of dimensions with one element do not matter.
    pub fn allows(self, own: &Layout, requested: &Layout) -> bool {
        own.element == requested.element && own.ne == requested.ne && self >= needed(own, &requested.tidied(own.nb[0]))
    }
}

/// Returns the kind of layout that `requested` is; `own` is the one without gaps.
fn needed(own: &Layout, requested: &Layout) -> Strides {
    if requested.nb == own.nb {
        Strides::Contiguous
    } else if requested.nb[0] != own.nb[0] {
        Strides::Anything
    } else if requested.nb.is_sorted() {
        Strides::PaddedRows
    } else {
        Strides::Rows
    }
}

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
