//! A placement problem and its solution.

use super::blocks::{Block, BlockId, BlockList, Bytes, Shrink, Step, TooLarge};

/// A distance in bytes from the start of a chunk.
pub type Offset = u64;

/// Index of a chunk: one backend buffer of the several that a plan may be split into.
pub type ChunkId = u32;

/// The largest number of chunks of a plan, as in ggml-alloc. The last of them has no size limit.
pub const MAX_CHUNKS: usize = 16;

/// Blocks to be placed in one buffer.
#[derive(Clone, Debug)]
pub struct Problem {
    list: BlockList,
    alignment: Bytes,
    max_chunk: Option<Bytes>,
}

impl Problem {
    /// Creates a problem without blocks. `alignment` is a power of two; no chunk should exceed `max_chunk` bytes.
    pub fn new(alignment: Bytes, max_chunk: Option<Bytes>) -> Self {
        Self::from_blocks(BlockList::default(), alignment, max_chunk)
    }

    /// Creates a problem of blocks whose sizes are padded to `alignment`, a power of two; no chunk should exceed `max_chunk` bytes.
    pub fn from_blocks(list: BlockList, alignment: Bytes, max_chunk: Option<Bytes>) -> Self {
        Self { list, alignment, max_chunk }
    }

    /// Adds a block, which is live for at least one step. Blocks are added in the order of their first steps.
    pub fn add(&mut self, block: Block) -> BlockId {
        self.list.add(block)
    }

    /// Shrinks `block` to `size` bytes from `step` on, which is not after its end. Shrinks are added in the order of
    /// their steps.
    pub fn shrink(&mut self, block: BlockId, step: Step, size: Bytes) {
        self.list.shrink(block, step, size);
    }

    /// Returns the blocks and shrinks without the constraints on their placement.
    pub fn list(&self) -> &BlockList {
        &self.list
    }

    /// Converts to the blocks, in the order of their first steps.
    pub fn into_blocks(self) -> Vec<Block> {
        self.list.into_blocks()
    }

    /// Returns the blocks, in the order of their first steps.
    pub fn blocks(&self) -> &[Block] {
        self.list.blocks()
    }

    /// Returns the shrinks, in the order of their steps.
    pub fn shrinks(&self) -> &[Shrink] {
        self.list.shrinks()
    }

    /// Returns the power of two that every offset is a multiple of.
    pub fn alignment(&self) -> Bytes {
        self.alignment
    }

    /// Returns the size that no chunk should exceed, if there is a limit.
    pub fn max_chunk(&self) -> Option<Bytes> {
        self.max_chunk
    }

    /// Returns the sum of all sizes, or [`Bytes::MAX`] if it overflows.
    pub fn total(&self) -> Bytes {
        self.list.total()
    }

    /// Checks that no offset can overflow.
    ///
    /// # Errors
    /// Returns [`TooLarge`] if the sizes add up to more than half of the address space.
    pub fn check_total(&self) -> Result<(), TooLarge> {
        self.list.check_total()
    }
}

/// The position of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The chunk that holds the block; no block straddles two.
    pub chunk: ChunkId,
    /// Bytes from the start of that chunk.
    pub offset: Offset,
}

/// A location for each block, and the required size of each chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// By block.
    pub locations: Vec<Location>,
    /// Bytes of each chunk.
    pub chunks: Vec<Bytes>,
}

impl Placement {
    /// Returns the bytes of all chunks.
    pub fn size(&self) -> Bytes {
        self.chunks.iter().sum()
    }
}
