//! The chunks of memory that an allocator holds: taken when a graph is allocated, and given back when the graphs that are run
//! do not need them.
//!
//! Pages of the CPU's own buffers are taken by the system when they are written, so these buffers are reserved whole, and
//! pages are given back. Other buffers of a scheduler are taken on demand: a reservation only plans, and a graph that is
//! allocated after it takes what it needs. Graphs that need more later are refused: the scheduler then waits for its backends,
//! which may still compute in the buffers, and reserves again.

use std::ffi::CStr;

use crate::ggml::bindings::ggml_backend_buffer;
use crate::ggml::environment::value_of;
use crate::ggml::live::buffers::{Buffer, BufferType};
use crate::ggml::live::recycled;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::surplus::{RUNS, give_back_beyond, note_freed, note_graph};
use crate::ggml::observe::verify::note_buffer_freed;
use crate::ggml::process::settings::Settings;
use crate::ggml::refusal::Refusal;
use crate::graph::{Address, BufferPlan};
use crate::placement::Bytes;

/// The chunks of each buffer.
#[derive(Debug)]
pub struct Chunks {
    /// The chunks of each buffer, `None` until they are allocated.
    of_buffers: Vec<Option<Vec<Buffer>>>,
    /// What graphs need of them.
    pub demand: Demand,
}

impl Chunks {
    /// Holds nothing for any of `count` buffers.
    pub fn none(settings: &Settings, count: usize) -> Self {
        Self { of_buffers: (0..count).map(|_| None).collect(), demand: Demand::new(settings, count) }
    }

    /// Bytes held for a buffer.
    pub fn size(&self, buffer: usize) -> Bytes {
        self.of_buffers[buffer].iter().flatten().map(Buffer::size).sum()
    }

    /// Bytes held for all buffers.
    pub fn total(&self) -> Bytes {
        self.all().map(Buffer::size).sum()
    }

    /// Returns `true` if `buffer` is one of the chunks.
    pub fn contains(&self, buffer: *mut ggml_backend_buffer) -> bool {
        self.all().any(|own| own.as_ptr() == buffer)
    }

    /// Resets all chunks, as backends require before tensors are initialized anew.
    pub fn reset(&self) {
        self.all().for_each(Buffer::reset);
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
        self.of_buffers[buffer].as_ref().is_some_and(|chunks| {
            sizes.len() <= chunks.len() && sizes.iter().zip(chunks).all(|(&size, chunk)| size <= chunk.size())
        })
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
            if (is_reservation && self.demand.defers(buffer, buffer_type, sizes)) || self.suffice_for(buffer, sizes) {
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
        let Self { of_buffers, demand } = self;
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
                is_small &= *needed <= chunks.iter().map(Buffer::size).sum::<Bytes>() / 2;
            } else if let ([chunk], true) = (chunks, demand.is_counted) {
                let needed = if is_scheduled { *needed } else { chunk.size() };
                // SAFETY: of this allocator alone, which has just allocated the graph.
                unsafe { note_graph(runtime, chunk, needed) };
            }
        }
        demand.small_runs = if is_small { demand.small_runs.saturating_add(1) } else { 0 };
        demand.is_trimmed |= demand.is_deferred && demand.small_runs >= RUNS;
    }

    /// Gives back what the graph allocated last does not need: pages of the CPU's own buffers now, and memory of others at the
    /// next reservation.
    ///
    /// # Safety
    /// No graph is being run, and none but that one is read or run before it is allocated again.
    pub unsafe fn trim(&mut self, types: &[BufferType]) {
        let Self { of_buffers, demand } = self;
        demand.is_trimmed = true;
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
        self.free(buffer);
        let allocate = |sizes: &[Bytes]| -> Option<Vec<Buffer>> {
            sizes.iter().map(|&size| recycled::allocate(buffer_type, size).inspect(Buffer::use_for_compute)).collect()
        };
        let larger = step.filter(|&step| step != sizes);
        if let Some(chunks) = larger.and_then(allocate).or_else(|| allocate(sizes)) {
            self.of_buffers[buffer] = Some(chunks);
            return Ok(());
        }
        self.of_buffers[buffer] = step.filter(|_| !held.is_empty()).and_then(|_| allocate(&held));
        Err(Refusal::NoMemory { buffer: buffer_type.name(), size: sizes.iter().sum() })
    }

    /// The sizes of the chunks of a buffer.
    fn sizes(&self, buffer: usize) -> Vec<Bytes> {
        self.of_buffers[buffer].iter().flatten().map(Buffer::size).collect()
    }

    /// Frees the chunks of a buffer.
    fn free(&mut self, buffer: usize) {
        drop(self.take(buffer));
    }

    /// Takes out the chunks of a buffer, which are about to be freed.
    fn take(&mut self, buffer: usize) -> Vec<Buffer> {
        let chunks = self.of_buffers[buffer].take().unwrap_or_default();
        for chunk in &chunks {
            note_buffer_freed(chunk.as_ptr().addr());
            note_freed(chunk);
        }
        chunks
    }

    fn all(&self) -> impl Iterator<Item = &Buffer> {
        self.of_buffers.iter().flatten().flatten()
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        // The allocator is freed: the next one may need such buffers.
        (0..self.of_buffers.len()).for_each(|buffer| self.take(buffer).into_iter().for_each(recycled::free));
    }
}

/// With another value than 0, schedulers end the program where they reserve again.
const DEBUG_REALLOC: &CStr = c"GGML_SCHED_DEBUG_REALLOC";

/// What an allocator knows of the memory that its graphs need.
#[derive(Debug)]
pub struct Demand {
    /// Whether pages are given back by themselves.
    is_counted: bool,
    /// Whether reservations of a scheduler take no memory.
    pub is_deferred: bool,
    /// True after a reservation that took no memory, until a graph is allocated: nothing is computed in the buffers.
    pub is_idle: bool,
    /// True if the next reservation gives back what graphs do not need.
    is_trimmed: bool,
    /// The number of latest graphs that needed at most half of what is held.
    small_runs: u32,
    /// Bytes of each buffer that the graph allocated last needs.
    needed: Vec<Bytes>,
    /// Bytes of the chunks of each buffer that reservations asked for, at most.
    reserved: Vec<Vec<Bytes>>,
}

impl Demand {
    /// Creates that of a new allocator with that many buffers.
    fn new(settings: &Settings, buffers: usize) -> Self {
        let is_counted = settings.on_demand.compute;
        let may_refuse = value_of(DEBUG_REALLOC).is_none_or(|value| value == "0");
        Self {
            is_counted,
            is_deferred: is_counted && may_refuse,
            is_idle: false,
            is_trimmed: false,
            small_runs: 0,
            needed: vec![0; buffers],
            reserved: vec![Vec::new(); buffers],
        }
    }

    /// Notes that a graph is about to be reserved.
    pub fn note_reservation(&mut self, is_scheduled: bool) {
        self.is_idle = self.is_deferred && is_scheduled;
    }

    /// Notes that the buffers follow a reservation.
    fn note_reserved(&mut self) {
        (self.is_trimmed, self.small_runs) = (false, 0);
    }

    /// Returns `true` if a reservation of these chunks takes no memory.
    fn defers(&mut self, buffer: usize, buffer_type: BufferType, sizes: &[Bytes]) -> bool {
        let is_deferred = self.is_idle && !buffer_type.is_plain_cpu();
        if is_deferred {
            let reserved = &mut self.reserved[buffer];
            reserved.resize(reserved.len().max(sizes.len()), 0);
            reserved.iter_mut().zip(sizes).for_each(|(most, &size)| *most = size.max(*most));
        }
        is_deferred
    }

    /// Returns `true` if a reservation that needs `size` bytes is to give back what is `held`.
    fn gives_back(&self, buffer: usize, buffer_type: BufferType, held: Bytes, size: Bytes) -> bool {
        let needed = if self.is_idle { self.needed[buffer] } else { size };
        self.is_trimmed && !buffer_type.is_plain_cpu() && held > needed
    }

    /// Returns the sizes of chunks that grow in steps: twice what is held, if it was reserved, so that they grow a few times
    /// only. `None` if all memory is taken when it is reserved.
    fn step(&self, buffer: usize, held: &[Bytes], sizes: &[Bytes]) -> Option<Vec<Bytes>> {
        let at = |list: &[Bytes], chunk: usize| list.get(chunk).copied().unwrap_or(0);
        let grown = |chunk: usize| at(held, chunk).saturating_mul(2).min(at(&self.reserved[buffer], chunk));
        let is_deferred = !self.reserved[buffer].is_empty();
        is_deferred.then(|| sizes.iter().enumerate().map(|(chunk, &size)| size.max(grown(chunk))).collect())
    }
}
