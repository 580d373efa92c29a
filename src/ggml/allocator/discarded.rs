//! Chunks of graphs that were discarded before they were computed.
//!
//! After `ggml_backend_sched_reset`, ggml takes the tensors of the scheduler's graph as dangling. Programs that allocate graphs only
//! to learn their sizes still read them: whisper.cpp allocates four graphs when it starts, and each has a view of a result of the
//! one before. The scheduler reads the buffer of that result, so it stays until another graph is allocated; and that graph gets
//! the result in a small chunk, without the other tensors of the discarded graph.

use crate::ggml::live::buffers::{Buffer, BufferType};
use crate::ggml::live::recycled;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::live::tensor_mut::TensorMut;
use crate::placement::Bytes;

use super::arena::{Chunk, let_go, reads};
use super::turns;

/// Lets go of chunks of one buffer type that discarded graphs have left. Returns those that `graph`, which is about to be reserved
/// or allocated, reads: where it can, new ones with those tensors alone.
pub fn give_up(discarded: Vec<Chunk>, buffer_type: BufferType, graph: GraphRef<'_>) -> Vec<Chunk> {
    if !discarded.is_empty() && !buffer_type.is_plain_cpu() {
        // Inputs may still be on their way.
        turns::wait();
    }
    let (read, unread): (Vec<Chunk>, Vec<Chunk>) = discarded.into_iter().partition(|chunk| reads(graph, chunk));
    unread.into_iter().filter_map(let_go).for_each(drop);
    let keep = |chunk: Chunk| match move_results(graph, &chunk, buffer_type) {
        Some(moved) => {
            let_go(chunk).into_iter().for_each(drop);
            moved
        }
        None => chunk,
    };
    read.into_iter().map(keep).collect()
}

/// A tensor in a chunk that a graph reads, and where it goes.
struct Moved<'g> {
    tensor: TensorRef<'g>,
    offset: Bytes,
}

/// Moves the tensors in `chunk` that a graph reads into a new chunk, without their contents, which nothing has computed. Returns
/// `None` if memory is short, or if others than results are read: inputs may have been set, and nodes of a graph that is allocated
/// again share memory.
fn move_results(graph: GraphRef<'_>, chunk: &Chunk, buffer_type: BufferType) -> Option<Chunk> {
    let is_in = |tensor: &TensorRef<'_>| tensor.has_memory() && tensor.buffer() == chunk.as_ptr();
    if graph.nodes.iter().any(is_in) {
        return None;
    }
    let listed = graph.leafs.iter().chain(graph.nodes).copied();
    let read = listed.flat_map(|tensor| tensor.sources().chain([tensor]));
    let mut read: Vec<TensorRef<'_>> =
        read.flat_map(|tensor| [Some(tensor), tensor.view_source()]).flatten().filter(is_in).collect();
    read.sort_unstable_by_key(|tensor| tensor.address());
    read.dedup_by_key(|tensor| tensor.address());
    let mut end: Bytes = 0;
    let mut moved: Vec<Moved<'_>> = Vec::with_capacity(read.len());
    for &tensor in read.iter().filter(|tensor| tensor.view_source().is_none()) {
        moved.push(Moved { tensor, offset: end });
        end = end.checked_add(buffer_type.alloc_size(tensor))?.checked_next_multiple_of(buffer_type.alignment())?;
    }
    if moved.iter().any(|Moved { tensor, .. }| tensor.op() == 0) {
        return None;
    }
    for &tensor in &read {
        if let Some(root) = tensor.view_source() {
            let Moved { offset, .. } = moved.iter().find(|it| it.tensor.address() == root.address())?;
            let within = tensor.data().addr().checked_sub(root.data().addr())?;
            moved.push(Moved { tensor, offset: offset.checked_add(within as Bytes)? });
        }
    }
    let new = recycled::allocate(buffer_type, end).inspect(Buffer::use_for_compute).map(Chunk::new)?;
    let old: Vec<_> = moved.iter().map(|Moved { tensor, .. }| (*tensor, tensor.data())).collect();
    let is_done = moved.iter().all(|&Moved { tensor, offset }| new.place_planned(tensor, offset).is_ok());
    if !is_done {
        for (tensor, data) in old {
            // SAFETY: no reference into the tensor is held.
            unsafe { TensorMut::new(tensor) }.set_memory(chunk.as_ptr(), data);
        }
        let_go(new).into_iter().for_each(drop);
        return None;
    }
    Some(new)
}
