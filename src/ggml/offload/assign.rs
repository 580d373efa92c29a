//! Applies an offload plan to a scheduler.

use std::ptr::NonNull;

use crate::graph::TensorId;
use crate::offload::rules::Schedule;

use crate::ggml::bindings::ggml_backend_sched;
use crate::ggml::live::runtime::Runtime;

use super::graph::LiveGraph;
use super::request::OffloadFailure;

/// Assigns each node of a graph that computes something to the backend of its device, by
/// `ggml_backend_sched_set_tensor_backend`. Views and tensors without a backend stay unassigned.
///
/// # Errors
/// [`OffloadFailure::SchedulerBackends`], [`OffloadFailure::NoScheduler`].
///
/// # Safety
/// The scheduler is live, and of this thread.
pub unsafe fn assign(
    runtime: &Runtime,
    scheduler: NonNull<ggml_backend_sched>,
    devices: usize,
    graph: &LiveGraph<'_>,
    schedule: &Schedule,
) -> Result<(), OffloadFailure> {
    let functions = &runtime.functions;
    let (Some(count), Some(backend), Some(set)) = (
        functions.ggml_backend_sched_get_n_backends,
        functions.ggml_backend_sched_get_backend,
        functions.ggml_backend_sched_set_tensor_backend,
    ) else {
        return Err(OffloadFailure::NoScheduler);
    };
    // SAFETY: a live scheduler, as the caller guarantees.
    let backends = usize::try_from(unsafe { count(scheduler.as_ptr()) }).unwrap_or(0);
    if backends != devices {
        return Err(OffloadFailure::SchedulerBackends { backends, devices });
    }
    let nodes = graph.snapshot.graph.nodes();
    let computes = |node: &&TensorId| !graph.snapshot.graph.tensor(**node).op.is_view();
    for &node in nodes.iter().filter(computes) {
        let Some(executes) = schedule.executes[node as usize].and_then(|at| i32::try_from(at).ok()) else { continue };
        // SAFETY: a live scheduler with more backends than that.
        let backend = unsafe { backend(scheduler.as_ptr(), executes) };
        // SAFETY: a live scheduler, a live tensor, and a backend of the scheduler.
        unsafe { set(scheduler.as_ptr(), graph.tensors[node as usize].as_ptr(), backend) };
    }
    Ok(())
}
