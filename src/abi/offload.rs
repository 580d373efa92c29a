//! `lastuse_offload_*`: which weights and caches are on which device, so that no device exceeds its budget.

use std::cell::{Ref, RefCell, RefMut};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crate::ggml::{DevicePlanner, OffloadFailure, OffloadRule, PlannerSettings, Runtime};
use crate::offload::planner::{Assignment, Measure, OffloadPlan, Order, Request, Spread};
use crate::placement::Bytes;

use super::abort::abort_on_panic;
use super::ggml_of_arguments::{ggml_of_graph, runtime_or_fail};
use super::handle::{free, into_handle, object, to_change, to_look_at};
use super::last_error::fail;
use super::offload_numbers::{OffloadOrderNumber, OffloadRuleNumber, order_of, rule_of};
use super::struct_size::{callers_struct, sized_struct};

/// Devices, what is placed on them, and the result: made by lastuse_offload_new.
// Without repr(C): the header then declares a struct that is never defined, and an array of length 0 is no C.
#[derive(Debug)]
pub struct lastuse_offload([u8; 0]);

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
    const NAME: &str = "lastuse_offload_new";
    abort_on_panic(|| {
        // SAFETY: NULL or of its stated size, as the caller guarantees.
        let params = unsafe { callers_struct(NAME, "params", params.cast_mut()) }.map(|params| params.read());
        let made = params.map_or_else(|| Ok(PLANNER_DEFAULTS), |params| settings(&params)).map(|settings| Offload {
            planner: DevicePlanner::new(settings),
            measure: params.and_then(|params| params.callback),
            user_data: params.map_or(null_mut(), |params| params.user_data),
        });
        let made = made.inspect_err(|why| fail(NAME, why)).ok();
        made.map_or(null_mut(), into_handle)
    })
}

/// What the functions call the planner.
const ARGUMENT: &str = "offload";

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
    Ok(PlannerSettings {
        order: order_of(params.order).map_err(|why| format!("params->{why}"))?,
        rule: rule_of(params.rule).map_err(|why| format!("params->{why}"))?,
        spread: if params.whole_layers { Spread::Layers } else { Spread::Items },
        op_offload: !params.no_op_offload,
        is_direct: params.direct,
        measurements,
    })
}

/// Returns the planner that a pointer of the program stands for. Aborts if it is NULL.
///
/// # Safety
/// `offload` is NULL, or comes from `lastuse_offload_new`, is live for `'p`, and is used by no other thread.
pub(super) unsafe fn required_offload<'p>(function: &str, offload: *const lastuse_offload) -> &'p RefCell<Offload> {
    // SAFETY: NULL, or made by `lastuse_offload_new`, live, and of this thread: see "# Safety".
    unsafe { object(function, ARGUMENT, offload) }
}

/// Returns the planner to look at it; `None`, with the last error set, if a call that changes it has called the program.
/// Aborts if it is NULL.
///
/// # Safety
/// What [`required_offload`] requires.
pub(super) unsafe fn offload_to_look_at<'p>(
    function: &str,
    offload: *const lastuse_offload,
) -> Option<Ref<'p, Offload>> {
    // SAFETY: NULL, or live and of this thread: see "# Safety".
    to_look_at(function, ARGUMENT, unsafe { required_offload(function, offload) })
}

/// Returns the planner to change it; `None`, with the last error set, if a call that uses it has called the program. Aborts
/// if it is NULL.
///
/// # Safety
/// What [`required_offload`] requires.
pub(super) unsafe fn offload_to_change<'p>(
    function: &str,
    offload: *mut lastuse_offload,
) -> Option<RefMut<'p, Offload>> {
    // SAFETY: NULL, or live and of this thread: see "# Safety".
    to_change(function, ARGUMENT, unsafe { required_offload(function, offload) })
}

impl Offload {
    /// Returns the ggml of the devices or of the graphs; `None`, with the last error set, where that is not known.
    ///
    /// # Safety
    /// The graphs and their tensors are live.
    pub(super) unsafe fn runtime(&self, function: &str) -> Option<&'static Runtime> {
        self.planner.runtime().or_else(|| {
            let graph = self.planner.graphs().first()?;
            // SAFETY: a live graph, as the caller guarantees.
            runtime_or_fail(function, unsafe { ggml_of_graph(null_mut(), *graph) })
        })
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
        let number = |count: usize| c_int::try_from(count).unwrap_or(c_int::MAX);
        let devices: Vec<c_int> = assignment.0.iter().map(|place| number(place.device)).collect();
        let mut sizes = vec![0; self.devices];
        let (items, count) = (devices.len(), sizes.len());
        // SAFETY: a function of the program, as the caller of lastuse_offload_new guarantees; lists of these lengths.
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
    const NAME: &str = "lastuse_offload_solve";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let offload = unsafe { required_offload(NAME, offload) };
        let Some(()) = to_change(NAME, ARGUMENT, offload).map(|mut it| it.planner.forget()) else { return false };
        // The program may look at the planner when it measures.
        let Some(looked_at) = to_look_at(NAME, ARGUMENT, offload) else { return false };
        // SAFETY: live graphs, as the caller guarantees.
        let runtime = unsafe { looked_at.runtime(NAME) };
        if runtime.is_none() && !looked_at.planner.graphs().is_empty() {
            return false;
        }
        // SAFETY: live graphs and tensors that no other thread uses, as the caller guarantees.
        let found = unsafe { looked_at.search(runtime) }.inspect_err(|why| fail(NAME, why));
        drop(looked_at);
        to_change(NAME, ARGUMENT, offload).is_some_and(|mut offload| offload.planner.settle(found))
    })
}

/// Frees a planner; does nothing for NULL. Devices, tensors and graphs stay as they are. In a callback of
/// lastuse_offload_solve nothing is freed.
///
/// # Safety
/// `offload` is NULL, or comes from lastuse_offload_new and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_offload_free(offload: *mut lastuse_offload) {
    // SAFETY: NULL, or made by `lastuse_offload_new`, of this thread, and not used afterwards, as the caller guarantees.
    abort_on_panic(|| unsafe { free("lastuse_offload_free", ARGUMENT, offload, |_: &Offload| true) });
}
