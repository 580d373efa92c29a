//! The passes over graphs of programs that know nothing of them, before a graph is planned: the variables
//! `LASTUSE_REORDER`, `LASTUSE_BUDGET` and `LASTUSE_RECOMPUTE`.

use std::ptr::NonNull;

use crate::ggml::bindings::ggml_cgraph;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::read::{ReadGraph, Requested, read};
use crate::ggml::refusal::Refusal;
use crate::graph::GraphPlan;
use crate::placement::Bytes;
use crate::settings::{Settings, Switch};

use super::budget::{Assignment, BudgetPass, ByGgml};
use super::orders::{NewOrder, Orders};
use super::planner::Planner;

/// The passes of an allocator, with what they found for earlier graphs.
#[derive(Debug)]
pub struct Passes {
    reorders: Switch,
    orders: Orders,
    budgeted: BudgetPass,
    /// Whether the plans are compared with those of ggml's own allocator.
    is_compared: bool,
}

impl Passes {
    /// Creates those of a new allocator; `None` without any in the settings.
    pub fn new(settings: &Settings, is_compared: bool) -> Option<Box<Self>> {
        let (reorders, budgeted) = (settings.reorder, BudgetPass::new(settings));
        let is_used = reorders == Switch::On || budgeted.is_asked();
        is_used.then(|| Box::new(Self { reorders, orders: Orders::new(), budgeted, is_compared }))
    }

    /// Creates those of an allocator without any in the settings.
    pub fn none(is_compared: bool) -> Box<Self> {
        let budgeted = BudgetPass::new(&Settings::default());
        Box::new(Self { reorders: Switch::Off, orders: Orders::new(), budgeted, is_compared })
    }

    /// Keeps tensors to what buffer types allocate at once from now on, or not any more.
    pub fn limit_tensors(&mut self, limits: bool) {
        self.budgeted.limits_tensors = limits;
    }

    /// Keeps tensors to what buffer types allocate at once where they refuse more, before an allocation fails.
    pub fn try_buffers(&mut self) {
        self.budgeted.tries_buffers = true;
    }

    /// Returns `true` if tensors are kept to what buffer types allocate at once.
    pub fn limits_tensors(&self) -> bool {
        self.budgeted.limits_tensors
    }

    /// Adds nodes to graphs up to this number.
    pub fn limit_nodes(&mut self, most: usize) {
        self.budgeted.limit_nodes(most);
    }

    /// Forgets the changes that were found, since later plans are made differently.
    pub fn forget_changes(&mut self) {
        self.budgeted.clear();
    }

    /// Forgets the orders that were found.
    pub fn forget_orders(&mut self) {
        self.orders = Orders::new();
    }

    /// Returns `true` if tensors were added to the graph to keep a budget.
    pub fn has_changed(&self, graph: GraphRef<'_>) -> bool {
        self.budgeted.has_changed(graph)
    }

    /// Changes a graph that is reserved. `ids` are the buffer ids of the nodes, which follow, and `leaf_ids` those of
    /// the leafs; `None` means 0.
    ///
    /// # Errors
    /// [`Refusal::NoRoom`] or [`Refusal::NoMemory`], see [`BudgetPass::fit`].
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
        unsafe { self.fit(planner, graph, None) }.map(|_| ())
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
        unsafe { self.fit(planner, graph, None) }.map(|_| ())
    }

    /// Returns the order in which a graph would be reserved, if it is another one, and the plan of the graph that fits the
    /// budget, if it would be changed to one. The graph is not changed.
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
        let changed = unsafe { self.budgeted.measure(planner, graph, ordered) };
        (new, changed)
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
        let before = self.budgeted.by_ggml(graph);
        before.or_else(|| sizes_as_given(&self.orders, planner, graph, reading, requested))
    }

    /// Returns the nodes of a graph in the order with the lowest peak on its backends, if they are to get another one.
    ///
    /// # Safety
    /// `graph` is live with its tensors for `'g`, and no other thread uses them.
    pub unsafe fn order_of_several<'g>(
        &mut self,
        planner: &mut Planner,
        graph: NonNull<ggml_cgraph>,
        assignment: &Assignment,
    ) -> Option<Vec<TensorRef<'g>>> {
        // SAFETY: live, and used by no other thread: see "# Safety".
        let live: GraphRef<'g> = unsafe { self.to_reorder(graph) }?;
        let ids =
            |tensors: &[TensorRef<'_>]| tensors.iter().map(|tensor| assignment.of(*tensor).unwrap_or(0)).collect();
        let (nodes, leafs): (Vec<usize>, Vec<usize>) = (ids(live.nodes), ids(live.leafs));
        let new = self.orders.for_reservation(planner, live, Some(&nodes), Some(&leafs))?;
        (new.nodes != live.nodes).then_some(new.nodes)
    }

    /// Changes a graph to fit the budgets. `assignment` has its backends, if its scheduler has several. Returns `true` if it was changed
    /// now.
    ///
    /// # Errors
    /// See [`Passes::before_reserving`].
    ///
    /// # Safety
    /// See [`Passes::before_reserving`].
    pub unsafe fn fit(
        &mut self,
        planner: &mut Planner,
        graph: NonNull<ggml_cgraph>,
        assignment: Option<&mut Assignment>,
    ) -> Result<bool, Refusal> {
        let Self { orders, budgeted, is_compared, .. } = self;
        let by_ggml = |planner: &Planner, live: GraphRef<'_>, reading: &ReadGraph<'_>| {
            sizes_as_given(orders, planner, live, reading, &Requested::default())
        };
        let by_ggml: Option<ByGgml<'_>> = if *is_compared && assignment.is_none() { Some(&by_ggml) } else { None };
        // SAFETY: live, used by no other thread, and no `GraphRef` of it is used afterwards: see "# Safety".
        unsafe { budgeted.fit(planner, graph, assignment, by_ggml) }
    }

    /// Returns the graph if it is one to reorder.
    ///
    /// # Safety
    /// `graph` is live with its tensors for `'g`, and no other thread uses them.
    unsafe fn to_reorder<'g>(&self, graph: NonNull<ggml_cgraph>) -> Option<GraphRef<'g>> {
        // SAFETY: live, and used by no other thread: see "# Safety".
        let is_it = self.reorders == Switch::On && unsafe { GraphRef::is_whole(graph) };
        // SAFETY: live, and used by no other thread: see "# Safety".
        is_it.then(|| unsafe { GraphRef::new(graph) }).filter(|graph| !self.has_changed(*graph))
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
