//! `lastuse_graph_split`: large intermediates that are computed in parts.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use crate::ggml::{BufferType, SplitRequest, TensorRef, split_graph};
use crate::ggml::{ggml_backend_buffer_type, ggml_cgraph, ggml_context, ggml_tensor};
use crate::graph::split::{SplitEffort, SplitLimits, Splitting};

use super::budgeted_graph::{fit, outcome, retained, served_runtime};
use super::struct_size::sized_struct;

/// Parameters of lastuse_graph_split. The caller sets struct_size and the budget and zeroes the rest; zeros are the
/// defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_split_params {
    /// sizeof(struct lastuse_split_params). Later versions may add fields at the end.
    pub struct_size: usize,
    /// The most bytes that the compute buffer may need.
    pub budget: usize,
    /// The buffer type of the future compute buffer; NULL takes sizes from ggml_nbytes, rounded up to multiples of 32.
    pub buft: *mut ggml_backend_buffer_type,
    /// Tensors of the graph that stay as they are, n_retained of them; the program reads them after the run, say.
    pub retained: *const *mut ggml_tensor,
    /// The number of retained tensors.
    pub n_retained: c_int,
    /// The threads that each part is to keep busy; 0: 8.
    pub n_threads: c_int,
    /// The work limit of the search, in nodes looked at; 0: 10000000.
    pub effort: u64,
    /// Called during the search with the part of it that is done, which rises from 0 to 1; returning false cancels. NULL for
    /// none.
    pub progress: Option<unsafe extern "C" fn(done: f32, user_data: *mut c_void) -> bool>,
    /// Called for each tensor that is computed in parts, with their number, after the graph was changed; once more for each
    /// of its parts that was cut again. NULL for none.
    pub cut: Option<unsafe extern "C" fn(tensor: *mut ggml_tensor, parts: c_int, user_data: *mut c_void)>,
    /// Passed to progress and cut.
    pub user_data: *mut c_void,
}

sized_struct!(lastuse_split_params);

/// Results of lastuse_graph_split. The caller sets struct_size and zeroes the rest.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_split_report {
    /// sizeof(struct lastuse_split_report). Later versions may add fields at the end.
    pub struct_size: usize,
    /// Bytes of the plan that ggml_gallocr_reserve makes for the given graph.
    pub size_before: usize,
    /// Bytes of the plan for the new graph; or, if the budget cannot be met, for the smallest graph that was found: the
    /// smallest budget that can.
    pub size_after: usize,
    /// How often something was cut: calls of params->cut.
    pub n_cuts: c_int,
    /// The most parts of one cut.
    pub most_parts: c_int,
    /// How many nodes the new graph has more; views among them compute nothing.
    pub nodes_added: c_int,
}

sized_struct!(lastuse_split_report);

/// Changes a graph so that its compute buffer fits a budget: intermediates that are large at the peak are computed in
/// parts, one part live at a time. Returns true if the graph fits the budget.
///
/// Cut are chains of operations that treat rows, heads, columns or batches independently: the scores of an attention and
/// what follows until they are weighted, the matrix of a convolution (IM2COL) and its product, gated products, and so on.
/// What only the chain uses is small then; the parts of its result are written into one result. docs/splitting.md has the
/// table by operation. On a CPU, the results are the same to the last bit.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
/// struct ggml_tensor * q = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 32, 256, 8);
/// struct ggml_tensor * k = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 32, 256, 8);
/// struct ggml_tensor * v = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 256, 32, 8);
/// ggml_set_input(q);
/// ggml_set_input(k);
/// ggml_set_input(v);
/// struct ggml_tensor * scores = ggml_soft_max(ctx, ggml_mul_mat(ctx, k, q)); // 2 MiB
/// struct ggml_tensor * mixed  = ggml_mul_mat(ctx, v, scores);
/// struct ggml_tensor * sum    = ggml_sum(ctx, mixed);
/// ggml_set_output(sum);
/// struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 512, false); // room for the parts
/// ggml_build_forward_expand(graph, sum);
///
/// struct lastuse_split_params params;
/// memset(&params, 0, sizeof(params));
/// params.struct_size = sizeof(params);
/// params.buft        = ggml_backend_get_default_buffer_type(backend);
/// params.budget      = 2 * 1024 * 1024;
/// struct lastuse_split_report report;
/// memset(&report, 0, sizeof(report));
/// report.struct_size = sizeof(report);
/// if (lastuse_graph_split(ctx, graph, &params, &report)) {
///     GGML_ASSERT(report.size_after <= params.budget && report.size_before > params.budget);
///     GGML_ASSERT(report.n_cuts == 1 && report.most_parts > 1);
/// } else {
///     GGML_ASSERT(!lastuse_enabled()); // otherwise lastuse_last_error has the reason
/// }
/// ```
///
/// Never cut: operations that lastuse does not know, functions of the program, and operations that write more than their
/// result; tensors flagged as input, parameter or loss, and the last node; retained tensors; what reads weights in memory
/// that is not the host's, such as repacked ones. What is flagged as output, or read by other nodes, is computed in parts
/// but stays whole. Nothing is cut finer than needed.
///
/// The tensors of the program stay valid: one that is computed in parts becomes a view (RESHAPE) of new memory that the
/// parts write, and has its value after them. Those that are only used inside of a cut chain are no longer in the graph:
/// lastuse_tensor_retain, lastuse_tensor_dedicate and ggml_set_output refuse them from then on. What an allocator retains
/// when this is called, or LASTUSE_RETAIN names, stays as it is.
/// New tensors are in ctx, named like theirs with "(part 2 of 8)" and the like behind; the graph needs room for them
/// (ggml_new_graph_custom), and ctx too.
///
/// When: after the graph is complete, and after tensors that do not belong in the compute buffer have memory; before it is
/// allocated, reserved or run. Equal graphs and parameters give equal results. report may be NULL. Otherwise it is
/// filled in, with zeros if no graph was found.
///
/// Returns false, with the reason in lastuse_last_error and in ggml's log and the graph unchanged, if
/// - no graph was found that fits the budget; report->size_after then has the smallest budget that can be met;
/// - a retained tensor is not in the graph; a node is listed twice;
/// - the program lists tensors of the graph itself, not by ggml_build_forward_expand: ggml could not add nodes then;
/// - the graph or ctx has no room for the parts; sizes overflow; progress returned false;
/// - lastuse is not enabled, or does not know the layout of this ggml.
///
/// Aborts if ctx, graph or params is NULL, retained is NULL or has NULL in it while n_retained is not 0, or a
/// struct_size is not set.
///
/// # Safety
/// `ctx`, `graph` and its tensors are live, and no other thread uses them; `params` and `report` point to struct_size
/// bytes, `report` may be NULL; params->buft is NULL or live; params->retained points to n_retained live tensors;
/// params->progress and params->cut may be called with user_data, and do not change the graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_split(
    ctx: *mut ggml_context,
    graph: *mut ggml_cgraph,
    params: *const lastuse_split_params,
    report: *mut lastuse_split_report,
) -> bool {
    const NAME: &str = "lastuse_graph_split";
    // SAFETY: live, and used by this thread only, as the caller guarantees.
    let pass = |ctx, graph, params| unsafe { split(NAME, ctx, graph, params) };
    // SAFETY: of their stated sizes, as the caller guarantees.
    unsafe { fit(NAME, (ctx, graph), params, report, pass) }
}

/// Cuts the graph; returns whether it fits, and the report.
///
/// # Safety
/// The promises of [`lastuse_graph_split`].
unsafe fn split(
    function: &str,
    context: NonNull<ggml_context>,
    graph: NonNull<ggml_cgraph>,
    params: lastuse_split_params,
) -> (bool, lastuse_split_report) {
    // SAFETY: NULL or live, as the caller guarantees.
    let Some(runtime) = (unsafe { served_runtime(function, params.buft, graph) }) else {
        return (false, lastuse_split_report::default());
    };
    // SAFETY: live tensors, as the caller guarantees.
    let retained = unsafe { retained(function, params.retained, params.n_retained) };
    let request = SplitRequest {
        // SAFETY: a live buffer type of this ggml, as the caller guarantees.
        buffer_type: NonNull::new(params.buft).map(|buft| unsafe { BufferType::new(runtime, buft) }),
        limits: SplitLimits {
            budget: params.budget as u64,
            threads: u32::try_from(params.n_threads)
                .ok()
                .filter(|&threads| threads > 0)
                .unwrap_or(SplitLimits::THREADS),
            effort: if params.effort == 0 { SplitEffort::default() } else { SplitEffort(params.effort) },
        },
        retained: &retained,
    };
    let mut progress = |done: f64| {
        #[expect(clippy::cast_possible_truncation, reason = "a part, to show")]
        let done = done as f32;
        // SAFETY: may be called with the user data, as the caller guarantees.
        params.progress.is_none_or(|progress| unsafe { progress(done, params.user_data) })
    };
    let mut note = |tensor: TensorRef<'_>, parts: u32| {
        if let Some(cut) = params.cut {
            let parts = c_int::try_from(parts).unwrap_or(c_int::MAX);
            // SAFETY: may be called with the user data, as the caller guarantees.
            unsafe { cut(tensor.as_ptr(), parts, params.user_data) };
        }
    };
    // SAFETY: live, and used by this thread only, as the caller guarantees.
    let found = unsafe { split_graph(runtime, context, graph, request, &mut progress, &mut note) };
    outcome(function, found)
}

impl From<&Splitting> for lastuse_split_report {
    fn from(found: &Splitting) -> Self {
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let number = |count: usize| c_int::try_from(count).unwrap_or(c_int::MAX);
        let most = found.splits.iter().map(|split| split.parts).max().unwrap_or(0);
        Self {
            struct_size: 0,
            size_before: bytes(found.before),
            size_after: bytes(found.after),
            n_cuts: number(found.splits.len()),
            most_parts: c_int::try_from(most).unwrap_or(c_int::MAX),
            nodes_added: number(found.added_nodes()),
        }
    }
}
