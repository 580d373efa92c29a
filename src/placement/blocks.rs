//! Blocks with live ranges: the input of placement, without the constraints of a buffer.

use std::ops::Range;

/// A size in bytes.
pub type Bytes = u64;

/// A point in the execution: step `i` runs the `i`-th node.
pub type Step = u32;

/// Index of a block in its [`BlockList`].
pub type BlockId = u32;

/// Rounds `size` up to a multiple of `alignment`, a power of two. Returns [`Bytes::MAX`], which no plan accepts, on
/// overflow.
pub fn padded(size: Bytes, alignment: Bytes) -> Bytes {
    let below = alignment - 1;
    size.checked_add(below).map_or(Bytes::MAX, |end| end & !below)
}

/// Memory that is needed during a range of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Bytes, already padded to the alignment of the problem.
    pub size: Bytes,
    /// First step at which the block is live.
    pub first_step: Step,
    /// First step at which the block is dead, after `first_step`: the live range is half-open, `first_step..end_step`.
    pub end_step: Step,
}

/// A block becomes smaller: from `step` on it holds `size` bytes only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shrink {
    /// The block that shrinks.
    pub block: BlockId,
    /// First step at which the tail is free.
    pub step: Step,
    /// Bytes that the block still holds, padded.
    pub size: Bytes,
}

/// The end of a block that a [`Shrink`] frees before the block ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The block that shrinks.
    pub block: BlockId,
    /// Bytes from the start of the block to the tail.
    pub offset: Bytes,
    /// Bytes of the tail.
    pub size: Bytes,
    /// The steps of the block's live range at which the tail is free.
    pub free: Range<Step>,
}

/// The sizes of a problem's blocks add up to more than can be addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// The sum, or [`Bytes::MAX`] if it overflows.
    pub bytes: Bytes,
}

/// The blocks of one buffer, and how they shrink.
#[derive(Clone, Debug, Default)]
pub struct BlockList {
    blocks: Vec<Block>,
    shrinks: Vec<Shrink>,
    /// The sum of all sizes, or [`Bytes::MAX`] if it overflows.
    total: Bytes,
}

impl BlockList {
    /// Creates an empty list with capacity for `blocks` blocks.
    pub fn with_capacity(blocks: usize) -> Self {
        Self::in_memory_of(Vec::new(), blocks)
    }

    /// Creates an empty list with capacity for `blocks` blocks, in the memory of `list`.
    pub fn in_memory_of(mut list: Vec<Block>, blocks: usize) -> Self {
        list.clear();
        list.reserve(blocks);
        Self { blocks: list, shrinks: Vec::new(), total: 0 }
    }

    /// Converts to the blocks.
    pub fn into_blocks(self) -> Vec<Block> {
        self.blocks
    }

    /// Adds a block, which is live for at least one step. Blocks are added in the order of their first steps.
    pub fn add(&mut self, block: Block) -> BlockId {
        debug_assert!(block.first_step < block.end_step);
        debug_assert!(self.blocks.last().is_none_or(|last| last.first_step <= block.first_step));
        let id = BlockId::try_from(self.blocks.len()).expect("fewer than 2^32 blocks");
        self.blocks.push(block);
        self.total = self.total.saturating_add(block.size);
        id
    }

    /// Sets the first step at which `block` is dead.
    pub fn end(&mut self, block: BlockId, end_step: Step) {
        self.blocks[block as usize].end_step = end_step;
    }

    /// Shrinks `block` to `size` bytes from `step` on, which is not after its end. Shrinks are added in the order of
    /// their steps.
    pub fn shrink(&mut self, block: BlockId, step: Step, size: Bytes) {
        self.shrinks.push(Shrink { block, step, size });
    }

    /// Returns the blocks, in the order of their first steps.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns the shrinks, in the order of their steps.
    pub fn shrinks(&self) -> &[Shrink] {
        &self.shrinks
    }

    /// Returns the tails that shrinks free, in the order of their steps.
    pub fn tails(&self) -> impl Iterator<Item = Tail> {
        let blocks = if self.shrinks.is_empty() { &[] } else { self.blocks.as_slice() };
        let mut held: Vec<Bytes> = blocks.iter().map(|block| block.size).collect();
        self.shrinks.iter().map(move |&Shrink { block, step, size: offset }| {
            let size = std::mem::replace(&mut held[block as usize], offset) - offset;
            Tail { block, offset, size, free: step..self.blocks[block as usize].end_step.max(step) }
        })
    }

    /// Returns the sum of all sizes, or [`Bytes::MAX`] if it overflows.
    pub fn total(&self) -> Bytes {
        self.total
    }

    /// Checks that no offset can overflow.
    ///
    /// # Errors
    /// Returns [`TooLarge`] if the sizes add up to more than half of the address space.
    pub fn check_total(&self) -> Result<(), TooLarge> {
        if self.total <= Bytes::MAX / 2 { Ok(()) } else { Err(TooLarge { bytes: self.total }) }
    }
}
