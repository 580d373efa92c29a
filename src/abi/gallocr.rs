//! `ggml_gallocr_*`: what a graph allocator does; and `ggml_op_can_inplace`.

use std::ffi::c_int;
use std::fmt::Display;
use std::ptr::NonNull;

use crate::ggml::{
    Allocator, Ggml, GraphRef, Refusal, Server, Waiting, abort, ggml_of_caller, hand_to, handed_to, original_events,
};
use crate::ggml::{ggml_cgraph, ggml_gallocr};
use crate::placement::Bytes;

use super::ids::{Ids, checked_id};
use super::whose::{Whose, usable, whose};
use super::{end_on, guard, refuse, required};

/// Plans `graph` and gets a buffer for it. False when there is not enough memory, and when a result cannot be in the memory
/// that it was redirected to.
///
/// # Safety
/// `galloc` is alive, and so are `graph` and its tensors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_reserve(galloc: *mut ggml_gallocr, graph: *mut ggml_cgraph) -> bool {
    const NAME: &str = "ggml_gallocr_reserve";
    // SAFETY: the caller's promise.
    guard(|| match unsafe { whose(NAME, galloc) } {
        // SAFETY: the caller's promise.
        Whose::Ggmls(..) if !unsafe { realize(NAME, graph) } => false,
        Whose::Ggmls(ggml, original) => {
            // SAFETY: the caller's arguments, handed on.
            let done = hand_to(ggml, || unsafe { (original.gallocr_reserve)(galloc, graph) });
            // SAFETY: the caller's promise.
            unsafe { tell_buffers(ggml, galloc, graph) };
            done
        }
        Whose::Ours(allocator) => {
            // SAFETY: the caller's promise.
            let graph = unsafe { live(NAME, graph) };
            let done = allocator.reserve(graph, None, None);
            answer(allocator, done)
        }
    })
}

/// The same with a buffer type for each node and leaf; NULL means the first for all.
///
/// # Safety
/// As [`ggml_gallocr_reserve`]; the ids are as many as the graph has nodes and leafs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_reserve_n(
    galloc: *mut ggml_gallocr,
    graph: *mut ggml_cgraph,
    node_buffer_ids: *const c_int,
    leaf_buffer_ids: *const c_int,
) -> bool {
    const NAME: &str = "ggml_gallocr_reserve_n";
    // SAFETY: the caller's promise.
    guard(|| match unsafe { whose(NAME, galloc) } {
        // SAFETY: the caller's promise.
        Whose::Ggmls(..) if !unsafe { realize(NAME, graph) } => false,
        Whose::Ggmls(ggml, original) => {
            // SAFETY: the caller's arguments, handed on.
            let done = hand_to(ggml, || unsafe {
                (original.gallocr_reserve_n)(galloc, graph, node_buffer_ids, leaf_buffer_ids)
            });
            // SAFETY: the caller's promise.
            unsafe { tell_buffers(ggml, galloc, graph) };
            done
        }
        Whose::Ours(allocator) => {
            // SAFETY: the caller's promise.
            let graph = unsafe { live(NAME, graph) };
            // SAFETY: as many ids as nodes and leafs.
            let ids = unsafe { ids(NAME, allocator, graph, node_buffer_ids, leaf_buffer_ids) };
            let done = allocator.reserve(graph, ids.nodes.as_deref(), ids.leafs.as_deref());
            answer(allocator, done)
        }
    })
}

/// Writes the bytes that [`ggml_gallocr_reserve_n`] would take, by buffer id; allocates nothing, and leaves the buffers
/// and the plan in use as they are.
///
/// # Safety
/// As [`ggml_gallocr_reserve_n`]; `sizes` has room for as many numbers as the allocator has buffer types.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_reserve_n_size(
    galloc: *mut ggml_gallocr,
    graph: *mut ggml_cgraph,
    node_buffer_ids: *const c_int,
    leaf_buffer_ids: *const c_int,
    sizes: *mut usize,
) {
    const NAME: &str = "ggml_gallocr_reserve_n_size";
    // SAFETY: the caller's promise.
    guard(|| match unsafe { whose(NAME, galloc) } {
        Whose::Ggmls(ggml, original) => match original.gallocr_reserve_n_size {
            Some(function) => {
                // SAFETY: the caller's arguments, handed on.
                hand_to(ggml, || unsafe { function(galloc, graph, node_buffer_ids, leaf_buffer_ids, sizes) })
            }
            None => abort(file!(), line!(), &format!("{NAME}: this ggml has no such function")),
        },
        Whose::Ours(allocator) => {
            let sizes = required(sizes, NAME, "sizes");
            // SAFETY: the caller's promise.
            let graph = unsafe { live(NAME, graph) };
            // SAFETY: as many ids as nodes and leafs.
            let ids = unsafe { ids(NAME, allocator, graph, node_buffer_ids, leaf_buffer_ids) };
            let measured = allocator.measure(graph, ids.nodes.as_deref(), ids.leafs.as_deref());
            // SAFETY: room for one number an id.
            unsafe { write_sizes(NAME, sizes, measured) };
        }
    });
}

/// Gives every tensor of `graph` its memory. A graph that differs from the reserved one is planned anew when there is
/// one buffer type; with several the answer is false, and so it is when there is not enough memory, and when a result
/// cannot be in the memory that it was redirected to.
///
/// # Safety
/// As [`ggml_gallocr_reserve`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_alloc_graph(galloc: *mut ggml_gallocr, graph: *mut ggml_cgraph) -> bool {
    const NAME: &str = "ggml_gallocr_alloc_graph";
    // SAFETY: the caller's promise.
    guard(|| match unsafe { whose(NAME, galloc) } {
        // SAFETY: the caller's promise.
        Whose::Ggmls(..) if !unsafe { realize(NAME, graph) } => false,
        Whose::Ggmls(ggml, original) => {
            // SAFETY: the caller's arguments, handed on.
            let done = hand_to(ggml, || unsafe { (original.gallocr_alloc_graph)(galloc, graph) });
            // SAFETY: the caller's promise.
            unsafe { tell_buffers(ggml, galloc, graph) };
            done
        }
        Whose::Ours(allocator) => {
            // SAFETY: the caller's promise.
            let graph = unsafe { live(NAME, graph) };
            let done = allocator.allocate(graph);
            let is_done = answer(allocator, done);
            if is_done && let Err(violation) = allocator.verify(graph) {
                end_on(&violation);
            }
            is_done
        }
    })
}

/// Bytes of the buffer with this id; 0 for an id that repeats the buffer type of an earlier one.
///
/// # Safety
/// `galloc` is alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_get_buffer_size(galloc: *mut ggml_gallocr, buffer_id: c_int) -> usize {
    const NAME: &str = "ggml_gallocr_get_buffer_size";
    // SAFETY: the caller's promise.
    guard(|| match unsafe { whose(NAME, galloc) } {
        // SAFETY: the caller's arguments, handed on.
        Whose::Ggmls(_, original) => unsafe { (original.gallocr_get_buffer_size)(galloc, buffer_id) },
        Whose::Ours(allocator) => {
            let id = buffer(NAME, allocator, buffer_id);
            usize::try_from(allocator.buffer_size(id)).unwrap_or(usize::MAX)
        }
    })
}

/// May the operation write over a source of the same layout? False for numbers that are no operation.
///
/// # Safety
/// Takes any number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_op_can_inplace(op: u32) -> bool {
    guard(|| match &usable(handed_to().map_or_else(ggml_of_caller, Ok)).server {
        // SAFETY: takes any number.
        Server::Original(original) => original.op_can_inplace.is_some_and(|function| unsafe { function(op) }),
        Server::Lastuse(runtime) => runtime.operations.is_listed(op),
    })
}

/// # Safety
/// `graph` is NULL, or alive for `'g`.
unsafe fn live<'g>(function: &str, graph: *mut ggml_cgraph) -> GraphRef<'g> {
    let graph = required(graph, function, "graph");
    // SAFETY: a live graph.
    unsafe { GraphRef::new(graph) }
}

/// Gives memory to the tensors that get theirs from their contexts, where ggml's own allocator serves, which knows
/// nothing of such contexts. False, and a line in ggml's log, when they cannot have it.
///
/// # Safety
/// `graph` is null, or alive with its tensors.
unsafe fn realize(function: &str, graph: *mut ggml_cgraph) -> bool {
    let Some(graph) = NonNull::new(graph).filter(|_| Waiting::is_possible()) else { return true };
    // SAFETY: a live graph; there are such contexts only where the layout is known.
    let graph = unsafe { GraphRef::new(graph) };
    Waiting::in_graph(graph).realize().inspect_err(|why| refuse(function, why)).is_ok()
}

/// Tells of the buffers of ggml's own allocator, where somebody wants to know and they have changed.
///
/// # Safety
/// `galloc` and `graph` are alive.
unsafe fn tell_buffers(ggml: &'static Ggml, galloc: *mut ggml_gallocr, graph: *mut ggml_cgraph) {
    let graph = NonNull::new(graph).filter(|_| ggml.known().is_some());
    // SAFETY: a live graph of a known layout.
    let graph = graph.map(|graph| unsafe { GraphRef::new(graph) });
    // SAFETY: a live allocator.
    unsafe { original_events::used(ggml, galloc, graph) };
}

/// A buffer id, which the allocator must have.
pub fn buffer(function: &str, allocator: &Allocator, id: c_int) -> usize {
    let count = allocator.buffer_count();
    checked_id(id, count).unwrap_or_else(|| abort_on_id(function, &format!("buffer_id is {id}"), count))
}

/// # Safety
/// `sizes` has room for all that was measured.
unsafe fn write_sizes(function: &str, sizes: NonNull<usize>, measured: Result<Vec<Bytes>, Refusal>) {
    let measured = measured.unwrap_or_else(|refusal| abort(file!(), line!(), &format!("{function}: {refusal}")));
    for (id, size) in measured.into_iter().enumerate() {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        // SAFETY: the caller's promise.
        unsafe { sizes.as_ptr().wrapping_add(id).write(size) };
    }
}

/// The ids, each of which the allocator must have; aborts with the name of the argument otherwise.
///
/// # Safety
/// Each list is NULL, or holds as many ids as `graph` has nodes or leafs.
unsafe fn ids(
    function: &str,
    allocator: &Allocator,
    graph: GraphRef<'_>,
    nodes: *const c_int,
    leafs: *const c_int,
) -> Ids {
    let count = allocator.buffer_count();
    // SAFETY: the caller's promise.
    let ids = unsafe { Ids::read(graph, nodes, leafs, count) };
    ids.unwrap_or_else(|bad| abort_on_id(function, &bad, count))
}

fn abort_on_id(function: &str, bad: &dyn Display, count: usize) -> ! {
    abort(file!(), line!(), &format!("{function}: {bad}, and the allocator has {count} buffers"))
}

/// True, or false and a line in ggml's log, in ggml's words where it has words for it.
fn answer(allocator: &Allocator, done: Result<(), Refusal>) -> bool {
    let function = match &done {
        Ok(()) => return true,
        // ggml logs nothing here: the scheduler relies on the answer and reserves.
        Err(Refusal::NeedsReserve) => return false,
        Err(Refusal::Output(broken)) => {
            refuse("ggml_gallocr", broken);
            return false;
        }
        Err(Refusal::NoMemory { .. } | Refusal::NotRealized { .. }) => "ggml_gallocr_reserve_n_impl",
        Err(Refusal::InitFailed { .. } | Refusal::ListedTwice) => "ggml_gallocr_alloc_graph",
    };
    if let Err(refusal) = done {
        allocator.runtime().log_error(&format!("{function}: {refusal}\n"));
    }
    false
}
