//! Memory that is taken when a graph is allocated, and given back when the graphs that are run do not need it.
//!
//! Pages of the CPU's own buffers are taken by the system when they are written, so these buffers are reserved whole, and
//! pages are given back. Other buffers of a scheduler are taken here: a reservation only plans, and a graph that is allocated
//! after it takes what it needs. Graphs that need more later are refused: the scheduler then waits for its backends, which may
//! still compute in the buffers, and reserves again.

use std::ffi::CStr;

use crate::ggml::environment::value_of;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::surplus::{RUNS, give_back_beyond, note_graph};
use crate::ggml::process::settings::Settings;
use crate::placement::Bytes;

use super::Allocator;

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
    pub fn new(settings: &Settings, buffers: usize) -> Self {
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
    pub fn note_reserved(&mut self) {
        (self.is_trimmed, self.small_runs) = (false, 0);
    }

    /// Returns `true` if a reservation of these chunks takes no memory.
    pub fn defers(&mut self, buffer: usize, buffer_type: BufferType, sizes: &[Bytes]) -> bool {
        let is_deferred = self.is_idle && !buffer_type.is_plain_cpu();
        if is_deferred {
            let reserved = &mut self.reserved[buffer];
            reserved.resize(reserved.len().max(sizes.len()), 0);
            reserved.iter_mut().zip(sizes).for_each(|(most, &size)| *most = size.max(*most));
        }
        is_deferred
    }

    /// Returns `true` if a reservation that needs `size` bytes is to give back what is `held`.
    pub fn gives_back(&self, buffer: usize, buffer_type: BufferType, held: Bytes, size: Bytes) -> bool {
        let needed = if self.is_idle { self.needed[buffer] } else { size };
        self.is_trimmed && !buffer_type.is_plain_cpu() && held > needed
    }

    /// Returns the sizes of chunks that grow in steps: twice what is held, if it was reserved, so that they grow a few times
    /// only. `None` if all memory is taken when it is reserved.
    pub fn step(&self, buffer: usize, held: &[Bytes], sizes: &[Bytes]) -> Option<Vec<Bytes>> {
        let at = |list: &[Bytes], chunk: usize| list.get(chunk).copied().unwrap_or(0);
        let grown = |chunk: usize| at(held, chunk).saturating_mul(2).min(at(&self.reserved[buffer], chunk));
        let is_deferred = !self.reserved[buffer].is_empty();
        is_deferred.then(|| sizes.iter().enumerate().map(|(chunk, &size)| size.max(grown(chunk))).collect())
    }
}

impl Allocator {
    /// Returns `true` if memory may be taken while a graph is allocated: several buffers are taken by reservations only, except
    /// for the first graph after one that took none.
    pub(super) fn may_take(&self) -> bool {
        self.planner.types.id_count() == 1 || self.demand.is_idle
    }

    /// Notes that the plan in use has served a graph, which is run next. Only runs of a scheduler's graphs are counted: it
    /// runs no graph that was allocated before, and its programs set all inputs before each run.
    pub(super) fn note_run(&mut self, is_scheduled: bool) {
        let Self { planner, plans, chunks, demand, .. } = self;
        demand.is_idle = false;
        let Some(plan) = plans.current() else { return };
        let types = planner.types.types().iter().zip(plan.buffers()).zip(&mut demand.needed);
        let mut is_small = true;
        for (buffer, ((buffer_type, plan), needed)) in types.enumerate() {
            *needed = plan.placement.size();
            if !buffer_type.is_plain_cpu() {
                is_small &= *needed <= chunks.size(buffer) / 2;
            } else if let Some(chunk) = chunks.only(buffer).filter(|_| demand.is_counted) {
                let needed = if is_scheduled { *needed } else { chunk.size() };
                // SAFETY: of this allocator alone, which has just allocated the graph.
                unsafe { note_graph(planner.runtime, chunk, needed) };
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
    pub unsafe fn trim(&mut self) {
        let Self { planner, chunks, demand, .. } = self;
        demand.is_trimmed = true;
        let types = planner.types.types().iter().zip(&demand.needed).enumerate();
        for (buffer, (_, &needed)) in types.filter(|(_, (buffer_type, _))| buffer_type.is_plain_cpu()) {
            if let Some(chunk) = chunks.only(buffer) {
                // SAFETY: the graph that needs these bytes is the only one that is still used: see "# Safety".
                unsafe { give_back_beyond(chunk, needed) };
            }
        }
    }
}
