//! A placement problem: blocks with live ranges, and the buffer that they are placed in; its solution; and the
//! interface and the effort of what solves it.

use std::ops::{Deref, DerefMut, Range};

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

/// A distance in bytes from the start of a chunk.
pub type Offset = u64;

/// Index of a chunk: one backend buffer of the several that a plan may be split into.
pub type ChunkId = u32;

/// The largest number of chunks of a plan, as in ggml-alloc. The last of them has no size limit.
pub const MAX_CHUNKS: usize = 16;

/// Blocks to be placed in one buffer: a list of blocks with the constraints on their placement.
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

    /// Creates a problem of blocks whose sizes are padded to `alignment`, a power of two; no chunk should exceed
    /// `max_chunk` bytes.
    pub fn from_blocks(list: BlockList, alignment: Bytes, max_chunk: Option<Bytes>) -> Self {
        Self { list, alignment, max_chunk }
    }

    /// Converts to the blocks, in the order of their first steps.
    pub fn into_blocks(self) -> Vec<Block> {
        self.list.blocks
    }

    /// Returns the power of two that every offset is a multiple of.
    pub fn alignment(&self) -> Bytes {
        self.alignment
    }

    /// Returns the size that no chunk should exceed, if there is a limit.
    pub fn max_chunk(&self) -> Option<Bytes> {
        self.max_chunk
    }
}

impl Deref for Problem {
    type Target = BlockList;

    fn deref(&self) -> &BlockList {
        &self.list
    }
}

impl DerefMut for Problem {
    fn deref_mut(&mut self) -> &mut BlockList {
        &mut self.list
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

/// How much work a search may do, counted in blocks and steps that it reads. Never in time, so that the same problem
/// always has the same result. A core does some hundreds of millions of units a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Effort(u64);

impl Effort {
    /// No search at all.
    pub const NONE: Self = Self(0);
    /// For planning a graph: a fraction of a millisecond.
    pub const QUICK: Self = Self(100_000);
    /// Minutes at most.
    pub const THOROUGH: Self = Self(60_000_000_000);

    /// Creates an effort of `units` units of work.
    pub const fn units(units: u64) -> Self {
        Self(units)
    }

    /// Returns the number of units.
    pub const fn in_units(self) -> u64 {
        self.0
    }
}

impl Default for Effort {
    fn default() -> Self {
        Self::QUICK
    }
}

/// A way of choosing offsets.
///
/// Every placement is valid. [`LargestFirst`](super::LargestFirst) and [`BestFit`](super::BestFit) respect
/// [`Problem::max_chunk`], with several chunks where one is not enough; the others put all blocks into one chunk of any
/// size. Equal problems get equal placements.
pub trait Strategy {
    /// A short name for reports.
    fn name(&self) -> &'static str;

    /// Returns `true` if `problem` is small enough for the memory and time that the strategy takes.
    fn suits(&self, problem: &Problem) -> bool {
        let _ = problem;
        true
    }

    /// Chooses a location for every block of `problem`.
    fn place(&self, problem: &Problem) -> Placement;
}

/// Returns a list of `len` copies of `value`.
///
/// A short `vec![0; len]` takes longer: it calls `calloc`, which in glibc before 2.41 does not use the blocks that its
/// thread has just freed.
pub fn filled<T: Copy>(value: T, len: usize) -> Vec<T> {
    let mut list = Vec::with_capacity(len);
    list.resize(len, value);
    list
}

/// Makes `list` one of `len` copies of `value`, in the memory that it has.
pub fn refill<T: Copy>(list: &mut Vec<T>, value: T, len: usize) {
    list.clear();
    list.resize(len, value);
}
