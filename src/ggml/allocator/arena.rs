//! Memory that allocators share which never compute at the same time: together they take the bytes of the largest.
//!
//! Allocators of one arena and one buffer type have the same chunks, those of one thread: two threads may compute at the same
//! time. A graph stays valid until its allocator is used again, also where another one needs larger chunks meanwhile: the
//! smaller ones are freed once no graph lies in them. A graph that reads what lies in the chunks, such as the result of another
//! allocator, gets other ones, and from then on the other allocator keeps its results apart.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::ggml::live::buffers::{Buffer, BufferType};
use crate::ggml::live::lock::Lock;
use crate::ggml::live::recycled;
use crate::ggml::live::surplus::note_freed;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::observe::verify::note_buffer_freed;
use crate::graph::Flags;
use crate::placement::Bytes;

/// A chunk, held by the arena and by the allocators that have a graph in it; or by one allocator.
pub type Chunk = Arc<Buffer>;

/// Returns `true` if there is a chunk of at least each size, in this order.
pub fn are_large_enough(chunks: &[Chunk], sizes: &[Bytes]) -> bool {
    sizes.len() <= chunks.len() && sizes.iter().zip(chunks).all(|(&size, chunk)| size <= chunk.size())
}

/// Lets go of a chunk. Returns its buffer if nothing else holds it: the caller frees it.
pub fn let_go(chunk: Chunk) -> Option<Buffer> {
    let buffer = Arc::into_inner(chunk)?;
    note_buffer_freed(buffer.as_ptr().addr());
    note_freed(&buffer);
    Some(buffer)
}

/// An arena, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arena(u64);

impl Arena {
    /// That of the process.
    pub const OF_PROCESS: Self = Self(0);

    /// Creates one.
    pub fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// The chunks of one arena, buffer type and thread.
#[derive(Debug)]
struct Shared {
    arena: Arena,
    buffer_type: usize,
    thread: u64,
    chunks: Vec<Chunk>,
    tenants: Vec<Tenant>,
    /// The tenant whose graph was allocated last.
    last: u64,
}

/// An allocator that uses the chunks.
#[derive(Debug)]
struct Tenant {
    number: u64,
    /// The bytes by which it has made the chunks larger: those of all tenants are the bytes of the chunks.
    bytes: Bytes,
    keeps_results: Arc<AtomicBool>,
}

static SHARED: Lock<Vec<Shared>> = Lock::new(Vec::new());

/// Returns the number of the calling thread, which no other has had. Works to the very end of a thread.
fn this_thread() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local! { static OWN: Cell<u64> = const { Cell::new(0) } }
    if OWN.get() == 0 {
        OWN.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    OWN.get()
}

/// The place of an allocator in an arena.
#[derive(Debug)]
pub struct Tenancy {
    arena: Arena,
    number: u64,
    /// The thread that has used the allocator last, and its buffer types.
    home: Option<(u64, Vec<usize>)>,
    keeps_results: Arc<AtomicBool>,
    /// How often a graph has read what was in shared chunks.
    crossings: u32,
}

/// An allocator whose graphs have read the chunks that often gets memory of its own for good.
const MOST_CROSSINGS: u32 = 8;

impl Tenancy {
    /// Creates that of an allocator, which keeps its results apart or not.
    pub fn new(arena: Arena, keeps_results: bool) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let keeps_results = Arc::new(AtomicBool::new(keeps_results));
        Self { arena, number, home: None, keeps_results, crossings: 0 }
    }

    /// Returns whether results of its graphs are apart from the chunks.
    pub fn keeps_results(&self) -> bool {
        self.keeps_results.load(Ordering::Relaxed)
    }

    /// Moves to the chunks of the calling thread.
    pub fn enter(&mut self, types: &[BufferType]) {
        let thread = this_thread();
        if self.home.as_ref().is_some_and(|(home, _)| *home == thread) {
            return;
        }
        self.leave();
        let types: Vec<usize> = types.iter().map(|buffer_type| buffer_type.as_ptr().addr()).collect();
        let mut all = SHARED.lock();
        for &buffer_type in &types {
            let is_own = |it: &&mut Shared| (it.arena, it.buffer_type, it.thread) == (self.arena, buffer_type, thread);
            let keeps_results = Arc::clone(&self.keeps_results);
            let tenant = Tenant { number: self.number, bytes: 0, keeps_results };
            match all.iter_mut().find(is_own) {
                Some(shared) => shared.tenants.push(tenant),
                None => {
                    let (arena, tenants) = (self.arena, vec![tenant]);
                    all.push(Shared { arena, buffer_type, thread, chunks: Vec::new(), tenants, last: 0 });
                }
            }
        }
        drop(all);
        self.home = Some((thread, types));
    }

    /// Leaves the chunks of its thread. If it has made them larger, the others take what they need when they are used next.
    fn leave(&mut self) {
        if self.home.take().is_none() {
            return;
        }
        let mut freed: Vec<Chunk> = Vec::new();
        let mut all = SHARED.lock();
        for shared in all.iter_mut() {
            let own = shared.tenants.iter().position(|tenant| tenant.number == self.number);
            if own.is_some_and(|own| shared.tenants.remove(own).bytes > 0) {
                freed.append(&mut shared.chunks);
                shared.tenants.iter_mut().for_each(|tenant| tenant.bytes = 0);
            }
        }
        let unused: Vec<Shared> = all.extract_if(.., |shared| shared.tenants.is_empty()).collect();
        drop(all);
        // Backends may call the program.
        let unused = unused.into_iter().flat_map(|shared| shared.chunks);
        freed.into_iter().chain(unused).filter_map(let_go).for_each(recycled::free);
    }

    fn with<T>(&self, buffer: usize, use_it: impl FnOnce(&mut Shared) -> T) -> Option<T> {
        let (thread, types) = self.home.as_ref()?;
        let key = (self.arena, *types.get(buffer)?, *thread);
        SHARED.lock().iter_mut().find(|it| (it.arena, it.buffer_type, it.thread) == key).map(use_it)
    }

    /// Returns the chunks of a buffer.
    pub fn chunks(&self, buffer: usize) -> Vec<Chunk> {
        self.with(buffer, |shared| shared.chunks.clone()).unwrap_or_default()
    }

    /// Returns `true` if the chunks of a buffer have at least these sizes.
    pub fn suffices(&self, buffer: usize, sizes: &[Bytes]) -> bool {
        are_large_enough(&self.chunks(buffer), sizes)
    }

    /// Bytes of a buffer that this allocator answers for, which `holds` these chunks, with graphs in them or with what these read.
    /// Allocators share those that are not the arena's any more.
    pub fn bytes<'c>(&self, buffer: usize, holds: impl Iterator<Item = &'c Chunk>) -> Bytes {
        let own = |shared: &mut Shared| {
            let is_outdated = |chunk: &&Chunk| !shared.chunks.iter().any(|it| Arc::ptr_eq(it, chunk));
            let outdated = holds.filter(is_outdated).map(|chunk| chunk.size() / Arc::strong_count(chunk) as Bytes);
            let tenant = shared.tenants.iter().find(|tenant| tenant.number == self.number);
            outdated.sum::<Bytes>() + tenant.map_or(0, |tenant| tenant.bytes)
        };
        self.with(buffer, own).unwrap_or(0)
    }

    /// Takes out the chunks of a buffer, to be replaced by larger ones. Those without a graph are freed at once, so that both
    /// never exist together. Returns their sizes.
    pub fn clear(&self, buffer: usize) -> Vec<Bytes> {
        let old = self.with(buffer, |shared| std::mem::take(&mut shared.chunks)).unwrap_or_default();
        let sizes: Vec<Bytes> = old.iter().map(|chunk| chunk.size()).collect();
        let kept: usize = old.into_iter().filter_map(|chunk| let_go(chunk).is_none().then_some(())).count();
        self.with(buffer, |shared| {
            // Allocators with a graph in what was not freed answer for that.
            let others = shared.tenants.iter_mut().filter(|tenant| kept > 0 || tenant.number == self.number);
            others.for_each(|tenant| tenant.bytes = 0);
        });
        sizes
    }

    /// Shares new chunks of a buffer, which this allocator needs to be that large.
    pub fn set(&self, buffer: usize, chunks: &[Chunk]) {
        self.with(buffer, |shared| {
            shared.chunks = chunks.to_vec();
            let all: Bytes = chunks.iter().map(|chunk| chunk.size()).sum();
            let others = shared.tenants.iter().filter(|tenant| tenant.number != self.number);
            let others: Bytes = others.map(|tenant| tenant.bytes).sum();
            if let Some(own) = shared.tenants.iter_mut().find(|tenant| tenant.number == self.number) {
                own.bytes = all.saturating_sub(others);
            }
        });
    }

    /// Notes that a graph is about to be allocated. Returns the shared chunks that it reads, of any thread: it cannot have them, and
    /// the allocator whose graph was the last one there keeps its results apart from now on.
    pub fn read_by(&mut self, graph: GraphRef<'_>) -> Vec<Chunk> {
        let mut read = Vec::new();
        let mut all = SHARED.lock();
        for shared in all.iter_mut().filter(|shared| shared.arena == self.arena) {
            let before = read.len();
            read.extend(shared.chunks.iter().filter(|chunk| reads(graph, chunk)).cloned());
            let last = shared.tenants.iter().find(|tenant| tenant.number == shared.last);
            if let (true, Some(last)) = (read.len() > before, last) {
                last.keeps_results.store(true, Ordering::Relaxed);
            } else if shared.tenants.iter().any(|tenant| tenant.number == self.number) {
                shared.last = self.number;
            }
        }
        drop(all);
        self.crossings += u32::from(!read.is_empty());
        read
    }

    /// Returns `true` if graphs have read the chunks so often that it keeps the memory of its own that they got.
    pub fn is_alone(&self) -> bool {
        self.crossings > MOST_CROSSINGS
    }
}

impl Drop for Tenancy {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Returns the tensors with the results of a graph that is about to be reserved or allocated: those that are computed, have no
/// memory yet, and are outputs or read by no node; the root of a view.
pub fn results(graph: GraphRef<'_>) -> Vec<TensorRef<'_>> {
    let mut read: HashSet<usize> = HashSet::new();
    for node in graph.nodes {
        read.extend(node.sources().chain(node.view_source()).map(TensorRef::address));
    }
    let mut seen = HashSet::new();
    let is_result = |node: &&TensorRef<'_>| Flags(node.flags()).has(Flags::OUTPUT) || !read.contains(&node.address());
    let roots = graph.nodes.iter().filter(is_result).map(|node| node.view_source().unwrap_or(*node));
    roots.filter(|root| root.op() != 0 && !root.has_memory() && seen.insert(root.address())).collect()
}

/// Returns `true` if a graph that is about to be allocated reads tensors in a chunk.
pub fn reads(graph: GraphRef<'_>, chunk: &Chunk) -> bool {
    let is_in = |tensor: TensorRef<'_>| tensor.has_memory() && tensor.buffer() == chunk.as_ptr();
    let mut tensors = graph.leafs.iter().chain(graph.nodes).copied();
    tensors.any(|tensor| tensor.sources().chain(tensor.view_source()).chain([tensor]).any(is_in))
}
