//! Whose turn it is on each thread: the scheduler whose graphs the backends may still compute. Before another one's graphs write
//! to memory that both use, these have ended.

use std::ptr::NonNull;

use crate::ggml::bindings::ggml_backend_sched;
use crate::ggml::live::lock::{Lock, this_thread};

/// A function that waits until backends have computed the graphs of a scheduler: `ggml_backend_sched_synchronize`.
pub type Synchronize = unsafe extern "C" fn(*mut ggml_backend_sched);

/// The turn of a scheduler on a thread.
#[derive(Clone, Copy, Debug)]
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

impl SchedulerId {
    fn of(scheduler: NonNull<ggml_backend_sched>) -> Self {
        Self(scheduler.as_ptr().expose_provenance())
    }
}

/// Whose turn it is, and which schedulers have an allocator in an arena.
#[derive(Debug)]
struct Turns {
    all: Vec<Turn>,
    /// With the addresses of the allocators.
    joined: Vec<(SchedulerId, usize)>,
}

/// Not held while backends compute: they may write tensors meanwhile, also on other threads.
static TURNS: Lock<Turns> = Lock::new(Turns { all: Vec::new(), joined: Vec::new() });

/// Begins the turn of a scheduler on the calling thread; waits for the one before it, and for its own on another thread.
///
/// # Safety
/// `scheduler` is live until its turn has ended, and `synchronize` may be called with it from any thread.
pub unsafe fn begin(scheduler: NonNull<ggml_backend_sched>, synchronize: Synchronize) {
    let (thread, scheduler) = (this_thread(), SchedulerId::of(scheduler));
    let mut turns = TURNS.lock();
    if turns.all.iter().any(|turn| turn.thread == thread && turn.scheduler == scheduler) {
        return;
    }
    let is_before = |turn: &mut Turn| turn.thread == thread || turn.scheduler == scheduler;
    let before: Vec<Turn> = turns.all.extract_if(.., is_before).collect();
    turns.all.push(Turn { thread, scheduler, synchronize });
    drop(turns);
    before.iter().for_each(Turn::wait);
}

/// Ends the turn of a scheduler that is about to be freed, on any thread. Waits for nothing: programs free backends before it, too.
pub fn end(scheduler: NonNull<ggml_backend_sched>) {
    let scheduler = SchedulerId::of(scheduler);
    TURNS.lock().all.retain(|turn| turn.scheduler != scheduler);
}

/// Waits until backends have computed the graphs of the turn on the calling thread, which goes on.
pub fn wait() {
    let thread = this_thread();
    let current = TURNS.lock().all.iter().find(|turn| turn.thread == thread).copied();
    current.iter().for_each(Turn::wait);
}

/// Has the allocator at an address, of the scheduler whose turn it is on the calling thread, join an arena. Returns the scheduler;
/// `None` if no turn was told, or the one of another allocator's scheduler.
pub fn join(allocator: usize) -> Option<SchedulerId> {
    let thread = this_thread();
    let mut turns = TURNS.lock();
    let current = turns.all.iter().find(|turn| turn.thread == thread)?.scheduler;
    let is_new = !turns.joined.iter().any(|(joined, _)| *joined == current);
    is_new.then(|| {
        turns.joined.push((current, allocator));
        current
    })
}

/// Returns the address of the allocator of a scheduler that has joined an arena.
pub fn allocator_of(scheduler: NonNull<ggml_backend_sched>) -> Option<usize> {
    let scheduler = SchedulerId::of(scheduler);
    TURNS.lock().joined.iter().find(|(joined, _)| *joined == scheduler).map(|(_, allocator)| *allocator)
}

/// Forgets a scheduler whose allocator is being freed.
pub fn forget(scheduler: SchedulerId) {
    let mut turns = TURNS.lock();
    turns.all.retain(|turn| turn.scheduler != scheduler);
    turns.joined.retain(|(joined, _)| *joined != scheduler);
}
