//! The cuts with the lowest peak.

use crate::graph::PlanError;
use crate::placement::{Bytes, Step};

use super::costs::{Cost, Costs, crossing_bytes};
use super::part::PartPlanner;

/// The most places at which a cut is tried. In a graph with more nodes, these are the places where the fewest bytes
/// cross, one in each stretch of nodes.
const MOST_PLACES: usize = 512;

/// How many parts are planned at most, to replace their estimates.
const MOST_PLANS: usize = 2000;

/// How often the best cuts are searched at most, each time with more parts that were planned.
const MOST_ROUNDS: usize = 24;

/// Returns the nodes after which to cut a graph into `parts` parts, so that the peak is lowest: the most bytes held in a
/// part, by its compute buffer and what crosses. Among equal peaks the largest compute buffer is smallest; among those, the
/// fewest bytes cross. `parts` is at least 1, and at most the number of nodes.
///
/// All parts between the places where a cut is tried are estimated by their live bytes; those that the best cuts make
/// are planned, until none of them is an estimate.
///
/// # Errors
/// [`PlanError`] when sizes overflow.
pub fn choose_cuts(planner: &mut PartPlanner<'_>, parts: usize) -> Result<Vec<Step>, PlanError> {
    planner.check_total()?;
    if parts == 1 {
        return Ok(Vec::new());
    }
    let nodes = planner.graph().nodes().len();
    let places = MOST_PLACES.max(parts - 1).min(nodes - 1);
    let boundaries = boundaries(planner, places);
    if places == parts - 1 {
        return Ok(cuts_before(&boundaries[1..=places]));
    }
    let mut costs = Costs::estimate(planner, boundaries.clone());
    let mut best: Option<((Bytes, Bytes), Vec<usize>)> = None;
    for _ in 0..(MOST_PLANS / parts).clamp(1, MOST_ROUNDS) {
        let path = lowest_path(&costs, parts);
        let was_exact = plan_path(planner, &mut costs, &path)?;
        let most = most_of(&costs, &path);
        if best.as_ref().is_none_or(|(lowest, _)| most < *lowest) {
            best = Some((most, path));
        }
        if was_exact {
            break;
        }
    }
    let path = best.map(|(_, path)| path).unwrap_or_default();
    let inner = path.get(1..parts).unwrap_or_default();
    Ok(cuts_before(&inner.iter().map(|&at| boundaries[at]).collect::<Vec<Step>>()))
}

/// Returns the nodes before these.
fn cuts_before(boundaries: &[Step]) -> Vec<Step> {
    boundaries.iter().map(|boundary| boundary - 1).collect()
}

/// Returns the first and the last boundary with `places` between them: divides the nodes into equal stretches and takes
/// the boundary of each that the fewest bytes cross.
fn boundaries(planner: &PartPlanner<'_>, places: usize) -> Vec<Step> {
    let crossing = crossing_bytes(planner);
    let inner = crossing.len() - 2;
    let place = |stretch: usize| {
        let range = 1 + stretch * inner / places..1 + (stretch + 1) * inner / places;
        range.min_by_key(|&place| crossing[place]).expect("a stretch has a node")
    };
    let all = std::iter::once(0).chain((0..places).map(place)).chain([inner + 1]);
    all.map(|place| Step::try_from(place).expect("fewer than 2^32 nodes")).collect()
}

/// Plans the parts of a path that are only estimated. Returns `true` if there were none.
fn plan_path(planner: &mut PartPlanner<'_>, costs: &mut Costs, path: &[usize]) -> Result<bool, PlanError> {
    let mut was_exact = true;
    for pair in path.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        if !costs.part(from, to).is_exact {
            was_exact = false;
            let planned = planner.plan(&costs.nodes(from, to))?;
            costs.set_planned(from, to, &planned);
        }
    }
    Ok(was_exact)
}

/// Returns the peak of a path, and the bytes of its largest compute buffer.
fn most_of(costs: &Costs, path: &[usize]) -> (Bytes, Bytes) {
    let parts = || path.windows(2).map(|pair| costs.part(pair[0], pair[1]));
    let most = |bytes: fn(Cost) -> Bytes| parts().map(bytes).max().unwrap_or(0);
    (most(|part| part.total), most(|part| part.compute))
}

/// Returns the boundaries of `parts` parts with the lowest peak, the first and the last one included.
fn lowest_path(costs: &Costs, parts: usize) -> Vec<usize> {
    let peak = lowest_most(costs, parts, |part| Some(part.total));
    let compute = lowest_most(costs, parts, |part| (part.total <= peak).then_some(part.compute));
    let is_allowed = |part: Cost| part.total <= peak && part.compute <= compute;
    let count = costs.boundaries();
    // By part and boundary: the fewest bytes that cross, and the boundary where the part begins.
    let mut fewest: Vec<Option<Bytes>> = vec![None; count];
    let mut begins = vec![vec![0; count]; parts];
    fewest[0] = Some(0);
    for begins in &mut begins {
        let mut next = vec![None; count];
        for to in 1..count {
            for (from, before) in fewest[..to].iter().enumerate() {
                let Some(before) = before.filter(|_| is_allowed(costs.part(from, to))) else { continue };
                let bytes = before.saturating_add(costs.crossing(from));
                if next[to].is_none_or(|known| bytes < known) {
                    next[to] = Some(bytes);
                    begins[to] = from;
                }
            }
        }
        fewest = next;
    }
    let mut path = vec![count - 1];
    for begins in begins.iter().rev() {
        path.push(begins[path[path.len() - 1]]);
    }
    path.reverse();
    path
}

/// Returns how low the largest number of `parts` parts can be; `number` returns that of a part, if it is allowed.
fn lowest_most(costs: &Costs, parts: usize, number: impl Fn(Cost) -> Option<Bytes>) -> Bytes {
    let count = costs.boundaries();
    let mut lowest: Vec<Option<Bytes>> = vec![None; count];
    lowest[0] = Some(0);
    for _ in 0..parts {
        let reach = |to: usize| {
            let most = (0..to).filter_map(|from| Some(lowest[from]?.max(number(costs.part(from, to))?)));
            most.min()
        };
        lowest = (0..count).map(reach).collect();
    }
    lowest[count - 1].unwrap_or(Bytes::MAX)
}
