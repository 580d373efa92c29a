//! The functions of ggml's schedulers from which a graph's turn is known. With `LASTUSE_ARENA` schedulers share memory: lastuse is
//! told whose turn it is, so that what another one computes has ended before that memory is written.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::functions::Functions;
use crate::passes::{has_several, is_on, note_allocated, prepare, restore};
use crate::run::Call;
use crate::wrapped::{c_name, of_ggml, of_lastuse_if_there};

/// The environment variable, which lastuse reads too.
const ARENA: &CStr = c"LASTUSE_ARENA";

type Synchronize = unsafe extern "C" fn(*mut c_void);
type Turn = unsafe extern "C" fn(*mut c_void, Option<Synchronize>);
type Allocate = unsafe extern "C" fn(*mut c_void, *mut c_void) -> bool;
type Reset = unsafe extern "C" fn(*mut c_void);

/// Returns the function of lastuse that is told, if the environment has schedulers share memory. Errors in the value are left to
/// lastuse, which reports them.
fn told() -> Option<Turn> {
    static FOUND: OnceLock<Option<Turn>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: its type in lastuse.h.
        is_on(ARENA).then(|| unsafe { of_lastuse_if_there(c"lastuse_arena_turn") }).flatten()
    })
}

/// Calls lastuse, unless ggml has called a wrapped function itself, or nothing is shared. What backends do meanwhile is not told.
fn tell(scheduler: *mut c_void, synchronize: impl FnOnce() -> Option<Synchronize>) {
    if let Some(told) = told().filter(|_| !Call::is_inside()) {
        let synchronize = synchronize();
        let _call = Call::enter();
        // SAFETY: null, or a live scheduler of the ggml that has the function: see the callers.
        unsafe { told(scheduler, synchronize) };
    }
}

/// Tells lastuse that the program goes on with a scheduler, before it has it do something.
///
/// # Safety
/// `scheduler` is live, and no other thread uses it.
pub unsafe fn begin_turn(scheduler: *mut c_void) {
    tell(scheduler, || Some(Functions::of_caller().sched_synchronize));
}

/// Tells lastuse that a scheduler is about to be freed, perhaps after its backends.
///
/// # Safety
/// `scheduler` is live, and no other thread uses it.
pub unsafe fn end_turn(scheduler: *mut c_void) {
    if !scheduler.is_null() {
        tell(scheduler, || None);
    }
}

/// Tells lastuse that the program writes a tensor: what is computed ends before.
pub fn wait_for_turn() {
    tell(null_mut(), || None);
}

/// Wraps functions of ggml's schedulers that reserve a graph: tells lastuse of the turn before, and has it change the graph meanwhile.
/// A graph that cannot be changed is reserved as it is, and so is one of several backends in a function that first resets the scheduler.
macro_rules! wrap {
    ($($name:ident($graph:ident $(, $argument:ident: $type:ty)*) -> $result:ty, $resets:literal;)+) => {
        $(
            /// Wraps ggml's function.
            ///
            /// # Safety
            /// The requirements of ggml's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(scheduler: *mut c_void, $graph: *mut c_void $(, $argument: $type)*) -> $result {
                const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
                // SAFETY: a live scheduler that no other thread uses, as ggml's function requires.
                unsafe { begin_turn(scheduler) };
                if !($resets && has_several(scheduler)) {
                    // SAFETY: live, and used by no other thread, as ggml's function requires.
                    unsafe { prepare(scheduler, $graph, true) };
                }
                // SAFETY: its type in ggml-backend.h.
                let function: unsafe extern "C" fn(*mut c_void, *mut c_void $(, $type)*) -> $result = unsafe { of_ggml(NAME) };
                let (call, is_outermost) = Call::enter();
                // SAFETY: the caller's arguments, forwarded.
                let result = unsafe { function(scheduler, $graph $(, $argument)*) };
                drop(call);
                if is_outermost {
                    // It was reset.
                    note_allocated(scheduler, false);
                    // SAFETY: as above.
                    unsafe { restore($graph) };
                }
                result
            }
        )+
    };
}

/// The scheduler that has allocated a graph, if no graph has been computed since; 0 otherwise.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

/// Notes that a graph is computed, by any backend or scheduler.
pub fn note_run() {
    ALLOCATED.store(0, Ordering::Relaxed);
}

/// Wraps ggml's function: a scheduler has a graph that is not computed yet.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_alloc_graph(scheduler: *mut c_void, graph: *mut c_void) -> bool {
    // SAFETY: a live scheduler that no other thread uses, as ggml's function requires.
    unsafe { begin_turn(scheduler) };
    // SAFETY: live, and used by no other thread, as ggml's function requires.
    if !unsafe { prepare(scheduler, graph, false) } {
        return false;
    }
    let (call, is_outermost) = Call::enter();
    // SAFETY: its type in ggml-backend.h.
    let function: Allocate = unsafe { of_ggml(c"ggml_backend_sched_alloc_graph") };
    // SAFETY: the caller's arguments, forwarded.
    let is_allocated = unsafe { function(scheduler, graph) };
    drop(call);
    if is_outermost && !is_allocated {
        // SAFETY: live, and used by no other thread, as ggml's function requires.
        unsafe { restore(graph) };
    }
    if is_outermost {
        note_allocated(scheduler, is_allocated);
        ALLOCATED.store(if is_allocated { scheduler.addr() } else { 0 }, Ordering::Relaxed);
    }
    is_allocated
}

/// Wraps ggml's function: tells lastuse if the graph was never computed.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_reset(scheduler: *mut c_void) {
    let is_inside = Call::is_inside();
    let _call = Call::enter();
    // SAFETY: its type in ggml-backend.h.
    let function: Reset = unsafe { of_ggml(c"ggml_backend_sched_reset") };
    // SAFETY: the caller's arguments, forwarded.
    unsafe { function(scheduler) };
    if !is_inside {
        note_allocated(scheduler, false);
    }
    let is_discarded = !is_inside && !scheduler.is_null() && ALLOCATED.swap(0, Ordering::Relaxed) == scheduler.addr();
    // SAFETY: its type in lastuse.h.
    let discard: Option<Reset> =
        told().filter(|_| is_discarded).and_then(|_| unsafe { of_lastuse_if_there(c"lastuse_arena_discard") });
    if let Some(discard) = discard {
        // SAFETY: a live scheduler that no other thread uses, as ggml's function requires, and whose tensors dangle now.
        unsafe { discard(scheduler) };
    }
}

wrap! {
    ggml_backend_sched_reserve(graph) -> bool, false;
    ggml_backend_sched_reserve_size(graph, sizes: *mut usize) -> (), true;
}
