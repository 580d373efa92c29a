//! `lastuse_tensor_*` and `ggml_dependency`: values that stay readable, results in given memory, order in the graph.

use crate::ggml::{BufferRef, TensorRef, dedicate, depend, set_output};
use crate::ggml::{ggml_context, ggml_gallocr, ggml_of_object, ggml_tallocr, ggml_tensor};

use super::arguments::ggml_of_tensors;
use super::call::call;
use super::context::expect_not_freed;

/// Keeps the value of t, a leaf, node or view, readable in every graph with t that galloc plans from now on: until the
/// node until has run, or to the end of the run if until is NULL. Its memory is neither reused nor written in place
/// before. The graph is not changed; its plan may be larger than that of ggml's own allocator. Lasts until
/// lastuse_tensor_release or until galloc is freed, and replaces an earlier call for t. For the allocator of a
/// scheduler: lastuse_sched_allocator, or lastuse_set by name. Returns false if lastuse has not created galloc, if t is
/// only computed in tiles, or if no operation computes until. See docs/values.md.
///
/// # Safety
/// `galloc` is a live allocator that no other thread uses; `t` is live; `until` is NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_tensor_retain(
    galloc: *mut ggml_gallocr,
    t: *mut ggml_tensor,
    until: *mut ggml_tensor,
) -> bool {
    call("lastuse_tensor_retain", |call| {
        // SAFETY: NULL or live: see "# Safety".
        let t = unsafe { call.tensor("t", t) };
        // SAFETY: NULL or live: see "# Safety".
        let until = unsafe { TensorRef::new(until) };
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        let allocator = unsafe { call.allocator(galloc) }?;
        call.done(allocator.retain(t, until)).map(|()| true)
    })
}

/// Ends lastuse_tensor_retain for t, in the graphs that galloc plans from now on. Names that lastuse_set retains stay
/// retained. Returns false if t is not retained by lastuse_tensor_retain.
///
/// # Safety
/// `galloc` is a live allocator that no other thread uses, and `t` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_tensor_release(galloc: *mut ggml_gallocr, t: *mut ggml_tensor) -> bool {
    call("lastuse_tensor_release", |call| {
        // SAFETY: NULL or live: see "# Safety".
        let t = unsafe { call.tensor("t", t) };
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        let allocator = unsafe { call.allocator(galloc) }?;
        call.done(allocator.release(t)).map(|()| true)
    })
}

/// Redirects the result of t to the memory of dst, so that it need not be copied there. Returns t, which is a view of
/// dst from now on. ggml_set_output(t, dst), with two arguments, calls this function.
///
/// Returns NULL and changes nothing where that is impossible, such as when t is a view, an input, or not known to write
/// the layout of dst; ggml_cpy then has the same result. Nodes that touch this memory must be ordered by
/// ggml_dependency: otherwise ggml_gallocr_reserve, ggml_gallocr_alloc_graph and schedulers refuse the graph
/// (docs/copies.md). t must not need gradients. dst outlives t.
///
/// # Safety
/// `t` and `dst` are live, `dst` for as long as `t` is used; no other thread uses them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_tensor_set_output(t: *mut ggml_tensor, dst: *mut ggml_tensor) -> *mut ggml_tensor {
    call("lastuse_tensor_set_output", |call| {
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        let result = unsafe { call.tensor("t", t) };
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        let output = unsafe { call.tensor("dst", dst) };
        let runtime = call.runtime(ggml_of_tensors(&[result, output]))?;
        let (from, to) = (result.name(), output.name());
        let named = |why| format!("{why} (t is \"{from}\", dst is \"{to}\")");
        call.done(set_output(runtime, result, output).map_err(named)).map(|()| t)
    })
}

/// Returns a tensor that is a view of all of a and depends on b: what reads it runs after b, and reads what b has
/// written to that memory. So order becomes a part of the graph, also in ggml_backend_sched. The result has the type,
/// shape, strides and memory of a, and belongs to ctx; a and b may belong to other contexts, and live as long as it is
/// used. Nothing is computed for it, and gradients pass through to a. Returns NULL if a and b are the same tensor, if
/// ctx is full, and if lastuse does not know the layout of this ggml.
///
/// # Safety
/// `ctx`, `a` and `b` are live, `a` and `b` for as long as the result is used; no other thread uses them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_dependency(
    ctx: *mut ggml_context,
    a: *mut ggml_tensor,
    b: *mut ggml_tensor,
) -> *mut ggml_tensor {
    call("ggml_dependency", |call| {
        expect_not_freed(call, &[ctx.addr(), a.addr(), b.addr()]);
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        let a = unsafe { call.tensor("a", a) };
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        let b = unsafe { call.tensor("b", b) };
        let context = call.required("ctx", ctx);
        let runtime = call.runtime(ggml_of_tensors(&[a, b]))?;
        // SAFETY: live, and used by this thread only: see "# Safety".
        let made = unsafe { depend(runtime, context.as_ptr(), a, b) };
        call.done(made).map(TensorRef::as_ptr)
    })
}

/// Gives t, a result of a graph, the next bytes of a buffer of the program, where it survives later graphs. Returns the tensor
/// that lies there, flagged as an output: t itself, whose operation then writes there; or, if t is a view or the device of the
/// buffer cannot compute it, a new tensor in ctx that copies t there, for ggml_build_forward_expand.
///
/// Call it once for a tensor, before its graph is reserved or allocated. talloc, from ggml_tallocr_new, hands out the bytes in
/// the order of calls. Returns NULL in the cases that docs/dedicated.md lists; ctx may then have a tensor that nothing uses.
///
/// # Safety
/// `ctx` has room for one more tensor; `t` and the buffer of `talloc` stay live as long as the returned tensor is used. No other
/// thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_tensor_dedicate(
    ctx: *mut ggml_context,
    t: *mut ggml_tensor,
    talloc: *mut ggml_tallocr,
) -> *mut ggml_tensor {
    call("lastuse_tensor_dedicate", |call| {
        let context = call.required("ctx", ctx);
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        let tensor = unsafe { call.tensor("t", t) };
        // SAFETY: not NULL, so live and of this thread: see "# Safety".
        let talloc = unsafe { call.required("talloc", talloc).as_mut() };
        // SAFETY: live as long as the tensor is used: see "# Safety".
        let buffer = unsafe { BufferRef::from_non_null(call.required("talloc->buffer", talloc.buffer)) };
        // SAFETY: a live buffer.
        let runtime = call.runtime(unsafe { ggml_of_object(buffer.as_ptr().cast_const()) })?;
        // SAFETY: a live context of this thread, with room: see "# Safety".
        let dedicated = unsafe { dedicate(runtime, context.as_ptr(), tensor, (talloc, buffer)) };
        let dedicated = dedicated.map_err(|why| format!("{why} (t is \"{}\")", tensor.name()));
        call.done(dedicated).map(TensorRef::as_ptr)
    })
}
