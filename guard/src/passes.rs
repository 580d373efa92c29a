//! The passes over graphs of schedulers: with `LASTUSE_BUDGET`, `LASTUSE_RECOMPUTE` or `LASTUSE_REORDER`, lastuse changes a graph
//! before its scheduler copies it, and schedulers are made with room for what is added.

use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::run::Call;
use crate::wrapped::{of_ggml, of_lastuse_if_there};

/// The environment variables, which lastuse reads too.
const VARIABLES: [&CStr; 3] = [c"LASTUSE_BUDGET", c"LASTUSE_RECOMPUTE", c"LASTUSE_REORDER"];

type Reset = unsafe extern "C" fn(*mut c_void);
type Allocate = unsafe extern "C" fn(*mut c_void, *mut c_void) -> bool;
type New = unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, usize, bool, u8) -> *mut c_void;

/// The functions of lastuse that change graphs.
struct Passes {
    room: extern "C" fn(usize) -> usize,
    prepare: unsafe extern "C" fn(*mut c_void, *mut c_void, usize, bool, bool) -> bool,
    restore: unsafe extern "C" fn(*mut c_void),
    forget: extern "C" fn(*mut c_void),
}

/// A scheduler that was made with room for added nodes.
#[derive(Clone, Copy)]
struct Scheduler {
    /// The nodes and leafs that it was made for.
    room: usize,
    /// Whether it moves operations to devices.
    offloads: bool,
    /// Whether it has several backends.
    has_several: bool,
    /// Whether the program looks at its nodes: such programs know which ones to expect.
    is_watched: bool,
    /// Whether it has allocated a graph since it was reset.
    is_allocated: bool,
}

/// By address.
static SCHEDULERS: Mutex<Option<HashMap<usize, Scheduler>>> = Mutex::new(None);

/// Returns the functions if the environment asks for a pass. Errors in the values are left to lastuse, which reports them.
fn asked() -> Option<&'static Passes> {
    static FOUND: OnceLock<Option<Passes>> = OnceLock::new();
    let find = || {
        if !VARIABLES.iter().any(|name| is_on(name)) {
            return None;
        }
        Some(Passes {
            // SAFETY: its type in lastuse.h.
            room: unsafe { of_lastuse_if_there(c"lastuse_sched_room") }?,
            // SAFETY: its type in lastuse.h.
            prepare: unsafe { of_lastuse_if_there(c"lastuse_sched_prepare") }?,
            // SAFETY: its type in lastuse.h.
            restore: unsafe { of_lastuse_if_there(c"lastuse_sched_restore") }?,
            // SAFETY: its type in lastuse.h.
            forget: unsafe { of_lastuse_if_there(c"lastuse_sched_forget") }?,
        })
    };
    FOUND.get_or_init(find).as_ref()
}

/// Returns whether a variable has a value that does not mean off.
pub fn is_on(variable: &CStr) -> bool {
    // SAFETY: the name ends in NUL.
    let words = unsafe { libc::getenv(variable.as_ptr()) };
    if words.is_null() {
        return false;
    }
    // SAFETY: a string of the environment.
    let words = unsafe { CStr::from_ptr(words) }.to_string_lossy();
    !["", "off", "0", "false", "no"].iter().any(|word| words.trim().eq_ignore_ascii_case(word))
}

fn schedulers<T>(act: impl FnOnce(&mut HashMap<usize, Scheduler>) -> T) -> T {
    act(SCHEDULERS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(HashMap::new))
}

/// Notes whether the program has a callback for the nodes of a scheduler.
pub fn note_callback(scheduler: *mut c_void, is_watched: bool) {
    note(scheduler, |known| known.is_watched = is_watched);
}

/// Notes whether a scheduler has allocated a graph.
pub fn note_allocated(scheduler: *mut c_void, is_allocated: bool) {
    note(scheduler, |known| known.is_allocated = is_allocated);
}

fn note(scheduler: *mut c_void, change: impl FnOnce(&mut Scheduler)) {
    if asked().is_some() {
        schedulers(|all| all.get_mut(&scheduler.addr()).map(change));
    }
}

/// Has lastuse change a graph before the program has a scheduler reserve it, if it `reserves`, or else allocate it. Returns false if
/// it must not be computed.
///
/// # Safety
/// `scheduler` and `graph` are live, and no other thread uses them.
pub unsafe fn prepare(scheduler: *mut c_void, graph: *mut c_void, reserves: bool) -> bool {
    let Some(passes) = asked().filter(|_| !Call::is_inside()) else { return true };
    let Some(Scheduler { room, offloads, .. }) = changing(scheduler) else { return true };
    let _call = Call::enter();
    // SAFETY: live, and used by no other thread, as the caller guarantees.
    unsafe { (passes.prepare)(scheduler, graph, room, offloads, reserves) }
}

/// Returns `true` if a scheduler has several backends: it forgets which ones its nodes are assigned to when it is reset.
pub fn has_several(scheduler: *mut c_void) -> bool {
    asked().is_some() && schedulers(|all| all.get(&scheduler.addr()).is_some_and(|known| known.has_several))
}

/// Returns a scheduler whose graphs are changed.
fn changing(scheduler: *mut c_void) -> Option<Scheduler> {
    schedulers(|all| all.get(&scheduler.addr()).copied()).filter(|known| !known.is_watched)
}

/// Has lastuse change a graph that the program has a scheduler compute, unless it has allocated one, and allocates it as ggml would:
/// first, a scheduler is reset, and forgets which backends its nodes are assigned to. Returns false if it cannot be computed.
///
/// # Safety
/// `scheduler` and `graph` are live, and no other thread uses them.
pub unsafe fn allocate_to_compute(scheduler: *mut c_void, graph: *mut c_void) -> bool {
    let is_asked = asked().is_some() && !Call::is_inside();
    if !is_asked || changing(scheduler).is_none_or(|known| known.is_allocated) {
        return true;
    }
    // SAFETY: its type in ggml-backend.h.
    let reset: Reset = unsafe { of_ggml(c"ggml_backend_sched_reset") };
    // SAFETY: its type in ggml-backend.h.
    let allocate: Allocate = unsafe { of_ggml(c"ggml_backend_sched_alloc_graph") };
    let call = Call::enter();
    // SAFETY: live, and used by no other thread, as the caller guarantees.
    unsafe { reset(scheduler) };
    drop(call);
    // SAFETY: as above.
    let is_prepared = unsafe { prepare(scheduler, graph, false) };
    let call = Call::enter();
    // SAFETY: as above.
    let is_allocated = is_prepared && unsafe { allocate(scheduler, graph) };
    note_allocated(scheduler, is_allocated);
    drop(call);
    if is_prepared && !is_allocated {
        // SAFETY: as above.
        unsafe { restore(graph) };
    }
    is_allocated
}

/// Has lastuse give a graph back as it was, after it was reserved.
///
/// # Safety
/// `graph` is live, and no other thread uses it.
pub unsafe fn restore(graph: *mut c_void) {
    if let Some(passes) = asked().filter(|_| !Call::is_inside()) {
        // SAFETY: live, and used by no other thread, as the caller guarantees.
        unsafe { (passes.restore)(graph) };
    }
}

/// Forgets a scheduler that is being freed.
pub fn forget(scheduler: *mut c_void) {
    if let Some(passes) = asked() {
        schedulers(|all| all.remove(&scheduler.addr()));
        (passes.forget)(scheduler);
    }
}

/// Wraps ggml's function: gives the scheduler room for what passes add to its graphs. Earlier versions of ggml do not read the last
/// argument, so it may be any number.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_new(
    backends: *mut c_void,
    types: *mut c_void,
    count: c_int,
    graph_size: usize,
    is_parallel: bool,
    offloads: u8,
) -> *mut c_void {
    let asked = asked().filter(|_| !Call::is_inside());
    let room = asked.map_or(graph_size, |passes| (passes.room)(graph_size));
    // SAFETY: its type in ggml-backend.h.
    let new: New = unsafe { of_ggml(c"ggml_backend_sched_new") };
    // SAFETY: the caller's arguments, forwarded, with more room.
    let made = unsafe { new(backends, types, count, room, is_parallel, offloads) };
    if asked.is_some() {
        schedulers(|all| {
            all.insert(
                made.addr(),
                Scheduler {
                    room,
                    offloads: offloads != 0,
                    has_several: count > 1,
                    is_watched: false,
                    is_allocated: false,
                },
            )
        });
    }
    made
}
