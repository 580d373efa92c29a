//! `lastuse_graph_recompute`: forward results that are computed again in the backward pass.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use crate::ggml::{BufferType, RecomputeRequest, TensorRef, recompute_graph};
use crate::ggml::{ggml_backend_buffer_type, ggml_cgraph, ggml_context, ggml_tensor};
use crate::graph::recompute::{Recomputation, RecomputeEffort};

use super::budgeted_graph::{fit, outcome, retained, served_runtime};
use super::struct_size::sized_struct;

/// Parameters of lastuse_graph_recompute. The caller sets struct_size and the budget and zeroes the rest; zeros are the
/// defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_recompute_params {
    /// sizeof(struct lastuse_recompute_params). Later versions may add fields at the end.
    pub struct_size: usize,
    /// The most bytes that the compute buffer may need.
    pub budget: usize,
    /// The buffer type of the future compute buffer; NULL takes sizes from ggml_nbytes, rounded up to multiples of 32.
    pub buft: *mut ggml_backend_buffer_type,
    /// Tensors of the graph that are never computed again, n_retained of them; the program reads them after the run, say.
    pub retained: *const *mut ggml_tensor,
    /// The number of retained tensors.
    pub n_retained: c_int,
    /// The work limit of the search, in nodes simulated; 0: 40000000, at most some two seconds.
    pub effort: u64,
    /// Called during the search with the part of it that is done, which rises from 0 to 1; returning false cancels. NULL for
    /// none.
    pub progress: Option<unsafe extern "C" fn(done: f32, user_data: *mut c_void) -> bool>,
    /// Called for each node that runs again, with its copy, after the graph was changed. NULL for none.
    pub copied: Option<unsafe extern "C" fn(node: *mut ggml_tensor, copy: *mut ggml_tensor, user_data: *mut c_void)>,
    /// Passed to progress and copied.
    pub user_data: *mut c_void,
}

sized_struct!(lastuse_recompute_params);

/// Results of lastuse_graph_recompute. The caller sets struct_size and zeroes the rest.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_recompute_report {
    /// sizeof(struct lastuse_recompute_report). Later versions may add fields at the end.
    pub struct_size: usize,
    /// Bytes of the plan that ggml_gallocr_reserve makes for the given graph.
    pub size_before: usize,
    /// Bytes of the plan for the new graph; or, if the budget cannot be met, for the smallest graph that was found: the
    /// smallest budget that can.
    pub size_after: usize,
    /// Floating-point operations of the given graph.
    pub work_before: u64,
    /// Floating-point operations of the new graph, or of the smallest one.
    pub work_after: u64,
    /// How many nodes run again; views among them compute nothing.
    pub nodes_again: c_int,
}

sized_struct!(lastuse_recompute_report);

/// Changes a training graph so that its compute buffer fits a budget: forward results are dropped after their last use
/// in the forward pass, and computed again right before the backward pass uses them. Returns true if the graph fits the
/// budget.
///
/// Loss, gradients and updated weights are the same to the last bit on backends that run node by node: a result is
/// computed again by the same operation from the same values. Among the graphs that were found to fit, the new one has
/// the least floating-point operations, counted by operation and shapes (docs/recomputation.md has the table). The
/// budget is for the plan of the whole graph, and is kept to the byte by ggml_gallocr_reserve with the same settings.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 256);
/// ggml_set_input(input);
/// struct ggml_tensor * weights[4];
/// struct ggml_tensor * x = input;
/// for (int i = 0; i < 4; i++) {
///     weights[i] = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 64);
///     ggml_set_param(weights[i]);
///     x = ggml_silu(ctx, ggml_mul_mat(ctx, weights[i], x));
/// }
/// struct ggml_tensor * loss = ggml_sum(ctx, ggml_sqr(ctx, x));
/// ggml_set_loss(loss);
/// ggml_set_output(loss);
/// struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 512, true); // room for the copies
/// ggml_build_forward_expand(graph, loss);
/// ggml_build_backward_expand(ctx, graph, NULL);
///
/// struct lastuse_recompute_params params;
/// memset(&params, 0, sizeof(params));
/// params.struct_size = sizeof(params);
/// params.buft        = ggml_backend_get_default_buffer_type(backend);
/// params.budget      = 640 * 1024;
/// struct lastuse_recompute_report report;
/// memset(&report, 0, sizeof(report));
/// report.struct_size = sizeof(report);
/// if (lastuse_graph_recompute(ctx, graph, &params, &report)) {
///     GGML_ASSERT(report.size_after <= params.budget && report.size_before > params.budget);
///     GGML_ASSERT(report.nodes_again > 0 && report.work_after > report.work_before);
/// } else {
///     GGML_ASSERT(!lastuse_enabled()); // otherwise lastuse_last_error has the reason
/// }
/// ```
///
/// Never computed again: nodes that run functions of the program, and those before them; operations that write more than
/// their result, and those that lastuse does not know; tensors flagged as input, output, parameter or loss; tensors that
/// have memory, such as dedicated ones; results that another node writes to; retained tensors. Nothing reads a source
/// after something wrote to it. Each result is computed at most twice. Nodes that need no memory and that nothing
/// depends on, such as the steps of an optimizer, run as soon as they can; the last node stays the last.
///
/// When: after the graph is complete, the steps of the optimizer included (the backward pass is all that follows the last
/// tensor flagged by ggml_set_loss), and after tensors that do not belong in the compute buffer have memory; before it is
/// allocated, reserved or run. Calls of ggml_graph_get_grad give the same tensors as before. Retain tensors by
/// lastuse_tensor_retain before or after; those to be left alone here are named in params.
///
/// Copies are new tensors in ctx, named like their nodes with " (again)" behind; the graph needs room for them
/// (ggml_new_graph_custom), and ctx too.
///
/// Equal graphs and parameters give equal results. report may be NULL. Otherwise it is filled in, with zeros if no
/// graph was found.
///
/// Returns false, with the reason in lastuse_last_error and in ggml's log and the graph unchanged, if
/// - no graph was found that fits the budget; report->size_after then has the smallest budget that can be met;
/// - the graph has no loss, or no backward pass; a retained tensor is not in the graph; a node is listed twice;
/// - the program lists tensors of the graph itself, not by ggml_build_forward_expand: ggml could not add nodes then;
/// - the graph or ctx has no room for the copies; sizes overflow; progress returned false;
/// - lastuse is not enabled, or does not know the layout of this ggml.
///
/// Aborts if ctx, graph or params is NULL, retained is NULL or has NULL in it while n_retained is not 0, or a
/// struct_size is not set.
///
/// # Safety
/// `ctx`, `graph` and its tensors are live, and no other thread uses them; `params` and `report` point to struct_size
/// bytes, `report` may be NULL; params->buft is NULL or live; params->retained points to n_retained live tensors;
/// params->progress and params->copied may be called with user_data, and do not change the graph.
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
    let retained = unsafe { retained(function, params.retained, params.n_retained) };
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
        if let Some(copied) = params.copied {
            // SAFETY: may be called with the user data, as the caller guarantees.
            unsafe { copied(node.as_ptr(), copy.as_ptr(), params.user_data) };
        }
    };
    // SAFETY: live, and used by this thread only, as the caller guarantees.
    let found = unsafe { recompute_graph(runtime, context, graph, request, &mut progress, &mut note) };
    outcome(function, found)
}

impl From<&Recomputation> for lastuse_recompute_report {
    fn from(found: &Recomputation) -> Self {
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Self {
            struct_size: 0,
            size_before: bytes(found.before.bytes),
            size_after: bytes(found.after.bytes),
            work_before: found.before.work,
            work_after: found.after.work,
            nodes_again: c_int::try_from(found.again().count()).unwrap_or(c_int::MAX),
        }
    }
}
