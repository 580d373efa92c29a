//! ggml-alloc's own strategy, online best fit, reproduced exactly so that lastuse is never larger.

use super::{Block, BlockId, Bytes, ChunkId, Location, MAX_CHUNKS, Offset, Placement, Problem, Step, Strategy};

/// Places blocks in the order of their first steps, each into the smallest free range that is large enough, as ggml's
/// allocator does.
///
/// The offsets equal those of ggml 0.26 for the same live ranges, where no block is empty. Source: the behaviour of `ggml-alloc.c`,
/// checked against it by the differential tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct BestFit;

impl Strategy for BestFit {
    fn name(&self) -> &'static str {
        "best fit"
    }

    fn place(&self, problem: &Problem) -> Placement {
        place(problem, releases(problem), EmptyRanges::Ignored)
    }
}

/// Places blocks exactly as ggml's allocator does, with its fault: where an empty block is released inside a block that
/// is live, the memory around it may stay apart, and fewer blocks fit. `order` returns the position of a block among
/// those that end with it.
pub fn place_as_ggml(problem: &Problem, order: impl Fn(BlockId) -> usize) -> Placement {
    let mut releases = releases(problem);
    releases.sort_by_key(|release| (release.step, if release.is_tail { 0 } else { 1 + order(release.block) }));
    place(problem, releases, EmptyRanges::Listed)
}

fn place(problem: &Problem, releases: Vec<Release>, empty_ranges: EmptyRanges) -> Placement {
    let mut releases = releases.into_iter().peekable();
    let mut heap = Heap::new(problem.max_chunk(), empty_ranges);
    let mut locations: Vec<Location> = Vec::with_capacity(problem.blocks().len());
    for block in problem.blocks() {
        while let Some(release) = releases.next_if(|release| release.step <= block.first_step) {
            let location = locations[release.block as usize];
            heap.release(Location { offset: location.offset + release.from, ..location }, release.size);
        }
        locations.push(heap.allocate(block.size));
    }
    Placement { locations, chunks: heap.chunks.iter().map(|chunk| chunk.peak).collect() }
}

/// Bytes of a block that become free at the start of a step.
struct Release {
    step: Step,
    block: BlockId,
    from: Offset,
    size: Bytes,
    /// True where the block stays live without these bytes.
    is_tail: bool,
}

/// Returns everything that becomes free, in the order of steps.
fn releases(problem: &Problem) -> Vec<Release> {
    let mut held: Vec<Bytes> = problem.blocks().iter().map(|block| block.size).collect();
    let mut releases = Vec::with_capacity(held.len() + problem.shrinks().len());
    for tail in problem.tails() {
        let block = tail.block;
        releases.push(Release { step: tail.free.start, block, from: tail.offset, size: tail.size, is_tail: true });
        held[block as usize] = tail.offset;
    }
    for (block, (&Block { end_step, .. }, size)) in (0..).zip(problem.blocks().iter().zip(held)) {
        releases.push(Release { step: end_step, block, from: 0, size, is_tail: false });
    }
    releases.sort_by_key(|release| release.step);
    releases
}

/// A free range of a chunk.
struct Free {
    offset: Offset,
    size: Bytes,
}

impl Free {
    fn end(&self) -> Offset {
        self.offset + self.size
    }
}

struct FreeChunk {
    /// Sorted by offset, never adjacent; the last one is the rest of the chunk after all blocks. None of this holds once
    /// an empty range is among them.
    free: Vec<Free>,
    /// True once an empty range was released.
    had_empty: bool,
    /// Highest byte ever used.
    peak: Bytes,
}

/// The treatment of empty ranges that blocks of no bytes release.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EmptyRanges {
    Ignored,
    /// They are free ranges like others, as in ggml's allocator.
    Listed,
}

struct Heap {
    chunks: Vec<FreeChunk>,
    max_chunk: Bytes,
    empty_ranges: EmptyRanges,
}

impl Heap {
    fn new(max_chunk: Option<Bytes>, empty_ranges: EmptyRanges) -> Self {
        let unlimited = Bytes::MAX / 2;
        Self { chunks: Vec::new(), max_chunk: max_chunk.map_or(unlimited, |max| max.min(unlimited)), empty_ranges }
    }

    fn allocate(&mut self, size: Bytes) -> Location {
        let (chunk, index) = self.find_gap(size).or_else(|| self.find_rest(size)).unwrap_or_else(|| self.grow(size));
        let chunk_index = ChunkId::try_from(chunk).expect("at most 16 chunks");
        let chunk = &mut self.chunks[chunk];
        let free = &mut chunk.free[index];
        let offset = free.offset;
        free.offset += size;
        free.size -= size;
        if free.size == 0 {
            chunk.free.remove(index);
        }
        chunk.peak = chunk.peak.max(offset + size);
        Location { chunk: chunk_index, offset }
    }

    /// Returns the chunk and index of the smallest gap between blocks that is large enough. A gap in a later chunk wins
    /// whatever its size, and of two equal gaps the later one: ggml-alloc compares anew in every chunk.
    fn find_gap(&self, size: Bytes) -> Option<(usize, usize)> {
        let mut best = None;
        for (c, chunk) in self.chunks.iter().enumerate() {
            let mut best_size = Bytes::MAX;
            let gaps = chunk.free.len().saturating_sub(1);
            for (i, free) in chunk.free[..gaps].iter().enumerate() {
                if free.size >= size && free.size <= best_size {
                    best_size = free.size;
                    best = Some((c, i));
                }
            }
        }
        best
    }

    /// Returns the chunk, and the index of its rest, that fits best: where the block fits below the peak of a chunk the
    /// tightest fit, else the chunk that grows least.
    fn find_rest(&self, size: Bytes) -> Option<(usize, usize)> {
        let mut best: Option<(i128, (usize, usize))> = None;
        for (c, chunk) in self.chunks.iter().enumerate() {
            let Some(rest) = chunk.free.last().filter(|rest| rest.size >= size) else { continue };
            let spare = i128::from(chunk.peak) - i128::from(rest.offset) - i128::from(size);
            let better = match best {
                None => true,
                Some((reuse, _)) => (reuse < 0 && spare > reuse) || (spare >= 0 && spare < reuse),
            };
            if better {
                best = Some((spare, (c, chunk.free.len() - 1)));
            }
        }
        best.map(|(_, found)| found)
    }

    /// Adds a chunk. A block beyond the limit gets one of exactly its size; the last chunk has no limit.
    fn grow(&mut self, size: Bytes) -> (usize, usize) {
        let last = self.chunks.len() == MAX_CHUNKS - 1;
        let size = if last { Bytes::MAX / 2 } else { self.max_chunk.max(size) };
        self.chunks.push(FreeChunk { free: vec![Free { offset: 0, size }], had_empty: false, peak: 0 });
        (self.chunks.len() - 1, 0)
    }

    fn release(&mut self, location: Location, size: Bytes) {
        if size == 0 && self.empty_ranges == EmptyRanges::Ignored {
            return;
        }
        let chunk = &mut self.chunks[location.chunk as usize];
        chunk.had_empty |= size == 0;
        let released = Free { offset: location.offset, size };
        if chunk.had_empty {
            release_in_any_order(&mut chunk.free, released);
        } else {
            release_in_order(&mut chunk.free, released);
        }
    }
}

/// Joins a released range with its neighbours in a sorted list.
fn release_in_order(free: &mut Vec<Free>, released: Free) {
    let at = free.partition_point(|range| range.offset < released.offset);
    let joins_previous = at > 0 && free[at - 1].end() == released.offset;
    let joins_next = free.get(at).is_some_and(|next| released.end() == next.offset);
    match (joins_previous, joins_next) {
        (true, true) => {
            free[at - 1].size += released.size + free[at].size;
            free.remove(at);
        }
        (true, false) => free[at - 1].size += released.size,
        (false, true) => {
            free[at].offset = released.offset;
            free[at].size += released.size;
        }
        (false, false) => free.insert(at, released),
    }
}

/// Joins a released range with the first range in the list that it touches, and that one with the next in the list on
/// the other side, as ggml-alloc does. In a list that is not sorted, they may be others than the neighbours.
#[cold]
fn release_in_any_order(free: &mut Vec<Free>, released: Free) {
    let touches = |range: &Free| range.end() == released.offset || released.end() == range.offset;
    let Some(at) = free.iter().position(touches) else {
        let at = free.iter().position(|range| range.offset >= released.offset).unwrap_or(free.len());
        free.insert(at, released);
        return;
    };
    let is_before = free[at].end() == released.offset;
    if !is_before {
        free[at].offset = released.offset;
    }
    free[at].size += released.size;
    let first = if is_before { Some(at) } else { at.checked_sub(1) };
    let Some(first) = first.filter(|first| first + 1 < free.len()) else { return };
    if free[first].end() == free[first + 1].offset {
        free[first].size += free[first + 1].size;
        free.remove(first + 1);
    }
}
