//! An order with a lower peak for graphs of programs that know nothing of it: the variable `LASTUSE_REORDER`.
//!
//! A graph gets its order when it is reserved or measured, or planned because it is allocated without having been
//! reserved. A graph that is rebuilt and then allocated gets the order of the reserved graph.

use std::ptr::NonNull;

use crate::ggml::bindings::ggml_cgraph;
use crate::ggml::environment::Switch;
use crate::ggml::extensions::reorder::hazards_of;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::read::requested::Requested;
use crate::ggml::read::{ReadGraph, read_for_planning};
use crate::ggml::refusal::Refusal;
use crate::graph::order::{ReorderEffort, reorder};
use crate::graph::{BufferIndex, Requests, TensorId};
use crate::placement::{Bytes, Step};

use super::Allocator;
use super::known_orders::{KnownOrder, Structure};

/// The nodes of a graph in a better order, with the buffer ids requested for them.
#[derive(Debug)]
struct NewOrder<'g> {
    /// The nodes.
    nodes: Vec<TensorRef<'g>>,
    /// The buffer ids by node; `None` where all are 0.
    ids: Option<Vec<usize>>,
}

impl Allocator {
    /// Puts the nodes of a graph that is reserved into a better order, if it is to get one. `ids` are the buffer ids of
    /// the nodes, which follow, and `leaf_ids` those of the leafs; `None` means 0.
    ///
    /// # Safety
    /// `graph` is live with its tensors, no other thread uses them, and no [`GraphRef`] of it is used afterwards.
    pub unsafe fn reorder_to_reserve(
        &mut self,
        graph: NonNull<ggml_cgraph>,
        ids: &mut Option<Vec<usize>>,
        leaf_ids: Option<&[usize]>,
    ) {
        // SAFETY: live, as the caller guarantees.
        if let Some(new) = unsafe { self.order_to_reserve(graph, ids.as_deref(), leaf_ids) } {
            // SAFETY: live, and not read meanwhile or through an old reference, as the caller guarantees.
            unsafe { GraphRef::set_nodes(graph, &new.nodes) };
            *ids = new.ids;
        }
    }

    /// Puts the nodes of a graph that is allocated into a better order, if it is to get one: that of the graph which was
    /// reserved, where it is one for this graph too.
    ///
    /// # Safety
    /// `graph` is live with its tensors, no other thread uses them, and no [`GraphRef`] of it is used afterwards.
    pub unsafe fn reorder_to_allocate(&mut self, graph: NonNull<ggml_cgraph>) {
        // SAFETY: live, as the caller guarantees.
        if let Some(nodes) = unsafe { self.order_to_allocate(graph) } {
            // SAFETY: live, and not read meanwhile or through an old reference, as the caller guarantees.
            unsafe { GraphRef::set_nodes(graph, &nodes) };
        }
    }

    /// Plans `graph` as it would be reserved, in its order and parts, and returns the bytes by id; see [`Allocator::measure`].
    ///
    /// # Errors
    /// [`Refusal::NoMemory`] when sizes overflow.
    ///
    /// # Safety
    /// `graph` is live with its tensors, and no other thread uses them.
    pub unsafe fn measure_reserved(
        &mut self,
        graph: NonNull<ggml_cgraph>,
        ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<Vec<Bytes>, Refusal> {
        // SAFETY: live, as the caller guarantees.
        let new = unsafe { self.order_to_reserve(graph, ids, leaf_ids) };
        // SAFETY: live, as the caller guarantees.
        let given = unsafe { GraphRef::new(graph) };
        let (ordered, ids) = match &new {
            Some(new) => (GraphRef { leafs: given.leafs, nodes: &new.nodes }, new.ids.as_deref()),
            None => (given, ids),
        };
        // SAFETY: live, as the caller guarantees.
        match unsafe { self.measure_tiled(graph, ordered) } {
            Some(bytes) => Ok(bytes),
            None => self.measure(ordered, ids, leaf_ids),
        }
    }

    /// Returns the nodes in the order of [`Allocator::reorder_to_reserve`], with their buffer ids.
    ///
    /// # Safety
    /// `graph` is live with its tensors for `'g`, and no other thread uses them.
    unsafe fn order_to_reserve<'g>(
        &mut self,
        graph: NonNull<ggml_cgraph>,
        ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Option<NewOrder<'g>> {
        // SAFETY: live, as the caller guarantees.
        let graph = unsafe { self.to_reorder(graph) }?;
        let fingerprint = Fingerprint::of_placed(&self.runtime.operations, graph);
        let requested = |known: &KnownOrder| known.ids.as_deref() == ids;
        if let Some(known) = self.orders.latest(|known| known.ordered == fingerprint && known.given != fingerprint) {
            // The program passes the ids either for the given order or for the current one.
            return requested(known).then(|| NewOrder { nodes: graph.nodes.to_vec(), ids: known.ids_in_order() });
        }
        if self.orders.latest(|known| known.given == fingerprint && requested(known)).is_none() {
            self.find_order(graph, fingerprint, ids, leaf_ids);
        }
        let known = self.orders.latest(|known| known.given == fingerprint && requested(known))?;
        (known.given != known.ordered)
            .then(|| NewOrder { nodes: in_order(graph, &known.order), ids: known.ids_in_order() })
    }

    /// Returns the nodes in the order of [`Allocator::reorder_to_allocate`].
    ///
    /// # Safety
    /// `graph` is live with its tensors for `'g`, and no other thread uses them.
    unsafe fn order_to_allocate<'g>(&mut self, graph: NonNull<ggml_cgraph>) -> Option<Vec<TensorRef<'g>>> {
        // SAFETY: live, as the caller guarantees.
        let graph = unsafe { self.to_reorder(graph) }?;
        let fingerprint = Fingerprint::of_placed(&self.runtime.operations, graph);
        if self.orders.latest(|known| known.ordered == fingerprint).is_some() {
            return None;
        }
        if let Some(known) = self.orders.latest(|known| known.given == fingerprint) {
            return Some(in_order(graph, &known.order));
        }
        let reading = self.read_to_reorder(graph, &Requested::default());
        let structure = Structure::of(&reading);
        if let Some(known) = self.orders.latest(|known| known.structures.contains(&structure)) {
            let is_ordered = known.structures[1] == structure;
            let fits = !is_ordered && hazards_of(self.runtime, &reading).allow(&known.order);
            return fits.then(|| in_order(graph, &known.order));
        }
        // With several buffers only a reservation states where the graph expects its nodes.
        if self.types.id_count() > 1 {
            return None;
        }
        self.find_order(graph, fingerprint, None, None);
        let known = self.orders.latest(|known| known.given == fingerprint && known.ordered != fingerprint)?;
        Some(in_order(graph, &known.order))
    }

    /// Returns the nodes of a graph that was reordered in the order in which the program built it, with the buffers that
    /// it requests for them; `None` if no node was moved.
    pub(super) fn as_given<'g>(
        &self,
        graph: GraphRef<'g>,
        requested: &Requested,
    ) -> Option<(Vec<TensorRef<'g>>, Requested)> {
        if self.orders.is_empty() {
            return None;
        }
        let fingerprint = Fingerprint::of_placed(&self.runtime.operations, graph);
        let known = self.orders.latest(|known| known.ordered == fingerprint && known.given != fingerprint)?;
        let (mut nodes, mut given) = (graph.nodes.to_vec(), requested.clone());
        for (at, &step) in known.order.iter().enumerate() {
            nodes[step as usize] = graph.nodes[at];
            if let Some(buffer) = requested.nodes.get(at) {
                given.nodes[step as usize] = *buffer;
            }
        }
        Some((nodes, given))
    }

    /// Returns the graph if it is one to reorder.
    ///
    /// # Safety
    /// `graph` is live with its tensors for `'g`, and no other thread uses them.
    unsafe fn to_reorder<'g>(&self, graph: NonNull<ggml_cgraph>) -> Option<GraphRef<'g>> {
        // SAFETY: live, as the caller guarantees.
        let is_it = self.reorders == Switch::On && unsafe { GraphRef::is_whole(graph) };
        // SAFETY: live, as the caller guarantees.
        is_it.then(|| unsafe { GraphRef::new(graph) }).filter(|graph| !self.has_tiled(*graph))
    }

    /// Searches for an order of `graph` and remembers it. None is remembered for a graph whose sizes overflow, which
    /// cannot be planned.
    fn find_order(
        &mut self,
        graph: GraphRef<'_>,
        given: Fingerprint,
        ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) {
        let requested = self.types.requested(graph, ids, leaf_ids);
        let reading = self.read_to_reorder(graph, &requested);
        let buffers = requested.of_all(&reading.graph);
        let requests = Requests { leafs: &buffers.leafs, nodes: &buffers.nodes };
        let types = self.types.types();
        let mut sizes = |tensor: TensorId, buffer: BufferIndex| reading.alloc_size(types, &requested, tensor, buffer);
        let hazards = hazards_of(self.runtime, &reading);
        let effort = ReorderEffort::default();
        let found = reorder(&reading.graph, self.types.specs(), requests, &mut sizes, &hazards, effort);
        let Ok(found) = found else { return };
        let nodes = in_order(graph, &found.order);
        let ordered = GraphRef { leafs: graph.leafs, nodes: &nodes };
        let structures =
            [Structure::of(&reading), Structure::of(&self.read_to_reorder(ordered, &Requested::default()))];
        let ordered = Fingerprint::of_placed(&self.runtime.operations, ordered);
        let ids = ids.map(<[usize]>::to_vec);
        self.orders.add(KnownOrder { given, ordered, structures, ids, order: found.order });
    }

    fn read_to_reorder<'g>(&mut self, graph: GraphRef<'g>, requested: &Requested) -> ReadGraph<'g> {
        let mut reading = read_for_planning(self.runtime, self.types.types(), graph, requested, &mut self.workspace);
        self.retention.current().retain_in(&mut reading.graph, graph);
        reading
    }
}

fn in_order<'g>(graph: GraphRef<'g>, order: &[Step]) -> Vec<TensorRef<'g>> {
    order.iter().map(|&step| graph.nodes[step as usize]).collect()
}
