//! Watches what an allocator does.

use super::Violation;
use super::mode::Verify;
use super::placed::Placed;
use super::watch::{Registration, Watch};
use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::read::fingerprint::Fingerprint;

/// So many graphs are remembered as right.
const REMEMBERED: usize = 4;

/// Watches one allocator.
#[derive(Debug)]
pub struct Verifier {
    mode: Verify,
    /// Graphs at addresses that were found to be right, the latest first.
    right: Vec<Fingerprint>,
    /// The latest graph, for guards, and what it was.
    watched: Option<(Fingerprint, Registration)>,
}

impl Verifier {
    /// Watches what `mode` says.
    pub fn new(mode: Verify) -> Self {
        Self { mode, right: Vec::new(), watched: None }
    }

    /// Forgets all graphs: their memory is gone.
    pub fn forget(&mut self) {
        self.right.clear();
        self.watched = None;
    }

    /// Verifies a graph whose memory lies in buffers for which `is_ours` returns `true`.
    ///
    /// # Errors
    /// What is wrong with that.
    pub fn verify(
        &mut self,
        runtime: &'static Runtime,
        graph: GraphRef<'_>,
        is_ours: impl Fn(BufferRef) -> bool,
    ) -> Result<(), Violation> {
        if !self.mode.plan {
            return Ok(());
        }
        let fingerprint = Fingerprint::of_placed(&runtime.operations, graph);
        let is_watched = self.watched.as_ref().is_some_and(|(watched, _)| *watched == fingerprint);
        if self.is_right(fingerprint) && (is_watched || !self.mode.memory) {
            return Ok(());
        }
        let placed = Placed::read(runtime, graph, is_ours);
        placed.verify(runtime)?;
        if self.mode.memory {
            self.watched = Some((fingerprint, Registration::new(Watch::new(runtime, &placed))));
        }
        // Fingerprints tell nothing of tensors that are in no list.
        if placed.all_listed {
            self.right.truncate(REMEMBERED - 1);
            self.right.insert(0, fingerprint);
        }
        Ok(())
    }

    fn is_right(&mut self, fingerprint: Fingerprint) -> bool {
        let known = self.right.iter().position(|&right| right == fingerprint);
        known.map(|known| self.right[..=known].rotate_right(1)).is_some()
    }
}
