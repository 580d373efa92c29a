//! The passes over graphs of programs that know nothing of them, before a graph is planned: the variables
//! `LASTUSE_REORDER` and `LASTUSE_BUDGET`.

use std::ptr::NonNull;

use crate::ggml::bindings::ggml_cgraph;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::read::{ReadGraph, Requested, read};
use crate::ggml::refusal::Refusal;
use crate::graph::GraphPlan;
use crate::placement::Bytes;
use crate::settings::{Settings, Switch};

use super::orders::{NewOrder, Orders};
use super::planner::Planner;
use super::tiling::Tilings;

/// The passes of an allocator, with what they found for earlier graphs.
#[derive(Debug)]
pub struct Passes {
    reorders: Switch,
    orders: Orders,
    tilings: Tilings,
    /// Whether the plans are compared with those of ggml's own allocator.
    is_compared: bool,
}

impl Passes {
    /// Creates those of a new allocator; `None` without any in the settings.
    pub fn new(settings: &Settings, is_compared: bool) -> Option<Box<Self>> {
        let (reorders, tilings) = (settings.reorder, Tilings::new(settings.budget));
        let is_used = reorders == Switch::On || settings.budget.is_some();
        is_used.then(|| Box::new(Self { reorders, orders: Orders::new(), tilings, is_compared }))
    }

    /// Adds nodes to graphs up to this number.
    pub fn limit_nodes(&mut self, most: usize) {
        self.tilings.limit_nodes(most);
    }

    /// Forgets the tilings that were found, since later plans are made differently.
    pub fn forget_tilings(&mut self) {
        self.tilings.clear();
    }

    /// Forgets the orders that were found.
    pub fn forget_orders(&mut self) {
        self.orders = Orders::new();
    }

    /// Returns `true` if tensors were added to the graph to keep a budget.
    pub fn has_tiled(&self, graph: GraphRef<'_>) -> bool {
        self.tilings.has_tiled(graph)
    }

    /// Changes a graph that is reserved. `ids` are the buffer ids of the nodes, which follow, and `leaf_ids` those of
    /// the leafs; `None` means 0.
    ///
    /// # Errors
    /// [`Refusal::NoRoom`] or [`Refusal::NoMemory`], see [`Tilings::tile_to_fit`].
    ///
    /// # Safety
    /// `graph` is live with its tensors, no other thread uses them, and no [`GraphRef`] of it is used afterwards.
    pub unsafe fn before_reserving(
        &mut self,
        planner: &mut Planner,
        graph: NonNull<ggml_cgraph>,
        ids: &mut Option<Vec<usize>>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<(), Refusal> {
        // SAFETY: live, and used by no other thread: see "# Safety".
        if let Some(live) = unsafe { self.to_reorder(graph) }
            && let Some(new) = self.orders.for_reservation(planner, live, ids.as_deref(), leaf_ids)
        {
            // SAFETY: live, with as many nodes; no `GraphRef` of it is used from here on.
            unsafe { GraphRef::set_nodes(graph, &new.nodes) };
            *ids = new.ids;
        }
        // SAFETY: live, and used by no other thread: see "# Safety".
        unsafe { self.tile(planner, graph) }
    }

    /// Changes a graph that is allocated.
    ///
    /// # Errors
    /// See [`Passes::before_reserving`].
    ///
    /// # Safety
    /// See [`Passes::before_reserving`].
    pub unsafe fn before_allocating(
        &mut self,
        planner: &mut Planner,
        graph: NonNull<ggml_cgraph>,
    ) -> Result<(), Refusal> {
        // SAFETY: live, and used by no other thread: see "# Safety".
        if let Some(live) = unsafe { self.to_reorder(graph) }
            && let Some(nodes) = self.orders.for_allocation(planner, live)
        {
            // SAFETY: live, with as many nodes; no `GraphRef` of it is used from here on.
            unsafe { GraphRef::set_nodes(graph, &nodes) };
        }
        // SAFETY: live, and used by no other thread: see "# Safety".
        unsafe { self.tile(planner, graph) }
    }

    /// Returns the order in which a graph would be reserved, if it is another one, and the plan of its tiles, if it
    /// would be tiled. The graph is not changed.
    ///
    /// # Safety
    /// `graph` is live with its tensors for `'g`, and no other thread uses them.
    pub unsafe fn measure<'g>(
        &mut self,
        planner: &mut Planner,
        graph: NonNull<ggml_cgraph>,
        ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> (Option<NewOrder<'g>>, Option<GraphPlan>) {
        // SAFETY: live, and used by no other thread: see "# Safety".
        let live = unsafe { self.to_reorder(graph) };
        let new = live.and_then(|live| self.orders.for_reservation(planner, live, ids, leaf_ids));
        // SAFETY: live, and used by no other thread: see "# Safety".
        let given: GraphRef<'g> = unsafe { GraphRef::new(graph) };
        let ordered = GraphRef { nodes: new.as_ref().map_or(given.nodes, |new| &new.nodes), ..given };
        // SAFETY: live, and used by no other thread: see "# Safety".
        let tiled = unsafe { self.tilings.measure_tiled(planner, graph, ordered) };
        (new, tiled)
    }

    /// Returns the bytes that ggml's own allocator needs for the graph of `reading`, as the program built it, by
    /// buffer.
    pub fn ggml_alloc_sizes(
        &self,
        planner: &Planner,
        graph: GraphRef<'_>,
        reading: &ReadGraph<'_>,
        requested: &Requested,
    ) -> Option<Vec<Bytes>> {
        let before_tiling = self.tilings.by_ggml(graph);
        before_tiling.or_else(|| sizes_as_given(&self.orders, planner, graph, reading, requested))
    }

    /// # Safety
    /// See [`Passes::before_reserving`].
    unsafe fn tile(&mut self, planner: &mut Planner, graph: NonNull<ggml_cgraph>) -> Result<(), Refusal> {
        let Self { orders, tilings, is_compared, .. } = self;
        let by_ggml = |planner: &Planner, live: GraphRef<'_>, reading: &ReadGraph<'_>| {
            sizes_as_given(orders, planner, live, reading, &Requested::default())
        };
        // SAFETY: live, used by no other thread, and no `GraphRef` of it is used afterwards: see "# Safety".
        unsafe { tilings.tile_to_fit(planner, graph, is_compared.then_some(&by_ggml)) }
    }

    /// Returns the graph if it is one to reorder.
    ///
    /// # Safety
    /// `graph` is live with its tensors for `'g`, and no other thread uses them.
    unsafe fn to_reorder<'g>(&self, graph: NonNull<ggml_cgraph>) -> Option<GraphRef<'g>> {
        // SAFETY: live, and used by no other thread: see "# Safety".
        let is_it = self.reorders == Switch::On && unsafe { GraphRef::is_whole(graph) };
        // SAFETY: live, and used by no other thread: see "# Safety".
        is_it.then(|| unsafe { GraphRef::new(graph) }).filter(|graph| !self.has_tiled(*graph))
    }
}

/// Returns the bytes that ggml's own allocator needs for a graph in the order in which the program built it, by buffer.
fn sizes_as_given(
    orders: &Orders,
    planner: &Planner,
    graph: GraphRef<'_>,
    reading: &ReadGraph<'_>,
    requested: &Requested,
) -> Option<Vec<Bytes>> {
    let Some((nodes, requested)) = orders.as_given(planner, graph, requested) else {
        return planner.subject(reading, &requested.of_all(&reading.graph)).ggml_alloc_sizes();
    };
    let given = GraphRef { leafs: graph.leafs, nodes: &nodes };
    let reading = read(planner.runtime, &planner.types.list, given, &requested);
    planner.subject(&reading, &requested.of_all(&reading.graph)).ggml_alloc_sizes()
}
