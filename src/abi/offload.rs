//! `lastuse_offload_new`: which weights and caches are on which device, so that no device exceeds its budget.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crate::ggml::{DevicePlanner, OffloadRule, PlannerSettings};
use crate::offload::planner::{Order, Request, Spread};

use super::c_types::{OffloadOrderNumber, OffloadRuleNumber, enum_value, sized_struct};
use super::call::call;
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
    pub(super) measure: Option<MeasureFunction>,
    pub(super) user_data: *mut c_void,
}

pub(super) type MeasureFunction = unsafe extern "C" fn(*const c_int, usize, *mut usize, usize, *mut c_void) -> bool;

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
