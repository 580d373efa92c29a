//! The chunks of memory that an allocator holds: taken when a graph is allocated, and given back when the graphs that are run
//! do not need them.
//!
//! Pages of the CPU's own buffers are taken by the system when they are written, so these buffers are reserved whole, and
//! pages are given back. Other buffers of a scheduler are taken on demand: a reservation only plans, and a graph that is
//! allocated after it takes what it needs. Graphs that need more later are refused: the scheduler then waits for its backends,
//! which may still compute in the buffers, and reserves again.

use crate::ggml::bindings::ggml_backend_buffer;
use crate::ggml::live::buffers::{Buffer, BufferType};
use crate::ggml::live::recycled;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::surplus::{RUNS, give_back_beyond, note_graph};
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::refusal::Refusal;
use crate::graph::{Address, BufferPlan};
use crate::placement::Bytes;
use crate::settings::Settings;

use super::arena::{Chunk, Tenancy, are_large_enough, larger_of, let_go, reads, results};
use super::demand::Demand;
use super::discarded::give_up;
use super::turns;

/// The chunks of each buffer.
#[derive(Debug)]
pub struct Chunks {
    /// The chunks of each buffer, `None` until they are allocated.
    of_buffers: Vec<Option<Vec<Chunk>>>,
    /// What graphs need of them.
    pub demand: Demand,
    /// The arena that they belong to, if other allocators share them.
    tenancy: Option<Box<Tenancy>>,
    /// Chunks of earlier graphs with their buffers, which are read by the graph that was allocated last, or may be by the next one.
    earlier: Vec<(usize, Chunk)>,
    /// Whether the graph that was allocated last reads shared chunks, and so has others.
    crosses: bool,
    /// The results of that graph by buffer, where they are kept apart.
    results: Vec<Option<Chunk>>,
}

impl Chunks {
    /// Holds nothing for any of `count` buffers.
    pub fn none(settings: &Settings, count: usize) -> Self {
        let of_buffers = (0..count).map(|_| None).collect();
        Self {
            of_buffers,
            demand: Demand::new(settings, count),
            tenancy: None,
            earlier: Vec::new(),
            crosses: false,
            results: (0..count).map(|_| None).collect(),
        }
    }

    /// Bytes held for a buffer. In an arena, those that other allocators do not answer for.
    pub fn size(&self, buffer: usize) -> Bytes {
        let held = self.of_buffers[buffer].iter().flatten();
        let Some(tenancy) = &self.tenancy else { return held.map(|chunk| chunk.size()).sum() };
        let earlier = self.earlier.iter().filter(|(own, _)| *own == buffer).map(|(_, chunk)| chunk);
        tenancy.bytes(buffer, held.chain(earlier).chain(&self.results[buffer]))
    }

    /// Bytes held for all buffers.
    pub fn total(&self) -> Bytes {
        (0..self.of_buffers.len()).map(|buffer| self.size(buffer)).sum()
    }

    /// Shares the chunks from now on, or ends that. Those held are freed.
    pub fn share(&mut self, tenancy: Option<Tenancy>) {
        self.take_all().filter_map(let_go).for_each(drop);
        self.tenancy = tenancy.map(Box::new);
    }

    /// Returns `true` if other allocators share them.
    pub fn are_shared(&self) -> bool {
        self.tenancy.is_some()
    }

    /// Takes the chunks that the arena has now, for a graph that is about to be reserved or allocated. What earlier graphs have
    /// computed stays while a graph that is allocated reads it, and is not touched by a reservation.
    pub fn enter(&mut self, types: &[BufferType], graph: GraphRef<'_>, is_reservation: bool) {
        let Self { of_buffers, tenancy: Some(tenancy), earlier, crosses, .. } = self else { return };
        tenancy.enter(types);
        for (buffer, &buffer_type) in types.iter().enumerate() {
            let kept = give_up(tenancy.take_discarded(buffer, graph), buffer_type, graph);
            earlier.extend(kept.into_iter().map(|chunk| (buffer, chunk)));
        }
        if tenancy.is_alone() && !of_buffers.iter().flatten().flatten().any(|chunk| reads(graph, chunk)) {
            *crosses = true;
            let old = earlier.extract_if(.., |(_, chunk)| !reads(graph, chunk)).collect::<Vec<_>>();
            old.into_iter().filter_map(|(_, chunk)| let_go(chunk)).for_each(drop);
            return;
        }
        for (buffer, chunks) in of_buffers.iter_mut().enumerate() {
            earlier.extend(chunks.take().into_iter().flatten().map(|chunk| (buffer, chunk)));
        }
        if !is_reservation {
            let read = tenancy.read_by(graph);
            *crosses = !read.is_empty() || tenancy.is_alone();
            let old = earlier.extract_if(.., |(_, chunk)| !reads(graph, chunk)).collect::<Vec<_>>();
            if old.iter().any(|(buffer, chunk)| !types[*buffer].is_plain_cpu() && Chunk::strong_count(chunk) == 1) {
                // The latest graph of this allocator may still be computed there.
                turns::wait();
            }
            old.into_iter().filter_map(|(_, chunk)| let_go(chunk)).for_each(drop);
            earlier.extend(read);
        }
        for (buffer, chunks) in of_buffers.iter_mut().enumerate().filter(|_| is_reservation || !*crosses) {
            *chunks = Some(tenancy.chunks(buffer)).filter(|chunks| !chunks.is_empty());
        }
    }

    /// Leaves the chunks of the graph that was allocated last to the next one, in an arena.
    pub fn discard(&mut self) {
        let Self { of_buffers, tenancy: Some(tenancy), earlier, crosses, .. } = self else { return };
        if tenancy.is_alone() {
            return;
        }
        *crosses = false;
        for (buffer, chunks) in of_buffers.iter_mut().enumerate() {
            let earlier = earlier.extract_if(.., |(own, _)| *own == buffer).map(|(_, chunk)| chunk);
            tenancy.discard(buffer, chunks.take().into_iter().flatten().chain(earlier));
        }
    }

    /// Puts the results of a graph into memory of their own, if they are kept apart. `buffer_of` returns the buffer of a node.
    /// Returns the tensors that have memory now.
    ///
    /// # Errors
    /// The buffer that has no memory, and the bytes that it needs; no tensor has any then.
    pub fn place_results<'g>(
        &mut self,
        types: &[BufferType],
        graph: GraphRef<'g>,
        buffer_of: impl Fn(usize) -> usize,
    ) -> Result<Vec<TensorRef<'g>>, (usize, Bytes)> {
        let mut ends: Vec<Bytes> = vec![0; types.len()];
        let mut placed = Vec::new();
        for (position, root) in results(graph) {
            let buffer = buffer_of(position);
            let size = types[buffer].alloc_size(root);
            if size > 0 {
                placed.push((root, buffer, ends[buffer], size));
                ends[buffer] = ends[buffer].saturating_add(size).next_multiple_of(types[buffer].alignment());
            }
        }
        for (buffer, (&buffer_type, &end)) in types.iter().zip(&ends).enumerate() {
            let results = &mut self.results[buffer];
            self.earlier.extend(results.take_if(|results| reads(graph, results)).map(|results| (buffer, results)));
            if results.as_ref().is_none_or(|results| results.size() < end) && end > 0 {
                if let Some(old) = results.take().and_then(let_go) {
                    // The latest graph of this allocator may still be computed there.
                    turns::wait();
                    recycled::free(old);
                }
                let new = recycled::allocate(buffer_type, end).inspect(Buffer::use_for_compute);
                *results = Some(Chunk::new(new.ok_or((buffer, end))?));
            }
        }
        placed.retain(|&(root, buffer, offset, size)| {
            self.results[buffer].as_ref().is_some_and(|results| results.place_known(root, offset, size).is_ok())
        });
        Ok(placed.into_iter().map(|(root, ..)| root).collect())
    }

    /// Returns `true` if the results of graphs are kept apart.
    pub fn keeps_results(&self) -> bool {
        self.tenancy.as_ref().is_some_and(|tenancy| tenancy.keeps_results())
    }

    /// Lets go of shared chunks after a reservation: no graph is in them.
    pub fn end_reservation(&mut self) {
        if self.tenancy.is_some() {
            (0..self.of_buffers.len()).for_each(|buffer| self.free(buffer));
        }
    }

    /// Releases the chunks that the arena holds too, since no graph was allocated in them: a reservation that follows frees them
    /// before it takes larger ones.
    pub fn leave_shared(&mut self) {
        let is_shared = |chunks: &mut Vec<Chunk>| chunks.iter().all(|chunk| Chunk::strong_count(chunk) > 1);
        for chunks in self.of_buffers.iter_mut().filter(|_| self.tenancy.is_some()) {
            chunks.take_if(is_shared);
        }
    }

    /// Returns `true` if `buffer` is one of the chunks.
    pub fn contains(&self, buffer: *mut ggml_backend_buffer) -> bool {
        self.all().any(|own| own.as_ptr() == buffer)
    }

    /// Resets all chunks, as backends require before tensors are initialized anew; not those of results, in which they are already.
    pub fn reset(&self) {
        self.of_buffers.iter().flatten().flatten().for_each(|chunk| chunk.reset());
    }

    /// The chunk that `address` lies in.
    ///
    /// # Panics
    /// If the chunks of the plan that `address` belongs to are not allocated.
    pub fn at(&self, address: Address) -> &Buffer {
        let chunks =
            self.of_buffers[address.buffer as usize].as_ref().expect("the chunks of a plan are allocated first");
        &chunks[address.chunk as usize]
    }

    /// Returns `true` if the chunks held are large enough for a plan.
    pub fn suffice(&self, plans: &[BufferPlan]) -> bool {
        plans.iter().enumerate().all(|(buffer, plan)| self.suffice_for(buffer, &plan.placement.chunks))
    }

    /// Returns `true` if the chunks of a buffer have at least these sizes. A chunk of 0 bytes must exist too: tensors
    /// without bytes take their address from it.
    fn suffice_for(&self, buffer: usize, sizes: &[Bytes]) -> bool {
        self.of_buffers[buffer].as_deref().is_some_and(|chunks| are_large_enough(chunks, sizes))
    }

    /// Allocates the chunks of a plan where those held are too small, unless a reservation leaves that to the graph that is
    /// allocated next. Calls `forget` before chunks are freed.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`].
    pub fn grow(
        &mut self,
        types: &[BufferType],
        plans: &[BufferPlan],
        is_reservation: bool,
        mut forget: impl FnMut(),
    ) -> Result<(), Refusal> {
        let mut buffers = types.iter().zip(plans).enumerate();
        let grown = buffers.try_for_each(|(buffer, (&buffer_type, plan))| {
            let sizes = &plan.placement.chunks;
            let (held, needed) = (self.size(buffer), plan.placement.size());
            if is_reservation && self.demand.gives_back(buffer, buffer_type, held, needed) {
                forget();
                self.free(buffer);
            }
            if is_reservation && self.demand.defers(buffer, buffer_type, sizes) {
                return Ok(());
            }
            if self.suffice_for(buffer, sizes) {
                if let Some(tenancy) = self.tenancy.as_deref().filter(|_| !self.crosses) {
                    tenancy.need(buffer, sizes);
                }
                return Ok(());
            }
            forget();
            let step = self.demand.step(buffer, &self.sizes(buffer), sizes);
            self.replace(buffer, buffer_type, sizes, step.as_deref())
        });
        if is_reservation {
            self.demand.note_reserved();
        }
        grown
    }

    /// Notes that a plan has served a graph, which is run next. Only runs of a scheduler's graphs are counted: it runs no
    /// graph that was allocated before, and its programs set all inputs before each run.
    pub fn note_run(
        &mut self,
        runtime: &'static Runtime,
        types: &[BufferType],
        plans: &[BufferPlan],
        is_scheduled: bool,
    ) {
        let Self { of_buffers, demand, tenancy, crosses, .. } = self;
        tenancy.iter_mut().filter(|_| *crosses).for_each(|tenancy| tenancy.note_crossing());
        demand.is_idle = false;
        if plans.is_empty() {
            return;
        }
        let buffers = types.iter().zip(plans).zip(&mut demand.needed).zip(of_buffers);
        let mut is_small = true;
        for (((buffer_type, plan), needed), chunks) in buffers {
            *needed = plan.placement.size();
            let chunks = chunks.as_deref().unwrap_or_default();
            if !buffer_type.is_plain_cpu() {
                is_small &= *needed <= chunks.iter().map(|chunk| chunk.size()).sum::<Bytes>() / 2;
            } else if let ([chunk], true) = (chunks, demand.is_counted) {
                let needed = if is_scheduled { *needed } else { chunk.size() };
                // SAFETY: of this allocator alone, which has just allocated the graph, or of some that take turns.
                unsafe { note_graph(runtime, chunk, needed) };
            }
        }
        demand.small_runs = if is_small { demand.small_runs.saturating_add(1) } else { 0 };
        demand.is_trimmed |= demand.is_deferred && demand.small_runs >= RUNS;
    }

    /// Gives back what the graph allocated last does not need, unless other allocators share the chunks: pages of the CPU's own
    /// buffers now, and memory of others at the next reservation.
    ///
    /// # Safety
    /// No graph is being run, and none but that one is read or run before it is allocated again.
    pub unsafe fn trim(&mut self, types: &[BufferType]) {
        let Self { of_buffers, demand, tenancy, .. } = self;
        demand.is_trimmed = true;
        if tenancy.is_some() {
            return;
        }
        let buffers = types.iter().zip(of_buffers).zip(&demand.needed);
        for ((_, chunks), &needed) in buffers.filter(|((buffer_type, _), _)| buffer_type.is_plain_cpu()) {
            if let Some([chunk]) = chunks.as_deref() {
                // SAFETY: the graph that needs these bytes is the only one that is still used: see "# Safety".
                unsafe { give_back_beyond(chunk, needed) };
            }
        }
    }

    /// Replaces the chunks of a buffer, by those of a `step` of growth if there is memory. The old ones are freed first, so
    /// that both never exist at once.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`]; the buffer then has no chunks, or the old sizes if they grow in steps.
    fn replace(
        &mut self,
        buffer: usize,
        buffer_type: BufferType,
        sizes: &[Bytes],
        step: Option<&[Bytes]>,
    ) -> Result<(), Refusal> {
        let held = self.sizes(buffer);
        if self.tenancy.is_some() && !buffer_type.is_plain_cpu() {
            // Without an arena only a scheduler replaces them, which has waited.
            turns::wait();
        }
        self.free(buffer);
        let allocate = |sizes: &[Bytes]| -> Option<Vec<Chunk>> {
            let new = |&size: &Bytes| recycled::allocate(buffer_type, size).inspect(Buffer::use_for_compute);
            sizes.iter().map(|size| new(size).map(Chunk::new)).collect()
        };
        let is_own = |tenancy: &Tenancy| self.crosses && (tenancy.is_alone() || tenancy.suffices(buffer, sizes));
        let tenancy = self.tenancy.as_deref().filter(|tenancy| !is_own(tenancy));
        let shared = tenancy.map(|tenancy| tenancy.clear(buffer));
        // Other allocators of an arena need what it had.
        let larger = larger_of(step.unwrap_or(sizes), shared.as_deref().unwrap_or_default());
        let grown = (larger != sizes).then(|| allocate(&larger)).flatten().or_else(|| allocate(sizes));
        let is_grown = grown.is_some();
        let old = shared.as_ref().or_else(|| step.map(|_| &held)).filter(|old| !old.is_empty());
        self.of_buffers[buffer] = grown.or_else(|| old.and_then(|old| allocate(old)));
        let keeps_state = |chunk: &Chunk| !buffer_type.is_plain_cpu() && chunk.keeps_tensors();
        if let (Some(tenancy), Some(chunks)) = (tenancy, &self.of_buffers[buffer]) {
            if chunks.iter().any(keeps_state) {
                // Its backend has something of each tensor in it, and forgets that where another graph is allocated.
                self.tenancy.iter_mut().for_each(|tenancy| tenancy.leave_alone());
                self.crosses = true;
            } else {
                tenancy.set(buffer, chunks, if is_grown { sizes } else { &[] });
            }
        }
        if is_grown {
            return Ok(());
        }
        Err(Refusal::NoMemory { buffer: buffer_type.name(), size: sizes.iter().sum() })
    }

    /// The sizes of the chunks of a buffer.
    fn sizes(&self, buffer: usize) -> Vec<Bytes> {
        self.of_buffers[buffer].iter().flatten().map(|chunk| chunk.size()).collect()
    }

    /// Frees the chunks of a buffer.
    fn free(&mut self, buffer: usize) {
        self.of_buffers[buffer].take().into_iter().flatten().filter_map(let_go).for_each(drop);
    }

    fn all(&self) -> impl Iterator<Item = &Buffer> {
        self.of_buffers.iter().flatten().flatten().chain(self.results.iter().flatten()).map(|chunk| &**chunk)
    }

    /// Takes out everything that is held.
    fn take_all(&mut self) -> impl Iterator<Item = Chunk> {
        let held = self.of_buffers.iter_mut().flat_map(|chunks| chunks.take().unwrap_or_default());
        let earlier = self.earlier.drain(..).map(|(_, chunk)| chunk);
        held.chain(earlier).chain(self.results.iter_mut().filter_map(Option::take))
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        // The allocator is freed: the next one may need such buffers.
        self.take_all().filter_map(let_go).for_each(recycled::free);
    }
}
