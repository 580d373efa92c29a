//! Checks: of the addresses that tensors got (`lastuse_graph_verify`), of memory that was freed (`lastuse_guard_check_*`), and
//! of memory while a graph runs (`lastuse_guard_*`, `lastuse_graph_compute_guarded`).

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{NonNull, null, null_mut};

use crate::ggml::{
    GraphRef, LiveRetention, MemoryGuard, NextCallback, NotComputed, STATUS_SUCCESS, TensorRef, all_ggmls, check_place,
    check_places, compute_guarded, places_are_recorded, settings, verify_graph,
};
use crate::ggml::{ggml_backend, ggml_backend_buffer, ggml_cgraph, ggml_of_caller, ggml_of_object, ggml_tensor};
use crate::settings::{Settings, Verify};

use super::arguments::ggml_of_graph;
use super::c_types::sized_struct;
use super::call::{abort_on_violation, call, total};
use super::handle::{Handle, into_handle};

/// Verifies the addresses of an allocated graph, whichever allocator assigned them: simulates the graph, and returns
/// true if no value is overwritten before its last use and no result before the end. Tensors outside of compute
/// buffers, such as weights, are taken to be correct. Takes some microseconds for each tensor. Returns false if an
/// address is wrong, if lastuse does not know the layout of this ggml, and if this ggml does not report which buffers
/// are compute buffers.
///
/// # Safety
/// `graph`, its tensors and their buffers are live, and no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_verify(graph: *mut ggml_cgraph) -> bool {
    call("lastuse_graph_verify", |call| {
        let graph = call.required("graph", graph);
        // SAFETY: a live graph of this thread: see "# Safety".
        let runtime = call.runtime(unsafe { ggml_of_graph(null_mut(), graph) })?;
        // SAFETY: a live graph of this thread: see "# Safety".
        call.done(verify_graph(runtime, unsafe { GraphRef::new(graph) })).map(|()| true)
    })
}

/// Checks the memory of graphs while a scheduler runs them: made by lastuse_guard_new.
// Without repr(C): the header then declares a struct that is never defined, and C has no arrays of length 0.
#[derive(Debug)]
pub struct lastuse_guard([u8; 0]);

impl Handle for lastuse_guard {
    type Object = MemoryGuard;
    const ARGUMENT: &'static str = "guard";
}

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
    call("lastuse_guard_new", |call| {
        // SAFETY: NULL or of its stated size: see "# Safety".
        let params = unsafe { call.params_if_any(params) };
        let runtime = call.runtime(ggml_of_caller())?;
        // SAFETY: NULL or a string: see "# Safety".
        let words = unsafe { call.text_if_any(params.map_or(null(), |params| params.words)) };
        let verify = words.map_or(Ok(Verify::default()), |words| words.to_string_lossy().parse());
        let verify = call.done(verify)?;
        let user_data = params.map_or(null_mut(), |params| params.user_data);
        let next = params.and_then(|params| params.callback).map(|function| NextCallback { function, user_data });
        Ok(into_handle(MemoryGuard::new(runtime, verify, next)))
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
    call("lastuse_guard_eval", |call| {
        // SAFETY: NULL, or a live tensor of this thread: see "# Safety".
        let tensor = unsafe { call.tensor("t", t) };
        // SAFETY: NULL, or made by `lastuse_guard_new`, live, and of this thread: see "# Safety".
        let mut guard = unsafe { call.change(guard.cast::<lastuse_guard>()) }?;
        Ok(guard.eval(tensor, ask).unwrap_or_else(|violation| abort_on_violation(&violation)))
    })
}

/// Frees a guard; does nothing for NULL. In its callback params->callback nothing is freed.
///
/// # Safety
/// `guard` is NULL, or comes from lastuse_guard_new and is not used afterwards, by a scheduler either.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_guard_free(guard: *mut lastuse_guard) {
    // SAFETY: NULL, or made by `lastuse_guard_new`, of this thread, and not used afterwards: see "# Safety".
    call("lastuse_guard_free", |call| unsafe { call.free(guard) });
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
    call("lastuse_graph_compute_guarded", |call| {
        let (backend, graph) = (call.required("backend", backend).as_ptr(), call.required("graph", graph));
        // SAFETY: a live backend: see "# Safety".
        let runtime = call.runtime(unsafe { ggml_of_object(backend) })?;
        let Settings { verify, retain, .. } = settings();
        let retention = LiveRetention::of_names(retain);
        // SAFETY: live, and used by this thread only: see "# Safety".
        match unsafe { compute_guarded(runtime, backend, graph, verify, &retention) } {
            Ok(()) => Ok(STATUS_SUCCESS),
            Err(NotComputed::Status(status)) => {
                call.refuse_silently(&format_args!("the backend returned status {status}"));
                Ok(status)
            }
            Err(NotComputed::Violation(violation)) => abort_on_violation(&violation),
            Err(why @ NotComputed::Unsupported) => Err(call.refuse(&why)),
        }
    })
}

/// Checks that all tensors of a graph are in memory that was not freed, where its latest allocation has put them:
/// before a graph is computed that a program keeps. Otherwise ends in ggml's abort, with tensor and buffer. Checks
/// graphs allocated by lastuse since an allocator was created with the word "memory" (lastuse_set: verify); others pass.
/// Buffers of the program count if it calls lastuse_buffer_note and lastuse_buffer_note_free.
///
/// # Safety
/// `graph` and its tensors are live, and no other thread changes them; their buffers may be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_guard_check_graph(graph: *mut ggml_cgraph) {
    total("lastuse_guard_check_graph", |call| {
        let graph = call.required("graph", graph);
        if places_are_recorded() && all_layouts_are_known() {
            // SAFETY: the graph and its tensors are live and not changed; their buffers are not read.
            let checked = check_places(unsafe { GraphRef::new(graph) });
            checked.unwrap_or_else(|violation| abort_on_violation(&violation));
        }
    });
}

/// Checks that a tensor is in memory that was not freed, as lastuse_guard_check_graph does: before a program reads it, or
/// writes it (is_written). In an arena, what is read was not overwritten by another context either. A tensor that the program
/// has put elsewhere passes. Returns the buffer that the tensor is in; NULL if it
/// is in none, or lastuse does not know the layout of a ggml of this process.
///
/// # Safety
/// `t` and the tensor that it is a view of are live, and no other thread changes them; their buffers may be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_guard_check_tensor(
    t: *const ggml_tensor,
    is_written: bool,
) -> *mut ggml_backend_buffer {
    total("lastuse_guard_check_tensor", |call| {
        let tensor: NonNull<ggml_tensor> = call.required("t", t.cast_mut());
        if !all_layouts_are_known() {
            return null_mut();
        }
        // SAFETY: the tensor and its root are live and not changed; their buffers are not read.
        let tensor = unsafe { TensorRef::from_non_null(tensor) };
        check_place(tensor, is_written).unwrap_or_else(|violation| abort_on_violation(&violation));
        tensor.view_source().unwrap_or(tensor).buffer()
    })
}

/// Graphs and tensors can be read only if every ggml that they may be of has a known layout.
fn all_layouts_are_known() -> bool {
    all_ggmls().iter().all(|ggml| ggml.runtime().is_some())
}
