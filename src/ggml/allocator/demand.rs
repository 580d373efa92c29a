//! What an allocator knows of the memory that its graphs need: when its chunks are taken, when they grow, and when they are given
//! back.

use std::ffi::CStr;

use crate::ggml::environment::value_of;
use crate::ggml::live::buffers::BufferType;
use crate::placement::Bytes;
use crate::settings::Settings;

/// With another value than 0, schedulers end the program where they reserve again.
const DEBUG_REALLOC: &CStr = c"GGML_SCHED_DEBUG_REALLOC";

/// What an allocator knows of the memory that its graphs need.
#[derive(Debug)]
pub struct Demand {
    /// Whether pages are given back by themselves.
    pub is_counted: bool,
    /// Whether reservations of a scheduler take no memory.
    pub is_deferred: bool,
    /// True after a reservation that took no memory, until a graph is allocated: nothing is computed in the buffers.
    pub is_idle: bool,
    /// True if the next reservation gives back what graphs do not need.
    pub is_trimmed: bool,
    /// The number of latest graphs that needed at most half of what is held.
    pub small_runs: u32,
    /// Bytes of each buffer that the graph allocated last needs.
    pub needed: Vec<Bytes>,
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
