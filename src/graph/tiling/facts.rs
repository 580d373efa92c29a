//! Users of each tensor in a draft, and the memory profile.

use std::cell::OnceCell;

use crate::graph::lists::Lists;
use crate::graph::live_bytes::Model;
use crate::graph::order::Hazards;
use crate::graph::{
    BufferIndex, BufferSpec, Effect, Flags, Graph, LiveRanges, Sizes, TensorId, shared_live_ranges, tensors_in_blocks,
};
use crate::placement::{Bytes, MemoryProfile, Problem, Step};

use super::draft::{Draft, Role};
use super::operations::TileKind;

/// Facts about a draft before it is tiled further.
pub struct DraftFacts<'a> {
    pub draft: &'a Draft,
    buffers: &'a [BufferSpec],
    /// The live ranges, whose blocks are in `problems`.
    pub ranges: LiveRanges,
    /// By buffer: the blocks.
    pub problems: Vec<Problem>,
    /// By tensor: the nodes that have it as a source, each once.
    pub users: Lists<TensorId>,
    /// By tensor: the views of its memory.
    pub views: Lists<TensorId>,
    /// By tensor: its step; `None` for tensors that are not computed, or computed twice.
    pub steps: Vec<Option<Step>>,
    /// By buffer and block: the tensors in it, by id.
    pub in_block: Vec<Lists<TensorId>>,
    /// By buffer.
    pub profiles: Vec<MemoryProfile>,
    /// Computed where tilings are searched for.
    model: OnceCell<Model>,
    hazards: OnceCell<Hazards>,
    /// By tensor: whether it must stay as it is, since something else depends on its step or its memory.
    pub fixed: Vec<bool>,
}

impl<'a> DraftFacts<'a> {
    /// Finds the facts. `None` when sizes overflow.
    pub fn of(draft: &'a Draft, buffers: &'a [BufferSpec], sizes: &mut dyn Sizes) -> Option<Self> {
        let graph = &draft.graph;
        let mut own = |id: TensorId, buffer: BufferIndex| draft.alloc_size(sizes, id, buffer);
        let mut ranges = shared_live_ranges(graph, buffers, draft.requests(), &mut own).ok()?;
        let problems = ranges.take_problems(buffers);
        let mut facts = Self {
            draft,
            buffers,
            in_block: tensors_in_blocks(&ranges.allocations, &problems),
            ranges,
            profiles: problems.iter().map(MemoryProfile::of).collect(),
            problems,
            users: graph.users(),
            views: views(graph),
            steps: vec![None; graph.tensors().len()],
            model: OnceCell::new(),
            hazards: OnceCell::new(),
            fixed: draft.known.iter().map(|known| known.kept).collect(),
        };
        facts.find_steps();
        facts.find_fixed();
        Some(facts)
    }

    /// Returns the live bytes of nodes by themselves, and the size of each tensor.
    pub fn model(&self) -> &Model {
        self.model.get_or_init(|| Model::new(&self.draft.graph, self.buffers, &self.ranges))
    }

    /// Returns which nodes must not be swapped.
    pub fn hazards(&self) -> &Hazards {
        self.hazards.get_or_init(|| self.draft.hazards())
    }

    fn find_steps(&mut self) {
        let graph = &self.draft.graph;
        for (step, &node) in (0..).zip(graph.nodes()) {
            self.steps[node as usize] = Some(step);
        }
        for (id, _) in (0..).zip(&self.steps).filter(|(_, step)| step.is_none()) {
            graph.sources(id).iter().for_each(|&source| self.fixed[source as usize] = true);
        }
    }

    /// Finds the tensors that are never tiled: the last node, which programs find at the end; inputs, parameters and
    /// losses; what ends the retention of a tensor; nodes that backends skip; and nodes that write more than their
    /// result.
    fn find_fixed(&mut self) {
        let graph = &self.draft.graph;
        let knows_flag = graph.has_flag_compute();
        let never = Flags(Flags::INPUT.0 | Flags::PARAM.0 | Flags::LOSS.0);
        for &node in graph.nodes() {
            let flags = graph.tensor(node).flags;
            let is_pure = matches!(graph.tensor(node).op.effect(), Effect::Result | Effect::View);
            let is_skipped = knows_flag && !flags.has(Flags::COMPUTE);
            let is_whole = self.draft.known[node as usize].kind == TileKind::Other;
            self.fixed[node as usize] |= !is_pure || is_skipped || is_whole || flags.has(never);
        }
        if let Some(&last) = graph.nodes().last() {
            self.fixed[last as usize] = true;
        }
        for end in graph.retention().list().iter().filter_map(|retained| retained.until) {
            self.fixed[end as usize] = true;
        }
    }

    /// Returns `true` if only its users read the tensor, so that it need not exist as a whole.
    pub fn may_be_internal(&self, id: TensorId) -> bool {
        let tensor = self.draft.graph.tensor(id);
        tensor.is_owned() && self.is_tileable(id) && !self.is_read_elsewhere(id) && self.model().size(id) > 0
    }

    /// Returns `true` if the tiles of a node may write into the memory of its result: it has its own memory, or it is
    /// such a tile itself.
    pub fn may_be_output(&self, id: TensorId) -> bool {
        let tensor = self.draft.graph.tensor(id);
        let is_tile = || self.draft.known[id as usize].origin.role == Role::Tile;
        self.is_tileable(id) && if tensor.view.is_none() { tensor.is_owned() } else { is_tile() }
    }

    /// Returns `true` if the node may be replaced.
    pub fn is_tileable(&self, id: TensorId) -> bool {
        let is_listed = !self.fixed[id as usize] && self.steps[id as usize].is_some();
        is_listed && !(self.draft.known[id as usize].kind.is_view() && self.is_read_elsewhere(id))
    }

    /// Returns `true` if the program reads the tensor after the graph, or later than its users do; or may do so, since
    /// no node reads it.
    fn is_read_elsewhere(&self, id: TensorId) -> bool {
        let graph = &self.draft.graph;
        let is_unread = self.users.of(id).is_empty();
        is_unread || graph.tensor(id).flags.has(Flags::OUTPUT) || graph.retention().of(id).is_some()
    }

    /// Returns the most live bytes of each buffer.
    pub fn peaks(&self) -> impl Iterator<Item = Bytes> {
        self.profiles.iter().map(|profile| profile.peak().map_or(0, |(_, bytes)| bytes))
    }

    /// Returns the most live bytes, over all buffers.
    pub fn peak(&self) -> Bytes {
        self.peaks().fold(0, Bytes::saturating_add)
    }
}

/// Returns, by tensor, the views of its memory.
fn views(graph: &Graph) -> Lists<TensorId> {
    let views = (0..).zip(graph.tensors()).filter_map(|(id, tensor)| Some((tensor.view?.root, id)));
    Lists::collect(graph.tensors().len(), views)
}
