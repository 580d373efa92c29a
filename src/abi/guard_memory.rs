//! `lastuse_guard_*`: looks at memory while a graph runs.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use crate::ggml::{Guard, NextCallback, NotComputed, STATUS_SUCCESS, TensorRef, Verify, compute_guarded};
use crate::ggml::{ggml_backend, ggml_cgraph, ggml_of_caller, ggml_of_object, ggml_tensor, settings};

use super::refusal::ggml_for;
use super::verify::mode;
use super::{checked_struct, end_on, guard, refuse, required};

/// Watches the memory of graphs while they run: see lastuse_guard_new.
// Without repr(C): the header then declares a struct that is never defined, and an array of length 0 is no C.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_guard([u8; 0]);

/// What may be said about a guard. The caller sets struct_size and zeroes the rest.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_guard_params {
    /// sizeof(struct lastuse_guard_params): which fields there are. Later versions may add some at the end.
    pub struct_size: usize,
    /// Words as lastuse_set_verify takes them, of which "weights" and "no-custom" matter here. NULL says nothing.
    pub words: *const c_char,
    /// A callback of the program, which is called as it would be without the guard; or NULL.
    pub next: Option<unsafe extern "C" fn(t: *mut ggml_tensor, ask: bool, user_data: *mut c_void) -> bool>,
    /// The last argument of next.
    pub next_user_data: *mut c_void,
}

/// A guard, which sees when an operation writes outside of its result: to be set as the callback of a scheduler. It keeps a
/// copy of all host memory that the graph uses, compares after each node, and fills what is free with the byte 0xfd, so that
/// whoever reads freed memory finds no sense in it. What is wrong goes to ggml's log, with the operation, its tensor, how
/// many bytes, how far from its result and whose they were, and the process ends in ggml's abort. The caller frees it with
/// lastuse_guard_free, after the scheduler.
///
/// ```c
/// lastuse_set_verify("memory"); // schedulers made from now on tell guards what is free
/// ggml_backend_sched_t sched = ggml_backend_sched_new(&backend, NULL, 1, GGML_DEFAULT_GRAPH_SIZE, false, true);
/// lastuse_set_verify("off");
/// struct lastuse_guard * guard = lastuse_guard_new(NULL);
/// GGML_ASSERT(guard != NULL);
/// ggml_backend_sched_set_eval_callback(sched, lastuse_guard_eval, guard);
///
/// ggml_set_no_alloc(ctx, true); // these tensors will lie in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
/// ggml_set_input(input);
/// struct ggml_tensor * sum = ggml_sum(ctx, ggml_sqr(ctx, input));
/// ggml_set_output(sum);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, sum);
/// GGML_ASSERT(ggml_backend_sched_alloc_graph(sched, graph));
/// float ones[64];
/// for (int i = 0; i < 64; i++) {
///     ones[i] = 1.0f;
/// }
/// ggml_backend_tensor_set(input, ones, 0, sizeof(ones));
/// GGML_ASSERT(ggml_backend_sched_graph_compute(sched, graph) == GGML_STATUS_SUCCESS);
/// float result = 0.0f;
/// ggml_backend_tensor_get(sum, &result, 0, sizeof(result));
/// GGML_ASSERT(result == 64.0f);
/// ggml_backend_sched_free(sched);
/// lastuse_guard_free(guard);
/// ```
///
/// params may be NULL. An operation may write its result, a view into the memory that it is a view of; the steps of
/// optimizers also their sources; functions of the program no more than their result, unless the words say "no-custom". What
/// is free is known of graphs whose memory came from an allocator that was made with LASTUSE_VERIFY or lastuse_set_verify set
/// to "memory"; without that nothing is filled, and only the buffers of each node and its sources are looked at. Results that
/// are no outputs are filled after their last reader, as a program must expect. Memory of other devices is not looked at, nor
/// are buffers marked as weights, which the log says once; with the word "weights" the latter are.
///
/// Every node is computed alone, and every byte of the buffers is compared twice for it: a debugging aid. Other threads must
/// not write into these buffers while a graph runs. NULL, with the reason in lastuse_last_error and in ggml's log, when a
/// word is unknown or lastuse does not know the layout of this ggml. Works when lastuse is not enabled, too. Aborts when
/// struct_size is too small.
///
/// # Safety
/// `params` is NULL, or as it is said above; `next` may be called as long as the guard is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_guard_new(params: *const lastuse_guard_params) -> *mut lastuse_guard {
    const NAME: &str = "lastuse_guard_new";
    guard(|| {
        // SAFETY: the caller's promise.
        let params = unsafe { checked_struct(NAME, "params", params.cast_mut()) };
        // SAFETY: alive, and as large as it has to be.
        let params = params.map(|(params, _)| unsafe { params.read() });
        let Some(runtime) = ggml_for(NAME, ggml_of_caller()) else { return ptr::null_mut() };
        let words = params.map_or(ptr::null(), |params| params.words);
        // SAFETY: the caller's promise.
        let mode = if words.is_null() { Some(Verify::default()) } else { unsafe { mode(NAME, words) } };
        let Some(mode) = mode else { return ptr::null_mut() };
        let user_data = params.map_or(ptr::null_mut(), |params| params.next_user_data);
        let next = params.and_then(|params| params.next).map(|function| NextCallback { function, user_data });
        Box::into_raw(Box::new(Guard::new(runtime, mode, next))).cast()
    })
}

/// What a scheduler calls for each node: to be given to ggml_backend_sched_set_eval_callback with the guard. Aborts when t or
/// the guard is NULL, and when memory was written that must not be.
///
/// ```c
/// struct lastuse_guard * guard = lastuse_guard_new(NULL);
/// struct ggml_tensor * t = ggml_neg(ctx, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64));
/// GGML_ASSERT(lastuse_guard_eval(t, true, guard));  // before t is computed: compute up to here
/// GGML_ASSERT(lastuse_guard_eval(t, false, guard)); // and after it: go on
/// lastuse_guard_free(guard);
/// ```
///
/// # Safety
/// `guard` comes from [`lastuse_guard_new`] and is used by this thread only; `t`, what it refers to, and the buffers are alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_guard_eval(t: *mut ggml_tensor, ask: bool, guard: *mut c_void) -> bool {
    const NAME: &str = "lastuse_guard_eval";
    super::guard(|| {
        let tensor = required(t, NAME, "t");
        let guard = required(guard, NAME, "guard").cast::<Guard>();
        // SAFETY: the caller's promise.
        let tensor = unsafe { TensorRef::from_non_null(tensor) };
        // SAFETY: made by `lastuse_guard_new`, alive, and used by this thread only.
        let guard = unsafe { &mut *guard.as_ptr() };
        guard.eval(tensor, ask).unwrap_or_else(|violation| end_on(&violation))
    })
}

/// Frees a guard; NULL is fine.
///
/// ```c
/// struct lastuse_guard * guard = lastuse_guard_new(NULL);
/// lastuse_guard_free(guard);
/// ```
///
/// # Safety
/// `guard` comes from [`lastuse_guard_new`], and is not used afterwards, by no scheduler either.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_guard_free(guard: *mut lastuse_guard) {
    super::guard(|| {
        if let Some(guard) = NonNull::new(guard.cast::<Guard>()) {
            // SAFETY: made by `lastuse_guard_new`, and given back once.
            drop(unsafe { Box::from_raw(guard.as_ptr()) });
        }
    });
}

/// Computes a graph that has its memory as ggml_backend_graph_compute does, under guard: the graph first runs in thought, as
/// in lastuse_graph_verify, then on the backend, one node after the other, and a guard looks at the memory, as is said at
/// lastuse_guard_new. For programs without a scheduler. Answers ggml's status (enum ggml_status): GGML_STATUS_SUCCESS, what
/// the backend has answered, or GGML_STATUS_FAILED, with the reason in lastuse_last_error, when this ggml or its layout is
/// unknown. Ends in ggml's abort when the memory is not right. Aborts when backend or graph is NULL.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will lie in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
/// ggml_set_input(input);
/// struct ggml_tensor * sum   = ggml_sum(ctx, ggml_sqr(ctx, input));
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, sum);
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
/// ggml_backend_tensor_memset(input, 0, 0, ggml_nbytes(input));
/// GGML_ASSERT(lastuse_graph_compute_guarded(backend, graph) == GGML_STATUS_SUCCESS);
/// ggml_gallocr_free(galloc);
/// ```
///
/// What is free is filled in compute buffers that tensors of the graph lie in, whichever allocator they belong to: what other
/// graphs keep there is lost. LASTUSE_VERIFY and lastuse_set_verify say whether buffers marked as weights are guarded too,
/// and what functions of the program may write.
///
/// # Safety
/// `backend`, `graph`, its tensors and their buffers are alive, and no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_compute_guarded(backend: *mut ggml_backend, graph: *mut ggml_cgraph) -> c_int {
    const NAME: &str = "lastuse_graph_compute_guarded";
    guard(|| {
        let backend = required(backend, NAME, "backend");
        let graph = required(graph, NAME, "graph");
        // SAFETY: a live backend.
        let ggml = unsafe { ggml_of_object(backend.as_ptr()) };
        let Some(runtime) = ggml_for(NAME, ggml) else { return STATUS_FAILED };
        let mode = settings().verify;
        // SAFETY: the caller's promise.
        match unsafe { compute_guarded(runtime, backend.as_ptr(), graph, mode) } {
            Ok(()) => STATUS_SUCCESS,
            Err(NotComputed::Status(status)) => status,
            Err(NotComputed::Violation(violation)) => end_on(&violation),
            Err(why @ NotComputed::Unsupported) => {
                refuse(NAME, &why);
                STATUS_FAILED
            }
        }
    })
}

/// ggml's status for failure.
const STATUS_FAILED: i32 = -1;
