//! Memory that allocators share which never compute at the same time: together they take the bytes of the largest.
//!
//! Allocators of one arena and one buffer type have the same chunks, those of one thread: two threads may compute at the same
//! time. A graph stays valid until its allocator is used again, also where another one needs larger chunks meanwhile: the
//! smaller ones are freed once no graph lies in them. A graph that reads what lies in the chunks, such as the result of another
//! allocator, gets other ones, and from then on the other allocator keeps its results apart.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::ggml::live::buffers::{Buffer, BufferType};
use crate::ggml::live::lock::{Lock, this_thread};
use crate::ggml::live::recycled;
use crate::ggml::live::surplus::note_freed;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::observe::verify::note_buffer_freed;
use crate::graph::Flags;
use crate::placement::Bytes;

use super::turns::{self, SchedulerId};

/// A chunk, held by the arena and by the allocators that have a graph in it; or by one allocator.
pub type Chunk = Arc<Buffer>;

/// Returns `true` if there is a chunk of at least each size, in this order.
pub fn are_large_enough(chunks: &[Chunk], sizes: &[Bytes]) -> bool {
    sizes.len() <= chunks.len() && sizes.iter().zip(chunks).all(|(&size, chunk)| size <= chunk.size())
}

/// Returns the larger size of each chunk of two lists.
pub fn larger_of(one: &[Bytes], other: &[Bytes]) -> Vec<Bytes> {
    let at = |list: &[Bytes], chunk: usize| list.get(chunk).copied().unwrap_or(0);
    (0..one.len().max(other.len())).map(|chunk| at(one, chunk).max(at(other, chunk))).collect()
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
    /// The sizes of chunks that it needs, at most.
    needs: Vec<Bytes>,
    keeps_results: Arc<AtomicBool>,
    /// The chunks of its graph that was discarded before it was computed, until another graph is allocated, which may read them.
    discarded: Vec<Chunk>,
}

/// Returns the sizes of chunks that are large enough for each of some tenants.
fn together(tenants: &[Tenant]) -> Vec<Bytes> {
    tenants.iter().fold(Vec::new(), |all, tenant| larger_of(&all, &tenant.needs))
}

static SHARED: Lock<Vec<Shared>> = Lock::new(Vec::new());

/// The place of an allocator in an arena.
#[derive(Debug)]
pub struct Tenancy {
    arena: Arena,
    number: u64,
    /// The thread that has used the allocator last, and its buffer types.
    home: Option<(u64, Vec<usize>)>,
    /// Its scheduler, if that tells its turns.
    scheduler: Option<SchedulerId>,
    keeps_results: Arc<AtomicBool>,
    /// How many graphs have read what was in shared chunks.
    crossings: u32,
}

/// An allocator whose graphs have read the chunks that often gets memory of its own for good.
const MOST_CROSSINGS: u32 = 8;

impl Tenancy {
    /// Creates that of an allocator, which keeps its results apart or not, and whose scheduler tells its turns or not.
    pub fn new(arena: Arena, keeps_results: bool, scheduler: Option<SchedulerId>) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let keeps_results = Arc::new(AtomicBool::new(keeps_results));
        Self { arena, number, home: None, scheduler, keeps_results, crossings: 0 }
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
        let mut left = self.leave();
        let types: Vec<usize> = types.iter().map(|buffer_type| buffer_type.as_ptr().addr()).collect();
        let mut all = SHARED.lock();
        for &buffer_type in &types {
            let is_own = |it: &&mut Shared| (it.arena, it.buffer_type, it.thread) == (self.arena, buffer_type, thread);
            let moved = left.iter().position(|(of, _)| *of == buffer_type).map(|at| left.swap_remove(at).1);
            let keeps_results = Arc::clone(&self.keeps_results);
            let tenant = moved.unwrap_or(Tenant {
                number: self.number,
                needs: Vec::new(),
                keeps_results,
                discarded: Vec::new(),
            });
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

    /// Leaves the chunks of its thread. If the others need less, they take that when they are used next. Returns what it was there,
    /// by buffer type.
    fn leave(&mut self) -> Vec<(usize, Tenant)> {
        let mut left = Vec::new();
        if self.home.take().is_none() {
            return left;
        }
        let mut freed: Vec<Chunk> = Vec::new();
        let mut all = SHARED.lock();
        for shared in all.iter_mut() {
            if let Some(own) = shared.tenants.iter().position(|tenant| tenant.number == self.number) {
                let needed = together(&shared.tenants);
                left.push((shared.buffer_type, shared.tenants.remove(own)));
                if together(&shared.tenants) != needed {
                    freed.append(&mut shared.chunks);
                }
            }
        }
        all.retain(|shared| !shared.tenants.is_empty());
        drop(all);
        // Backends may call the program.
        freed.into_iter().filter_map(let_go).for_each(recycled::free);
        left
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
    /// Allocators share those that are not the arena's any more; of the arena's, each has what those before it do not need.
    pub fn bytes<'c>(&self, buffer: usize, holds: impl Iterator<Item = &'c Chunk>) -> Bytes {
        let own = |shared: &mut Shared| {
            let is_outdated = |chunk: &&Chunk| !shared.chunks.iter().any(|it| Arc::ptr_eq(it, chunk));
            let outdated = holds.filter(is_outdated).map(|chunk| chunk.size() / Arc::strong_count(chunk) as Bytes);
            let own = shared.tenants.iter().position(|tenant| tenant.number == self.number);
            let of_first = |count: usize| together(&shared.tenants[..count]).into_iter().sum::<Bytes>();
            let all: Bytes = shared.chunks.iter().map(|chunk| chunk.size()).sum();
            let own = own.filter(|_| all > 0).map_or(0, |own| match own + 1 == shared.tenants.len() {
                true => all.saturating_sub(of_first(own)),
                false => of_first(own + 1) - of_first(own),
            });
            outdated.sum::<Bytes>() + own
        };
        self.with(buffer, own).unwrap_or(0)
    }

    /// Notes the sizes of chunks of a buffer that this allocator needs.
    pub fn need(&self, buffer: usize, sizes: &[Bytes]) {
        self.with(buffer, |shared| {
            if let Some(own) = shared.tenants.iter_mut().find(|tenant| tenant.number == self.number) {
                own.needs = larger_of(&own.needs, sizes);
            }
        });
    }

    /// Takes out the chunks of a buffer, to be replaced by larger ones. Those without a graph are freed at once, so that both
    /// never exist together. Returns the sizes that the allocators need.
    pub fn clear(&self, buffer: usize) -> Vec<Bytes> {
        let take = |shared: &mut Shared| (std::mem::take(&mut shared.chunks), together(&shared.tenants));
        let (old, needed) = self.with(buffer, take).unwrap_or_default();
        old.into_iter().filter_map(let_go).for_each(drop);
        needed
    }

    /// Shares new chunks of a buffer; this allocator needs those sizes of them.
    pub fn set(&self, buffer: usize, chunks: &[Chunk], needed: &[Bytes]) {
        self.with(buffer, |shared| shared.chunks = chunks.to_vec());
        self.need(buffer, needed);
    }

    /// Notes that a graph is about to be allocated. Returns the shared chunks that it reads, of any thread, with the buffers of this
    /// allocator that have their type: it cannot have them, and the allocator whose graph was the last one there keeps its results
    /// apart from now on.
    pub fn read_by(&mut self, graph: GraphRef<'_>) -> Vec<(usize, Chunk)> {
        let types = self.home.as_ref().map_or(&[][..], |(_, types)| types);
        let mut read = Vec::new();
        let mut all = SHARED.lock();
        for shared in all.iter_mut().filter(|shared| shared.arena == self.arena) {
            let before = read.len();
            let buffer = types.iter().position(|&own| own == shared.buffer_type).unwrap_or(0);
            let found = shared.chunks.iter().filter(|chunk| reads(graph, chunk));
            read.extend(found.map(|chunk| (buffer, Chunk::clone(chunk))));
            let last = shared.tenants.iter().find(|tenant| tenant.number == shared.last);
            if let (true, Some(last)) = (read.len() > before, last) {
                last.keeps_results.store(true, Ordering::Relaxed);
            } else if shared.tenants.iter().any(|tenant| tenant.number == self.number) {
                shared.last = self.number;
            }
        }
        drop(all);
        read
    }

    /// Leaves the chunks of a buffer, of a graph that was discarded, to the next graph.
    pub fn discard(&self, buffer: usize, chunks: impl Iterator<Item = Chunk>) {
        self.with(buffer, |shared| {
            if let Some(own) = shared.tenants.iter_mut().find(|tenant| tenant.number == self.number) {
                own.discarded.extend(chunks);
            }
        });
    }

    /// Takes out the chunks of a buffer that discarded graphs have left. Allocators in whose chunks `graph` reads results keep them
    /// apart from now on.
    pub fn take_discarded(&self, buffer: usize, graph: GraphRef<'_>) -> Vec<Chunk> {
        let take = |tenant: &mut Tenant| {
            if tenant.discarded.iter().any(|chunk| reads(graph, chunk)) {
                tenant.keeps_results.store(true, Ordering::Relaxed);
            }
            std::mem::take(&mut tenant.discarded)
        };
        self.with(buffer, |shared| shared.tenants.iter_mut().flat_map(take).collect()).unwrap_or_default()
    }

    /// Notes that a graph was allocated that reads shared chunks.
    pub fn note_crossing(&mut self) {
        self.crossings = self.crossings.saturating_add(1);
    }

    /// Has the allocator keep memory of its own for good.
    pub fn leave_alone(&mut self) {
        self.crossings = MOST_CROSSINGS + 1;
    }

    /// Returns `true` if graphs have read the chunks so often that it keeps the memory of its own that they got.
    pub fn is_alone(&self) -> bool {
        self.crossings > MOST_CROSSINGS
    }
}

impl Drop for Tenancy {
    fn drop(&mut self) {
        self.scheduler.into_iter().for_each(turns::forget);
        let discarded = self.leave().into_iter().flat_map(|(_, tenant)| tenant.discarded);
        discarded.filter_map(let_go).for_each(recycled::free);
    }
}

/// Returns the nodes with the results of a graph that is about to be reserved or allocated, with their positions: those that have
/// no memory yet, and are outputs or read by no node; the root of a view.
pub fn results(graph: GraphRef<'_>) -> Vec<(usize, TensorRef<'_>)> {
    let mut read: HashSet<usize> = HashSet::new();
    for node in graph.nodes {
        read.extend(node.sources().chain(node.view_source()).map(TensorRef::address));
    }
    // Schedulers add views without an operation to what crosses backends, which nothing reads.
    let is_computed = |node: &&TensorRef<'_>| node.op() != 0;
    let is_result = |node: &&TensorRef<'_>| Flags(node.flags()).has(Flags::OUTPUT) || !read.contains(&node.address());
    let roots =
        graph.nodes.iter().filter(is_computed).filter(is_result).map(|node| node.view_source().unwrap_or(*node));
    let roots: HashSet<usize> = roots.filter(|root| !root.has_memory()).map(TensorRef::address).collect();
    let nodes = graph.nodes.iter().copied().enumerate();
    nodes.filter(|(_, node)| node.op() != 0 && roots.contains(&node.address())).collect()
}

/// Returns `true` if a graph that is about to be allocated reads tensors in a chunk.
pub fn reads(graph: GraphRef<'_>, chunk: &Chunk) -> bool {
    let is_in = |tensor: TensorRef<'_>| tensor.has_memory() && tensor.buffer() == chunk.as_ptr();
    let mut tensors = graph.leafs.iter().chain(graph.nodes).copied();
    tensors.any(|tensor| tensor.sources().chain(tensor.view_source()).chain([tensor]).any(is_in))
}
