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
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_steps([u8; 0]);

/// Parameters of lastuse_steps_new. The caller sets struct_size and zeroes the rest; either cuts or n_steps is needed,
/// and either backend or sched.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_steps_params {
    /// sizeof(struct lastuse_steps_params). Later versions may add fields at the end.
    pub struct_size: usize,
    /// Nodes of the graph, each the last of a step, in the order in which the graph lists them. The step behind the
    /// last cut ends with the graph, so there is one step more than cuts. NULL if n_steps is set.
    pub cuts: *const *mut ggml_tensor,
    /// The length of cuts.
    pub n_cuts: usize,
    /// The number of steps, if lastuse is to choose the cuts so that the peak is lowest; 0 if cuts is set.
    pub n_steps: usize,
    /// The backend that computes the graph; NULL if sched is set.
    pub backend: *mut ggml_backend,
    /// The scheduler that computes the graph; NULL if backend is set.
    pub sched: *mut ggml_backend_sched,
    /// The buffer type of all memory; NULL: that of backend. NULL with a scheduler.
    pub buft: *mut ggml_backend_buffer_type,
    /// A function that is called after each step, with its number from 0, before the memory of the step is freed; or
    /// NULL. If it returns false, the computation stops.
    pub callback: Option<unsafe extern "C" fn(step: c_int, user_data: *mut c_void) -> bool>,
    /// The last argument of callback.
    pub user_data: *mut c_void,
}

sized_struct!(lastuse_steps_params);

/// Cuts a graph into steps, which lastuse_steps_compute computes one after the other: each is planned by itself, gets a
/// compute buffer, runs, and is freed before the next. The caller frees the result with lastuse_steps_free.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors get memory from lastuse_steps_new
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
/// ggml_set_input(input);
/// struct ggml_tensor * x = input;
/// for (int i = 0; i < 8; i++) { x = ggml_sqr(ctx, ggml_scale(ctx, x, 0.5f)); }
/// struct ggml_tensor * total = ggml_sum(ctx, x);
/// ggml_set_output(total);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, total);
///
/// struct lastuse_steps_params params;
/// memset(&params, 0, sizeof(params));
/// params.struct_size = sizeof(params);
/// params.n_steps     = 3;
/// params.backend     = backend;
/// struct lastuse_steps * steps = lastuse_steps_new(graph, &params);
/// GGML_ASSERT(steps != NULL);
/// float ones[4096], value;
/// for (int i = 0; i < 4096; i++) { ones[i] = 1.0f; }
/// for (int run = 0; run < 2; run++) {
///     ggml_backend_tensor_set(input, ones, 0, sizeof(ones));
///     GGML_ASSERT(lastuse_steps_compute(steps) == GGML_STATUS_SUCCESS);
///     ggml_backend_tensor_get(total, &value, 0, sizeof(value));
///     GGML_ASSERT(value >= 0.0f && value < 4096.0f);
/// }
/// lastuse_steps_free(steps);
/// ggml_set_no_alloc(ctx, false);
/// ```
///
/// The results are those of the whole graph, to the last bit, on backends that run node by node. Memory:
/// - What only one step touches lies in the compute buffer of that step.
/// - A tensor that several steps touch crosses a cut. It has memory of its own from the step that computes it to the
///   last step that uses it or a view of it; then that memory is freed.
/// - Inputs have memory when this function returns: leafs of the graph without memory. They keep their values, so an
///   input that does not change is set once; constants without memory have to be set too. Outputs keep their memory as
///   well: tensors flagged by ggml_set_output, and results that no node uses. Both are freed by lastuse_steps_free.
/// - Tensors that have memory, such as weights, are used where they are. Nodes may write there.
///
/// lastuse_steps_report and lastuse_steps_step_report return the bytes.
///
/// With n_steps, lastuse chooses the cuts for which the most bytes held at any time are fewest; of equal ones, those
/// with the smallest largest compute buffer; of these, those that the fewest bytes cross. In a graph with more than 513 nodes, cuts are tried at 512 places, spread over the
/// graph, where few bytes cross. Equal graphs are always cut alike.
///
/// With a scheduler, each step is split and allocated by it, and what crosses a cut lies in memory of the backend that
/// computes it. Inputs lie in memory of the last backend. The scheduler must be made for a graph of this size. It keeps
/// its compute buffers from step to step, as large as the largest step. Assignments by
/// ggml_backend_sched_set_tensor_backend, made before this call, hold in all steps. The program must not use the
/// scheduler for other graphs while lastuse_steps_compute runs; at other times it may, after ggml_backend_sched_reset.
///
/// Call this after the graph is complete, its backward pass included, and instead of allocating the graph. The graph
/// must not be changed until lastuse_steps_free.
///
/// Returns NULL, with the reason in lastuse_last_error and in ggml's log, and the graph unchanged, if
/// - both cuts and n_steps are set, or neither is; both backend and sched, or neither; or buft together with sched;
/// - the graph has no nodes, or fewer than n_steps;
/// - a cut is no node of the graph, is the last node, is the same as the one before it, or comes before it;
/// - the graph was allocated already, or a check of redirected results fails (ggml_set_output with two arguments);
/// - there is not enough memory;
/// - lastuse does not know the layout of this ggml, or this ggml cannot compute a part of a graph.
///
/// Works also if lastuse is not enabled. Aborts if an argument or an entry of cuts is NULL, or params->struct_size is
/// not set.
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

/// Computes the steps one after the other. Returns an enum ggml_status.
///
/// ```c
/// ggml_set_no_alloc(ctx, true);
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
/// struct ggml_tensor * x     = ggml_sqr(ctx, input);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_sum(ctx, x));
/// struct lastuse_steps_params params;
/// memset(&params, 0, sizeof(params));
/// params.struct_size = sizeof(params);
/// params.cuts        = &x; // the first step ends with x
/// params.n_cuts      = 1;
/// params.backend     = backend;
/// struct lastuse_steps * steps = lastuse_steps_new(graph, &params);
/// ggml_backend_tensor_memset(input, 0, 0, ggml_nbytes(input));
/// GGML_ASSERT(lastuse_steps_compute(steps) == GGML_STATUS_SUCCESS);
/// lastuse_steps_free(steps);
/// ggml_set_no_alloc(ctx, false);
/// ```
///
/// The callback of params is called after each step. It may read, with ggml_backend_tensor_get, inputs, the outputs
/// computed so far, what crosses the cut before or after the step, and those results of the step that no later node of
/// it overwrites. It may call lastuse_steps_report, lastuse_steps_step_report and lastuse_steps_step_count;
/// lastuse_steps_compute and lastuse_steps_free do nothing there but fail. Other callbacks, such as the log's and those of a
/// scheduler or a buffer type, run while a step is computed, where all functions fail that take these steps.
///
/// May be called again, for other inputs. Afterwards outputs can be read, until the next call or lastuse_steps_free.
///
/// Returns GGML_STATUS_ABORTED if the callback returned false; GGML_STATUS_ALLOC_FAILED if there is not enough memory
/// for a step; GGML_STATUS_FAILED in a callback of the same steps; or the status of the backend. Then the steps before it
/// were computed, the reason is in lastuse_last_error and in ggml's log, and the function can be called again. Aborts if
/// steps is NULL.
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

/// Frees steps, and the memory of the inputs and outputs of their graph: those tensors then have none, and the graph
/// can be allocated in another way. Does nothing for NULL. In a callback of lastuse_steps_compute nothing is freed, and the
/// reason is in lastuse_last_error and in ggml's log.
///
/// ```c
/// lastuse_steps_free(NULL);
/// ```
///
/// # Safety
/// `steps` is NULL, or comes from lastuse_steps_new and is not used afterwards; its graph and tensors are live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_steps_free(steps: *mut lastuse_steps) {
    let is_free = |steps: &StepwiseGraph<'static>| !steps.is_computed();
    // SAFETY: NULL, or made by `lastuse_steps_new`, of this thread, and not used afterwards, as the caller guarantees.
    abort_on_panic(|| unsafe { free("lastuse_steps_free", "steps", steps, is_free) });
}
