//! The rule "any operand on the GPU".

use crate::graph::{Flags, TensorId};

use super::backends::{BackendIndex, Backends};
use super::capabilities::Capabilities;
use super::draft::Draft;
use super::homes::{place_constants, supporting};
use super::offload_error::OffloadError;
use super::options::SchedulerOptions;
use super::placed_graph::PlacedGraph;
use super::scheduled_graph::Schedule;
use super::splits::Questions;
use super::staged::split_with_staged;

/// Places each node on the GPU of its first operand that is on one, and on the host if none is. Copies of operands to
/// other backends follow as with ggml's scheduler.
///
/// Every backend but the last counts as a GPU. Inputs of the program are on the host. A result that is a view, as of a
/// write into a cache, resides where its root does, and runs there where that backend supports it. Where a backend does
/// not support an operation, the next operand's does, then the host. Assignments by the program are for the scheduler
/// alone.
///
/// # Errors
/// [`OffloadError`] where no backend supports an operation, and where the lists of `placed` do not fit together.
pub fn any_operand<C: Capabilities>(
    placed: PlacedGraph<'_>,
    backends: &Backends,
    capabilities: &C,
) -> Result<Schedule, OffloadError> {
    placed.check(backends)?;
    let questions = Questions { backends, capabilities, options: SchedulerOptions::default() };
    let mut draft = Draft::new(placed);
    place_constants(&mut draft, questions)?;
    for &node in placed.graph().nodes() {
        let root = placed.graph().root(node);
        if draft.is_view_operation(node) {
            draft.resides[node as usize] = draft.resides[root as usize];
            draft.executes[node as usize] = draft.resides[root as usize];
            continue;
        }
        let wanted = match draft.resides[root as usize] {
            Some(home) => home,
            None => gpu_of_operands(&draft, questions, node).unwrap_or_else(|| backends.host()),
        };
        let executes = supporting(&draft, questions, node, wanted)?;
        draft.executes[node as usize] = Some(executes);
        draft.resides[node as usize].get_or_insert(if root == node { executes } else { wanted });
    }
    split_with_staged(draft, questions)
}

/// Returns the first backend but the host that an operand of `node` is on and that supports the node. Inputs of the
/// program are on the host.
fn gpu_of_operands<C: Capabilities>(
    draft: &Draft<'_>,
    questions: Questions<'_, C>,
    node: TensorId,
) -> Option<BackendIndex> {
    if draft.edit.tensor(node).flags.has(Flags::INPUT) {
        return None;
    }
    let homes = draft.edit.sources(node).iter().filter_map(|&source| draft.resides[source as usize]);
    let mut gpus = homes.filter(|&home| home != questions.backends.host());
    gpus.find(|&gpu| questions.capabilities.supports_op(gpu, node))
}
