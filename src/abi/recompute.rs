//! `lastuse_graph_recompute`: forward results that are computed again in the backward pass.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::ggml::{BufferType, RecomputeRequest, TensorRef, recompute_graph};
use crate::ggml::{ggml_backend_buffer_type, ggml_cgraph, ggml_context, ggml_tensor};
use crate::graph::recompute::{Recomputation, RecomputeEffort};

use super::budgeted_graph::{fit, outcome, served_runtime, tensor_list};
use super::call::size;
use super::struct_size::sized_struct;

/// Parameters of lastuse_graph_recompute. The budget is needed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lastuse_recompute_params {
    /// sizeof(struct lastuse_recompute_params).
    pub struct_size: usize,
    /// The most bytes that the compute buffer may need.
    pub budget: usize,
    /// The buffer type of the future compute buffer; NULL: sizes of ggml_nbytes, in multiples of 32.
    pub buft: *mut ggml_backend_buffer_type,
    /// Tensors that are never computed again, such as those that the program reads after the run.
    pub retained: *const *mut ggml_tensor,
    /// The length of retained.
    pub n_retained: usize,
    /// The work limit of the search, in nodes simulated; 0: 40000000, at most some two seconds.
    pub effort: u64,
    /// Called during the search with the part that is done, from 0 to 1; returning false cancels. May be NULL.
    pub progress: Option<unsafe extern "C" fn(done: f32, user_data: *mut c_void) -> bool>,
    /// Called for each node that runs again, with its copy, after the graph was changed. May be NULL.
    pub callback: Option<unsafe extern "C" fn(node: *mut ggml_tensor, copy: *mut ggml_tensor, user_data: *mut c_void)>,
    /// Passed to progress and callback.
    pub user_data: *mut c_void,
}

sized_struct!(lastuse_recompute_params);

/// Results of lastuse_graph_recompute.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct lastuse_recompute_report {
    /// sizeof(struct lastuse_recompute_report).
    pub struct_size: usize,
    /// Bytes of the plan that ggml_gallocr_reserve makes for the given graph.
    pub size_before: usize,
    /// Bytes of the plan for the new graph; or, where none fits, the smallest budget that can be met.
    pub size_after: usize,
    /// Floating-point operations of the given graph.
    pub work_before: u64,
    /// Floating-point operations of the new graph, or of the smallest one.
    pub work_after: u64,
    /// How many nodes run again; views among them compute nothing.
    pub nodes_again: usize,
}

sized_struct!(lastuse_recompute_report);

/// Changes a training graph so that its compute buffer fits a budget: forward results are dropped after their last use
/// in the forward pass, and computed again before the backward pass uses them. Results are the same to the last bit on
/// backends that run node by node. Returns true if the graph fits the budget.
///
/// Called when the graph is complete, steps of the optimizer included, and tensors outside of the compute buffer have
/// memory; before it is reserved, allocated or run. Copies are new tensors in ctx; graph and ctx need room for them.
/// report may be NULL. Returns false and changes nothing if no graph was found that fits (report->size_after then has
/// the smallest budget that can be met), and in the other cases that docs/recomputation.md lists.
///
/// # Safety
/// `ctx`, `graph` and its tensors are live, and no other thread uses them; `params` and `report` point to struct_size
/// bytes, `report` may be NULL; params->buft is NULL or live; params->retained points to n_retained live tensors;
/// params->progress and params->callback may be called with user_data, and do not change the graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_recompute(
    ctx: *mut ggml_context,
    graph: *mut ggml_cgraph,
    params: *const lastuse_recompute_params,
    report: *mut lastuse_recompute_report,
) -> bool {
    const NAME: &str = "lastuse_graph_recompute";
    // SAFETY: live, and used by this thread only, as the caller guarantees.
    let pass = |ctx, graph, params| unsafe { recompute(NAME, ctx, graph, params) };
    // SAFETY: of their stated sizes, as the caller guarantees.
    unsafe { fit(NAME, (ctx, graph), params, report, pass) }
}

/// Recomputes the graph; returns whether it fits, and the report.
///
/// # Safety
/// The promises of [`lastuse_graph_recompute`].
unsafe fn recompute(
    function: &str,
    context: NonNull<ggml_context>,
    graph: NonNull<ggml_cgraph>,
    params: lastuse_recompute_params,
) -> (bool, lastuse_recompute_report) {
    // SAFETY: NULL or live, as the caller guarantees.
    let Some(runtime) = (unsafe { served_runtime(function, params.buft, graph) }) else {
        return (false, lastuse_recompute_report::default());
    };
    // SAFETY: live tensors, as the caller guarantees.
    let retained = unsafe { tensor_list(function, "params->retained", params.retained, params.n_retained) };
    let request = RecomputeRequest {
        // SAFETY: a live buffer type of this ggml, as the caller guarantees.
        buffer_type: NonNull::new(params.buft).map(|buft| unsafe { BufferType::new(runtime, buft) }),
        budget: params.budget as u64,
        retained: &retained,
        effort: if params.effort == 0 { RecomputeEffort::default() } else { RecomputeEffort(params.effort) },
    };
    let mut progress = |done: f64| {
        #[expect(clippy::cast_possible_truncation, reason = "a part, to show")]
        let done = done as f32;
        // SAFETY: may be called with the user data, as the caller guarantees.
        params.progress.is_none_or(|progress| unsafe { progress(done, params.user_data) })
    };
    let mut note = |node: TensorRef<'_>, copy: TensorRef<'_>| {
        if let Some(callback) = params.callback {
            // SAFETY: may be called with the user data, as the caller guarantees.
            unsafe { callback(node.as_ptr(), copy.as_ptr(), params.user_data) };
        }
    };
    // SAFETY: live, and used by this thread only, as the caller guarantees.
    let found = unsafe { recompute_graph(runtime, context, graph, request, &mut progress, &mut note) };
    outcome(function, found)
}

impl From<&Recomputation> for lastuse_recompute_report {
    fn from(found: &Recomputation) -> Self {
        Self {
            struct_size: 0,
            size_before: size(found.before.bytes),
            size_after: size(found.after.bytes),
            work_before: found.before.work,
            work_after: found.after.work,
            nodes_again: found.again().count(),
        }
    }
}
