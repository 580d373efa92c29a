//! `lastuse_arena_*`: memory that allocators share which never compute at the same time.

use std::ptr::NonNull;

use crate::ggml::{
    Allocator, Arena, BufferType, ggml_backend_buffer_type, ggml_backend_sched, ggml_gallocr, ggml_of_type, turns,
};

use super::call::{call, total};
use super::handle::{Handle, into_handle};

/// Memory of one buffer type that allocators share: made by lastuse_arena_new.
// Without repr(C): the header then declares a struct that is never defined, and C has no arrays of length 0.
#[derive(Debug)]
pub struct lastuse_arena([u8; 0]);

impl Handle for lastuse_arena {
    type Object = (Arena, BufferType);
    const ARGUMENT: &'static str = "arena";
}

/// Creates an arena without memory, which the caller frees with lastuse_arena_free. For another buffer type than the CPU's own,
/// a program calls lastuse_arena_turn, or waits itself until all graphs of one allocator have been computed before another one
/// of the arena is used.
///
/// # Safety
/// `buft` is a buffer type that outlives the arena.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_arena_new(buft: *mut ggml_backend_buffer_type) -> *mut lastuse_arena {
    call("lastuse_arena_new", |call| {
        let buft = call.required("buft", buft);
        // SAFETY: live: see "# Safety".
        let runtime = call.served(unsafe { ggml_of_type(buft.as_ptr()) })?;
        // SAFETY: live, and of this ggml: see "# Safety".
        let buffer_type = unsafe { BufferType::new(runtime, buft) };
        Ok(into_handle((Arena::new(), buffer_type)))
    })
}

/// Has an allocator take its memory from an arena, which it shares with the other allocators that the same thread uses; NULL for
/// arena ends that. All of its graphs must be reserved or allocated again. Returns false, and changes nothing, if lastuse has
/// not created galloc, or if one of its buffer types is not that of the arena.
///
/// From the first input of a graph that is set until its results are read, no other allocator of the arena is used, nor are
/// graphs of others computed or given inputs. docs/arena.md has what may be relied on.
///
/// # Safety
/// `galloc` is a live allocator, and `arena` is NULL or live; no other thread uses them. No graph of it is being computed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_share(galloc: *mut ggml_gallocr, arena: *mut lastuse_arena) -> bool {
    call("lastuse_gallocr_share", |call| {
        // SAFETY: live, and of this thread: see "# Safety".
        let allocator = unsafe { call.allocator(galloc) }?;
        if arena.is_null() {
            allocator.share(None);
            return Ok(true);
        }
        // SAFETY: live, and of this thread: see "# Safety".
        let (arena, buffer_type) = *unsafe { call.look_at(arena) }?;
        if !allocator.has_only(buffer_type) {
            return Err(call.refuse(&"a buffer type of galloc is not that of the arena"));
        }
        allocator.share(Some(arena));
        Ok(true)
    })
}

/// Says that the calling thread goes on with a scheduler: before it sets inputs for it, and has it reserve, allocate or compute.
/// Waits by synchronize, ggml_backend_sched_synchronize, until what the thread's last scheduler computes has ended. NULL
/// for sched only waits: before inputs of a graph are set that is computed again. NULL for synchronize ends the turn of sched,
/// before it is freed, and waits for nothing.
///
/// Schedulers of devices share memory where lastuse_set("arena", "shared") asks for it, and the turn of one is told before each
/// of its reservations. The guard that lastuse run preloads tells it for programs that know nothing of lastuse.
///
/// # Safety
/// `sched` is NULL, or live until its turn has ended and not used by another thread meanwhile; `synchronize` is NULL or a function
/// that any thread may call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_arena_turn(
    sched: *mut ggml_backend_sched,
    synchronize: Option<unsafe extern "C" fn(sched: *mut ggml_backend_sched)>,
) {
    total("lastuse_arena_turn", |_| match (NonNull::new(sched), synchronize) {
        (None, _) => turns::wait(),
        (Some(sched), None) => turns::end(sched),
        // SAFETY: see "# Safety".
        (Some(sched), Some(synchronize)) => unsafe { turns::begin(sched, synchronize) },
    });
}

/// Says that sched was reset (ggml_backend_sched_reset) although the graph that it allocated last was never computed: in an arena,
/// the next graph need not keep its memory. Tensors of it that the next graph reads get other addresses. Does nothing if sched
/// has no memory in an arena.
///
/// # Safety
/// `sched` is live and not used by another thread. No tensor of its latest graph is used any more, unless by the graph that is
/// reserved or allocated next.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_arena_discard(sched: *mut ggml_backend_sched) {
    total("lastuse_arena_discard", |call| {
        if let Some(address) = NonNull::new(sched).and_then(turns::allocator_of) {
            // SAFETY: the scheduler's own, which lives as long as it is registered, and that no other thread uses: see "# Safety".
            let allocator = unsafe { call.allocator(std::ptr::with_exposed_provenance_mut(address)) };
            allocator.into_iter().for_each(Allocator::discard);
        }
    });
}

/// Frees an arena. Its memory stays as long as allocators share it. Does nothing for NULL.
///
/// # Safety
/// `arena` is NULL, or comes from `lastuse_arena_new`, is used by no other thread, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_arena_free(arena: *mut lastuse_arena) {
    // SAFETY: see "# Safety".
    call("lastuse_arena_free", |call| unsafe { call.free(arena) });
}
