//! Which tensors of live graphs are retained: those that the program has registered for an allocator, and those whose names
//! match a pattern of the process.
//!
//! Uses live tensors only. A registration outlives its tensor: programs rebuild their graph for every token, usually in
//! the same memory. So it holds what identifies the tensor, and addresses as numbers, which are never followed.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::graph::{Graph, NamePattern, Op, Retained, TensorId};

use crate::ggml::live::lock::Lock;
use crate::ggml::live::operations::Operations;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::refusal::NotRetained;

/// The registrations of all allocators, by the number of the allocator, for passes that change a graph before it is known
/// which allocator it goes to.
static REGISTERED: Lock<Vec<(u64, usize, Identity)>> = Lock::new(Vec::new());

/// How often the names of tensors that the process retains have changed.
static NAME_CHANGES: AtomicU64 = AtomicU64::new(0);

/// Notes that the names of tensors that the process retains have changed: allocators follow them.
pub fn note_names_changed() {
    NAME_CHANGES.fetch_add(1, Ordering::Release);
}

/// The tensors that one allocator has registered.
#[derive(Debug)]
struct Registrations {
    allocator: u64,
}

impl Registrations {
    /// Returns those of a new allocator.
    fn none() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { allocator: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    /// Adds a tensor.
    fn add(&self, tensor: TensorRef<'_>) {
        self.remove(tensor);
        REGISTERED.lock().push((self.allocator, tensor.address(), Identity::of(tensor)));
    }

    /// Removes a tensor.
    fn remove(&self, tensor: TensorRef<'_>) {
        REGISTERED.lock().retain(|&(allocator, address, _)| (allocator, address) != (self.allocator, tensor.address()));
    }
}

impl Drop for Registrations {
    fn drop(&mut self) {
        REGISTERED.lock().retain(|&(allocator, ..)| allocator != self.allocator);
    }
}

/// Returns, by tensor, whether some allocator retains it, or `names` do.
pub fn retained_by_any(tensors: &[TensorRef<'_>], names: &LiveRetention) -> Vec<bool> {
    let registered: HashSet<(usize, Identity)> = REGISTERED.lock().iter().map(|&(_, at, is)| (at, is)).collect();
    let is_registered = |it: TensorRef<'_>| registered.contains(&(it.address(), Identity::of(it)));
    tensors.iter().map(|&tensor| names.is_named(tensor) || is_registered(tensor)).collect()
}

/// The tensors retained in the graphs of one allocator.
#[derive(Clone, Debug, Default)]
pub struct LiveRetention {
    /// Of names; `None` if it would match none.
    pattern: Option<NamePattern>,
    /// By the address of the tensor.
    registered: HashMap<usize, Registered>,
}

/// A registered tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Registered {
    identity: Identity,
    /// The address and the identity of the node that ends the retention; `None` for the end of the graph.
    until: Option<(usize, Identity)>,
}

/// Distinguishes a tensor from another one that has its address later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Identity {
    /// `None` for results computed in tiles: the operation has become RESHAPE, and may be restored.
    op: Option<u32>,
    element: u32,
    ne: [i64; 4],
}

/// A retained tensor of a graph. Both numbers are positions in the leafs followed by the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetainedAt {
    tensor: usize,
    /// The node that ends the retention; `None` for the end of the graph.
    until: Option<usize>,
}

impl Identity {
    fn of(tensor: TensorRef<'_>) -> Self {
        let op = (!tensor.is_made_of_tiles()).then(|| tensor.op());
        Self { op, element: tensor.element(), ne: tensor.ne() }
    }

    /// Returns `true` if both may be of one tensor.
    fn matches(self, other: Self) -> bool {
        let is_same_operation = self.op.zip(other.op).is_none_or(|(one, other)| one == other);
        is_same_operation && self.element == other.element && self.ne == other.ne
    }
}

impl LiveRetention {
    /// Retains the tensors whose names match, in every graph.
    pub fn of_names(pattern: NamePattern) -> Self {
        Self { pattern: Some(pattern).filter(|it| !it.is_empty()), registered: HashMap::new() }
    }

    /// Replaces the pattern.
    pub fn set_names(&mut self, pattern: NamePattern) {
        self.pattern = Some(pattern).filter(|it| !it.is_empty());
    }

    /// Registers a tensor, until `until` has run or to the end. An earlier registration of the tensor no longer counts.
    pub fn register(&mut self, tensor: TensorRef<'_>, until: Option<TensorRef<'_>>) {
        let until = until.map(|node| (node.address(), Identity::of(node)));
        self.registered.insert(tensor.address(), Registered { identity: Identity::of(tensor), until });
    }

    /// Removes the registration of a tensor. Returns `false` if there is none.
    pub fn release(&mut self, tensor: TensorRef<'_>) -> bool {
        let is_registered = self.registration(tensor).is_some();
        is_registered && self.registered.remove(&tensor.address()).is_some()
    }

    fn registration(&self, tensor: TensorRef<'_>) -> Option<&Registered> {
        let found = self.registered.get(&tensor.address())?;
        found.identity.matches(Identity::of(tensor)).then_some(found)
    }

    /// Returns `true` if no tensor of any graph is retained.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pattern.is_none() && self.registered.is_empty()
    }

    /// Returns the retained tensors of `graph`, in the order of their positions. A registration counts more than the
    /// pattern.
    #[inline]
    pub fn positions(&self, graph: GraphRef<'_>) -> Vec<RetainedAt> {
        if self.is_empty() { Vec::new() } else { self.find(graph) }
    }

    /// Records in `read`, which was read from `graph`, which tensors are retained.
    pub fn retain_in(&self, read: &mut Graph, graph: GraphRef<'_>) {
        retain_at(&self.positions(graph), read);
    }

    #[cold]
    fn find(&self, graph: GraphRef<'_>) -> Vec<RetainedAt> {
        let ends = self.ends_in(graph);
        let listed = graph.leafs.iter().chain(graph.nodes).enumerate();
        let retained = listed.filter_map(|(position, &tensor)| match self.registration(tensor) {
            Some(Registered { until, .. }) => {
                let until = until.and_then(|end| ends.get(&end).copied());
                Some(RetainedAt { tensor: position, until })
            }
            None => self.is_named(tensor).then_some(RetainedAt { tensor: position, until: None }),
        });
        retained.collect()
    }

    /// Returns `true` if a tensor is retained in graphs that have it.
    pub fn retains(&self, tensor: TensorRef<'_>) -> bool {
        self.registration(tensor).is_some() || self.is_named(tensor)
    }

    fn is_named(&self, tensor: TensorRef<'_>) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| tensor.with_name(|name| pattern.matches(name.to_bytes())))
    }

    /// Returns the last positions of the nodes of `graph` that may end retentions.
    fn ends_in(&self, graph: GraphRef<'_>) -> HashMap<(usize, Identity), usize> {
        let ends: HashSet<usize> = self.registered.values().filter_map(|it| it.until).map(|(node, _)| node).collect();
        if ends.is_empty() {
            return HashMap::new();
        }
        let nodes = (graph.leafs.len()..).zip(graph.nodes).filter(|(_, node)| ends.contains(&node.address()));
        nodes.map(|(position, &node)| ((node.address(), Identity::of(node)), position)).collect()
    }
}

/// Records in `graph` that the tensors at these positions of its lists are retained, except those with memory that is
/// never planned.
pub fn retain_at(positions: &[RetainedAt], graph: &mut Graph) {
    if positions.is_empty() {
        return;
    }
    let leafs = graph.leafs().len();
    let id = |position: usize| -> Option<TensorId> {
        graph.leafs().get(position).or_else(|| graph.nodes().get(position.checked_sub(leafs)?)).copied()
    };
    let retained = |at: &RetainedAt| Some(Retained { tensor: id(at.tensor)?, until: at.until.and_then(id) });
    let is_planned = |retained: &Retained| !graph.tensor(graph.root(retained.tensor)).external;
    let retention = positions.iter().filter_map(retained).filter(is_planned).collect();
    graph.set_retention(retention);
}

/// The tensors that an allocator retains. Plans are remembered with the tensors that they retain, so no change drops
/// them.
#[derive(Debug)]
pub struct AllocatorRetention {
    live: LiveRetention,
    registrations: Registrations,
    /// Returns the names of tensors that the process retains.
    names: fn() -> NamePattern,
    /// [`NAME_CHANGES`] when the names were taken.
    changes: u64,
}

impl AllocatorRetention {
    /// Retains the tensors with these names, also when they change.
    pub fn new(names: fn() -> NamePattern) -> Self {
        // Before the names: a change in between is then followed by the next call.
        let changes = NAME_CHANGES.load(Ordering::Acquire);
        Self { live: LiveRetention::of_names(names()), registrations: Registrations::none(), names, changes }
    }

    /// Returns the retained tensors.
    #[inline]
    pub fn current(&mut self) -> &LiveRetention {
        if NAME_CHANGES.load(Ordering::Acquire) != self.changes {
            self.follow();
        }
        &self.live
    }

    /// Returns a copy of the retained tensors.
    pub fn to_current(&self) -> LiveRetention {
        let mut live = self.live.clone();
        live.set_names((self.names)());
        live
    }

    #[cold]
    fn follow(&mut self) {
        self.changes = NAME_CHANGES.load(Ordering::Acquire);
        self.live.set_names((self.names)());
    }

    /// Retains a tensor in future plans, to the end of the graph.
    ///
    /// # Errors
    /// [`NotRetained::Tiled`] if no node computes it any more.
    pub fn retain(&mut self, tensor: TensorRef<'_>) -> Result<(), NotRetained> {
        self.register(tensor, None)
    }

    /// Retains a tensor in future plans, until `node` has run.
    ///
    /// # Errors
    /// [`NotRetained::NoNode`] if no operation computes `node`, [`NotRetained::Tiled`] if none computes the tensor.
    pub fn retain_until(
        &mut self,
        operations: &Operations,
        tensor: TensorRef<'_>,
        node: TensorRef<'_>,
    ) -> Result<(), NotRetained> {
        let is_marker = operations.op(node.op()) == Op::None;
        if is_marker && node.sources().next().is_none() {
            return Err(NotRetained::NoNode { tensor: node.name() });
        }
        self.register(tensor, Some(node))
    }

    fn register(&mut self, tensor: TensorRef<'_>, until: Option<TensorRef<'_>>) -> Result<(), NotRetained> {
        if tensor.is_replaced_by_tiles() {
            return Err(NotRetained::Tiled { tensor: tensor.name() });
        }
        self.live.register(tensor, until);
        self.registrations.add(tensor);
        Ok(())
    }

    /// Ends [`AllocatorRetention::retain`] and [`AllocatorRetention::retain_until`] for future plans.
    ///
    /// # Errors
    /// [`NotRetained::NotRegistered`] if the tensor is retained by neither.
    pub fn release(&mut self, tensor: TensorRef<'_>) -> Result<(), NotRetained> {
        let found = self.live.release(tensor);
        self.registrations.remove(tensor);
        found.then_some(()).ok_or_else(|| NotRetained::NotRegistered { tensor: tensor.name() })
    }
}
