//! Memory of the tensors that are added to graphs of programs. It stays as long as the graph may refer to it.
//!
//! Programs build graphs anew, mostly in the same memory, and nothing tells when one is gone. So a graph is known by its
//! address: what was added to an earlier one there is reused. An allocator adds to at most [`MOST_OWNED`] graphs, which
//! keep what was added; of those whose allocator was freed, the latest [`MOST_LEFT`] do.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ggml::bindings::{ggml_context, ggml_init_params};
use crate::ggml::live::lock::Lock;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;

/// One allocator adds tensors to so many graphs.
pub const MOST_OWNED: usize = 256;

/// Of so many graphs, tensors are kept whose allocator was freed: a program may pass such a graph to another one.
const MOST_LEFT: usize = 16;

/// The tensors added to one graph.
#[derive(Debug)]
struct Addition {
    /// The address of the graph.
    graph: usize,
    /// The allocator that added them, by [`Additions::owner`]; `None` once it was freed.
    owner: Option<u64>,
    /// Aligned as ggml expects it.
    memory: Vec<u128>,
}

impl Addition {
    fn range(&self) -> Range<usize> {
        let start = self.memory.as_ptr().addr();
        start..start + size_of_val(self.memory.as_slice())
    }
}

/// Those of the process, the latest last.
static ADDED: Lock<Vec<Addition>> = Lock::new(Vec::new());

/// What one allocator adds.
#[derive(Debug)]
pub struct Additions {
    owner: u64,
}

impl Additions {
    /// Creates those of a new allocator.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { owner: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    /// Returns `true` if tensors may be added to the graph at this address: to a few graphs, since they may all be live.
    pub fn may_add_to(&self, graph: usize) -> bool {
        let added = ADDED.lock();
        let is_own = |it: &&Addition| it.owner == Some(self.owner);
        added.iter().any(|it| it.graph == graph) || added.iter().filter(is_own).count() < MOST_OWNED
    }

    /// Calls `add` with a context that has room for `bytes` of tensors of the graph at this address; the tensors outlive
    /// the context. What was added to an earlier graph at this address is gone. Returns `None`, without calling `add`, if
    /// there is no memory for the context.
    pub fn add<T>(
        &self,
        runtime: &Runtime,
        graph: usize,
        bytes: usize,
        add: impl FnOnce(NonNull<ggml_context>) -> T,
    ) -> Option<T> {
        let mem_buffer = self.memory_for(graph, bytes);
        let params = ggml_init_params { mem_size: bytes, mem_buffer, no_alloc: true };
        // SAFETY: that many aligned bytes. If an earlier graph at this address used them, it is gone, with its tensors.
        let context = NonNull::new(unsafe { (runtime.functions.ggml_init)(params) })?;
        let added = add(context);
        // SAFETY: ggml frees its own struct; the tensors are in memory that is ours.
        unsafe { (runtime.functions.ggml_free)(context.as_ptr()) };
        Some(added)
    }

    /// Returns memory for the tensors of the graph at this address: that of the earlier graph there, if it is enough, so
    /// that equal graphs have equal addresses.
    fn memory_for(&self, graph: usize, bytes: usize) -> *mut c_void {
        let words = bytes.div_ceil(size_of::<u128>()).max(1);
        let mut added = ADDED.lock();
        let known = added.iter().position(|it| it.graph == graph).map(|at| added.remove(at).memory);
        let memory = known.filter(|memory| memory.len() >= words && memory.len() / 4 <= words);
        added.push(Addition { graph, owner: Some(self.owner), memory: memory.unwrap_or_else(|| vec![0; words]) });
        added.last_mut().map_or(std::ptr::null_mut(), |last| last.memory.as_mut_ptr().cast())
    }
}

impl Drop for Additions {
    fn drop(&mut self) {
        let mut added = ADDED.lock();
        for own in added.iter_mut().filter(|it| it.owner == Some(self.owner)) {
            own.owner = None;
        }
        drop_oldest_left(&mut added);
    }
}

/// Keeps the latest of those whose allocator was freed.
fn drop_oldest_left(added: &mut Vec<Addition>) {
    let mut excess = added.iter().filter(|it| it.owner.is_none()).count().saturating_sub(MOST_LEFT);
    added.retain(|it| {
        let is_dropped = excess > 0 && it.owner.is_none();
        excess -= usize::from(is_dropped);
        !is_dropped
    });
}

/// Where the added tensors of the process are.
#[derive(Debug)]
pub struct AddedRanges(Vec<Range<usize>>);

impl AddedRanges {
    /// Returns where they are now.
    pub fn now() -> Self {
        let mut ranges: Vec<Range<usize>> = ADDED.lock().iter().map(Addition::range).collect();
        ranges.sort_by_key(|range| range.start);
        Self(ranges)
    }

    /// Returns `true` if nothing was added to any graph.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if the tensor was added to a graph.
    pub fn hold(&self, tensor: TensorRef<'_>) -> bool {
        let address = tensor.address();
        let before = self.0.partition_point(|range| range.start <= address);
        before.checked_sub(1).is_some_and(|at| self.0[at].contains(&address))
    }
}
