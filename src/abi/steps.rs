//! `lastuse_steps_*`: a graph that is computed in steps, between which the program is called.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use crate::ggml::{AfterStep, Runner, STATUS_SUCCESS, Steps, ggml_of_object};
use crate::ggml::{ggml_backend, ggml_backend_sched, ggml_cgraph, ggml_gallocr, ggml_tensor};

use super::c_types::sized_struct;
use super::call::{call, made_by_lastuse, size};
use super::handle::{Handle, into_handle};

/// A graph that is computed in steps: made by lastuse_steps_new.
// Without repr(C): the header then declares a struct that is never defined, and C has no arrays of length 0.
#[derive(Debug)]
pub struct lastuse_steps([u8; 0]);

impl Handle for lastuse_steps {
    type Object = HeldSteps;
    const ARGUMENT: &'static str = "steps";
}

/// What a `lastuse_steps` points to.
pub(super) struct HeldSteps {
    steps: Steps<'static>,
    /// The allocator that retains tensors for it.
    galloc: Option<NonNull<ggml_gallocr>>,
}

impl Drop for HeldSteps {
    fn drop(&mut self) {
        // SAFETY: lives until the steps are freed, and is used by this thread only: see `lastuse_steps_new`.
        self.steps.release(self.galloc.and_then(|galloc| unsafe { made_by_lastuse(galloc) }));
    }
}

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
    /// The number of steps, if lastuse is to cut the graph where few bytes cross; 0 if cuts is set.
    pub n_steps: usize,
    /// The backend that computes the graph; NULL if sched is set.
    pub backend: *mut ggml_backend,
    /// The scheduler that computes the graph; NULL if backend is set.
    pub sched: *mut ggml_backend_sched,
    /// The allocator that retains what callback may read, made by lastuse; or NULL. NULL with a scheduler.
    pub galloc: *mut ggml_gallocr,
    /// Called after each step, with its number from 0; returning false stops. May be NULL.
    pub callback: Option<unsafe extern "C" fn(step: usize, user_data: *mut c_void) -> bool>,
    /// The last argument of callback.
    pub user_data: *mut c_void,
}

sized_struct!(lastuse_steps_params);

/// A step and its memory, in the plan of the whole graph: lastuse_steps_report.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct lastuse_step_report {
    /// sizeof(struct lastuse_step_report).
    pub struct_size: usize,
    /// The number of steps.
    pub n_steps: usize,
    /// Bytes that the whole graph takes; with a scheduler, if its first backend computed all of it.
    pub total_size: usize,
    /// The position of the first node of the step, as for ggml_graph_node.
    pub first_node: usize,
    /// The number of its nodes.
    pub n_nodes: usize,
    /// The most bytes that are live while it is computed.
    pub peak_size: usize,
    /// Bytes that are live when it has run, and in the next step; 0 for the last.
    pub crossing_size: usize,
}

sized_struct!(lastuse_step_report);

/// Cuts a graph into steps, which lastuse_steps_compute computes one after the other. The program allocates the graph, with
/// galloc or another allocator, or with sched, after this call. galloc then retains inputs and results that no node reads; and,
/// until a step has run, what it reads of earlier ones. For sched, these are flagged as outputs until lastuse_steps_free.
///
/// Call it when the graph is complete. Free the result with lastuse_steps_free, before the graph, the backend or
/// scheduler, and galloc. Returns NULL, and retains nothing, in the cases that docs/steps.md lists.
///
/// # Safety
/// `graph`, its tensors, the backend or the scheduler, and `galloc` live until lastuse_steps_free, and no other thread uses
/// them. `params` points to struct_size bytes; `cuts` is NULL or holds n_cuts live tensors; `callback` is NULL or may be
/// called with `user_data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_steps_new(
    graph: *mut ggml_cgraph,
    params: *const lastuse_steps_params,
) -> *mut lastuse_steps {
    call("lastuse_steps_new", |call| {
        let graph = call.required("graph", graph);
        // SAFETY: NULL or of its stated size: see "# Safety".
        let params = unsafe { call.params("params", params) };
        let runner = call.done(runner(&params))?;
        // SAFETY: NULL or live: see "# Safety".
        let runtime = call.runtime(unsafe { ggml_of_object(params.backend.cast_const()) })?;
        // SAFETY: n_cuts live tensors: see "# Safety".
        let cuts = unsafe { call.tensors("params->cuts", params.cuts, params.n_cuts) };
        let galloc = NonNull::new(params.galloc);
        // SAFETY: live, and used by this thread only: see "# Safety".
        let allocator = galloc.map(|galloc| unsafe { call.allocator(galloc.as_ptr()) }).transpose()?;
        let after_step = params.callback.map(|function: AfterStep| (function, params.user_data));
        // SAFETY: live until the steps are freed, and used by this thread only: see "# Safety".
        let steps = unsafe { Steps::new(runtime, (graph, runner), (&cuts, params.n_steps), after_step, allocator) };
        Ok(into_handle(HeldSteps { steps: call.done(steps)?, galloc }))
    })
}

/// Returns what computes the graph.
///
/// # Errors
/// Why parameters contradict each other.
fn runner(params: &lastuse_steps_params) -> Result<Runner, &'static str> {
    match (params.n_cuts > 0, params.n_steps > 0) {
        (true, true) => return Err("params has both cuts and n_steps; set one of them"),
        (false, false) => return Err("params has neither cuts nor n_steps; a graph needs 1 step or more"),
        _ => {}
    }
    match (NonNull::new(params.backend), NonNull::new(params.sched)) {
        (Some(_), Some(_)) => Err("params has both a backend and a scheduler; set one of them"),
        (None, None) => Err("params has neither a backend nor a scheduler"),
        (None, Some(_)) if !params.galloc.is_null() => {
            Err("params has both a scheduler and an allocator; set one of them")
        }
        (None, Some(scheduler)) => Ok(Runner::Scheduler(scheduler)),
        (Some(backend), None) => Ok(Runner::Backend(backend)),
    }
}

/// Computes the steps of a graph that has memory, one after the other; may be called again. A scheduler calls its callback
/// (ggml_backend_sched_set_eval_callback) for that, and has none afterwards. Returns an enum ggml_status: GGML_STATUS_ABORTED
/// if the callback of params returned false, GGML_STATUS_FAILED if the graph has no memory or lists a cut no longer, and in the
/// callback of the same steps, or the status of the backend. Then the steps before it were computed.
///
/// # Safety
/// `steps` comes from lastuse_steps_new; no other thread uses it, nor the graph, its tensors and their buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_steps_compute(steps: *mut lastuse_steps) -> c_int {
    call("lastuse_steps_compute", |call| {
        // SAFETY: NULL, or made by `lastuse_steps_new`, live, and of this thread: see "# Safety".
        let held = unsafe { call.look_at(steps) }?;
        let Err((status, why)) = held.steps.compute() else { return Ok(STATUS_SUCCESS) };
        call.refuse(&why);
        Ok(status)
    })
}

/// Fills in a step, counted from 0, and the memory of it and of the whole graph, as planned by lastuse_steps_new: of tensors
/// that had none then. Returns false if there is no such step.
///
/// # Safety
/// `steps` comes from lastuse_steps_new; `report` points to struct_size bytes; no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_steps_report(
    steps: *const lastuse_steps,
    step: usize,
    report: *mut lastuse_step_report,
) -> bool {
    call("lastuse_steps_report", |call| {
        // SAFETY: NULL, or made by `lastuse_steps_new`, live, and of this thread: see "# Safety".
        let held = unsafe { call.look_at(steps) }?;
        // SAFETY: NULL or of its stated size: see "# Safety".
        let report = unsafe { call.report(report) };
        let Steps { planned, total, .. } = &held.steps;
        let n_steps = planned.len();
        let missing = || format!("there is no step {step}; the graph has {n_steps}, counted from 0");
        let (nodes, memory) = planned.get(step).ok_or_else(|| call.refuse_silently(&missing()))?;
        report.write(&lastuse_step_report {
            struct_size: 0,
            n_steps,
            total_size: size(*total),
            first_node: nodes.start as usize,
            n_nodes: nodes.len(),
            peak_size: size(memory.peak),
            crossing_size: size(memory.crossing),
        });
        Ok(true)
    })
}

/// Frees steps; galloc then retains nothing for them. Does nothing for NULL. In a callback of lastuse_steps_compute nothing is
/// freed.
///
/// # Safety
/// `steps` is NULL, or comes from lastuse_steps_new and is not used afterwards; its graph, its tensors and galloc are live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_steps_free(steps: *mut lastuse_steps) {
    // SAFETY: NULL, or made by `lastuse_steps_new`, of this thread, and not used afterwards: see "# Safety".
    call("lastuse_steps_free", |call| unsafe { call.free(steps) });
}
