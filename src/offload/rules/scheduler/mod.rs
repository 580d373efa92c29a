//! ggml's rule: the decisions of `ggml_backend_sched`, reproduced.
//!
//! Backends are assigned in four passes; [`split`] is the fifth and the sixth. Each pass keeps what earlier ones, and
//! the program, have assigned, except for the third.
//!
//! - `from_memory`: the first. Tensors with memory, inputs of the program, and operations on weights
//! - `expand`: the second. The nodes between those, from GPUs first
//! - `upgrade`: the third. A backend of a higher priority in the same memory; nodes that no expansion could assign
//! - `remaining`: the fourth. Views and constants follow their owners

mod from_memory;
mod expand;
mod upgrade;
mod remaining;

use super::backends::{Backend, Backends};
use super::capabilities::Capabilities;
use super::draft::Draft;
use super::offload_error::OffloadError;
use super::options::SchedulerOptions;
use super::placed_graph::PlacedGraph;
use super::scheduled_graph::Schedule;
use super::splits::{Questions, split};

/// Places every tensor of a graph as `ggml_backend_sched_split_graph` does: equal backends, splits, copies and lists for
/// the allocator.
///
/// The scheduler is assumed to be reset before the program assigns tensors, as llama.cpp does it.
///
/// # Errors
/// [`OffloadError`] where ggml aborts, and where the lists of `placed` do not fit together.
pub fn schedule<C: Capabilities>(
    placed: PlacedGraph<'_>,
    backends: &Backends,
    capabilities: &C,
    options: SchedulerOptions,
) -> Result<Schedule, OffloadError> {
    placed.check(backends)?;
    options.check()?;
    check_own_types(backends, capabilities)?;
    let questions = Questions { backends, capabilities, options };
    let mut draft = Draft::new(placed);
    for &(tensor, backend) in placed.assigned {
        draft.resides[tensor as usize] = Some(backend);
    }
    from_memory::assign(&mut draft, questions)?;
    expand::assign(&mut draft, questions);
    upgrade::assign(&mut draft, questions);
    remaining::assign(&mut draft, questions)?;
    draft.executes.clone_from(&draft.resides);
    split(draft, questions)
}

fn check_own_types<C: Capabilities>(backends: &Backends, capabilities: &C) -> Result<(), OffloadError> {
    let cannot_use_own =
        |&(backend, list): &(u32, &Backend)| !capabilities.supports_buffer_type(backend, list.buffer_type);
    match (0..).zip(&backends.list).find(cannot_use_own) {
        Some((_, Backend { name, buffer_type })) => Err(OffloadError::OwnBufferType {
            backend: name.clone(),
            buffer_type: backends.buffer_types[*buffer_type as usize].name.clone(),
        }),
        None => Ok(()),
    }
}
