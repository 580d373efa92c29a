//! `lastuse_guard_*` and `lastuse_graph_compute_guarded`: checking memory while a graph runs.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use crate::ggml::{
    LiveRetention, MemoryGuard, NextCallback, NotComputed, STATUS_FAILED, STATUS_SUCCESS, Settings, TensorRef, Verify,
    compute_guarded,
};
use crate::ggml::{ggml_backend, ggml_cgraph, ggml_of_caller, ggml_of_object, ggml_tensor, settings};

use super::abort::{abort_on_panic, abort_on_violation, required};
use super::ggml_of_arguments::runtime_or_fail;
use super::handle::{free, into_handle, object, to_change};
use super::last_error::{fail, set_last_error};
use super::struct_size::{callers_struct, sized_struct};
use super::verify::parse_verify;

/// Checks the memory of graphs while a scheduler runs them: made by lastuse_guard_new.
// Without repr(C): the header then declares a struct that is never defined, and an array of length 0 is no C.
#[derive(Debug)]
pub struct lastuse_guard([u8; 0]);

/// Parameters of lastuse_guard_new.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lastuse_guard_params {
    /// sizeof(struct lastuse_guard_params).
    pub struct_size: usize,
    /// Words of lastuse_set("verify", ...), of which "weights" and "no-custom" affect a guard; NULL: none.
    pub words: *const c_char,
    /// A callback of the program, called as it would be without the guard; or NULL.
    pub callback: Option<unsafe extern "C" fn(t: *mut ggml_tensor, ask: bool, user_data: *mut c_void) -> bool>,
    /// The last argument of callback.
    pub user_data: *mut c_void,
}

sized_struct!(lastuse_guard_params);

/// Creates a guard, which detects operations that write outside of their results, and fills free memory with the byte
/// 0xfd: the callback of a scheduler, set with ggml_backend_sched_set_eval_callback. An error is logged and ends in
/// ggml's abort. The caller frees it with lastuse_guard_free, after the scheduler.
///
/// A debugging aid: each node is computed alone, and all host memory that the graph uses is compared with a copy. Free
/// memory is known for allocators created with the word "memory" (lastuse_set: verify). See docs/verification.md. params
/// may be NULL. Returns NULL if a word is unknown or lastuse does not know the layout of this ggml.
///
/// # Safety
/// `params` is NULL or points to struct_size bytes, with `words` NULL or a string that ends in NUL; `callback` is NULL, or
/// may be called with `user_data` as long as the guard is used.
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
        let user_data = params.map_or(null_mut(), |params| params.user_data);
        let next = params.and_then(|params| params.callback).map(|function| NextCallback { function, user_data });
        into_handle(MemoryGuard::new(runtime, verify, next))
    })
}

/// Runs a guard before (ask is true) and after each node. Not called by the program: it is passed to
/// ggml_backend_sched_set_eval_callback, with the guard as user data. Returns true, so that each node is computed
/// alone; false after a node for which params->callback returns false, and in params->callback of the same guard. Aborts if an
/// operation has written memory that it must not write.
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

/// Frees a guard; does nothing for NULL. In its callback params->callback nothing is freed.
///
/// # Safety
/// `guard` is NULL, or comes from lastuse_guard_new and is not used afterwards, by a scheduler either.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_guard_free(guard: *mut lastuse_guard) {
    // SAFETY: NULL, or made by `lastuse_guard_new`, of this thread, and not used afterwards, as the caller guarantees.
    abort_on_panic(|| unsafe { free("lastuse_guard_free", "guard", guard, |_: &MemoryGuard| true) });
}

/// Computes an allocated graph as ggml_backend_graph_compute does, after lastuse_graph_verify and under a guard
/// (lastuse_guard_new): for programs without a scheduler. Fills free memory in the compute buffers of the graph: what
/// other graphs keep there is overwritten, and what only lastuse_tensor_retain retains. Returns an enum ggml_status:
/// that of the backend, or GGML_STATUS_FAILED if lastuse does not know this ggml or its layout. Ends in ggml's abort if
/// an error is found.
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
