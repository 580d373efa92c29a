//! Which sources a node may write over.

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
