//! `lastuse_sched_*`: the allocators of schedulers, and graphs of programs on a scheduler before it gets them.

use std::ffi::c_char;
use std::ptr::{NonNull, null_mut};

use crate::ggml::{Runtime, ggml_backend_sched, ggml_cgraph, ggml_gallocr, ggml_of_caller, scheduler};
use crate::placement::Bytes;
use crate::report::explain::{DEFAULT_TOP, explanation_text};

use super::arguments::ggml_of_graph;
use super::call::{Call, Failed, call, fail, total};
use super::inspect::write_needs;
use super::process::c_string;
use super::question::{Question, ask};

/// Returns the allocator of a scheduler, for lastuse_gallocr_report, _set and _trim, and for lastuse_tensor_retain and _release.
/// lastuse_steps_new takes sched itself, and schedulers share memory by lastuse_set("arena", ...). Its buffer ids are the positions of
/// the backends in sched. It is freed with sched. Returns NULL if lastuse has not created it.
///
/// # Safety
/// `sched` is live, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_sched_allocator(sched: *mut ggml_backend_sched) -> *mut ggml_gallocr {
    call("lastuse_sched_allocator", |call| {
        let sched = call.required("sched", sched);
        let runtime = call.runtime(ggml_of_caller())?;
        // SAFETY: live, and of this thread: see "# Safety".
        unsafe { allocator_of(call, runtime, sched) }
    })
}

/// # Errors
/// [`Failed`]: it is not one of lastuse, or ggml has no function that calls it.
///
/// # Safety
/// `sched` is live, of this ggml, and no other thread uses it.
unsafe fn allocator_of(
    call: Call,
    runtime: &'static Runtime,
    sched: NonNull<ggml_backend_sched>,
) -> Result<*mut ggml_gallocr, Failed> {
    // SAFETY: live, and of this thread: see "# Safety".
    let asked = ask(Question::Allocator(None), || unsafe { scheduler::call_allocator(runtime, sched) });
    match asked {
        Question::Allocator(Some(galloc)) => Ok(galloc.as_ptr()),
        _ => Err(call.refuse_silently(&"lastuse has not created the allocator of sched")),
    }
}

/// Asks the allocator of a scheduler a question about a graph, with the splits and copies that sched makes.
///
/// # Errors
/// [`Failed`]: lastuse has not created the allocator.
///
/// # Safety
/// `sched` and `graph` with its tensors are live, and no other thread uses them; no graph is allocated in sched.
unsafe fn asked_of_graph(
    call: Call,
    (sched, graph): (*mut ggml_backend_sched, *mut ggml_cgraph),
    question: Question,
) -> Result<Question, Failed> {
    let (sched, graph) = (call.required("sched", sched), call.required("graph", graph));
    // SAFETY: live, and of this thread: see "# Safety".
    let runtime = call.runtime(unsafe { ggml_of_graph(null_mut(), graph) })?;
    // Another allocator would reserve the graph.
    // SAFETY: as above.
    unsafe { allocator_of(call, runtime, sched) }?;
    // SAFETY: as above.
    Ok(ask(question, || unsafe { scheduler::reserve(runtime, sched, graph) }))
}

/// Returns what a scheduler would need for a graph on each backend, with the splits and copies that it makes.
///
/// # Safety
/// `sched` and `graph` with its tensors are live and of this ggml, and no other thread uses them; no graph is allocated in `sched`.
unsafe fn sizes_of(
    runtime: &'static Runtime,
    sched: NonNull<ggml_backend_sched>,
    graph: NonNull<ggml_cgraph>,
) -> Option<Vec<Bytes>> {
    // Another allocator would reserve the graph.
    // SAFETY: live, and used by no other thread, as the caller guarantees.
    let owner = ask(Question::Allocator(None), || unsafe { scheduler::call_allocator(runtime, sched) });
    let Question::Allocator(Some(_)) = owner else { return None };
    // SAFETY: as above.
    let answered = ask(Question::Needs(None), || unsafe { scheduler::reserve(runtime, sched, graph) });
    let Question::Needs(Some(Ok(needs))) = answered else { return None };
    Some(needs.iter().map(|need| need.size).collect())
}

/// Measures a graph as sched would reserve it, copies between backends included: sizes, and lower_bounds unless it is NULL, get the
/// bytes for each of its backends, 0 for a buffer type that an earlier one has. Allocates nothing. Call it before the graph is
/// allocated, for the graph as it is: after lastuse_sched_prepare for what budgets make of it. As ggml_backend_sched_reserve does, it
/// resets sched. Returns false if the graph cannot be planned, or lastuse has not created the allocator of sched.
///
/// # Safety
/// `sched` and `graph` with its tensors are live, and no other thread uses them; no graph is allocated in sched; `sizes` and
/// `lower_bounds` have an entry for each backend, where they are not NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_sched_measure(
    sched: *mut ggml_backend_sched,
    graph: *mut ggml_cgraph,
    sizes: *mut usize,
    lower_bounds: *mut usize,
) -> bool {
    call("lastuse_sched_measure", |call| {
        let sizes = call.required("sizes", sizes);
        // SAFETY: live, and of this thread: see "# Safety".
        let answered = unsafe { asked_of_graph(call, (sched, graph), Question::Needs(None)) }?;
        let Question::Needs(Some(needs)) = answered else { return Err(call.refuse(&UNASKED)) };
        let needs = call.done(needs)?;
        // SAFETY: room for each backend: see "# Safety".
        unsafe { write_needs(&needs, sizes.as_ptr(), lower_bounds) };
        Ok(true)
    })
}

/// Returns a text that explains why a graph needs the memory that it needs, as lastuse_gallocr_explain, with the copies that sched makes
/// between backends. The rules of lastuse_sched_measure apply. The caller frees the string with lastuse_string_free. Returns NULL if the
/// graph cannot be planned, or lastuse has not created the allocator of sched.
///
/// # Safety
/// `sched` and `graph` with its tensors are live, and no other thread uses them; no graph is allocated in sched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_sched_explain(sched: *mut ggml_backend_sched, graph: *mut ggml_cgraph) -> *mut c_char {
    call("lastuse_sched_explain", |call| {
        // SAFETY: live, and of this thread: see "# Safety".
        let answered = unsafe { asked_of_graph(call, (sched, graph), Question::Explanation(None)) }?;
        let Question::Explanation(Some(explained)) = answered else { return Err(call.refuse(&UNASKED)) };
        Ok(c_string(&explanation_text(&*call.done(explained)?, DEFAULT_TOP)))
    })
}

/// Why a question has no answer.
const UNASKED: &str = "this ggml has no ggml_backend_sched_reserve";

/// Returns the graph_size to make a scheduler with (ggml_backend_sched_new), so that it has room for the nodes that
/// lastuse_sched_prepare adds to graphs of graph_size nodes and leafs: graph_size itself if nothing asks for that.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_sched_room(graph_size: usize) -> usize {
    total("lastuse_sched_room", |_| scheduler::room_for(graph_size))
}

/// Changes a graph as LASTUSE_REORDER, LASTUSE_BUDGET and LASTUSE_RECOMPUTE say, and assigns its nodes to the backends that would have
/// computed it. Call it before sched reserves (reserves: true) or allocates the graph, each time, while no graph is allocated in sched;
/// room and op_offload are the arguments that sched was made with. Has no effect on a graph that is allocated, or that was changed
/// before. Returns false if the graph must not be computed. The guard that lastuse run preloads calls it for programs that know
/// nothing of lastuse. docs/tiling.md has what a program may rely on.
///
/// # Safety
/// `sched` and `graph` with its tensors are live, and no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_sched_prepare(
    sched: *mut ggml_backend_sched,
    graph: *mut ggml_cgraph,
    room: usize,
    op_offload: bool,
    reserves: bool,
) -> bool {
    total("lastuse_sched_prepare", |call| {
        let (sched, graph) = (call.required("sched", sched), call.required("graph", graph));
        // SAFETY: live, and of this thread: see "# Safety".
        let Ok(ggml) = (unsafe { ggml_of_graph(null_mut(), graph) }) else { return true };
        let Some(runtime) = ggml.served() else { return true };
        let reports = (reserves, ggml.events.is_some());
        // SAFETY: `prepare` measures its own scheduler, in which no graph is allocated, and this graph: see "# Safety".
        let mut measure = |asked, graph| unsafe { sizes_of(runtime, asked, graph) };
        // SAFETY: live, and of this thread: see "# Safety".
        let prepared = unsafe { scheduler::prepare(runtime, sched, graph, (room, op_offload), reports, &mut measure) };
        prepared.inspect_err(|why| fail(call.name, why)).is_ok()
    })
}

/// Gives a graph that lastuse_sched_prepare has tiled back as the program has built it. Call it after the graph was reserved, and not
/// if it is allocated.
///
/// # Safety
/// `graph` with its tensors is live, and no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_sched_restore(graph: *mut ggml_cgraph) {
    total("lastuse_sched_restore", |call| {
        let graph = call.required("graph", graph);
        // SAFETY: live, and of this thread: see "# Safety".
        let ggml = unsafe { ggml_of_graph(null_mut(), graph) };
        // Only graphs of a known layout can be read, and have been tiled.
        if ggml.is_ok_and(|ggml| ggml.served().is_some()) {
            // SAFETY: as above.
            unsafe { scheduler::restore(graph) };
        }
    });
}

/// Forgets a scheduler. Call it before ggml_backend_sched_free. Does nothing for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_sched_forget(sched: *mut ggml_backend_sched) {
    total("lastuse_sched_forget", |_| NonNull::new(sched).into_iter().for_each(scheduler::forget));
}
