//! Regions: nodes that are tiled together, whether they can be, and where their tiles run among the other nodes.

use std::ops::Range;

use crate::graph::{Layout, TensorId};
use crate::placement::Step;

use super::facts::DraftFacts;
use super::operations::{Need, NodeTiling, aligned_multiple};
use super::slices::{gcd, is_packed, lcm, slice};

/// A node of a region, and the dimension of its result that is tiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub tensor: TensorId,
    pub dimension: usize,
    /// Elements of the dimension.
    pub extent: i64,
}

/// Nodes that are tiled together. Each tile computes the same share of each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// In the order of their steps.
    pub members: Vec<Member>,
    /// Those that only members read, with their own memory: their tiles are tensors. The others are views of these, or
    /// outputs, which stay whole.
    pub internal: Vec<TensorId>,
}

/// How finely a region can be tiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Ranges of the same share that the extents of all members divide into.
    pub units: i64,
    /// Tiles begin at multiples of this number of units.
    pub multiple: i64,
    /// Minimum number of units of a tile.
    pub fewest: i64,
}

impl Grid {
    /// Returns the elements of a dimension with `extent` elements that these units are.
    pub fn elements(self, units: &Range<i64>, extent: i64) -> Range<i64> {
        let each = extent / self.units.max(1);
        units.start * each..units.end * each
    }

    /// Returns how many tiles of `each` units there are; the last may have fewer.
    pub fn tiles(self, each: i64) -> i64 {
        (self.units + each - 1) / each
    }

    /// Returns the units of the last of tiles of `each` units.
    pub fn last(self, each: i64) -> i64 {
        (self.units - 1) % each + 1
    }

    /// Returns the next multiple at which a tile may begin.
    pub fn rounded_up(self, units: i64) -> i64 {
        (units + self.multiple - 1) / self.multiple * self.multiple
    }
}

impl Region {
    /// Returns the member that a tensor is.
    pub fn member(&self, tensor: TensorId) -> Option<&Member> {
        self.members.iter().find(|member| member.tensor == tensor)
    }

    /// Returns `true` for a member whose tiles are tensors.
    pub fn is_internal(&self, tensor: TensorId) -> bool {
        self.internal.contains(&tensor)
    }

    /// Returns the members that stay whole: what computes a result that others read too.
    pub fn outputs<'r>(&'r self, facts: &'r DraftFacts<'_>) -> impl Iterator<Item = &'r Member> {
        let is_view = |tensor: TensorId| facts.draft.known[tensor as usize].kind.is_view();
        let is_output = move |tensor: TensorId| !is_view(tensor) && !self.is_internal(tensor);
        self.members.iter().filter(move |member| is_output(member.tensor))
    }

    /// Returns the steps from the first to the last member; `None` if one is not computed.
    pub fn steps(&self, facts: &DraftFacts<'_>) -> Option<Range<Step>> {
        let step = |member: &Member| facts.steps[member.tensor as usize];
        // Members are in the order of their steps.
        Some(step(self.members.first()?)?..step(self.members.last()?)? + 1)
    }

    /// Returns how finely the region can be tiled; `None` if it cannot.
    pub fn grid(&self, facts: &DraftFacts<'_>) -> Option<Grid> {
        let units = self.members.iter().fold(0, |units, member| gcd(units, member.extent));
        let mut grid = Grid { units, multiple: 1, fewest: 1 };
        if !self.internal.iter().all(|&tensor| self.holds_all_users(facts, tensor)) {
            return None;
        }
        if facts.draft.kernels.alignment() > 1 && !self.views_begin_with_their_parents(facts) {
            return None;
        }
        let mut multiples = Vec::new();
        for member in self.members.iter().filter(|member| !facts.draft.known[member.tensor as usize].kind.is_view()) {
            let tiled = facts.draft.tiled(member.tensor, member.dimension)?;
            if !self.is_internal(member.tensor) && !Self::may_stay_whole(facts, member, &tiled) {
                return None;
            }
            for (slot, &need) in tiled.needs.iter().enumerate() {
                grid.units = self.units_of_source(facts, member, (slot, need), &tiled, grid.units)?;
            }
            let multiple = lcm(tiled.multiple, self.aligned(facts, member, &tiled)?)?;
            multiples.push((multiple, tiled.fewest, member.extent));
        }
        for (multiple, fewest, extent) in multiples {
            let each = extent / grid.units;
            grid.fewest = grid.fewest.max((fewest + each - 1) / each);
            grid.multiple = lcm(grid.multiple, multiple / gcd(multiple, each))?;
        }
        (grid.units > 1 && grid.multiple < grid.units).then_some(grid)
    }

    /// Returns `true` if the nodes that read an internal tensor are all members, and its views too.
    fn holds_all_users(&self, facts: &DraftFacts<'_>, tensor: TensorId) -> bool {
        let views = facts.views.of(tensor);
        let users = views.iter().chain([&tensor]).flat_map(|&id| facts.users.of(id));
        views.iter().chain(users).all(|&id| self.member(id).is_some())
    }

    /// Returns `true` if the tiles of an output may write views of it, or be copied there.
    fn may_stay_whole(facts: &DraftFacts<'_>, member: &Member, tiled: &NodeTiling) -> bool {
        let copies = facts.draft.kernels.copies_results();
        facts.may_be_output(member.tensor) && (copies || writes_views(facts, member, tiled))
    }

    /// Returns `true` if the tiles of an output are copied into its memory; `None` if it is not tiled.
    pub fn is_copied(facts: &DraftFacts<'_>, output: &Member) -> Option<bool> {
        Some(!writes_views(facts, output, &facts.draft.tiled(output.tensor, output.dimension)?))
    }

    /// Returns `true` if the views among the members begin where what they are views of does: elsewhere, those of tiles may begin anywhere.
    fn views_begin_with_their_parents(&self, facts: &DraftFacts<'_>) -> bool {
        let (graph, known) = (&facts.draft.graph, &facts.draft.known);
        let begin = |id: TensorId| graph.tensor(id).view.map_or(0, |view| view.offset);
        let mut views = self.members.iter().map(|member| member.tensor).filter(|&id| known[id as usize].kind.is_view());
        views.all(|id| graph.sources(id).first().is_some_and(|&parent| begin(id) == begin(parent)))
    }

    /// Returns the multiple of elements of a member at which its slices, and its tiles of an output, are aligned for the kernels.
    fn aligned(&self, facts: &DraftFacts<'_>, member: &Member, tiled: &NodeTiling) -> Option<i64> {
        let alignment = facts.draft.kernels.alignment();
        if alignment == 1 {
            return Some(1);
        }
        let graph = &facts.draft.graph;
        let own = Need::along(member.dimension);
        let result = (!self.is_internal(member.tensor)).then_some((own, member.tensor));
        let sources = tiled.needs.iter().copied().zip(graph.sources(member.tensor).iter().copied());
        let mut slices = result.into_iter().chain(sources.filter(|(_, source)| self.member(*source).is_none()));
        slices.try_fold(1, |multiple, (need, of)| lcm(multiple, aligned_multiple(alignment, need, graph.layout(of))?))
    }

    /// Returns `true` if the tiles of a member have gaps exactly where the whole has some. Tiles of internal tensors
    /// have none; those of outputs are views; the facts about views with gaps do not suffice.
    fn has_gaps_as_whole(&self, facts: &DraftFacts<'_>, member: &Member) -> bool {
        let layout = facts.draft.graph.layout(member.tensor);
        let is_view = facts.draft.known[member.tensor as usize].kind.is_view();
        let is_output = !is_view && !self.is_internal(member.tensor);
        if is_output { is_packed_alike(layout, member.dimension) } else { is_packed(layout) }
    }

    /// Returns the units with which the ranges of this source are whole elements; `None` if it cannot be tiled so.
    fn units_of_source(
        &self,
        facts: &DraftFacts<'_>,
        member: &Member,
        (slot, need): (usize, Need),
        tiled: &NodeTiling,
        units: i64,
    ) -> Option<i64> {
        let graph = &facts.draft.graph;
        let source = graph.sources(member.tensor)[slot];
        let root = graph.root(source);
        let is_inside = self.member(source).is_some() || self.member(root).is_some();
        let may_have_gaps = tiled.strided.get(slot) == Some(&true);
        let (dimension, numerator, denominator) = match need {
            Need::Itself => return Some(units),
            Need::Whole => return (!is_inside).then_some(units),
            Need::Rows(_) => (1, 1, 1),
            Need::Along { dimension, numerator, denominator } => (dimension, numerator, denominator),
        };
        if is_inside {
            let inside = self.member(source)?;
            let is_read_so = !matches!(need, Need::Rows(_)) && (may_have_gaps || self.has_gaps_as_whole(facts, inside));
            let is_same_share = inside.extent.checked_mul(denominator)? == member.extent.checked_mul(numerator)?;
            return (is_read_so && inside.dimension == dimension && is_same_share).then_some(units);
        }
        if !(may_have_gaps || is_packed_alike(graph.layout(source), dimension))
            || facts.draft.known[root as usize].unsliced
        {
            return None;
        }
        slice(graph.layout(source), dimension, &(0..1))?;
        let each = (member.extent / units).checked_mul(numerator)?;
        let factor = denominator / gcd(denominator, each);
        (factor > 0 && units % factor == 0).then(|| units / factor)
    }
}

/// The steps from the first to the last node of a region; the other nodes there run before all tiles or after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub steps: Range<Step>,
    /// Steps that run before the tiles.
    pub before: Vec<Step>,
    /// Steps that run after the tiles; some may be views of outputs that members read too.
    pub after: Vec<Step>,
}

impl Place {
    /// Returns the place of a region. `None` if a node must run between its nodes.
    pub fn of(facts: &DraftFacts<'_>, region: &Region) -> Option<Self> {
        let steps = region.members.iter().map(|member| facts.steps[member.tensor as usize]);
        let steps: Vec<Step> = steps.collect::<Option<_>>()?;
        let (first, last) = (*steps.first()?, *steps.last()?);
        let is_member = |step: Step| steps.binary_search(&step).is_ok();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        // By step from the first: whether it depends on a node of the region.
        let mut depends = vec![false; (last - first + 1) as usize];
        for step in first..=last {
            let relies = |earlier: Step, is_it: &dyn Fn(Step) -> bool| earlier >= first && is_it(earlier);
            let on_later = |earlier: Step| !is_member(earlier) && depends[(earlier - first) as usize];
            let on_member = |earlier: Step| is_member(earlier) || on_later(earlier);
            let earlier = facts.hazards().before(step).iter().copied();
            if is_member(step) {
                if earlier.clone().any(|earlier| relies(earlier, &on_later)) {
                    return None;
                }
            } else if earlier.clone().any(|earlier| relies(earlier, &on_member)) {
                depends[(step - first) as usize] = true;
                after.push(step);
            } else {
                before.push(step);
            }
        }
        Some(Self { steps: first..last + 1, before, after })
    }
}

/// Returns `true` if slices of a tensor have gaps exactly where the whole has some.
fn is_packed_alike(layout: &Layout, dimension: usize) -> bool {
    let is_whole_packed = is_packed(layout);
    let is_alike =
        |len| slice(layout, dimension, &(0..len)).is_some_and(|(tile, _)| is_packed(&tile) == is_whole_packed);
    is_alike(1) && is_alike(2)
}

/// Returns `true` if the kernel that computes a member writes its tiles into the memory of the whole.
fn writes_views(facts: &DraftFacts<'_>, member: &Member, tiled: &NodeTiling) -> bool {
    tiled.strided_result || is_packed_alike(facts.draft.graph.layout(member.tensor), member.dimension)
}
