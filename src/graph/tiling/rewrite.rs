//! The draft with regions tiled.

use crate::graph::lists::Lists;
use crate::graph::{BufferIndex, Effect, Flags, Graph, Operation, Retained, Tensor, TensorId, View};
use crate::placement::Step;

use super::draft::{Draft, Origin, Role};
use super::facts::Facts;
use super::operations::Kind;
use super::region::{Grid, Region};
use super::tiles::{Added, NewTensors, Tile};
use super::window::Place;

/// A region, and the tiles that it is tiled into.
#[derive(Clone, Debug)]
pub struct RegionTiling {
    pub region: Region,
    pub grid: Grid,
    pub place: Place,
    /// Units of each tile but the last, which may have fewer.
    pub units: i64,
}

impl RegionTiling {
    /// Returns how many tiles there are.
    pub fn tiles(&self) -> i64 {
        self.grid.tiles(self.units)
    }
}

/// Returns the draft with regions tiled whose places are apart; `None` if a tile cannot be made.
pub fn rewrite(facts: &Facts<'_>, tilings: &[RegionTiling]) -> Option<Draft> {
    let mut tilings: Vec<&RegionTiling> = tilings.iter().collect();
    tilings.sort_by_key(|tiled| tiled.place.steps.start);
    let mut rewriter = Rewriter::of(facts);
    let mut next = 0;
    for tiled in tilings {
        rewriter.keep(next..tiled.place.steps.start);
        rewriter.add_tiled(tiled)?;
        next = tiled.place.steps.end;
    }
    rewriter.keep(next..Step::try_from(facts.draft.graph.nodes().len()).ok()?);
    Some(rewriter.finish())
}

struct Rewriter<'a> {
    draft: &'a Draft,
    facts: &'a Facts<'a>,
    new: NewTensors<'a>,
    /// The nodes in their new order, each with its requested buffer.
    nodes: Vec<(TensorId, BufferIndex)>,
    /// By tensor of the draft: whether tiles compute it, as the position of its new sources in `whole_sources`.
    wholes: Vec<Option<u32>>,
    whole_sources: Lists<TensorId>,
    /// By tensor of the draft: whether it is no more.
    dropped: Vec<bool>,
}

impl<'a> Rewriter<'a> {
    fn of(facts: &'a Facts<'a>) -> Self {
        let draft = facts.draft;
        let tensors = draft.graph.tensors().len();
        Self {
            draft,
            facts,
            new: NewTensors::of(draft),
            nodes: Vec::with_capacity(2 * draft.graph.nodes().len()),
            wholes: vec![None; tensors],
            whole_sources: Lists::with_capacity(0),
            dropped: vec![false; tensors],
        }
    }

    fn buffer(&self, node: TensorId) -> BufferIndex {
        buffer_of(self.facts, node)
    }

    fn keep(&mut self, steps: impl IntoIterator<Item = Step>) {
        for step in steps {
            let node = self.draft.graph.nodes()[step as usize];
            self.nodes.push((node, self.draft.node_buffers[step as usize]));
        }
    }

    fn add_tiled(&mut self, tiled: &RegionTiling) -> Option<()> {
        self.keep(tiled.place.before.iter().copied());
        let outputs: Vec<TensorId> = tiled.region.outputs(self.facts).map(|member| member.tensor).collect();
        for member in tiled.region.members.iter().filter(|member| !outputs.contains(&member.tensor)) {
            self.dropped[member.tensor as usize] = true;
        }
        let listed = self.new.list.len();
        for &output in outputs.iter().filter(|&&output| self.draft.graph.tensor(output).view.is_none()) {
            self.new.add_memory(output, self.buffer(output));
        }
        let count = u32::try_from(tiled.tiles()).ok()?;
        let mut added = Added::default();
        // By output: its tiles.
        let mut tiles = vec![Vec::with_capacity(count as usize); outputs.len()];
        for (number, first) in (1..=count).zip((0..).map(|tile| tile * tiled.units)) {
            let units = first..(first + tiled.units).min(tiled.grid.units);
            let tile = Tile { region: &tiled.region, grid: tiled.grid, units, number: [number, count] };
            let facts = self.facts;
            self.new.add_tile(&tile, |node| buffer_of(facts, node), &mut added)?;
            for (tiles, &output) in tiles.iter_mut().zip(&outputs) {
                tiles.push(added.tile_of(&tiled.region, output)?);
            }
        }
        for (tiles, &output) in tiles.iter().zip(&outputs) {
            let sources = self.new.add_joins(output, tiles, self.buffer(output));
            self.wholes[output as usize] = Some(u32::try_from(self.whole_sources.len()).ok()?);
            self.whole_sources.push(&sources);
        }
        let tensors = TensorId::try_from(self.draft.graph.tensors().len()).ok()?;
        let new = (tensors..).zip(&self.new.list).skip(listed);
        self.nodes.extend(new.map(|(id, new)| (id, new.buffer)));
        self.nodes.extend(outputs.iter().map(|&output| (output, buffer_of(self.facts, output))));
        self.keep(tiled.place.after.iter().copied());
        Some(())
    }

    fn finish(self) -> Draft {
        let draft = self.draft;
        let mut order: Vec<TensorId> = draft.graph.leafs().to_vec();
        order.extend(self.nodes.iter().map(|&(node, _)| node));
        let given = TensorId::try_from(draft.graph.tensors().len()).expect("fewer than 2^32 tensors");
        let mut is_listed = vec![false; draft.graph.tensors().len()];
        for &id in order.iter().filter(|&&id| id < given) {
            is_listed[id as usize] = true;
        }
        order.extend((0..given).filter(|id| !is_listed[*id as usize] && !self.dropped[*id as usize]));
        let mut numbers: Vec<Option<TensorId>> = vec![None; draft.graph.tensors().len() + self.new.list.len()];
        for (number, &id) in (0..).zip(&order) {
            numbers[id as usize] = Some(number);
        }
        let mut rest = Rest { draft, rewriter: &self, numbers: &numbers };
        rest.build(&order)
    }
}

/// Returns the requested buffer of a node.
fn buffer_of(facts: &Facts<'_>, node: TensorId) -> BufferIndex {
    facts.steps[node as usize].map_or(0, |step| facts.draft.node_buffers[step as usize])
}

/// Builds the new draft from tensors in their new order.
struct Rest<'r, 'a> {
    draft: &'a Draft,
    rewriter: &'r Rewriter<'a>,
    /// By id in the draft, then by new tensor: the new id.
    numbers: &'r [Option<TensorId>],
}

impl Rest<'_, '_> {
    fn number(&self, id: TensorId) -> TensorId {
        self.numbers[id as usize].expect("what a tensor refers to is in the new graph")
    }

    fn build(&mut self, order: &[TensorId]) -> Draft {
        let mut result = Draft {
            graph: Graph::with_capacity(order.len()),
            origins: Vec::with_capacity(order.len()),
            tiles: self.rewriter.new.tiles.clone(),
            kinds: Vec::with_capacity(order.len()),
            effects: Vec::with_capacity(order.len()),
            nbytes: Vec::with_capacity(order.len()),
            same_memory: Vec::with_capacity(order.len()),
            kept: Vec::with_capacity(order.len()),
            unsliced: Vec::with_capacity(order.len()),
            leaf_buffers: self.draft.leaf_buffers.clone(),
            node_buffers: self.rewriter.nodes.iter().map(|&(_, buffer)| buffer).collect(),
            given_nbytes: self.draft.given_nbytes.clone(),
        };
        let number = |count: usize| TensorId::try_from(count).expect("fewer than 2^32 tensors");
        let given = number(self.draft.graph.tensors().len());
        for &id in order {
            match id.checked_sub(given) {
                Some(position) => self.add_new(&mut result, position),
                None => self.add_given(&mut result, id),
            }
        }
        let leafs = self.draft.graph.leafs().len();
        result.graph.list_leafs(self.draft.graph.leafs().iter().map(|&leaf| self.number(leaf)));
        result.graph.list_nodes(number(leafs)..number(leafs + self.rewriter.nodes.len()));
        let retained = self.draft.graph.retention().list().iter().map(|&Retained { tensor, until }| Retained {
            tensor: self.number(tensor),
            until: until.map(|node| self.number(node)),
        });
        result.graph.set_retention(retained.collect());
        result
    }

    /// Returns a view of the memory that is that of its root now.
    fn view(&self, view: View) -> View {
        let root = self.rewriter.new.memory(view.root).unwrap_or(view.root);
        View { root: self.number(root), ..view }
    }

    fn add_given(&self, result: &mut Draft, id: TensorId) {
        let (draft, at) = (self.draft, id as usize);
        let whole = self.rewriter.wholes[at].map(|position| self.rewriter.whole_sources.of(position));
        let mut tensor: Tensor = draft.graph.tensor(id).clone();
        tensor.view = tensor.view.or(whole.map(|_| View { root: id, offset: 0 })).map(|view| self.view(view));
        if whole.is_some() {
            tensor.operation = Operation::View;
        }
        result.graph.add(tensor, draft.graph.layout(id).by_ref());
        let sources = whole.unwrap_or(draft.graph.sources(id));
        result.graph.push_sources(sources.iter().map(|&source| self.number(source)));
        let given = draft.origins[at];
        let role = match given.role {
            Role::Given if whole.is_some() => Role::Whole,
            Role::Tile if whole.is_some() => Role::TileWhole,
            role => role,
        };
        result.origins.push(Origin { role, ..given });
        result.kinds.push(if whole.is_some() { Kind::Other } else { draft.kinds[at] });
        result.effects.push(if whole.is_some() { Effect::View } else { draft.effects[at] });
        result.nbytes.push(draft.nbytes[at]);
        result.same_memory.push(self.numbers[draft.same_memory[at] as usize].unwrap_or_else(|| self.number(id)));
        result.kept.push(draft.kept[at]);
        result.unsliced.push(draft.unsliced[at]);
    }

    fn add_new(&self, result: &mut Draft, position: u32) {
        let (new, sources) = (&self.rewriter.new.list[position as usize], self.rewriter.new.sources.of(position));
        let mut tensor = new.tensor.clone();
        tensor.view = tensor.view.map(|view| self.view(view));
        debug_assert!(!tensor.flags.has(Flags::OUTPUT));
        let id = result.graph.add(tensor, new.layout.by_ref());
        result.graph.push_sources(sources.iter().map(|&source| self.number(source)));
        result.origins.push(new.origin);
        result.kinds.push(new.kind);
        result.effects.push(new.effect);
        result.nbytes.push(new.nbytes);
        result.same_memory.push(id);
        result.kept.push(false);
        result.unsliced.push(self.draft.unsliced[new.of as usize]);
    }
}
