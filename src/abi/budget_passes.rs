//! Passes that make a graph fit a budget: `lastuse_graph_recompute`, in which forward results are computed again in the backward
//! pass, and `lastuse_graph_tile`, in which large intermediates are computed in tiles.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::ggml::{
    Budgeted, NotFitted, RecomputeRequest, Runtime, TensorRef, TilingRequest, recompute_graph, tile_graph,
};
use crate::ggml::{ggml_backend_buffer_type, ggml_cgraph, ggml_context, ggml_tensor};
use crate::graph::recompute::{Recomputation, RecomputeEffort};
use crate::graph::tiling::{TiledGraph, TilingEffort, TilingLimits};

use super::arguments::{buffer_type, ggml_of_graph};
use super::c_types::{CallersStruct, SizedStruct, sized_struct};
use super::call::{Call, Failed, call, size};

/// Returns the runtime of the ggml that the arguments belong to, and the caller's report, all zeros so far.
///
/// # Errors
/// [`Failed`]: no ggml is found, or ggml's own allocator does the work.
///
/// # Safety
/// `buft` is NULL or live; `graph` and its tensors are live, and no other thread uses them; `report` is NULL, or points to as
/// many bytes as its first field states, for the whole call.
unsafe fn begin<R: SizedStruct + Default>(
    call: Call,
    buft: *mut ggml_backend_buffer_type,
    graph: NonNull<ggml_cgraph>,
    report: *mut R,
) -> Result<(&'static Runtime, Option<CallersStruct<R>>), Failed> {
    // SAFETY: NULL or of its stated size: see "# Safety".
    let report = unsafe { call.report_if_any(report) };
    if let Some(report) = &report {
        report.write(&R::default());
    }
    // SAFETY: NULL or live: see "# Safety".
    let ggml = call.done(unsafe { ggml_of_graph(buft, graph) })?;
    let off = "lastuse is not enabled, so that no plan would keep the budget";
    Ok((ggml.served().ok_or_else(|| call.refuse(&off))?, report))
}

/// Returns whether the graph fits; fills in the report, with the smallest graph where none fits.
///
/// # Errors
/// [`Failed`]: it does not, or the pass has failed.
fn finish<F: Budgeted, R: SizedStruct + Default + for<'a> From<&'a F>>(
    call: Call,
    found: Result<F, NotFitted<F>>,
    report: Option<CallersStruct<R>>,
) -> Result<bool, Failed> {
    let described = match &found {
        Ok(found) => Some(found),
        Err(NotFitted::OverBudget { smallest, .. }) => Some(smallest.as_ref()),
        Err(_) => None,
    };
    if let Some((report, described)) = report.zip(described) {
        report.write(&R::from(described));
    }
    call.done(found).map(|_| true)
}

/// Tells the program how far a search is; returns whether it goes on.
///
/// # Safety
/// `progress` is `None`, or may be called with `user_data`.
unsafe fn goes_on(
    progress: Option<unsafe extern "C" fn(f32, *mut c_void) -> bool>,
    done: f64,
    user_data: *mut c_void,
) -> bool {
    #[expect(clippy::cast_possible_truncation, reason = "a part, to show")]
    let done = done as f32;
    // SAFETY: may be called with the user data: see "# Safety".
    progress.is_none_or(|progress| unsafe { progress(done, user_data) })
}

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
/// Call it when the graph is complete, steps of the optimizer included, and tensors outside of the compute buffer have
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
    call("lastuse_graph_recompute", |call| {
        let (context, graph) = (call.required("ctx", ctx), call.required("graph", graph));
        // SAFETY: NULL or of its stated size: see "# Safety".
        let params = unsafe { call.params("params", params) };
        // SAFETY: NULL, live, or of its stated size: see "# Safety".
        let (runtime, report) = unsafe { begin(call, params.buft, graph, report) }?;
        // SAFETY: NULL, or n_retained live tensors: see "# Safety".
        let retained = unsafe { call.tensors("params->retained", params.retained, params.n_retained) };
        // SAFETY: NULL, or a live buffer type of this ggml: see "# Safety".
        let buffer_type = unsafe { buffer_type(runtime, params.buft) };
        let effort = if params.effort == 0 { RecomputeEffort::default() } else { RecomputeEffort(params.effort) };
        let request = RecomputeRequest { buffer_type, budget: params.budget as u64, retained: &retained, effort };
        // SAFETY: may be called with the user data: see "# Safety".
        let mut progress = |done: f64| unsafe { goes_on(params.progress, done, params.user_data) };
        let mut note = |node: TensorRef<'_>, copy: TensorRef<'_>| {
            if let Some(callback) = params.callback {
                // SAFETY: may be called with the user data: see "# Safety".
                unsafe { callback(node.as_ptr(), copy.as_ptr(), params.user_data) };
            }
        };
        // SAFETY: live, and used by this thread only: see "# Safety".
        let found = unsafe { recompute_graph(runtime, context, graph, request, &mut progress, &mut note) };
        finish(call, found, report)
    })
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

/// Parameters of lastuse_graph_tile. The budget is needed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lastuse_tiling_params {
    /// sizeof(struct lastuse_tiling_params).
    pub struct_size: usize,
    /// The most bytes that the compute buffer may need.
    pub budget: usize,
    /// The buffer type of the future compute buffer; NULL: sizes of ggml_nbytes, in multiples of 32.
    pub buft: *mut ggml_backend_buffer_type,
    /// Tensors that stay as they are, such as those that the program reads after the run.
    pub retained: *const *mut ggml_tensor,
    /// The length of retained.
    pub n_retained: usize,
    /// The threads that each tile is to keep busy; 0: 8.
    pub n_threads: usize,
    /// The work limit of the search, in nodes looked at; 0: 10000000.
    pub effort: u64,
    /// Called during the search with the part that is done, from 0 to 1; returning false cancels. May be NULL.
    pub progress: Option<unsafe extern "C" fn(done: f32, user_data: *mut c_void) -> bool>,
    /// Called for each tensor that is computed in tiles, with their number, after the graph was changed; once more for
    /// each of its tiles that was tiled again. May be NULL.
    pub callback: Option<unsafe extern "C" fn(tensor: *mut ggml_tensor, n_tiles: usize, user_data: *mut c_void)>,
    /// Passed to progress and callback.
    pub user_data: *mut c_void,
}

sized_struct!(lastuse_tiling_params);

/// Results of lastuse_graph_tile.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct lastuse_tiling_report {
    /// sizeof(struct lastuse_tiling_report).
    pub struct_size: usize,
    /// Bytes of the plan that ggml_gallocr_reserve makes for the given graph.
    pub size_before: usize,
    /// Bytes of the plan for the new graph; or, where none fits, the smallest budget that can be met.
    pub size_after: usize,
    /// How often something was tiled: calls of params->callback.
    pub n_tilings: usize,
    /// The most tiles of one tiling.
    pub most_tiles: usize,
    /// How many nodes the new graph has more; views among them compute nothing.
    pub nodes_added: usize,
}

sized_struct!(lastuse_tiling_report);

/// Changes a graph so that its compute buffer fits a budget: intermediates that are large at the peak are computed in
/// tiles, one tile live at a time. On a CPU, results are the same to the last bit. Returns true if the graph fits.
///
/// Call it when the graph is complete and tensors outside of the compute buffer have memory, before it is reserved,
/// allocated or run. Tiles are new tensors in ctx; graph and ctx need room for them. report may be NULL. Returns false
/// and changes nothing if no graph was found that fits (report->size_after then has the smallest budget that can be
/// met), and in the other cases that docs/tiling.md lists.
///
/// # Safety
/// `ctx`, `graph` and its tensors are live, and no other thread uses them; `params` and `report` point to struct_size
/// bytes, `report` may be NULL; params->buft is NULL or live; params->retained points to n_retained live tensors;
/// params->progress and params->callback may be called with user_data, and do not change the graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_tile(
    ctx: *mut ggml_context,
    graph: *mut ggml_cgraph,
    params: *const lastuse_tiling_params,
    report: *mut lastuse_tiling_report,
) -> bool {
    call("lastuse_graph_tile", |call| {
        let (context, graph) = (call.required("ctx", ctx), call.required("graph", graph));
        // SAFETY: NULL or of its stated size: see "# Safety".
        let params = unsafe { call.params("params", params) };
        // SAFETY: NULL, live, or of its stated size: see "# Safety".
        let (runtime, report) = unsafe { begin(call, params.buft, graph, report) }?;
        // SAFETY: NULL, or n_retained live tensors: see "# Safety".
        let retained = unsafe { call.tensors("params->retained", params.retained, params.n_retained) };
        // SAFETY: NULL, or a live buffer type of this ggml: see "# Safety".
        let buffer_type = unsafe { buffer_type(runtime, params.buft) };
        let limits = TilingLimits {
            budget: params.budget as u64,
            threads: match params.n_threads {
                0 => TilingLimits::THREADS,
                threads => u32::try_from(threads).unwrap_or(u32::MAX),
            },
            effort: if params.effort == 0 { TilingEffort::default() } else { TilingEffort(params.effort) },
        };
        let request = TilingRequest { buffer_type, limits, retained: &retained };
        // SAFETY: may be called with the user data: see "# Safety".
        let mut progress = |done: f64| unsafe { goes_on(params.progress, done, params.user_data) };
        let mut note = |tensor: TensorRef<'_>, tiles: u32| {
            if let Some(callback) = params.callback {
                // SAFETY: may be called with the user data: see "# Safety".
                unsafe { callback(tensor.as_ptr(), tiles as usize, params.user_data) };
            }
        };
        // SAFETY: live, and used by this thread only: see "# Safety".
        let found = unsafe { tile_graph(runtime, context, graph, request, &mut progress, &mut note) };
        finish(call, found, report)
    })
}

impl From<&TiledGraph> for lastuse_tiling_report {
    fn from(found: &TiledGraph) -> Self {
        let most = found.tiled.iter().map(|tiled| tiled.tiles).max().unwrap_or(0);
        Self {
            struct_size: 0,
            size_before: size(found.before),
            size_after: size(found.after),
            n_tilings: found.tiled.len(),
            most_tiles: most as usize,
            nodes_added: found.added_nodes(),
        }
    }
}
