//! `lastuse_graph_split`: large intermediates that are computed in parts.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use crate::ggml::{BufferType, SplitRequest, TensorRef, split_graph};
use crate::ggml::{ggml_backend_buffer_type, ggml_cgraph, ggml_context, ggml_tensor};
use crate::graph::split::{SplitEffort, SplitLimits, Splitting};

use super::budgeted_graph::{fit, outcome, retained, served_runtime};
use super::struct_size::sized_struct;

/// Parameters of lastuse_graph_split. The budget is needed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_split_params {
    /// sizeof(struct lastuse_split_params).
    pub struct_size: usize,
    /// The most bytes that the compute buffer may need.
    pub budget: usize,
    /// The buffer type of the future compute buffer; NULL: sizes of ggml_nbytes, in multiples of 32.
    pub buft: *mut ggml_backend_buffer_type,
    /// Tensors that stay as they are, such as those that the program reads after the run.
    pub retained: *const *mut ggml_tensor,
    /// The length of retained.
    pub n_retained: c_int,
    /// The threads that each part is to keep busy; 0: 8.
    pub n_threads: c_int,
    /// The work limit of the search, in nodes looked at; 0: 10000000.
    pub effort: u64,
    /// Called during the search with the part that is done, from 0 to 1; returning false cancels. May be NULL.
    pub progress: Option<unsafe extern "C" fn(done: f32, user_data: *mut c_void) -> bool>,
    /// Called for each tensor that is computed in parts, with their number, after the graph was changed; once more for
    /// each of its parts that was cut again. May be NULL.
    pub cut: Option<unsafe extern "C" fn(tensor: *mut ggml_tensor, parts: c_int, user_data: *mut c_void)>,
    /// Passed to progress and cut.
    pub user_data: *mut c_void,
}

sized_struct!(lastuse_split_params);

/// Results of lastuse_graph_split.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_split_report {
    /// sizeof(struct lastuse_split_report).
    pub struct_size: usize,
    /// Bytes of the plan that ggml_gallocr_reserve makes for the given graph.
    pub size_before: usize,
    /// Bytes of the plan for the new graph; or, where none fits, the smallest budget that can be met.
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
/// parts, one part live at a time. On a CPU, results are the same to the last bit. Returns true if the graph fits.
///
/// Called when the graph is complete and tensors outside of the compute buffer have memory, before it is reserved,
/// allocated or run. Parts are new tensors in ctx; graph and ctx need room for them. report may be NULL. Returns false
/// and changes nothing if no graph was found that fits (report->size_after then has the smallest budget that can be
/// met), and in the other cases that docs/splitting.md lists.
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
