//! The orders that were found for graphs, so that equal graphs get equal orders without another search.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::ggml::read::ReadGraph;
use crate::ggml::read::fingerprint::Fingerprint;
use crate::placement::Step;

/// Maximum number of remembered orders; beyond it, the oldest are forgotten.
const MOST: usize = 64;

/// A hash of what each node of a graph computes from which others, whatever their sizes. Equal hashes do not make an
/// order correct: hazards decide that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structure(u64);

impl Structure {
    /// Returns that of a graph that was read.
    pub fn of(reading: &ReadGraph<'_>) -> Self {
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
    pub given: Fingerprint,
    /// The graph with its nodes in the new order; [`KnownOrder::given`] if no node moved.
    pub ordered: Fingerprint,
    /// The structures of both.
    pub structures: [Structure; 2],
    /// The buffer ids that were requested for the nodes as given; `None` where all are 0.
    pub ids: Option<Vec<usize>>,
    /// The steps of the given order, in the new order.
    pub order: Vec<Step>,
}

impl KnownOrder {
    /// Returns the buffer ids of the nodes in the new order.
    pub fn ids_in_order(&self) -> Option<Vec<usize>> {
        let ids = self.ids.as_ref()?;
        Some(self.order.iter().map(|&step| ids[step as usize]).collect())
    }
}

/// The orders that an allocator remembers, the oldest first.
#[derive(Debug, Default)]
pub struct KnownOrders(Vec<KnownOrder>);

impl KnownOrders {
    /// Remembers an order.
    pub fn add(&mut self, order: KnownOrder) {
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(order);
    }

    /// Returns `true` if none is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all orders.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the latest order for which `is_it` holds.
    pub fn latest(&self, is_it: impl Fn(&KnownOrder) -> bool) -> Option<&KnownOrder> {
        self.0.iter().rev().find(|known| is_it(known))
    }
}
