//! `lastuse_guard_*` and `lastuse_graph_compute_guarded`: checking memory while a graph runs.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use crate::ggml::{
    LiveRetention, MemoryGuard, NextCallback, NotComputed, STATUS_SUCCESS, Settings, TensorRef, Verify, compute_guarded,
};
use crate::ggml::{ggml_backend, ggml_cgraph, ggml_of_caller, ggml_of_object, ggml_tensor, settings};

use super::abort::{abort_on_panic, abort_on_violation, required};
use super::ggml_of_arguments::runtime_or_fail;
use super::handle::{free, into_handle, object, to_change};
use super::last_error::{fail, set_last_error};
use super::struct_size::{callers_struct, sized_struct};
use super::verify::parse_verify;

/// ggml's status for failure.
const STATUS_FAILED: i32 = -1;

/// Checks the memory of graphs while a scheduler runs them: made by lastuse_guard_new.
// Without repr(C): the header then declares a struct that is never defined, and an array of length 0 is no C.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_guard([u8; 0]);

/// Parameters of lastuse_guard_new. The caller sets struct_size and zeroes the rest; zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_guard_params {
    /// sizeof(struct lastuse_guard_params). Later versions may add fields at the end.
    pub struct_size: usize,
    /// Words of lastuse_set_verify, of which "weights" and "no-custom" affect a guard; NULL: none.
    pub words: *const c_char,
    /// A callback of the program, called as it would be without the guard; or NULL.
    pub next: Option<unsafe extern "C" fn(t: *mut ggml_tensor, ask: bool, user_data: *mut c_void) -> bool>,
    /// The last argument of next.
    pub next_user_data: *mut c_void,
}

sized_struct!(lastuse_guard_params);

/// Creates a guard, which detects operations that write outside of their results: the callback of a scheduler, set with
/// ggml_backend_sched_set_eval_callback. The caller frees it with lastuse_guard_free, after the scheduler.
///
/// The guard keeps a copy of all host memory that the graph uses, compares it after each node, and fills free memory
/// with the byte 0xfd, so that reads of free memory give no usable values. Where it finds an error, ggml's log gets the
/// operation, its tensor, how many bytes, how far from its result and what they held, and the process ends in ggml's
/// abort.
///
/// ```c
/// lastuse_set_verify("memory"); // later schedulers inform guards which memory is free
/// ggml_backend_sched_t sched = ggml_backend_sched_new(&backend, NULL, 1, GGML_DEFAULT_GRAPH_SIZE, false, true);
/// lastuse_set_verify("off");
/// struct lastuse_guard * guard = lastuse_guard_new(NULL);
/// GGML_ASSERT(guard != NULL);
/// ggml_backend_sched_set_eval_callback(sched, lastuse_guard_eval, guard);
///
/// ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
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
/// An operation may write its result, and a view the memory that it is a view of; steps of optimizers may also write
/// their sources; functions of the program only their results, unless the words include "no-custom". Free memory is
/// known for graphs allocated by an allocator that was created while LASTUSE_VERIFY or lastuse_set_verify was "memory";
/// otherwise nothing is filled, and only the buffers of each node and its sources are compared. Results that are no
/// outputs are filled after their last use, as a program must expect. Memory of other devices is not checked, nor are
/// buffers marked as weights, which is logged once; with the word "weights" the latter are.
///
/// A debugging aid: each node is computed alone, and every byte of the buffers is compared twice for it. Other threads
/// must not write to these buffers while a graph runs.
///
/// params may be NULL, and is not used after the call. Returns NULL if a word is unknown or lastuse does not know the
/// layout of this ggml; the reason is in lastuse_last_error and in ggml's log. Works also if lastuse is not enabled.
/// Aborts if params->struct_size is not set.
///
/// # Safety
/// `params` is NULL or points to struct_size bytes, with `words` NULL or a string that ends in NUL; `next` is NULL, or
/// may be called with `next_user_data` as long as the guard is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_guard_new(params: *const lastuse_guard_params) -> *mut lastuse_guard {
    const NAME: &str = "lastuse_guard_new";
    abort_on_panic(|| {
        // SAFETY: NULL or of its stated size, as the caller guarantees.
        let params = unsafe { callers_struct(NAME, "params", params.cast_mut()) }.map(|params| params.read());
        let Some(runtime) = runtime_or_fail(NAME, ggml_of_caller()) else { return null_mut() };
        let words = params.map_or(null(), |params| params.words);
        // SAFETY: a string, as the caller guarantees.
        let verify = if words.is_null() { Some(Verify::default()) } else { unsafe { parse_verify(NAME, words) } };
        let Some(verify) = verify else { return null_mut() };
        let user_data = params.map_or(null_mut(), |params| params.next_user_data);
        let next = params.and_then(|params| params.next).map(|function| NextCallback { function, user_data });
        into_handle(MemoryGuard::new(runtime, verify, next))
    })
}

/// Runs a guard before (ask is true) and after each node. Not called by the program: it is passed to
/// ggml_backend_sched_set_eval_callback, with the guard as user data.
///
/// ```c
/// struct lastuse_guard * guard = lastuse_guard_new(NULL);
/// struct ggml_tensor * t = ggml_neg(ctx, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64));
/// GGML_ASSERT(lastuse_guard_eval(t, true, guard));  // before t is computed: compute up to t
/// GGML_ASSERT(lastuse_guard_eval(t, false, guard)); // after t: continue
/// lastuse_guard_free(guard);
/// ```
///
/// Returns true, so that each node is computed alone; after a node, false if params->next returns false for it; and false,
/// with the reason in lastuse_last_error and in ggml's log, in params->next of the same guard. Aborts if t or guard is NULL, and if an operation has written memory that it must not write.
///
/// # Safety
/// `guard` comes from lastuse_guard_new and is used by this thread only; `t`, its sources and their buffers are live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_guard_eval(t: *mut ggml_tensor, ask: bool, guard: *mut c_void) -> bool {
    const NAME: &str = "lastuse_guard_eval";
    abort_on_panic(|| {
        let tensor = required(t, NAME, "t");
        // SAFETY: a live tensor of this thread, as the caller guarantees.
        let tensor = unsafe { TensorRef::from_non_null(tensor) };
        // SAFETY: NULL, or made by `lastuse_guard_new`, live, and of this thread, as the caller guarantees.
        let guard = unsafe { object::<MemoryGuard, _>(NAME, "guard", guard) };
        let Some(mut guard) = to_change(NAME, "guard", guard) else { return false };
        guard.eval(tensor, ask).unwrap_or_else(|violation| abort_on_violation(&violation))
    })
}

/// Frees a guard; does nothing for NULL. In its callback params->next nothing is freed, and the reason is in
/// lastuse_last_error and in ggml's log.
///
/// ```c
/// struct lastuse_guard * guard = lastuse_guard_new(NULL);
/// lastuse_guard_free(guard);
/// ```
///
/// # Safety
/// `guard` is NULL, or comes from lastuse_guard_new and is not used afterwards, by a scheduler either.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_guard_free(guard: *mut lastuse_guard) {
    // SAFETY: NULL, or made by `lastuse_guard_new`, of this thread, and not used afterwards, as the caller guarantees.
    abort_on_panic(|| unsafe { free("lastuse_guard_free", "guard", guard, |_: &MemoryGuard| true) });
}

/// Computes an allocated graph as ggml_backend_graph_compute does, and checks its memory: simulates the graph first, as
/// lastuse_graph_verify does, then runs it on the backend, one node after the other, under a guard (lastuse_guard_new).
/// For programs without a scheduler.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
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
/// Fills free memory in the compute buffers of the graph's tensors, whichever allocator owns them: what other graphs
/// keep there is overwritten, and so are tensors of lastuse_tensor_retain unless lastuse_set_retain names them too.
/// LASTUSE_VERIFY and lastuse_set_verify determine whether buffers marked as weights are checked, and what functions of
/// the program may write.
///
/// Returns an enum ggml_status: GGML_STATUS_SUCCESS; the status of the backend; or GGML_STATUS_FAILED, with the reason
/// in lastuse_last_error and in ggml's log, if lastuse does not know this ggml or its layout. Ends in ggml's abort if
/// an error is found. Works also if lastuse is not enabled. Aborts if backend or graph is NULL.
///
/// # Safety
/// `backend`, `graph`, its tensors and their buffers are live, and no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_compute_guarded(backend: *mut ggml_backend, graph: *mut ggml_cgraph) -> c_int {
    const NAME: &str = "lastuse_graph_compute_guarded";
    abort_on_panic(|| {
        let backend = required(backend, NAME, "backend");
        let graph = required(graph, NAME, "graph");
        // SAFETY: a live backend, as the caller guarantees.
        let ggml = unsafe { ggml_of_object(backend.as_ptr()) };
        let Some(runtime) = runtime_or_fail(NAME, ggml) else { return STATUS_FAILED };
        let Settings { verify, retain, .. } = settings();
        let retention = LiveRetention::of_names(retain);
        // SAFETY: live, and used by this thread only, as the caller guarantees.
        match unsafe { compute_guarded(runtime, backend.as_ptr(), graph, verify, &retention) } {
            Ok(()) => STATUS_SUCCESS,
            Err(NotComputed::Status(status)) => {
                set_last_error(NAME, &format_args!("the backend returned status {status}"));
                status
            }
            Err(NotComputed::Violation(violation)) => abort_on_violation(&violation),
            Err(why @ NotComputed::Unsupported) => {
                fail(NAME, &why);
                STATUS_FAILED
            }
        }
    })
}
