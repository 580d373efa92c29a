//! `lastuse_offload_*`: which weights and caches are on which device, so that no device exceeds its budget; and the graphs for
//! which they are placed.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crate::ggml::{DevicePlanner, OffloadFailure, OffloadRule, PlannerSettings, Runtime};
use crate::ggml::{ggml_backend_sched, ggml_cgraph};
use crate::offload::planner::{Assignment, Measure, OffloadPlan, Order, Request, Spread};
use crate::placement::Bytes;

use super::arguments::ggml_of_graph;
use super::c_types::{OffloadOrderNumber, OffloadRuleNumber, enum_value, sized_struct};
use super::call::{Call, Failed, call, number};
use super::handle::{Handle, into_handle};

/// Devices, what is placed on them, and the result: made by lastuse_offload_new.
// Without repr(C): the header then declares a struct that is never defined, and C has no arrays of length 0.
#[derive(Debug)]
pub struct lastuse_offload([u8; 0]);

impl Handle for lastuse_offload {
    type Object = Offload;
    const ARGUMENT: &'static str = "offload";
}

/// In which order tensors are placed while there is room.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum lastuse_offload_order {
    /// What gains most for its bytes first; what does not fit is left out.
    LASTUSE_OFFLOAD_BY_BENEFIT = 0,
    /// PowerInfer's order of classes: attention, predictors, norms of FFNs and the output head of all layers, up to the
    /// first tensor that does not fit; then all caches of values or none, all caches of keys or none; then FFNs.
    LASTUSE_OFFLOAD_BY_CLASS = 1,
    /// The order in which items were added, up to the first that does not fit.
    LASTUSE_OFFLOAD_AS_GIVEN = 2,
}

/// Where intermediates are, given where weights and caches are.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum lastuse_offload_rule {
    /// Where ggml_backend_sched puts them.
    LASTUSE_OFFLOAD_SCHEDULER = 0,
    /// On the device of the first operand that is on one, on the host if none is.
    LASTUSE_OFFLOAD_ANY_OPERAND = 1,
    /// Where PowerInfer puts them.
    LASTUSE_OFFLOAD_POWERINFER = 2,
}

/// Parameters of lastuse_offload_new.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lastuse_offload_params {
    /// sizeof(struct lastuse_offload_params).
    pub struct_size: usize,
    /// In which order tensors are placed.
    pub order: OffloadOrderNumber,
    /// Where intermediates are.
    pub rule: OffloadRuleNumber,
    /// Whole layers in place of order: the first on the host, then a contiguous range on each device.
    pub whole_layers: bool,
    /// The scheduler is made without op_offload: operations stay where their weights are, whatever their batch.
    pub no_op_offload: bool,
    /// The program allocates its graphs by lastuse_offload_buffer_ids, so that no scheduler adds copies.
    pub direct: bool,
    /// The most offload plans that are measured; 0 is the default of 1000.
    pub max_measurements: usize,
    /// Measures compute buffers in place of graphs, or NULL: devices has the device of each item, sizes gets the bytes
    /// by device. If it returns false, lastuse_offload_solve fails.
    pub callback: Option<
        unsafe extern "C" fn(
            devices: *const c_int,
            n_items: usize,
            sizes: *mut usize,
            n_devices: usize,
            user_data: *mut c_void,
        ) -> bool,
    >,
    /// The last argument of callback.
    pub user_data: *mut c_void,
}

sized_struct!(lastuse_offload_params);

/// What the opaque pointer of C points to.
#[derive(Debug)]
pub(super) struct Offload {
    pub(super) planner: DevicePlanner,
    measure: Option<MeasureFunction>,
    user_data: *mut c_void,
}

type MeasureFunction = unsafe extern "C" fn(*const c_int, usize, *mut usize, usize, *mut c_void) -> bool;

/// Creates a planner that decides which weights and caches are on which device. The caller adds devices, items and
/// graphs, calls lastuse_offload_solve, reads the result, and frees it with lastuse_offload_free. params may be
/// NULL. Its callback may be called until lastuse_offload_free. Returns NULL if order or rule has no value of
/// its enum. Works also if lastuse is not enabled; what it promises holds for compute
/// buffers that lastuse plans.
///
/// # Safety
/// `params` is NULL or points to struct_size bytes; `callback` is NULL or may be called with `user_data` until
/// lastuse_offload_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_offload_new(params: *const lastuse_offload_params) -> *mut lastuse_offload {
    call("lastuse_offload_new", |call| {
        // SAFETY: NULL or of its stated size: see "# Safety".
        let params = unsafe { call.params_if_any(params) };
        let settings = call.done(params.map_or_else(|| Ok(PLANNER_DEFAULTS), |params| settings(&params)))?;
        Ok(into_handle(Offload {
            planner: DevicePlanner::new(settings),
            measure: params.and_then(|params| params.callback),
            user_data: params.map_or(null_mut(), |params| params.user_data),
        }))
    })
}

const PLANNER_DEFAULTS: PlannerSettings = PlannerSettings {
    order: Order::Benefit,
    spread: Spread::Items,
    rule: OffloadRule::Scheduler,
    op_offload: true,
    is_direct: false,
    measurements: Request::MEASUREMENTS,
};

/// # Errors
/// A message: which parameter is wrong.
fn settings(params: &lastuse_offload_params) -> Result<PlannerSettings, String> {
    let measurements = match params.max_measurements {
        0 => Request::MEASUREMENTS,
        most => u32::try_from(most).unwrap_or(u32::MAX),
    };
    let orders = [
        (lastuse_offload_order::LASTUSE_OFFLOAD_BY_BENEFIT as u32, Order::Benefit),
        (lastuse_offload_order::LASTUSE_OFFLOAD_BY_CLASS as u32, Order::Classes),
        (lastuse_offload_order::LASTUSE_OFFLOAD_AS_GIVEN as u32, Order::Given),
    ];
    let rules = [
        (lastuse_offload_rule::LASTUSE_OFFLOAD_SCHEDULER as u32, OffloadRule::Scheduler),
        (lastuse_offload_rule::LASTUSE_OFFLOAD_ANY_OPERAND as u32, OffloadRule::AnyOperand),
        (lastuse_offload_rule::LASTUSE_OFFLOAD_POWERINFER as u32, OffloadRule::PowerInfer),
    ];
    Ok(PlannerSettings {
        order: enum_value("params->order", params.order, "lastuse_offload_order", &orders)?,
        rule: enum_value("params->rule", params.rule, "lastuse_offload_rule", &rules)?,
        spread: if params.whole_layers { Spread::Layers } else { Spread::Items },
        op_offload: !params.no_op_offload,
        is_direct: params.direct,
        measurements,
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
/// ggml_backend_sched_reset. Called after ggml_backend_sched_reset, with weights and caches in buffers of their
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
