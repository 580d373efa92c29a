//! Pages of compute buffers beyond what graphs need: they are given back once a number of runs in a row needed at most half.
//!
//! A buffer of the CPU takes pages when they are written, and then has those of the largest graph that was run in it. Runs are
//! counted here: a graph that is allocated, and one that is run again without that, as its first input tells that is set
//! once more. The addresses of the buffer stay, and what is given back is beyond the graph in use.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ops::Range;

use crate::ggml::bindings::{ggml_backend_buffer, ggml_tensor};
use crate::ggml::live::buffer_interface::BufferInterface;
use crate::ggml::live::buffers::Buffer;
use crate::ggml::live::lock::Lock;
use crate::ggml::live::pages::give_back;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::platform::is_private_and_anonymous;
use crate::placement::Bytes;

/// Prompts and tokens in turns cost nothing if tokens are fewer; more than the graphs that a scheduler has in flight.
pub const RUNS: u32 = 16;

/// Fewer bytes are kept: the system calls would take longer than they save.
const LEAST: usize = 1 << 20;

/// The compute buffers whose runs are counted, by address.
static COUNTED: Lock<BTreeMap<usize, Counted>> = Lock::new(BTreeMap::new());

/// Notes that a scheduler's graph, which needs that many bytes from the beginning of a buffer of the CPU, is run next.
///
/// # Safety
/// The buffer is in private use by graphs of one allocator, of which none but this one is run from now on; or by allocators that
/// take turns, none of which reads what it had in the buffer when it goes on.
pub unsafe fn note_graph(runtime: &'static Runtime, buffer: &Buffer, needed: Bytes) {
    let needed = usize::try_from(needed).unwrap_or(usize::MAX);
    if let Some(counted) = COUNTED.lock().get_mut(&buffer.as_ptr().addr()) {
        counted.note_graph(needed);
        return;
    }
    let addresses = addresses_of(buffer);
    if addresses.len() < LEAST || !is_private_and_anonymous(&addresses) {
        return;
    }
    let Some(interface) = BufferInterface::of(runtime) else { return };
    // SAFETY: a live buffer of the CPU, in private use by an allocator.
    if unsafe { interface.replace_set(buffer.reference(), set) } {
        COUNTED.lock().insert(buffer.as_ptr().addr(), Counted { written: needed, ..Counted::new(addresses) });
    }
}

/// Notes that a buffer is about to be freed.
pub fn note_freed(buffer: &Buffer) {
    COUNTED.lock().remove(&buffer.as_ptr().addr());
}

/// Gives back the pages of a buffer of the CPU but for the first bytes.
///
/// # Safety
/// What lies behind the first `needed` bytes is not read before it is written.
pub unsafe fn give_back_beyond(buffer: &Buffer, needed: Bytes) {
    let needed = usize::try_from(needed).unwrap_or(usize::MAX);
    let addresses = addresses_of(buffer);
    let mut all = COUNTED.lock();
    if let Some(counted) = all.get_mut(&buffer.as_ptr().addr()) {
        counted.written = needed;
        counted.runs = 0;
    } else if !is_private_and_anonymous(&addresses) {
        return;
    }
    let start = addresses.start.saturating_add(needed).min(addresses.end);
    // SAFETY: memory of the buffer, private and anonymous, whose bytes are not needed: see "# Safety".
    unsafe { give_back(&(start..addresses.end)) };
}

fn addresses_of(buffer: &Buffer) -> Range<usize> {
    let start = buffer.base().expose_provenance();
    start..start.saturating_add(usize::try_from(buffer.size()).unwrap_or(0))
}

/// Sets bytes of a tensor, and counts the run that they are for.
unsafe extern "C" fn set(
    buffer: *mut ggml_backend_buffer,
    tensor: *mut ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
) {
    if let Some(counted) = COUNTED.lock().get_mut(&buffer.addr()) {
        counted.note_set(tensor.addr(), offset);
    }
    // SAFETY: ggml passes a live tensor.
    let Some(tensor) = (unsafe { TensorRef::new(tensor) }) else { return };
    let start = tensor.data().cast::<u8>().wrapping_add(offset);
    // SAFETY: ggml has checked that these are bytes of the tensor, and the caller has as many.
    unsafe { start.copy_from(data.cast(), size) };
}

/// What is known of a buffer. Bytes count from its beginning.
#[derive(Debug)]
struct Counted {
    addresses: Range<usize>,
    /// Graphs may have written these.
    written: usize,
    /// The latest runs needed these.
    needed: usize,
    /// The number of latest runs that needed at most half of what was written; 0 unless the latest is one.
    runs: u32,
    /// The tensor, and its byte, that was set first since the graph was allocated.
    first_set: Option<(usize, usize)>,
}

impl Counted {
    fn new(addresses: Range<usize>) -> Self {
        Self { addresses, written: 0, needed: 0, runs: 0, first_set: None }
    }

    fn note_graph(&mut self, needed: usize) {
        self.first_set = None;
        if self.written < LEAST || needed > self.written / 2 {
            (self.written, self.needed, self.runs) = (self.written.max(needed), 0, 0);
        } else {
            self.needed = self.needed.max(needed);
            self.count();
        }
    }

    fn note_set(&mut self, tensor: usize, offset: usize) {
        let is_again = self.first_set.is_some_and(|first| first == (tensor, offset));
        self.first_set.get_or_insert((tensor, offset));
        if is_again && self.runs > 0 {
            self.count();
        }
    }

    fn count(&mut self) {
        self.runs += 1;
        if self.runs >= RUNS {
            let surplus = self.addresses.start + self.needed..self.addresses.start + self.written;
            // SAFETY: private and anonymous memory of a live buffer, beyond the graph in use and those before it.
            unsafe { give_back(&surplus) };
            (self.written, self.needed, self.runs) = (self.needed, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// What runs count in 8 MiB of memory, all of which was written.
    fn counted(memory: &mut Vec<u8>) -> Counted {
        memory.resize(8 * MIB, 7);
        let start = memory.as_ptr().expose_provenance();
        let mut counted = Counted::new(start..start + memory.len());
        counted.note_graph(8 * MIB);
        counted
    }

    fn kept(memory: &[u8]) -> usize {
        memory.iter().filter(|&&byte| byte != 0).count()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no mappings of the system")]
    fn pages_beyond_small_runs_are_given_back_after_some() {
        let mut memory = Vec::new();
        let mut counted = counted(&mut memory);
        for run in 1..RUNS {
            counted.note_graph(if run == 3 { 2 * MIB } else { MIB });
            assert!(kept(&memory) > 7 * MIB, "run {run}");
        }
        counted.note_graph(MIB);
        assert!(kept(&memory) < 2 * MIB + MIB / 4, "what the largest of them needed stays: {}", kept(&memory));
        assert!(kept(&memory) >= 2 * MIB);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no mappings of the system")]
    fn a_large_run_between_small_ones_keeps_the_pages() {
        let mut memory = Vec::new();
        let mut counted = counted(&mut memory);
        for run in 1..=4 * RUNS {
            counted.note_graph(if run % RUNS == 0 { 5 * MIB } else { MIB });
        }
        assert!(kept(&memory) > 7 * MIB);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no mappings of the system")]
    fn runs_of_one_graph_are_counted_by_its_first_input() {
        let mut memory = Vec::new();
        let mut counted = counted(&mut memory);
        counted.note_graph(MIB);
        for run in 1..RUNS {
            for (tensor, offset) in [(100, 0), (200, 0), (200, 64)] {
                counted.note_set(tensor, offset);
            }
            assert!(kept(&memory) > 7 * MIB, "run {run}");
        }
        counted.note_set(200, 0);
        assert!(kept(&memory) > 7 * MIB);
        counted.note_set(100, 0);
        assert!(kept(&memory) < MIB + MIB / 4);
    }

    #[test]
    fn inputs_of_a_large_graph_count_nothing() {
        let mut counted = Counted::new(0..8 * MIB);
        counted.note_graph(8 * MIB);
        (0..100).for_each(|_| counted.note_set(100, 0));
        assert_eq!((counted.runs, counted.written), (0, 8 * MIB));
    }
}
