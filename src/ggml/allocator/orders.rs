//! An order with a lower peak for graphs of programs that know nothing of it: the variable `LASTUSE_REORDER`.
//!
//! A graph gets its order when it is reserved or measured, or planned because it is allocated without having been
//! reserved. A graph that is rebuilt and then allocated gets the order of the reserved graph. Equal graphs get equal
//! orders without another search.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::ggml::extensions::reorder::hazards_of;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::read::{ReadGraph, Requested};
use crate::graph::order::{ReorderEffort, reorder};
use crate::placement::Step;

use super::cache::{Cache, Entry};
use super::planner::Planner;

/// A hash of what each node of a graph computes from which others, whatever their sizes. Equal hashes do not make an
/// order correct: hazards decide that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Structure(u64);

impl Structure {
    /// Returns that of a graph that was read.
    fn of(reading: &ReadGraph<'_>) -> Self {
        let ReadGraph { graph, ops, .. } = reading;
        let mut hasher = DefaultHasher::new();
        for &node in graph.nodes() {
            (ops[node as usize], graph.root(node), graph.sources(node)).hash(&mut hasher);
        }
        Self(hasher.finish())
    }
}

/// A graph as the program builds it, and the order in which it is run.
#[derive(Clone, Debug)]
pub struct KnownOrder {
    /// The graph as given.
    given: Fingerprint,
    /// The graph with its nodes in the new order; [`KnownOrder::given`] if no node moved.
    ordered: Fingerprint,
    /// The structures of both.
    structures: [Structure; 2],
    /// The buffer ids that were requested for the nodes as given; `None` where all are 0.
    ids: Option<Vec<usize>>,
    /// The steps of the given order, in the new order.
    order: Vec<Step>,
}

impl KnownOrder {
    /// Returns the buffer ids of the nodes in the new order.
    fn ids_in_order(&self) -> Option<Vec<usize>> {
        let ids = self.ids.as_ref()?;
        Some(self.order.iter().map(|&step| ids[step as usize]).collect())
    }
}

/// The nodes of a graph in a better order, with the buffer ids requested for them.
#[derive(Debug)]
pub struct NewOrder<'g> {
    /// The nodes.
    pub nodes: Vec<TensorRef<'g>>,
    /// The buffer ids by node; `None` where all are 0.
    pub ids: Option<Vec<usize>>,
}

impl Entry for KnownOrder {
    fn bytes(&self) -> usize {
        let Self { ids, order, .. } = self;
        size_of::<Self>() + size_of_val(order.as_slice()) + size_of_val(ids.as_deref().unwrap_or_default())
    }
}

/// The orders found for graphs of an allocator.
pub type Orders = Cache<KnownOrder>;

impl Orders {
    /// Returns the latest order for which `is_it` holds.
    fn latest(&self, mut is_it: impl FnMut(&KnownOrder) -> bool) -> Option<&KnownOrder> {
        self.entries().iter().find(|known| is_it(known))
    }

    /// Returns the order of a graph that is reserved, if it is to get another one. `ids` are the buffer ids of the
    /// nodes, and `leaf_ids` those of the leafs; `None` means 0.
    pub fn for_reservation<'g>(
        &mut self,
        planner: &mut Planner,
        graph: GraphRef<'g>,
        ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Option<NewOrder<'g>> {
        let fingerprint = Fingerprint::of_placed(&planner.runtime.operations, graph);
        let requested = |known: &KnownOrder| known.ids.as_deref() == ids;
        if let Some(known) = self.latest(|known| known.ordered == fingerprint && known.given != fingerprint) {
            // The program passes the ids either for the given order or for the current one.
            return requested(known).then(|| NewOrder { nodes: graph.nodes.to_vec(), ids: known.ids_in_order() });
        }
        if self.latest(|known| known.given == fingerprint && requested(known)).is_none() {
            self.find_order(planner, graph, fingerprint, ids, leaf_ids);
        }
        let known = self.latest(|known| known.given == fingerprint && requested(known))?;
        (known.given != known.ordered)
            .then(|| NewOrder { nodes: in_order(graph, &known.order), ids: known.ids_in_order() })
    }

    /// Returns the nodes of a graph that is allocated in another order, if it is to get one: that of the graph which
    /// was reserved, where it is one for this graph too.
    pub fn for_allocation<'g>(&mut self, planner: &mut Planner, graph: GraphRef<'g>) -> Option<Vec<TensorRef<'g>>> {
        let fingerprint = Fingerprint::of_placed(&planner.runtime.operations, graph);
        if self.latest(|known| known.ordered == fingerprint).is_some() {
            return None;
        }
        if let Some(known) = self.latest(|known| known.given == fingerprint) {
            return Some(in_order(graph, &known.order));
        }
        let reading = read_to_reorder(planner, graph, &Requested::default());
        let structure = Structure::of(&reading);
        if let Some(known) = self.latest(|known| known.structures.contains(&structure)) {
            let is_ordered = known.structures[1] == structure;
            let fits = !is_ordered && hazards_of(planner.runtime, &reading).allow(&known.order);
            return fits.then(|| in_order(graph, &known.order));
        }
        // With several buffers only a reservation states where the graph expects its nodes.
        if planner.types.buffer_of_id.len() > 1 {
            return None;
        }
        self.find_order(planner, graph, fingerprint, None, None);
        let known = self.latest(|known| known.given == fingerprint && known.ordered != fingerprint)?;
        Some(in_order(graph, &known.order))
    }

    /// Returns the nodes of a graph that was reordered in the order in which the program built it, with the buffers
    /// that it requests for them; `None` if no node was moved.
    pub fn as_given<'g>(
        &self,
        planner: &Planner,
        graph: GraphRef<'g>,
        requested: &Requested,
    ) -> Option<(Vec<TensorRef<'g>>, Requested)> {
        if self.is_empty() {
            return None;
        }
        let fingerprint = Fingerprint::of_placed(&planner.runtime.operations, graph);
        let known = self.latest(|known| known.ordered == fingerprint && known.given != fingerprint)?;
        let (mut nodes, mut given) = (graph.nodes.to_vec(), requested.clone());
        for (at, &step) in known.order.iter().enumerate() {
            nodes[step as usize] = graph.nodes[at];
            if let Some(buffer) = requested.nodes.get(at) {
                given.nodes[step as usize] = *buffer;
            }
        }
        Some((nodes, given))
    }

    /// Searches for an order of `graph` and remembers it. None is remembered for a graph whose sizes overflow, which
    /// cannot be planned.
    fn find_order(
        &mut self,
        planner: &mut Planner,
        graph: GraphRef<'_>,
        given: Fingerprint,
        ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) {
        let requested = planner.types.requested(graph, ids, leaf_ids);
        let reading = read_to_reorder(planner, graph, &requested);
        let hazards = hazards_of(planner.runtime, &reading);
        let found = planner.search(&reading, &requested, |buffers, requests, sizes| {
            reorder(&reading.graph, buffers, requests, sizes, &hazards, ReorderEffort::default())
        });
        let Ok(found) = found else { return };
        let nodes = in_order(graph, &found.order);
        let ordered = GraphRef { leafs: graph.leafs, nodes: &nodes };
        let structures =
            [Structure::of(&reading), Structure::of(&read_to_reorder(planner, ordered, &Requested::default()))];
        let ordered = Fingerprint::of_placed(&planner.runtime.operations, ordered);
        let ids = ids.map(<[usize]>::to_vec);
        self.add(KnownOrder { given, ordered, structures, ids, order: found.order });
    }
}

fn read_to_reorder<'g>(planner: &mut Planner, graph: GraphRef<'g>, requested: &Requested) -> ReadGraph<'g> {
    let mut reading = planner.read(graph, requested, false);
    planner.retention.current().retain_in(&mut reading.graph, graph);
    reading
}

fn in_order<'g>(graph: GraphRef<'g>, order: &[Step]) -> Vec<TensorRef<'g>> {
    order.iter().map(|&step| graph.nodes[step as usize]).collect()
}
