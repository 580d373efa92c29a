//! `lastuse_offload_*`: the graphs for which weights and caches are placed, the search for their places, and its use.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crate::ggml::{OffloadFailure, Runtime, ggml_backend_sched, ggml_cgraph};
use crate::offload::planner::{Assignment, Measure, OffloadPlan};
use crate::placement::Bytes;

use super::arguments::ggml_of_graph;
use super::call::{Call, Failed, call, number};
use super::offload::{MeasureFunction, Offload, lastuse_offload};

/// Adds a graph that the devices have to have room for, such as that of the largest batch and that of a single token,
/// as the program builds it, before a scheduler has split it. Returns its number, from 0; -1 in a callback of
/// lastuse_offload_solve. The graph lives until lastuse_offload_free.
///
/// # Safety
/// `offload` comes from lastuse_offload_new, and no other thread uses it; `graph` is live, and stays so until
/// lastuse_offload_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_offload_add_graph(offload: *mut lastuse_offload, graph: *mut ggml_cgraph) -> c_int {
    call("lastuse_offload_add_graph", |call| {
        let graph = call.required("graph", graph);
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        Ok(number(unsafe { call.change(offload) }?.planner.add_graph(graph)))
    })
}

impl Offload {
    /// Returns the ggml of the devices or of the graphs; `None` where there are none.
    ///
    /// # Errors
    /// [`Failed`]: there is none, or its layout is unknown.
    ///
    /// # Safety
    /// The graphs and their tensors are live.
    unsafe fn runtime(&self, call: Call) -> Result<Option<&'static Runtime>, Failed> {
        match (self.planner.runtime(), self.planner.graphs().first()) {
            // SAFETY: a live graph: see "# Safety".
            (None, Some(graph)) => call.runtime(unsafe { ggml_of_graph(null_mut(), *graph) }).map(Some),
            (known, _) => Ok(known),
        }
    }

    /// Returns the number of a graph, and the ggml of the devices or of the graphs.
    ///
    /// # Errors
    /// [`Failed`]: there is no such graph, or the layout of its ggml is unknown.
    ///
    /// # Safety
    /// The graphs and their tensors are live.
    unsafe fn graph(&self, call: Call, graph: c_int) -> Result<(usize, &'static Runtime), Failed> {
        let at = call.index("graph", graph, self.planner.graphs().len())?;
        // SAFETY: live graphs: see "# Safety".
        Ok((at, unsafe { self.runtime(call) }?.ok_or(Failed)?))
    }

    /// Searches for an offload plan.
    ///
    /// # Errors
    /// [`OffloadFailure`].
    ///
    /// # Safety
    /// The graphs and tensors are live, and no other thread uses them.
    unsafe fn search(&self, runtime: Option<&'static Runtime>) -> Result<OffloadPlan, OffloadFailure> {
        let user_data = self.user_data;
        let devices = self.planner.devices().len();
        let mut measurer = self.measure.map(|function| Measurer { function, user_data, devices });
        let measurer = measurer.as_mut().map(|measurer| measurer as &mut dyn Measure);
        // SAFETY: live, and used by no other thread: see "# Safety".
        unsafe { self.planner.search(runtime, measurer) }
    }
}

/// The function of the program that measures.
struct Measurer {
    function: MeasureFunction,
    user_data: *mut c_void,
    devices: usize,
}

impl Measure for Measurer {
    fn measure(&mut self, assignment: &Assignment) -> Result<Vec<Bytes>, String> {
        let devices: Vec<c_int> = assignment.0.iter().map(|place| number(place.device)).collect();
        let mut sizes = vec![0; self.devices];
        let (items, count) = (devices.len(), sizes.len());
        // SAFETY: a function of the program: see `lastuse_offload_new`; lists of these lengths.
        let is_measured =
            unsafe { (self.function)(devices.as_ptr(), items, sizes.as_mut_ptr(), count, self.user_data) };
        let sizes = sizes.into_iter().map(|size| size as Bytes).collect();
        if is_measured { Ok(sizes) } else { Err("the function that measures returned false".to_owned()) }
    }
}

/// Places the items: the offload plan that gains most, of those that were measured and for which on every device weights +
/// KV + compute buffer + reserve <= budget, in bytes. Returns true if there is one. Nothing is allocated or changed.
/// Returns false, with nothing placed, if no offload is within all budgets (the message, and
/// lastuse_offload_device_report, have what would do), and in the other cases that docs/offload.md lists.
///
/// # Safety
/// `offload` comes from lastuse_offload_new; the graphs, their tensors and those of the items, the backends and the
/// buffer types are live; no other thread uses any of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_offload_solve(offload: *mut lastuse_offload) -> bool {
    call("lastuse_offload_solve", |call| {
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        unsafe { call.change(offload) }?.planner.forget();
        let found = {
            // The program may look at the planner when it measures.
            // SAFETY: live and of this thread: see "# Safety".
            let offload = unsafe { call.look_at(offload) }?;
            // SAFETY: live graphs: see "# Safety".
            let runtime = unsafe { offload.runtime(call) }?;
            // SAFETY: live graphs and tensors that no other thread uses: see "# Safety".
            unsafe { offload.search(runtime) }.inspect_err(|why| _ = call.refuse(why))
        };
        // SAFETY: live and of this thread: see "# Safety".
        Ok(unsafe { call.change(offload) }?.planner.settle(found))
    })
}

/// Writes the buffer ids of a graph for ggml_gallocr_reserve_n: for each node and each leaf, the number of the device
/// that it is on. Either list may be NULL. If direct was set in the parameters, the reservation takes the bytes of the
/// offload. The graphs must not have been changed or scheduled since lastuse_offload_solve. Returns false if there
/// is no such graph, nothing has been placed, or lastuse_offload_solve would fail.
///
/// # Safety
/// `offload` comes from lastuse_offload_new, and no other thread uses it, its graphs and tensors; the graphs were
/// not changed or scheduled since lastuse_offload_solve; the lists are NULL, or have an
/// entry for each node and each leaf of the graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_offload_buffer_ids(
    offload: *const lastuse_offload,
    graph: c_int,
    node_ids: *mut c_int,
    leaf_ids: *mut c_int,
) -> bool {
    call("lastuse_offload_buffer_ids", |call| {
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        let offload = unsafe { call.look_at(offload) }?;
        // SAFETY: live graphs: see "# Safety".
        let (graph, runtime) = unsafe { offload.graph(call, graph) }?;
        // SAFETY: live graphs that were not changed: see "# Safety".
        let [leafs, nodes] = call.done(unsafe { offload.planner.residences(runtime, graph) })?;
        for (ids, list) in [(leaf_ids, leafs), (node_ids, nodes)] {
            for (at, device) in list.into_iter().enumerate().filter(|_| !ids.is_null()) {
                // SAFETY: room for a number for each leaf or node: see "# Safety".
                unsafe { ids.wrapping_add(at).write(number(device)) };
            }
        }
        Ok(true)
    })
}

/// Applies an offload plan to a scheduler: assigns each node of a graph to the backend of its device, until
/// ggml_backend_sched_reset. Call it after ggml_backend_sched_reset, with weights and caches in buffers of their
/// devices, and before the graph is reserved or allocated; the compute buffers are then those of the offload plan.
///
/// Returns false, with nothing assigned, if there is no such graph or nothing has been placed, if the scheduler has
/// another number of backends than there are devices, with LASTUSE_OFFLOAD_POWERINFER, and for the reasons of
/// lastuse_offload_solve. The graphs must not have been changed or scheduled since that.
///
/// # Safety
/// `offload` comes from lastuse_offload_new; `sched` is live; no other thread uses them, nor the graphs and their
/// tensors; the graphs were not changed or scheduled since lastuse_offload_solve.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_offload_apply(
    offload: *const lastuse_offload,
    graph: c_int,
    sched: *mut ggml_backend_sched,
) -> bool {
    call("lastuse_offload_apply", |call| {
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        let offload = unsafe { call.look_at(offload) }?;
        let sched = call.required("sched", sched);
        // SAFETY: live graphs: see "# Safety".
        let (graph, runtime) = unsafe { offload.graph(call, graph) }?;
        // SAFETY: live, not changed, and of this thread: see "# Safety".
        call.done(unsafe { offload.planner.apply(runtime, graph, sched) }).map(|()| true)
    })
}

/// Frees a planner; does nothing for NULL. Devices, tensors and graphs stay as they are. In a callback of
/// lastuse_offload_solve nothing is freed.
///
/// # Safety
/// `offload` is NULL, or comes from lastuse_offload_new and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_offload_free(offload: *mut lastuse_offload) {
    // SAFETY: NULL, or made by `lastuse_offload_new`, of this thread, and not used afterwards: see "# Safety".
    call("lastuse_offload_free", |call| unsafe { call.free(offload) });
}
