//! Verifies the graphs of one allocator, as the modes of verification say.

use super::Violation;
use super::placed_graph::PlacedGraph;
use super::places::{places_are_recorded, record_places};
use super::watched_graph::{Registration, WatchedGraph};
use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::retention::{LiveRetention, RetainedAt, retain_at};
use crate::settings::Verify;

/// The number of verified graphs that are remembered.
const REMEMBERED: usize = 4;

/// Verifies the graphs of one allocator.
#[derive(Debug)]
pub struct Verifier {
    mode: Verify,
    /// Graphs with their addresses that were verified, the latest first.
    verified: Vec<VerifiedKey>,
    /// The latest graph that guards can find, and its key.
    watched: Option<(VerifiedKey, Registration)>,
}

/// The fingerprint of a graph with its addresses, and the tensors that it retains.
type VerifiedKey = (Fingerprint, Vec<RetainedAt>);

impl Verifier {
    /// Creates a verifier that does what `mode` enables; `None` if that is nothing.
    pub fn new(mode: Verify) -> Option<Self> {
        mode.plan.then(|| Self { mode, verified: Vec::new(), watched: None })
    }

    /// Forgets all graphs, since their memory is freed.
    pub fn forget(&mut self) {
        self.verified.clear();
        self.watched = None;
    }

    /// Verifies `graph`, unless it was verified before. Only tensors in buffers for which `is_own` returns `true` are
    /// checked. What `retention` retains must last. `owner` is the address of the allocator.
    ///
    /// # Errors
    /// [`Violation`] if a value would be overwritten.
    pub fn verify(
        &mut self,
        runtime: &'static Runtime,
        graph: GraphRef<'_>,
        retention: &LiveRetention,
        owner: usize,
        is_own: impl Fn(BufferRef) -> bool,
    ) -> Result<(), Violation> {
        if self.mode.memory || places_are_recorded() {
            record_places(runtime, graph, owner, &is_own);
        }
        let key = (Fingerprint::of_placed(&runtime.operations, graph), retention.positions(graph));
        let is_watched = self.watched.as_ref().is_some_and(|(watched, _)| *watched == key);
        if self.is_verified(&key) && (is_watched || !self.mode.memory) {
            return Ok(());
        }
        let mut placed = PlacedGraph::read(runtime, graph, is_own);
        retain_at(&key.1, &mut placed.graph);
        placed.verify(runtime)?;
        if self.mode.memory {
            self.watched = Some((key.clone(), Registration::new(WatchedGraph::new(runtime, &placed))));
        }
        // Fingerprints do not cover unlisted tensors.
        if placed.all_listed {
            self.verified.truncate(REMEMBERED - 1);
            self.verified.insert(0, key);
        }
        Ok(())
    }

    fn is_verified(&mut self, key: &VerifiedKey) -> bool {
        let known = self.verified.iter().position(|verified| verified == key);
        known.map(|known| self.verified[..=known].rotate_right(1)).is_some()
    }
}
