//! What a placement problem and its answer are.

/// A size in bytes.
pub type Bytes = u64;

/// A distance in bytes from the start of a chunk.
pub type Offset = u64;

/// A moment in the execution: step `i` is the run of the `i`-th node.
pub type Step = u32;

/// Index of a block in its [`Problem`].
pub type BlockId = u32;

/// Index of a chunk: one backend buffer of the several that a plan may be split into.
pub type ChunkId = u32;

/// How many chunks a plan may have, as in ggml-alloc. The last one has no size limit.
pub const MAX_CHUNKS: usize = 16;

/// The next multiple of a power of two; the largest number there is when it overflows, which no plan accepts.
pub fn padded(size: Bytes, alignment: Bytes) -> Bytes {
    let below = alignment - 1;
    size.checked_add(below).map_or(Bytes::MAX, |end| end & !below)
}

/// Memory that is needed from one step to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Bytes, already padded to the alignment of the problem.
    pub size: Bytes,
    /// First step at which the block is alive.
    pub first_step: Step,
    /// First step at which the block is dead, after `first_step`: the live range is half-open, `first_step..end_step`.
    pub end_step: Step,
}

/// A block gives back its tail: from `step` on it holds `size` bytes only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shrink {
    /// The block that shrinks.
    pub block: BlockId,
    /// First step at which the tail is free.
    pub step: Step,
    /// Bytes that are still held, padded.
    pub size: Bytes,
}

/// The sum of the sizes of a problem's blocks is beyond what can be addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// The sum, or the largest number there is.
    pub bytes: Bytes,
}

/// Blocks to be given offsets in one buffer.
#[derive(Clone, Debug)]
pub struct Problem {
    blocks: Vec<Block>,
    shrinks: Vec<Shrink>,
    alignment: Bytes,
    max_chunk: Option<Bytes>,
    /// Of the sizes of all blocks, or the largest number there is.
    total: Bytes,
}

impl Problem {
    /// A problem without blocks. `alignment` is a power of two; no chunk should exceed `max_chunk` bytes.
    pub fn new(alignment: Bytes, max_chunk: Option<Bytes>) -> Self {
        Self::with_capacity(alignment, max_chunk, 0)
    }

    /// The same with room for so many blocks.
    pub fn with_capacity(alignment: Bytes, max_chunk: Option<Bytes>, blocks: usize) -> Self {
        Self { blocks: Vec::with_capacity(blocks), shrinks: Vec::new(), alignment, max_chunk, total: 0 }
    }

    /// Adds a block that lives for a step at least; blocks come in the order of their births.
    pub fn add(&mut self, block: Block) -> BlockId {
        debug_assert!(block.first_step < block.end_step);
        debug_assert!(self.blocks.last().is_none_or(|last| last.first_step <= block.first_step));
        let id = BlockId::try_from(self.blocks.len()).expect("fewer than 2^32 blocks");
        self.blocks.push(block);
        self.total = self.total.saturating_add(block.size);
        id
    }

    /// Ends the live range of `block` before `end_step`.
    pub fn end(&mut self, block: BlockId, end_step: Step) {
        self.blocks[block as usize].end_step = end_step;
    }

    /// Lets `block` give back all but `size` bytes from `step` on; shrinks come in the order of their steps.
    pub fn shrink(&mut self, block: BlockId, step: Step, size: Bytes) {
        self.shrinks.push(Shrink { block, step, size });
    }

    /// The blocks, in the order of their births.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The tails that are given back early, in the order of their steps.
    pub fn shrinks(&self) -> &[Shrink] {
        &self.shrinks
    }

    /// Every offset is a multiple of this power of two.
    pub fn alignment(&self) -> Bytes {
        self.alignment
    }

    /// The size that no chunk should exceed, where there is such a limit.
    pub fn max_chunk(&self) -> Option<Bytes> {
        self.max_chunk
    }

    /// The sum of all sizes; the largest number there is when it overflows.
    pub fn total(&self) -> Bytes {
        self.total
    }

    /// Refuses a problem whose offsets could overflow.
    ///
    /// # Errors
    /// [`TooLarge`] when the sizes add up to more than half of the address space.
    pub fn check_total(&self) -> Result<(), TooLarge> {
        if self.total <= Bytes::MAX / 2 { Ok(()) } else { Err(TooLarge { bytes: self.total }) }
    }
}

/// Where a block lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The chunk that holds the block; no block straddles two.
    pub chunk: ChunkId,
    /// Bytes from the start of that chunk.
    pub offset: Offset,
}

/// A location for each block, and how large each chunk must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// By block.
    pub locations: Vec<Location>,
    /// Bytes of each chunk.
    pub chunks: Vec<Bytes>,
}

impl Placement {
    /// Bytes of all chunks together.
    pub fn size(&self) -> Bytes {
        self.chunks.iter().sum()
    }
}
