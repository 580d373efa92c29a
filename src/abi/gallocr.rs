//! `ggml_gallocr_*`: planning and allocating graphs; and `ggml_op_can_inplace`.

use std::ffi::c_int;
use std::ptr::NonNull;

use crate::ggml::{
    Allocator, Ggml, GraphRef, Original, PendingTensors, Refusal, Server, check_not_freed, forward_to, forwarding_to,
    ggml_of_caller, ggml_of_galloc, original_events,
};
use crate::ggml::{ggml_cgraph, ggml_gallocr};
use crate::placement::Bytes;

use super::arguments::{BufferIds, checked_buffer_id};
use super::call::{Call, abort_on_violation, made_by_lastuse, set_last_error, size, total};
use super::question;

/// What a `ggml_gallocr_t` points to.
pub(super) enum GraphAllocator<'g> {
    /// An allocator of lastuse.
    Lastuse(&'g mut Allocator),
    /// One that the original functions of this ggml have made.
    Original(&'static Ggml, &'static Original),
}

impl<'g> GraphAllocator<'g> {
    /// Returns what the argument `galloc` points to. Aborts if it is NULL, and if neither lastuse nor a known ggml can have
    /// made it.
    ///
    /// # Safety
    /// `galloc` is NULL, or live for `'g` and used by this thread only.
    pub(super) unsafe fn of(call: Call, galloc: *mut ggml_gallocr) -> Self {
        let galloc = call.required("galloc", galloc);
        // SAFETY: live for `'g` and used by this thread only: see "# Safety".
        if let Some(allocator) = unsafe { made_by_lastuse(galloc) } {
            return Self::Lastuse(allocator);
        }
        let ggml = call.found(ggml_of_galloc(galloc));
        let original = ggml.original.as_ref();
        Self::Original(ggml, original.unwrap_or_else(|| call.abort(&"galloc is not an allocator, or was freed")))
    }
}

/// Plans `graph` and allocates a buffer for it. Returns `false` when there is not enough memory, and when a result
/// cannot be in the memory that it was redirected to.
///
/// # Safety
/// `galloc` is a live allocator, and `graph` and its tensors are live; no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_reserve(galloc: *mut ggml_gallocr, graph: *mut ggml_cgraph) -> bool {
    // SAFETY: NULL, or a live allocator of this thread: see "# Safety".
    total("ggml_gallocr_reserve", |call| match unsafe { GraphAllocator::of(call, galloc) } {
        GraphAllocator::Original(ggml, original) => {
            // SAFETY: ggml's function takes what the caller passes.
            let reserve = || unsafe { (original.gallocr_reserve)(galloc, graph) };
            // SAFETY: live: see "# Safety".
            unsafe { call_original(call, ggml, galloc, graph, reserve) }
        }
        GraphAllocator::Lastuse(allocator) => {
            let graph = call.required("graph", graph);
            allocator.note_direct_use();
            // SAFETY: live, and used by no other thread: see "# Safety"; there is no `GraphRef` of it.
            let reserved = unsafe { allocator.reserve(graph, None, None) };
            is_done(allocator, reserved)
        }
    })
}

/// Plans `graph`, with a buffer id for each node and leaf, and allocates its buffers. NULL for a list means that all
/// its ids are 0. Returns `false` as [`ggml_gallocr_reserve`] does; aborts if the allocator does not have one of the
/// buffers.
///
/// # Safety
/// `galloc` is a live allocator, and `graph` and its tensors are live; no other thread uses them. Each list is NULL, or
/// holds as many ids as the graph has nodes or leafs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_reserve_n(
    galloc: *mut ggml_gallocr,
    graph: *mut ggml_cgraph,
    node_buffer_ids: *const c_int,
    leaf_buffer_ids: *const c_int,
) -> bool {
    // SAFETY: NULL, or a live allocator of this thread: see "# Safety".
    total("ggml_gallocr_reserve_n", |call| match unsafe { GraphAllocator::of(call, galloc) } {
        GraphAllocator::Original(ggml, original) => {
            // SAFETY: ggml's function takes what the caller passes.
            let reserve = || unsafe { (original.gallocr_reserve_n)(galloc, graph, node_buffer_ids, leaf_buffer_ids) };
            // SAFETY: live: see "# Safety".
            unsafe { call_original(call, ggml, galloc, graph, reserve) }
        }
        GraphAllocator::Lastuse(allocator) => {
            let graph = call.required("graph", graph);
            // SAFETY: a live graph, with NULL or an id for each node and each leaf: see "# Safety".
            let ids = unsafe { ids_of_graph(call, allocator, graph, node_buffer_ids, leaf_buffer_ids) };
            // SAFETY: live, and used by no other thread: see "# Safety".
            if unsafe { question::answer(allocator, graph, &ids) } {
                return true;
            }
            if node_buffer_ids.is_null() {
                allocator.note_direct_use();
            }
            // SAFETY: live, and used by no other thread: see "# Safety"; the `GraphRef` that read the ids is gone.
            let reserved = unsafe { allocator.reserve(graph, ids.nodes, ids.leafs.as_deref()) };
            is_done(allocator, reserved)
        }
    })
}

/// Writes to `sizes`, by buffer id, the bytes that [`ggml_gallocr_reserve_n`] would allocate. Allocates nothing, and
/// leaves the buffers and the plan in use as they are. Aborts where `graph` cannot be planned.
///
/// # Safety
/// `galloc` is a live allocator, and `graph` and its tensors are live; no other thread uses them. Each list is NULL, or
/// holds as many ids as the graph has nodes or leafs. `sizes` has room for a number for each buffer id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_reserve_n_size(
    galloc: *mut ggml_gallocr,
    graph: *mut ggml_cgraph,
    node_buffer_ids: *const c_int,
    leaf_buffer_ids: *const c_int,
    sizes: *mut usize,
) {
    // SAFETY: NULL, or a live allocator of this thread: see "# Safety".
    total("ggml_gallocr_reserve_n_size", |call| match unsafe { GraphAllocator::of(call, galloc) } {
        GraphAllocator::Original(ggml, original) => {
            let function = call.original(original.gallocr_reserve_n_size);
            // SAFETY: ggml's function takes what the caller passes.
            forward_to(ggml, || unsafe { function(galloc, graph, node_buffer_ids, leaf_buffer_ids, sizes) });
        }
        GraphAllocator::Lastuse(allocator) => {
            let (sizes, graph) = (call.required("sizes", sizes), call.required("graph", graph));
            // SAFETY: a live graph, with NULL or an id for each node and each leaf: see "# Safety".
            let ids = unsafe { ids_of_graph(call, allocator, graph, node_buffer_ids, leaf_buffer_ids) };
            if node_buffer_ids.is_null() {
                allocator.note_direct_use();
            }
            // SAFETY: a live graph of this thread: see "# Safety".
            let measured = unsafe { allocator.measure(graph, ids.nodes.as_deref(), ids.leafs.as_deref()) };
            // SAFETY: room for a number for each buffer id: see "# Safety".
            unsafe { write_sizes(call, sizes, measured) };
        }
    });
}

/// Assigns an address to every tensor of `graph`. A graph that differs from the reserved one is planned anew if there
/// is one buffer type; with several, this returns `false`. Returns `false` also when there is not enough memory, and
/// when a result cannot be in the memory that it was redirected to.
///
/// # Safety
/// `galloc` is a live allocator, and `graph` and its tensors are live; no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_alloc_graph(galloc: *mut ggml_gallocr, graph: *mut ggml_cgraph) -> bool {
    // SAFETY: NULL, or a live allocator of this thread: see "# Safety".
    total("ggml_gallocr_alloc_graph", |call| match unsafe { GraphAllocator::of(call, galloc) } {
        GraphAllocator::Original(ggml, original) => {
            // SAFETY: ggml's function takes what the caller passes.
            let allocate = || unsafe { (original.gallocr_alloc_graph)(galloc, graph) };
            // SAFETY: live: see "# Safety".
            unsafe { call_original(call, ggml, galloc, graph, allocate) }
        }
        GraphAllocator::Lastuse(allocator) => {
            let graph = call.required("graph", graph);
            // SAFETY: `graph` and its tensors are live, and no other thread uses them.
            if let Err(violation) = check_not_freed(unsafe { GraphRef::new(graph) }) {
                abort_on_violation(&violation);
            }
            // SAFETY: live, and used by no other thread: see "# Safety"; there is no `GraphRef` of it.
            let allocated = unsafe { allocator.allocate(graph) };
            let is_allocated = is_done(allocator, allocated);
            // SAFETY: a live graph: see "# Safety".
            if is_allocated && let Err(violation) = allocator.verify(unsafe { GraphRef::new(graph) }) {
                abort_on_violation(&violation);
            }
            is_allocated
        }
    })
}

/// Returns the bytes of the buffer with this id; 0 for an id that repeats the buffer type of an earlier one. Aborts if
/// there is no such buffer.
///
/// # Safety
/// `galloc` is a live allocator, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_get_buffer_size(galloc: *mut ggml_gallocr, buffer_id: c_int) -> usize {
    // SAFETY: NULL, or a live allocator of this thread: see "# Safety".
    total("ggml_gallocr_get_buffer_size", |call| match unsafe { GraphAllocator::of(call, galloc) } {
        // SAFETY: ggml's function takes what the caller passes.
        GraphAllocator::Original(_, original) => unsafe { (original.gallocr_get_buffer_size)(galloc, buffer_id) },
        GraphAllocator::Lastuse(allocator) => {
            question::answer_allocator(call.required("galloc", galloc));
            size(allocator.buffer_size(checked_buffer_id(call, allocator, buffer_id)))
        }
    })
}

/// Returns whether ggml lists the operation as one that may write over a source of the same layout; `false` for a
/// number that is no operation.
#[unsafe(no_mangle)]
pub extern "C" fn ggml_op_can_inplace(op: u32) -> bool {
    total("ggml_op_can_inplace", |call| match &call.found(forwarding_to().map_or_else(ggml_of_caller, Ok)).server {
        // SAFETY: ggml's function takes any number.
        Server::Original(original) => original.op_can_inplace.is_some_and(|function| unsafe { function(op) }),
        Server::Lastuse(runtime) => runtime.operations.is_listed(op),
    })
}

/// Reads the buffer ids of `graph`; aborts if the allocator does not have one of the buffers.
///
/// # Safety
/// `graph` is live with its tensors, and no other thread changes them. Each list is NULL, or holds as many ids as the
/// graph has nodes or leafs.
unsafe fn ids_of_graph(
    call: Call,
    allocator: &Allocator,
    graph: NonNull<ggml_cgraph>,
    nodes: *const c_int,
    leafs: *const c_int,
) -> BufferIds {
    // SAFETY: live: see "# Safety".
    let graph = unsafe { GraphRef::new(graph) };
    // A program may pass as many as it has built nodes, of which all have one buffer; a scheduler passes those of all nodes.
    let has_own = allocator.buffer_count() == 1 && allocator.has_changed(graph);
    let nodes = if has_own { std::ptr::null() } else { nodes };
    // SAFETY: NULL, or an id for each node and each leaf: see "# Safety".
    unsafe { BufferIds::read_for(call, allocator, graph, nodes, leafs) }
}

/// Calls a function of ggml's own allocator for a graph. Before it, allocates the tensors that get their memory from
/// their contexts, which ggml's allocator does not know; after it, reports the buffers of `galloc` as events, where
/// enabled.
///
/// # Safety
/// `galloc` is live; `graph` is NULL, or live with its tensors; no other thread uses them.
unsafe fn call_original(
    call: Call,
    ggml: &'static Ggml,
    galloc: *mut ggml_gallocr,
    graph: *mut ggml_cgraph,
    function: impl FnOnce() -> bool,
) -> bool {
    // SAFETY: NULL or live: see "# Safety".
    if !unsafe { realize_contexts(call, graph) } {
        return false;
    }
    let is_done = forward_to(ggml, function);
    if !is_done {
        call.refuse_silently(&"ggml's own allocator does the work, and has returned false");
    }
    let graph = NonNull::new(graph).filter(|_| ggml.runtime().is_some());
    // SAFETY: a live graph of a known layout: see "# Safety".
    let graph = graph.map(|graph| unsafe { GraphRef::new(graph) });
    // SAFETY: a live allocator: see "# Safety".
    unsafe { original_events::report_buffers(ggml, galloc, graph) };
    is_done
}

/// Allocates the tensors of a graph that get their memory from their contexts. `false`, with the last error set and
/// logged, when that fails.
///
/// # Safety
/// `graph` is NULL, or live with its tensors, and no other thread uses them.
unsafe fn realize_contexts(call: Call, graph: *mut ggml_cgraph) -> bool {
    let Some(graph) = NonNull::new(graph).filter(|_| PendingTensors::is_possible()) else { return true };
    // SAFETY: a live graph: see "# Safety"; such contexts exist only where the layout is known.
    let graph = unsafe { GraphRef::new(graph) };
    PendingTensors::in_graph(graph).realize().map_err(|why| call.refuse(&why)).is_ok()
}

/// # Safety
/// `sizes` has room for everything that was measured.
unsafe fn write_sizes(call: Call, sizes: NonNull<usize>, measured: Result<Vec<Bytes>, Refusal>) {
    let measured = measured.unwrap_or_else(|refusal| call.abort(&refusal));
    for (id, bytes) in measured.into_iter().enumerate() {
        // SAFETY: there is room for it: see "# Safety".
        unsafe { sizes.as_ptr().wrapping_add(id).write(size(bytes)) };
    }
}

/// Returns whether the allocator has succeeded. Logs an error in ggml's words, where ggml logs it.
fn is_done(allocator: &Allocator, done: Result<(), Refusal>) -> bool {
    let Err(refusal) = &done else { return true };
    let function = match refusal {
        // ggml logs nothing here: the scheduler expects `false` and reserves.
        Refusal::NeedsReserve => {
            set_last_error("ggml_gallocr_alloc_graph", refusal);
            return false;
        }
        Refusal::Output(_) | Refusal::NoRoom { .. } => "ggml_gallocr",
        Refusal::NoMemory { .. }
        | Refusal::TooLarge { .. }
        | Refusal::ContextFailed { .. }
        | Refusal::NotRealized { .. } => "ggml_gallocr_reserve_n_impl",
        Refusal::InitFailed { .. } | Refusal::ListedTwice => "ggml_gallocr_alloc_graph",
    };
    allocator.runtime().log_error(&format!("{function}: {refusal}\n"));
    set_last_error(function, refusal);
    false
}
