//! `lastuse_steps_*`: a graph that is computed step by step.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};

use crate::ggml::{
    AfterStep, BufferType, Cutting, Ggml, NoGgml, Runner, Runtime, STATUS_SUCCESS, StepsError, StepwiseGraph,
    TensorRef, ggml_of_object,
};
use crate::ggml::{ggml_backend, ggml_backend_buffer_type, ggml_backend_sched, ggml_cgraph, ggml_tensor};

use super::abort::{abort_on_panic, required};
use super::ggml_of_arguments::{ggml_of_graph, runtime_or_fail};
use super::handle::{free, into_handle, object};
use super::last_error::fail;
use super::struct_size::{required_struct, sized_struct};

/// ggml's statuses for failure.
const STATUS_ALLOC_FAILED: c_int = -2;
const STATUS_FAILED: c_int = -1;
const STATUS_ABORTED: c_int = 1;

/// A graph that is computed step by step: made by lastuse_steps_new.
// Without repr(C): the header then declares a struct that is never defined, and an array of length 0 is no C.
#[derive(Debug)]
pub struct lastuse_steps([u8; 0]);

/// Parameters of lastuse_steps_new. Either cuts or n_steps is needed, and either backend or sched.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lastuse_steps_params {
    /// sizeof(struct lastuse_steps_params).
    pub struct_size: usize,
    /// The last nodes of all steps but the last one, in the order of the graph. NULL if n_steps is set.
    pub cuts: *const *mut ggml_tensor,
    /// The length of cuts.
    pub n_cuts: usize,
    /// The number of steps, if lastuse is to choose the cuts with the lowest peak; 0 if cuts is set.
    pub n_steps: usize,
    /// The backend that computes the graph; NULL if sched is set.
    pub backend: *mut ggml_backend,
    /// The scheduler that computes the graph; NULL if backend is set.
    pub sched: *mut ggml_backend_sched,
    /// The buffer type of all memory; NULL: that of backend. NULL with a scheduler.
    pub buft: *mut ggml_backend_buffer_type,
    /// Called after each step, with its number from 0, before its memory is freed; returning false stops. May be NULL.
    pub callback: Option<unsafe extern "C" fn(step: c_int, user_data: *mut c_void) -> bool>,
    /// The last argument of callback.
    pub user_data: *mut c_void,
}

sized_struct!(lastuse_steps_params);

/// Cuts a graph into steps, which lastuse_steps_compute computes one after the other: each is planned by itself, gets a
/// compute buffer, runs, and is freed before the next. Inputs, which are leafs without memory, get it here and keep
/// their values. The caller frees the result with lastuse_steps_free, before the graph and the backend or scheduler.
///
/// Called when the graph is complete, in place of allocating it; the graph must not be changed until
/// lastuse_steps_free. Returns NULL and leaves the graph unchanged if there is not enough memory, the graph was
/// allocated already, or parameters are wrong: docs/steps.md lists the cases.
///
/// # Safety
/// `graph`, its tensors, and the backend or the scheduler live until lastuse_steps_free, and no other thread uses them.
/// `params` points to struct_size bytes; `cuts` is NULL or holds n_cuts live tensors; `callback` is NULL or may be
/// called with `user_data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_steps_new(
    graph: *mut ggml_cgraph,
    params: *const lastuse_steps_params,
) -> *mut lastuse_steps {
    const NAME: &str = "lastuse_steps_new";
    abort_on_panic(|| {
        let graph = required(graph, NAME, "graph");
        // SAFETY: NULL or of its stated size, as the caller guarantees.
        let params = unsafe { required_struct(NAME, "params", params.cast_mut()) }.read();
        // SAFETY: live, and used by this thread only, as the caller guarantees.
        let steps = unsafe { new_steps(NAME, graph, &params) };
        steps.map_or(null_mut(), into_handle)
    })
}

/// # Safety
/// What `lastuse_steps_new` requires.
unsafe fn new_steps(
    function: &str,
    graph: NonNull<ggml_cgraph>,
    params: &lastuse_steps_params,
) -> Option<StepwiseGraph<'static>> {
    if let Some(contradiction) = contradiction(params) {
        fail(function, &contradiction);
        return None;
    }
    // SAFETY: NULL or live, as the caller guarantees.
    let ggml = unsafe { ggml_of_steps(graph, params) };
    let runtime = runtime_or_fail(function, ggml)?;
    // SAFETY: as the caller guarantees.
    let cutting = unsafe { cutting(function, params) };
    // SAFETY: live, as the caller guarantees.
    let runner = unsafe { runner(runtime, params) };
    let after_step = params.callback.map(|function| AfterStep { function, user_data: params.user_data });
    // SAFETY: live until the steps are freed, and used by this thread only, as the caller guarantees.
    let steps = unsafe { StepwiseGraph::new(runtime, graph, runner, &cutting, after_step) };
    steps.inspect_err(|why| fail(function, why)).ok()
}

/// Returns why parameters contradict each other.
fn contradiction(params: &lastuse_steps_params) -> Option<&'static str> {
    match (params.n_cuts > 0, params.n_steps > 0) {
        (true, true) => return Some("params has both cuts and n_steps; set one of them"),
        (false, false) => return Some("params has neither cuts nor n_steps; a graph needs 1 step or more"),
        _ => {}
    }
    match (!params.backend.is_null(), !params.sched.is_null()) {
        (true, true) => Some("params has both a backend and a scheduler; set one of them"),
        (false, false) => Some("params has neither a backend nor a scheduler"),
        (false, true) if !params.buft.is_null() => {
            Some("params has both a scheduler and a buffer type; a scheduler has buffer types of its own")
        }
        _ => None,
    }
}

/// Finds the ggml of the backend, or of the graph.
///
/// # Safety
/// `params` names live objects, and `graph` and its tensors are live.
unsafe fn ggml_of_steps(graph: NonNull<ggml_cgraph>, params: &lastuse_steps_params) -> Result<&'static Ggml, NoGgml> {
    if params.backend.is_null() {
        // SAFETY: a live graph, as the caller guarantees.
        return unsafe { ggml_of_graph(null_mut(), graph) };
    }
    // SAFETY: a live backend, as the caller guarantees.
    unsafe { ggml_of_object(params.backend.cast_const()) }
}

/// # Safety
/// `params.cuts` holds n_cuts live tensors, or NULL.
unsafe fn cutting(function: &str, params: &lastuse_steps_params) -> Cutting<'static> {
    if params.n_cuts == 0 {
        return Cutting::Into(params.n_steps);
    }
    let cuts = required(params.cuts.cast_mut(), function, "params->cuts");
    // SAFETY: holds that many pointers, as the caller guarantees.
    let cuts = unsafe { std::slice::from_raw_parts(cuts.as_ptr().cast_const(), params.n_cuts) };
    let node = |(at, &cut): (usize, &*mut ggml_tensor)| {
        let cut = required(cut, function, &format!("params->cuts[{at}]"));
        // SAFETY: a live tensor, as the caller guarantees.
        unsafe { TensorRef::from_non_null(cut) }
    };
    Cutting::After(cuts.iter().enumerate().map(node).collect())
}

/// # Safety
/// `params` names either a live backend or a live scheduler.
unsafe fn runner(runtime: &'static Runtime, params: &lastuse_steps_params) -> Runner {
    let Some(backend) = NonNull::new(params.backend) else {
        return Runner::Scheduler(NonNull::new(params.sched).expect("a backend or a scheduler is there"));
    };
    let default_type = || {
        // SAFETY: a live backend.
        unsafe { (runtime.functions.ggml_backend_get_default_buffer_type)(backend.as_ptr()) }
    };
    let buft = NonNull::new(params.buft).or_else(|| NonNull::new(default_type()));
    // SAFETY: a live buffer type of this ggml.
    let buffer_type = unsafe { BufferType::new(runtime, buft.expect("a backend has a buffer type")) };
    Runner::Backend(backend, buffer_type)
}

/// Returns the steps that a pointer of the program stands for. Aborts if it is NULL.
///
/// # Safety
/// `steps` is NULL, or comes from `lastuse_steps_new`, is live for `'s`, and is used by no other thread.
pub(super) unsafe fn required_steps<'s>(
    function: &str,
    steps: *const lastuse_steps,
) -> &'s RefCell<StepwiseGraph<'static>> {
    // SAFETY: NULL, or made by `lastuse_steps_new`, live, and of this thread: see "# Safety".
    unsafe { object(function, "steps", steps) }
}

/// Computes the steps one after the other; may be called again, for other inputs. Outputs can be read afterwards, until
/// the next call. Returns an enum ggml_status: GGML_STATUS_ABORTED if the callback returned false,
/// GGML_STATUS_ALLOC_FAILED if there is not enough memory for a step, GGML_STATUS_FAILED in a callback of the same
/// steps, or the status of the backend. Then the steps before it were computed.
///
/// # Safety
/// `steps` comes from lastuse_steps_new; no other thread uses it, nor the graph, its tensors and their buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_steps_compute(steps: *mut lastuse_steps) -> c_int {
    const NAME: &str = "lastuse_steps_compute";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let steps = unsafe { required_steps(NAME, steps) };
        let Err(why) = StepwiseGraph::compute(steps) else { return STATUS_SUCCESS };
        fail(NAME, &why);
        match why {
            StepsError::Status { status, .. } => status,
            StepsError::Stopped { .. } => STATUS_ABORTED,
            StepsError::NoMemory { .. } | StepsError::InitFailed { .. } | StepsError::NotScheduled { .. } => {
                STATUS_ALLOC_FAILED
            }
            _ => STATUS_FAILED,
        }
    })
}

/// Frees steps, and the memory of the inputs and outputs of their graph, which can then be allocated in another way.
/// Does nothing for NULL. In a callback of lastuse_steps_compute nothing is freed.
///
/// # Safety
/// `steps` is NULL, or comes from lastuse_steps_new and is not used afterwards; its graph and tensors are live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_steps_free(steps: *mut lastuse_steps) {
    let is_free = |steps: &StepwiseGraph<'static>| !steps.is_computed();
    // SAFETY: NULL, or made by `lastuse_steps_new`, of this thread, and not used afterwards, as the caller guarantees.
    abort_on_panic(|| unsafe { free("lastuse_steps_free", "steps", steps, is_free) });
}
