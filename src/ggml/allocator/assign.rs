//! Writes the addresses of a plan into tensors.

use crate::ggml::live::buffers::InitFailed;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::refusal::Refusal;
use crate::graph::TensorId;

use super::chunks::Chunks;
use super::plan_cache::assignments::Assignment;
use super::plan_cache::cached_plan::CachedPlan;
use super::plan_cache::fit::FittedGraph;

/// Assigns memory to the tensors of `graph` in the order of its lists. `None` if a tensor that may need memory is in
/// neither list.
///
/// # Errors
/// [`Refusal::InitFailed`] or [`Refusal::ListedTwice`]; [`Refusal::NeedsReserve`] if `chunks` are too small for the plan.
pub fn assign_by_position(
    runtime: &Runtime,
    chunks: &Chunks,
    plan: &CachedPlan,
    graph: GraphRef<'_>,
) -> Option<Result<(), Refusal>> {
    Some(assign(runtime, chunks, plan, plan.assignments().placed(), plan.tensors_of(graph)?))
}

/// Assigns memory to the tensors of a graph that was compared with the planned one.
///
/// # Errors
/// [`Refusal::InitFailed`] or [`Refusal::ListedTwice`]; [`Refusal::NeedsReserve`] if `chunks` are too small for the plan.
pub fn assign_fitting(
    runtime: &Runtime,
    chunks: &Chunks,
    plan: &CachedPlan,
    fitted: &FittedGraph<'_>,
) -> Result<(), Refusal> {
    assign(runtime, chunks, plan, fitted.unassigned, |id| fitted.tensors[id as usize])
}

/// Assigns memory to the tensors that `tensor` returns by id; `unassigned` of them need memory of the plan.
fn assign<'g>(
    runtime: &Runtime,
    chunks: &Chunks,
    plan: &CachedPlan,
    mut unassigned: usize,
    tensor: impl Fn(TensorId) -> Option<TensorRef<'g>>,
) -> Result<(), Refusal> {
    // The plan has checked only that tensors lie in the chunks that it asked for.
    if !chunks.suffice(plan.buffers()) {
        return Err(Refusal::NeedsReserve);
    }
    chunks.reset();
    for assignment in plan.assignments().iter() {
        match assignment {
            Assignment::Place(id, address) => {
                let Some(tensor) = tensor(id).filter(|tensor| !tensor.has_memory()) else { continue };
                unassigned -= 1;
                checked(tensor, chunks.at(address).place_planned(tensor, address.offset))?;
            }
            Assignment::View(id) => {
                let Some(tensor) = tensor(id).filter(|&tensor| is_unplaced_view(tensor)) else { continue };
                checked(tensor, runtime.place_view(tensor))?;
            }
        }
    }
    // A tensor that is listed twice, where the planned graph had two tensors, gets only one of the two addresses.
    if unassigned == 0 { Ok(()) } else { Err(Refusal::ListedTwice) }
}

fn checked(tensor: TensorRef<'_>, status: Result<(), InitFailed>) -> Result<(), Refusal> {
    status.map_err(|_| Refusal::InitFailed { tensor: tensor.name() })
}

/// Returns `true` for a view without memory whose root has some. An empty root in an empty buffer has no address, and
/// ggml aborts on views of it; they need none either.
fn is_unplaced_view(tensor: TensorRef<'_>) -> bool {
    let has_address = |root: TensorRef<'_>| !root.buffer().is_null() && !root.data().is_null();
    tensor.buffer().is_null() && tensor.view_source().is_some_and(has_address)
}
