//! Where the latest allocation of each graph has put its tensors, and whether that memory is still there. A program that
//! keeps a graph computes it in freed memory if the allocator has taken other memory for another graph since.
//!
//! Everything is by address: a buffer that was freed must not be read, and ggml is never called under the lock.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Violation;
use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::lock::Lock;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};

/// The places of the process.
#[derive(Debug)]
struct Places {
    /// By address: the buffers that tensors were put in, as far as they were not freed.
    live: BTreeMap<usize, LiveBuffer>,
    /// By address: the tensors that have memory themselves. Views are where their roots are.
    tensors: BTreeMap<usize, Place>,
    /// The number of the next buffer, and the time.
    next: u64,
}

/// A buffer since it was seen first. Another one may get its address later, but not its number.
#[derive(Clone, Debug)]
struct LiveBuffer {
    number: u64,
    /// Whether it is memory of an allocator of lastuse.
    is_own: bool,
    name: Arc<str>,
    /// The latest run of a graph in it.
    run: Option<Run>,
}

/// A run of a graph of an allocator, at a time of [`Places::next`].
#[derive(Clone, Debug)]
struct Run {
    owner: usize,
    graph: Arc<str>,
    time: u64,
}

/// Where a tensor was put.
#[derive(Clone, Debug)]
struct Place {
    runtime: &'static Runtime,
    /// Of the tensor: the context of a graph that was freed may be followed by another one, with other tensors at its address,
    /// which the program may have put where those were.
    identity: u64,
    buffer: usize,
    data: usize,
    into: LiveBuffer,
    graph: Arc<str>,
    /// The allocator of the graph.
    owner: usize,
    /// When the program has written it last, at a time of [`Places::next`]; 0 if that is not known.
    written: u64,
}

impl Place {
    /// Returns whether the tensor still is there.
    fn is_at(&self, tensor: TensorRef<'_>) -> bool {
        self.into.is_own && (self.buffer, self.data) == (tensor.buffer().addr(), tensor.data().addr())
    }
}

static PLACES: Lock<Places> = Lock::new(Places { live: BTreeMap::new(), tensors: BTreeMap::new(), next: 1 });

/// Whether anything was recorded.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Returns `true` once a graph was recorded: from then on all graphs must be, since tensors get the addresses of others.
pub fn places_are_recorded() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// Records where the tensors of a graph are that was allocated just now, by the allocator at an address. `is_own` says which
/// buffers are of an allocator.
pub fn record_places(runtime: &'static Runtime, graph: GraphRef<'_>, owner: usize, is_own: impl Fn(BufferRef) -> bool) {
    ACTIVE.store(true, Ordering::Relaxed);
    let name = name_of_graph(runtime, graph);
    let placed: Vec<(TensorRef<'_>, BufferRef)> =
        roots(graph).filter_map(|root| Some((root, root.buffer_ref().filter(|_| !root.data().is_null())?))).collect();
    let mut buffers: Vec<(BufferRef, bool, Arc<str>)> = Vec::new();
    for &(_, buffer) in &placed {
        if buffers.iter().all(|&(known, ..)| known != buffer) {
            buffers.push((buffer, is_own(buffer), name_of_buffer(runtime, buffer)));
        }
    }
    let mut places = PLACES.lock();
    buffers.into_iter().for_each(|(buffer, is_own, name)| places.add(buffer.as_ptr().addr(), is_own, name));
    for (root, buffer) in placed {
        // What another allocator has put where it is stays that one's.
        let is_others = !is_own(buffer) && places.of(root).is_some_and(|it| it.is_at(root));
        if is_others {
            continue;
        }
        let buffer = buffer.as_ptr().addr();
        let Some(into) = places.live.get(&buffer).cloned() else { continue };
        let (identity, data) = (identity(root), root.data().addr());
        let place = Place { runtime, identity, buffer, data, into, graph: Arc::clone(&name), owner, written: 0 };
        places.tensors.insert(root.as_ptr().addr(), place);
    }
}

/// Checks each tensor of a graph that is about to be allocated or verified, before its buffers are read. The program may have
/// put tensors elsewhere itself.
///
/// # Errors
/// A tensor in a freed buffer.
pub fn check_not_freed(graph: GraphRef<'_>) -> Result<(), Violation> {
    check(roots(graph), false)
}

/// Checks each tensor of a graph that is about to be computed, before its buffers are read. Logs each input that the program has
/// written before another allocator's graph was computed in the same memory, and not since.
///
/// # Errors
/// A tensor in a freed buffer, or where the latest allocation of its graph has not put it.
pub fn check_places(graph: GraphRef<'_>) -> Result<(), Violation> {
    check(roots(graph), true)?;
    if !places_are_recorded() {
        return Ok(());
    }
    let mut places = PLACES.lock();
    let inputs = roots(graph).filter(|root| root.op() == 0);
    let mut lost: Vec<(TensorRef<'_>, Place, Run)> = inputs.filter_map(|root| places.overwritten(root)).collect();
    lost.retain(|(_, place, run)| place.written > 0 && place.written < run.time);
    places.next += 1;
    graph.nodes.iter().for_each(|&node| places.note_run(root_of(node)));
    drop(places);
    lost.dedup_by_key(|(root, ..)| root.address());
    for (root, Place { runtime, graph, .. }, run) in lost {
        runtime.log_warning(&format!(
            "lastuse: {} of {graph} was set before {} was computed in the same memory, and not since: set all inputs after another \
             context has computed ({SHARED})\n",
            runtime.describe(root),
            run.graph
        ));
    }
    Ok(())
}

/// Checks a node and its sources, before they are computed.
///
/// # Errors
/// As for [`check_places`].
pub fn check_places_of_node(node: TensorRef<'_>) -> Result<(), Violation> {
    check(roots_of(node), true)
}

/// Checks a tensor that the program reads or writes. It may put tensors elsewhere itself.
///
/// # Errors
/// The tensor is in a freed buffer, or it is read and another allocator's graph was computed in its memory since.
pub fn check_place(tensor: TensorRef<'_>, is_written: bool) -> Result<(), Violation> {
    let root = root_of(tensor);
    check(std::iter::once(root), false)?;
    if !places_are_recorded() {
        return Ok(());
    }
    let mut places = PLACES.lock();
    if is_written {
        places.note_written(root);
        return Ok(());
    }
    let found = places.overwritten(root).filter(|_| root.op() != 0);
    drop(places);
    let Some((_, place, run)) = found else { return Ok(()) };
    Err(Violation(format!(
        "a result is read after another context has computed: {} of {} is in {}, where {} was computed since: read results before \
         another context goes on, or keep outputs with LASTUSE_ARENA=shared,outputs ({SHARED})",
        place.runtime.describe(root),
        place.graph,
        place.into.name,
        run.graph
    )))
}

/// Notes that a buffer is about to be freed.
pub fn note_buffer_freed(buffer: usize) {
    if places_are_recorded() {
        PLACES.lock().live.remove(&buffer);
    }
}

/// Notes that a buffer was allocated just now, perhaps at the address of one that was freed: tensors that the program had in
/// that one may be in the new one again. Tensors in memory of allocators are not, unless they are recorded again.
pub fn note_buffer_allocated(buffer: usize) {
    if places_are_recorded() {
        let mut places = PLACES.lock();
        places.live.remove(&buffer);
        places.tensors.retain(|_, place| place.buffer != buffer || place.into.is_own);
    }
}

/// Forgets where these tensors were, since a context has allocated them.
pub fn forget_places(tensors: &[TensorRef<'_>]) {
    let mut places = PLACES.lock();
    tensors.iter().for_each(|tensor| _ = places.tensors.remove(&tensor.as_ptr().addr()));
}

impl Places {
    fn add(&mut self, buffer: usize, is_own: bool, name: Arc<str>) {
        let number = self.next;
        let entry = self.live.entry(buffer);
        let new = LiveBuffer { number, is_own, name, run: None };
        let known = entry.and_modify(|known| known.is_own |= is_own).or_insert(new);
        self.next += u64::from(known.number == number);
    }

    /// Returns where a tensor was put.
    fn of(&self, root: TensorRef<'_>) -> Option<&Place> {
        self.tensors.get(&root.as_ptr().addr()).filter(|place| place.identity == identity(root))
    }

    /// Returns where a tensor is, if a graph of another allocator was the last one that was computed in that buffer.
    fn overwritten<'g>(&self, root: TensorRef<'g>) -> Option<(TensorRef<'g>, Place, Run)> {
        let place = self.of(root).filter(|place| place.into.is_own)?;
        let run = self.live.get(&place.buffer)?.run.as_ref().filter(|run| run.owner != place.owner)?;
        (place.buffer == root.buffer().addr()).then(|| (root, place.clone(), run.clone()))
    }

    /// Notes that the graph of a tensor is about to be computed.
    fn note_run(&mut self, root: TensorRef<'_>) {
        let Some(Place { buffer, owner, graph, .. }) = self.of(root).cloned() else { return };
        let Some(buffer) = self.live.get_mut(&buffer).filter(|buffer| buffer.is_own) else { return };
        if buffer.run.as_ref().is_none_or(|run| run.owner != owner || run.time != self.next) {
            buffer.run = Some(Run { owner, graph, time: self.next });
        }
    }

    /// Notes that the program writes a tensor.
    fn note_written(&mut self, root: TensorRef<'_>) {
        let place = self.tensors.get_mut(&root.as_ptr().addr());
        if let Some(place) = place.filter(|place| place.identity == identity(root)) {
            place.written = self.next;
            self.next += 1;
        }
    }
}

/// Where contexts share memory.
const SHARED: &str = "contexts that take turns share their compute buffers: docs/arena.md";

/// `must_stay` if tensors must not have been moved.
fn check<'g>(mut roots: impl Iterator<Item = TensorRef<'g>>, must_stay: bool) -> Result<(), Violation> {
    if places_are_recorded() { roots.try_for_each(|root| check_root(root, must_stay)) } else { Ok(()) }
}

fn check_root(root: TensorRef<'_>, must_stay: bool) -> Result<(), Violation> {
    let (buffer, data) = (root.buffer().addr(), root.data().addr());
    let (place, now) = {
        let places = PLACES.lock();
        let Some(place) = places.of(root) else { return Ok(()) };
        (place.clone(), places.live.get(&buffer).cloned())
    };
    let Place { runtime, into, graph, .. } = &place;
    let name = &into.name;
    if (buffer, data) == (place.buffer, place.data) {
        let is_there = now.is_some_and(|now| now.number == into.number) || runtime.nbytes(root) == 0;
        let advice = if into.is_own { OF_ALLOCATOR } else { OF_PROGRAM };
        let freed = || {
            let tensor = runtime.describe(root);
            Violation(format!("the memory of a graph was freed: {tensor} of {graph} is in {name}, {advice}"))
        };
        return if is_there { Ok(()) } else { Err(freed()) };
    }
    match now {
        // The program may move tensors that had memory when their graph was allocated.
        Some(now) if now.is_own && into.is_own && must_stay => Err(Violation(format!(
            "a tensor is not where its graph was allocated: {} of {graph} was put at address {:#x}, in {name}, and is at \
             {data:#x}, in {}: allocate the graph again before it is computed",
            runtime.describe(root),
            place.data,
            now.name
        ))),
        _ => Ok(()),
    }
}

const OF_ALLOCATOR: &str = "which its allocator has freed since, as allocators do when a larger graph is reserved or \
     allocated, and when they are freed: reserve the largest graph first, or build this one anew and allocate it before it is \
     used";

const OF_PROGRAM: &str = "which the program has freed since: free buffers after the last graph that uses them";

/// The tensors of a graph that have memory themselves: some are returned more than once.
fn roots(graph: GraphRef<'_>) -> impl Iterator<Item = TensorRef<'_>> {
    graph.leafs.iter().chain(graph.nodes).flat_map(|&tensor| roots_of(tensor))
}

fn roots_of(node: TensorRef<'_>) -> impl Iterator<Item = TensorRef<'_>> {
    node.sources().chain([node]).map(root_of)
}

fn root_of(tensor: TensorRef<'_>) -> TensorRef<'_> {
    tensor.view_source().unwrap_or(tensor)
}

/// What a tensor is, besides its address: another one there is most likely different in this.
fn identity(tensor: TensorRef<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (tensor.op(), tensor.element(), tensor.ne(), tensor.nb()).hash(&mut hasher);
    tensor.with_name(|name| name.hash(&mut hasher));
    hasher.finish()
}

fn name_of_graph(runtime: &Runtime, graph: GraphRef<'_>) -> Arc<str> {
    match graph.nodes {
        [] => "the graph without nodes".into(),
        [.., last] => {
            format!("the graph of {} nodes that ends with {}", graph.nodes.len(), runtime.describe(*last)).into()
        }
    }
}

fn name_of_buffer(runtime: &'static Runtime, buffer: BufferRef) -> Arc<str> {
    let name = runtime.type_of(buffer).map(|buffer_type| buffer_type.name()).unwrap_or_default();
    format!("a {name} buffer of {} bytes", runtime.size(buffer)).into()
}
