//! Writes the addresses of a plan into tensors.

use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::refusal::Refusal;
use crate::graph::TensorId;

use super::chunks::Chunks;
use super::remembered::fit::FittedGraph;
use super::remembered::plan::{Assignment, RememberedPlan};

/// Assigns memory to the tensors of `graph` in the order of its lists. `None` if a tensor that may need memory is in
/// neither list.
///
/// # Errors
/// [`Refusal::InitFailed`] or [`Refusal::ListedTwice`].
pub fn assign_by_position(
    runtime: &Runtime,
    chunks: &Chunks,
    plan: &RememberedPlan,
    graph: GraphRef<'_>,
) -> Option<Result<(), Refusal>> {
    Some(assign(runtime, chunks, plan, plan.count_placed(), plan.tensors_of(graph)?))
}

/// Assigns memory to the tensors of a graph that was compared with the planned one.
///
/// # Errors
/// [`Refusal::InitFailed`] or [`Refusal::ListedTwice`].
pub fn assign_fitting(
    runtime: &Runtime,
    chunks: &Chunks,
    plan: &RememberedPlan,
    fitted: &FittedGraph<'_>,
) -> Result<(), Refusal> {
    assign(runtime, chunks, plan, fitted.unassigned, |id| fitted.tensors[id as usize])
}

/// Assigns memory to the tensors that `tensor` returns by id; `unassigned` of them need memory of the plan.
fn assign<'g>(
    runtime: &Runtime,
    chunks: &Chunks,
    plan: &RememberedPlan,
    mut unassigned: usize,
    tensor: impl Fn(TensorId) -> Option<TensorRef<'g>>,
) -> Result<(), Refusal> {
    chunks.reset();
    for assignment in plan.assignments(&tensor) {
        let (tensor, done) = match assignment {
            Assignment::Place(tensor, address, alloc_size) => {
                unassigned -= 1;
                (tensor, chunks.at(address).place_known(tensor, address.offset, alloc_size))
            }
            Assignment::PlaceView(tensor) => (tensor, runtime.place_view(tensor)),
        };
        done.map_err(|_| Refusal::InitFailed { tensor: tensor.name() })?;
    }
    // A tensor that is listed twice, where the planned graph had two tensors, gets only one of the two addresses.
    if unassigned == 0 { Ok(()) } else { Err(Refusal::ListedTwice) }
}
