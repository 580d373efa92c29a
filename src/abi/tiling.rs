//! `lastuse_graph_tile`: large intermediates that are computed in tiles.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::ggml::{BufferType, TensorRef, TilingRequest, tile_graph};
use crate::ggml::{ggml_backend_buffer_type, ggml_cgraph, ggml_context, ggml_tensor};
use crate::graph::tiling::{TiledGraph, TilingEffort, TilingLimits};

use super::budgeted_graph::{fit, outcome, served_runtime, tensor_list};
use super::call::size;
use super::struct_size::sized_struct;

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
    /// Called during the search with the tile that is done, from 0 to 1; returning false cancels. May be NULL.
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
/// Called when the graph is complete and tensors outside of the compute buffer have memory, before it is reserved,
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
    const NAME: &str = "lastuse_graph_tile";
    // SAFETY: live, and used by this thread only, as the caller guarantees.
    let pass = |ctx, graph, params| unsafe { tile(NAME, ctx, graph, params) };
    // SAFETY: of their stated sizes, as the caller guarantees.
    unsafe { fit(NAME, (ctx, graph), params, report, pass) }
}

/// Tiles the graph; returns whether it fits, and the report.
///
/// # Safety
/// The promises of [`lastuse_graph_tile`].
unsafe fn tile(
    function: &str,
    context: NonNull<ggml_context>,
    graph: NonNull<ggml_cgraph>,
    params: lastuse_tiling_params,
) -> (bool, lastuse_tiling_report) {
    // SAFETY: NULL or live, as the caller guarantees.
    let Some(runtime) = (unsafe { served_runtime(function, params.buft, graph) }) else {
        return (false, lastuse_tiling_report::default());
    };
    // SAFETY: live tensors, as the caller guarantees.
    let retained = unsafe { tensor_list(function, "params->retained", params.retained, params.n_retained) };
    let request = TilingRequest {
        // SAFETY: a live buffer type of this ggml, as the caller guarantees.
        buffer_type: NonNull::new(params.buft).map(|buft| unsafe { BufferType::new(runtime, buft) }),
        limits: TilingLimits {
            budget: params.budget as u64,
            threads: match params.n_threads {
                0 => TilingLimits::THREADS,
                threads => u32::try_from(threads).unwrap_or(u32::MAX),
            },
            effort: if params.effort == 0 { TilingEffort::default() } else { TilingEffort(params.effort) },
        },
        retained: &retained,
    };
    let mut progress = |done: f64| {
        #[expect(clippy::cast_possible_truncation, reason = "a tile, to show")]
        let done = done as f32;
        // SAFETY: may be called with the user data, as the caller guarantees.
        params.progress.is_none_or(|progress| unsafe { progress(done, params.user_data) })
    };
    let mut note = |tensor: TensorRef<'_>, tiles: u32| {
        if let Some(callback) = params.callback {
            // SAFETY: may be called with the user data, as the caller guarantees.
            unsafe { callback(tensor.as_ptr(), tiles as usize, params.user_data) };
        }
    };
    // SAFETY: live, and used by this thread only, as the caller guarantees.
    let found = unsafe { tile_graph(runtime, context, graph, request, &mut progress, &mut note) };
    outcome(function, found)
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
