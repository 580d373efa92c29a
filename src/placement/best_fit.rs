//! ggml-alloc's own strategy, online best fit, reproduced exactly so that lastuse is never larger.

use super::{Block, Bytes, ChunkId, Location, MAX_CHUNKS, Offset, Placement, Problem, Step, Strategy};

/// Places blocks in the order of their first steps, each into the smallest free range that is large enough, as ggml's
/// allocator does.
///
/// The offsets equal those of ggml 0.26 for the same live ranges. Source: the behaviour of `ggml-alloc.c`,
/// checked against it by the differential tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct BestFit;

impl Strategy for BestFit {
    fn name(&self) -> &'static str {
        "best fit"
    }

    fn splits_into_chunks(&self) -> bool {
        true
    }

    fn place(&self, problem: &Problem) -> Placement {
        let mut releases = releases(problem).into_iter().peekable();
        let mut heap = Heap::new(problem.max_chunk());
        let mut locations: Vec<Location> = Vec::with_capacity(problem.blocks().len());
        for block in problem.blocks() {
            while let Some(release) = releases.next_if(|release| release.step <= block.first_step) {
                let location = locations[release.block];
                heap.release(Location { offset: location.offset + release.from, ..location }, release.size);
            }
            locations.push(heap.allocate(block.size));
        }
        Placement { locations, chunks: heap.chunks.iter().map(|chunk| chunk.peak).collect() }
    }
}

/// Bytes of a block that become free at the start of a step.
struct Release {
    step: Step,
    block: usize,
    from: Offset,
    size: Bytes,
}

/// Returns everything that becomes free, in the order of steps.
fn releases(problem: &Problem) -> Vec<Release> {
    let mut held: Vec<Bytes> = problem.blocks().iter().map(|block| block.size).collect();
    let mut releases = Vec::with_capacity(held.len() + problem.shrinks().len());
    for tail in problem.list().tails() {
        let block = tail.block as usize;
        releases.push(Release { step: tail.free.start, block, from: tail.offset, size: tail.size });
        held[block] = tail.offset;
    }
    for (block, (&Block { end_step, .. }, size)) in problem.blocks().iter().zip(held).enumerate() {
        releases.push(Release { step: end_step, block, from: 0, size });
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
    /// Sorted by offset, never adjacent. The last one is the rest of the chunk after all blocks.
    free: Vec<Free>,
    /// Highest byte ever used.
    peak: Bytes,
}

struct Heap {
    chunks: Vec<FreeChunk>,
    max_chunk: Bytes,
}

impl Heap {
    fn new(max_chunk: Option<Bytes>) -> Self {
        let unlimited = Bytes::MAX / 2;
        Self { chunks: Vec::new(), max_chunk: max_chunk.map_or(unlimited, |max| max.min(unlimited)) }
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

    /// Adds a chunk. A block beyond the limit gets one of its own size; the last chunk has no limit.
    fn grow(&mut self, size: Bytes) -> (usize, usize) {
        let last = self.chunks.len() == MAX_CHUNKS - 1;
        let size = if last { Bytes::MAX / 2 } else { self.max_chunk.max(size) };
        self.chunks.push(FreeChunk { free: vec![Free { offset: 0, size }], peak: 0 });
        (self.chunks.len() - 1, 0)
    }

    fn release(&mut self, location: Location, size: Bytes) {
        if size == 0 {
            return;
        }
        let free = &mut self.chunks[location.chunk as usize].free;
        let at = free.partition_point(|range| range.offset < location.offset);
        let joins_previous = at > 0 && free[at - 1].end() == location.offset;
        let joins_next = free.get(at).is_some_and(|next| location.offset + size == next.offset);
        match (joins_previous, joins_next) {
            (true, true) => {
                free[at - 1].size += size + free[at].size;
                free.remove(at);
            }
            (true, false) => free[at - 1].size += size,
            (false, true) => {
                free[at].offset = location.offset;
                free[at].size += size;
            }
            (false, false) => free.insert(at, Free { offset: location.offset, size }),
        }
    }
}
