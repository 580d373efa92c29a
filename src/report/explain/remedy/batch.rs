//! Tensors that grow with the number of tokens that a graph computes at once.

use crate::graph::{BufferIndex, Flags, Requests, TensorId, shared_live_ranges};
use crate::placement::{Bytes, Step, lower_bound};

use crate::report::explain::case::Case;

/// Tensors that grow with the number of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Batch {
    /// The number of tokens.
    pub tokens: i64,
    /// Bytes of the peak that grow with it.
    pub grows: Bytes,
    /// The lower bound with half as many tokens: tensors with an extent of their number have half the bytes.
    pub lower_bound_of_half: Bytes,
}

impl Case<'_> {
    /// Returns what grows with the number of tokens in a buffer; `None` if no input holds several tokens, nothing of the peak
    /// grows with them, or no work is left to find out.
    pub fn batch(&self, buffer: usize, step: Step) -> Option<Batch> {
        let tokens = self.tokens().filter(|&tokens| tokens > 1)?;
        let blocks = self.blocks_at(buffer, step);
        let growing = blocks.iter().filter(|&&(block, _)| {
            self.tensors_at(buffer, block, step).last().is_some_and(|&id| self.grows(id, tokens))
        });
        let grows = growing.map(|&(_, bytes)| bytes).sum();
        if grows == 0 || !self.may_try(1) {
            return None;
        }
        Some(Batch { tokens, grows, lower_bound_of_half: self.bounds_of_half(tokens)?.get(buffer).copied()? })
    }

    /// Returns the number of tokens that an input holds.
    fn tokens(&self) -> Option<i64> {
        let snapshot = self.planned.snapshot;
        let of_input = |&id: &TensorId| {
            let is_input = snapshot.graph.tensor(id).flags.has(Flags::INPUT);
            let is_named = snapshot.tensors[id as usize].name.contains("token");
            match snapshot.graph.layout(id).ne {
                [tokens, 1, 1, 1] if is_input && is_named => Some(tokens),
                _ => None,
            }
        };
        snapshot.graph.leafs().iter().find_map(of_input)
    }

    /// Returns whether a tensor has something for each token.
    fn grows(&self, id: TensorId, tokens: i64) -> bool {
        let ne = self.planned.snapshot.graph.layout(id).ne;
        ne[1..].contains(&tokens) || ne == [tokens, 1, 1, 1]
    }

    /// Returns the lower bounds, by buffer, if everything that grows with the tokens had half the bytes.
    fn bounds_of_half(&self, tokens: i64) -> Option<Vec<Bytes>> {
        let (snapshot, buffers) = (self.planned.snapshot, self.planned.buffers);
        let (leafs, nodes) = snapshot.requested_buffers();
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let mut sizes = |id: TensorId, buffer: BufferIndex| {
            let size = snapshot.tensors[id as usize].size_in(buffer);
            if self.grows(id, tokens) { size.div_ceil(2) } else { size }
        };
        let mut found = shared_live_ranges(&snapshot.graph, buffers, requests, &mut sizes).ok()?;
        Some(found.take_problems(buffers).iter().map(lower_bound).collect())
    }
}
