//! Whose turn it is on each thread: the scheduler whose graphs the backends may still compute. Before another one's graphs write
//! to memory that both use, these have ended.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ggml::bindings::ggml_backend_sched;
use crate::ggml::live::lock::Lock;

/// A function that waits until backends have computed the graphs of a scheduler: `ggml_backend_sched_synchronize`.
pub type Synchronize = unsafe extern "C" fn(*mut ggml_backend_sched);

/// The turn of a scheduler on a thread.
#[derive(Debug)]
struct Turn {
    thread: u64,
    scheduler: SchedulerId,
    synchronize: Synchronize,
}

impl Turn {
    /// Waits until backends have computed its graphs.
    fn wait(&self) {
        // SAFETY: a live scheduler and its function, which any thread may call: see `begin`.
        unsafe { (self.synchronize)(std::ptr::with_exposed_provenance_mut(self.scheduler.0)) };
    }
}

/// A scheduler, by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerId(usize);

static TURNS: Lock<Vec<Turn>> = Lock::new(Vec::new());

/// Returns the number of the calling thread, which no other has had. Works to the very end of a thread.
pub fn this_thread() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local! { static OWN: Cell<u64> = const { Cell::new(0) } }
    if OWN.get() == 0 {
        OWN.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    OWN.get()
}

/// Begins the turn of a scheduler on the calling thread; waits for the one before it, and for its own on another thread.
///
/// # Safety
/// `scheduler` is live until its turn has ended, and `synchronize` may be called with it from any thread.
pub unsafe fn begin(scheduler: NonNull<ggml_backend_sched>, synchronize: Synchronize) {
    let (thread, scheduler) = (this_thread(), SchedulerId(scheduler.as_ptr().expose_provenance()));
    let mut turns = TURNS.lock();
    if !turns.iter().any(|turn| turn.thread == thread && turn.scheduler == scheduler) {
        end_where(&mut turns, |turn| turn.thread == thread || turn.scheduler == scheduler);
        turns.push(Turn { thread, scheduler, synchronize });
    }
}

/// Ends the turn on the calling thread, if there is one: waits until backends have computed its graphs.
pub fn end() {
    let thread = this_thread();
    end_where(&mut TURNS.lock(), |turn| turn.thread == thread);
}

/// Waits until backends have computed the graphs of the turn on the calling thread, which goes on.
pub fn wait() {
    let thread = this_thread();
    TURNS.lock().iter().filter(|turn| turn.thread == thread).for_each(Turn::wait);
}

fn end_where(turns: &mut Vec<Turn>, is_ended: impl Fn(&Turn) -> bool) {
    turns.extract_if(.., |turn| is_ended(turn)).for_each(|turn| turn.wait());
}

/// Returns the scheduler whose turn it is on the calling thread.
pub fn current() -> Option<SchedulerId> {
    let thread = this_thread();
    TURNS.lock().iter().find(|turn| turn.thread == thread).map(|turn| turn.scheduler)
}

/// Drops the turn of a scheduler that is being freed, on any thread.
pub fn forget(scheduler: SchedulerId) {
    TURNS.lock().retain(|turn| turn.scheduler != scheduler);
}
