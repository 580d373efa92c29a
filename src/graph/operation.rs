//! The effect of an operation on the memory of its sources.

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

/// The facts about an operation that the planner needs. A result may be computed in place of a source only if the
/// source has its layout, and no other source is in that memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// NONE, a no-op. Among the nodes such a tensor is a control dependency.
    Marker,
    /// VIEW and the like: another layout of the memory of its source, which computes nothing.
    View,
    /// May read any byte of a source after it has written any byte of its result.
    Other,
    /// In ggml's own list of operations that may write over a source.
    Listed(Slots),
    /// Not in that list, but reads an element, or a whole row, before it writes there.
    RowByRow(Slots),
    /// Not in that list, and goes through a row or a matrix step by step, or several times: some backends read their
    /// own output again, or need separate memory.
    Scan(Slots),
    /// Not in that list, but begins by moving the bytes of its first source to its result, where they may be already.
    Copy,
    /// Puts the bytes of two sources into one result.
    Concat,
}

impl Operation {
    /// Returns the operation with ggml's name `name`; `listed` is the result of `ggml_op_can_inplace`. The slots are
    /// those for which the kernels of ggml's CPU backend give the same bits in place:
    /// `c-tests/programs/in_place_kernels.c` runs them.
    pub fn named(name: &str, listed: bool) -> Self {
        match name {
            "NONE" => Self::Marker,
            "VIEW" | "RESHAPE" | "PERMUTE" | "TRANSPOSE" => Self::View,
            // Rows of the second source are selected by index, so it would be read again after it was written.
            "ADD_ID" if listed => Self::Listed(Slots::FIRST),
            _ if listed => Self::Listed(Slots::ALL),
            "GLU" => Self::RowByRow(Slots::BOTH),
            "NORM" | "GROUP_NORM" | "L2_NORM" => Self::RowByRow(Slots::FIRST),
            "SIN" | "COS" | "LEAKY_RELU" | "TRI" => Self::RowByRow(Slots::FIRST),
            "CUMSUM" => Self::Scan(Slots::FIRST),
            "SOLVE_TRI" | "CROSS_ENTROPY_LOSS_BACK" => Self::Scan(Slots::SECOND),
            "CONT" | "CPY" | "DUP" | "ACC" | "SET" => Self::Copy,
            "CONCAT" => Self::Concat,
            _ => Self::Other,
        }
    }

    /// Returns `true` if the operation may write over a source in this slot, whatever the rules in force.
    pub fn may_write_over(self, slot: usize) -> bool {
        match self {
            Self::Listed(slots) | Self::RowByRow(slots) | Self::Scan(slots) => slots.has(slot),
            Self::Copy => slot == 0,
            Self::Marker | Self::View | Self::Other | Self::Concat => false,
        }
    }

    /// Returns `true` if it is in ggml's own list.
    pub fn is_listed(self) -> bool {
        matches!(self, Self::Listed(_))
    }
}
