//! The largest tensors of a peak, and what can be done about them: the peak without each, what grows with the number of
//! tokens, the bytes that are live in every order of the nodes, and the bytes of a tiled graph.

use crate::graph::tiling::{TilingEffort, TilingLimits};
use crate::graph::{BufferIndex, Flags, Requests, TensorId, shared_live_ranges};
use crate::placement::{Bytes, Step, lower_bound};

use super::case::Case;
use super::explanation::{Batch, Inherent, Large, Pattern, Remedies, Tiled};
use super::pattern::Patterns;

/// How many of the largest blocks are looked at.
const MAX_LARGE: usize = 3;

/// Blocks after the first are looked at if they have this part of the peak, in hundredths.
const MIN_PART: Bytes = 5;

/// A peak is inherent if this part of it is live at a node in every order, in hundredths.
const INHERENT: Bytes = 90;

/// Maximum number of nodes that are considered for a peak.
const MAX_NODES: usize = 16;

/// The work limit of the search for tilings: some tenths of a second.
const TILING: TilingEffort = TilingEffort(1_000_000);

/// Savings below this part of the plan, in hundredths, are not worth the time of the tiles.
const MIN_SAVED: Bytes = 5;

impl Case<'_> {
    /// Returns the facts about the peak of a buffer at `step`, which has `bytes` live bytes.
    pub fn remedies(&self, buffer: usize, step: Step, bytes: Bytes) -> Remedies {
        let blocks = self.blocks_at(buffer, step);
        let patterns = Patterns::of(self);
        let large = |&(block, held): &(u32, Bytes)| {
            let id = self.tensors_at(buffer, block, step).last().copied()?;
            let (lower_bound_without, peak_without) = self.peak_without(buffer, block);
            Some(Large {
                tensor: self.named(id),
                shape: self.shape(id),
                bytes: held,
                lower_bound_without,
                peak_without,
                pattern: patterns.pattern(id),
            })
        };
        let is_part =
            |part: Bytes, hundredths: Bytes| u128::from(part) * 100 >= u128::from(bytes) * u128::from(hundredths);
        let is_large = |(number, (_, held)): &(usize, &(u32, Bytes))| {
            *number == 0 || (*number < MAX_LARGE && is_part(*held, MIN_PART))
        };
        let is_kept = |&(block, _): &(u32, Bytes)| {
            let id = self.tensors_at(buffer, block, step).last().copied();
            id.is_some_and(|id| matches!(patterns.pattern(id), Some(Pattern::KeptForBackward { .. })))
        };
        let kept_for_backward = blocks.iter().filter(|block| is_kept(block)).map(|&(_, held)| held).sum();
        let inherent = self.inherent(buffer, step);
        Remedies {
            largest: blocks.iter().enumerate().filter(is_large).filter_map(|(_, block)| large(block)).collect(),
            batch: self.batch(buffer, step),
            kept_for_backward,
            inherent: inherent.filter(|inherent| is_part(inherent.bytes(), INHERENT)),
        }
    }

    /// Returns what grows with the number of tokens in a buffer; `None` if no input holds several tokens, nothing of the peak
    /// grows with them, or no work is left to find out.
    fn batch(&self, buffer: usize, step: Step) -> Option<Batch> {
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

    /// Returns the most that is live in a buffer in every order of the nodes, at the node of the peak or at one that
    /// uses the largest tensor there.
    fn inherent(&self, buffer: usize, peak: Step) -> Option<Inherent> {
        let mut steps = vec![peak];
        for (block, _) in self.blocks_at(buffer, peak) {
            for id in self.tensors_at(buffer, block, peak) {
                steps.extend(&self.uses.accesses[id as usize]);
            }
            if steps.len() >= MAX_NODES {
                break;
            }
        }
        steps.truncate(MAX_NODES);
        let found = steps.into_iter().map(|step| self.inherent_at(buffer, step));
        found.reduce(|most, other| if other.bytes() > most.bytes() { other } else { most })
    }

    /// Returns the bytes that are live in a buffer at the node of a step in every order of the nodes. Blocks count
    /// once, with the bytes of the largest tensor for which that holds.
    fn inherent_at(&self, buffer: usize, step: Step) -> Inherent {
        let mut found = Inherent { node: self.node(step), of_node: 0, across: 0 };
        let graph = &self.planned.snapshot.graph;
        let Some(&node) = graph.nodes().get(step as usize) else { return found };
        let sources: Vec<TensorId> = graph.sources(node).iter().map(|&source| graph.root(source)).collect();
        let before = closure(graph.nodes().len(), step, |step| self.hazards().before(step));
        let after = closure(graph.nodes().len(), step, |step| self.hazards().after(step));
        let is_across = |id: TensorId| {
            let is_accessed = |steps: &[bool]| self.uses.accesses[id as usize].iter().any(|&step| steps[step as usize]);
            let is_before = self.uses.def(id).map_or_else(|| is_accessed(&before), |def| before[def as usize]);
            is_before && (self.uses.kept[id as usize].is_some() || is_accessed(&after))
        };
        // Another order may leave the node as the last one that reads such a source, so its result may be in place of it.
        let is_longer_live = |&id: &TensorId| self.uses.last_use(id).is_some_and(|last| last > step) && !is_across(id);
        let result = Some(graph.root(node)).filter(|_| !sources.iter().any(is_longer_live));
        for (block, held) in self.blocks_at(buffer, step) {
            let size = |&id: &TensorId| self.allocation(id, buffer).map_or(0, |it| self.bytes(it)).min(held);
            let tensors = self.tensors_at(buffer, block, step);
            let is_of_node = |id: &&TensorId| sources.contains(id) || result == Some(**id);
            let of_node = tensors.iter().filter(is_of_node).map(size).max();
            found.of_node += of_node.unwrap_or(0);
            found.across += match of_node {
                Some(_) => 0,
                None => tensors.iter().filter(|&&id| is_across(id)).map(size).max().unwrap_or(0),
            };
        }
        found
    }

    /// Searches for the smallest graph with large intermediates in tiles. `None` if it takes hardly less, or no work is left.
    pub fn tiled(&self) -> Option<Tiled> {
        if !self.may_try(1) {
            return None;
        }
        let mut snapshot = self.planned.snapshot.clone();
        let limits = TilingLimits { effort: TILING, ..TilingLimits::of(0) };
        let found = snapshot.tile(self.planned.buffers, limits, &mut |_| true).ok()?;
        let largest = found.tiled.iter().max_by_key(|tiled| tiled.bytes[0])?;
        let saves = found.before.saturating_sub(found.after);
        let is_worth_it = u128::from(saves) * 100 >= u128::from(found.before) * u128::from(MIN_SAVED);
        is_worth_it.then(|| Tiled {
            saves,
            size: found.after,
            tensor: self.named(largest.tensor),
            tiles: largest.tiles,
            others: found.tiled.len() - 1,
        })
    }
}

/// Returns, by step, whether it follows from a step; the step itself does not.
fn closure<'a>(count: usize, step: Step, next: impl Fn(Step) -> &'a [Step]) -> Vec<bool> {
    let mut follows = vec![false; count];
    let mut waiting = next(step).to_vec();
    while let Some(step) = waiting.pop() {
        if !std::mem::replace(&mut follows[step as usize], true) {
            waiting.extend_from_slice(next(step));
        }
    }
    follows
}
