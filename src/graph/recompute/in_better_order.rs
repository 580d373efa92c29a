//! The smallest graph that was found, in an order of execution with a lower peak.

use crate::graph::order::{Hazards, ReorderEffort, reorder};
use crate::graph::{BufferIndex, BufferSpec, Effect, Requests, Sizes, TensorId};
use crate::placement::Step;

use super::facts::Subject;
use super::not_recomputed::NotRecomputed;
use super::rebuilt::Rebuilt;
use super::schedule::Item;

/// Returns the nodes of `rebuilt`, which are `items`, in an order with a lower peak, or `None` where none is found.
/// `subject` is the given graph; `requests` and `given_hazards` are for it, and all these hazards are kept.
///
/// # Errors
/// [`NotRecomputed::Plan`] when sizes overflow.
#[expect(clippy::too_many_arguments, reason = "two graphs, inputs of a plan, and the limit of the search")]
pub fn better_order(
    subject: Subject<'_>,
    given_hazards: &Hazards,
    rebuilt: &Rebuilt,
    items: &[Item],
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut dyn Sizes,
    effort: ReorderEffort,
) -> Result<Option<Vec<Item>>, NotRecomputed> {
    let effects: Vec<Effect> = rebuilt.origins.iter().map(|&origin| subject.effects[origin as usize]).collect();
    let hazards = Hazards::new(&rebuilt.graph, &effects, &same_memory(subject, rebuilt));
    let hazards = hazards.with_pairs(pairs(given_hazards, items));
    let requests = Requests { leafs: requests.leafs, nodes: &rebuilt.node_buffers };
    let mut sizes = |id: TensorId, buffer: BufferIndex| sizes.alloc_size(rebuilt.origins[id as usize], buffer);
    let found =
        reorder(&rebuilt.graph, buffers, requests, &mut sizes, &hazards, effort).map_err(NotRecomputed::Plan)?;
    Ok((found.moved > 0).then(|| found.order.iter().map(|&step| items[step as usize]).collect()))
}

/// Returns the positions in `items` of nodes that must not be swapped in the given graph.
fn pairs(given_hazards: &Hazards, items: &[Item]) -> Vec<(Step, Step)> {
    let once = || (0..).zip(items).filter(|(_, item)| !item.again);
    let mut positions: Vec<Step> = vec![0; items.len()];
    once().for_each(|(position, item)| positions[item.step as usize] = position);
    let positions = &positions;
    let before = |item: &Item| given_hazards.before(item.step).iter().map(|&earlier| positions[earlier as usize]);
    once().flat_map(|(position, item)| before(item).map(move |earlier| (earlier, position))).collect()
}

/// Returns, by tensor of `rebuilt`, the first tensor that it aliases. A copy aliases none: it has no memory before
/// planning.
fn same_memory(subject: Subject<'_>, rebuilt: &Rebuilt) -> Vec<TensorId> {
    let tensors = || (0..).zip(rebuilt.origins.iter().zip(&rebuilt.again));
    let mut new_ids = vec![0; rebuilt.origins.len()];
    for (id, (&origin, _)) in tensors().filter(|(_, (_, again))| !**again) {
        new_ids[origin as usize] = id;
    }
    let same = |(id, (&origin, &again)): (TensorId, (&TensorId, &bool))| {
        if again { id } else { new_ids[subject.same_memory[origin as usize] as usize] }
    };
    tensors().map(same).collect()
}
