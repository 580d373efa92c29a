//! Questions to the allocator of a scheduler, which shows it to no caller: a function of the scheduler is called that calls one of
//! the allocator, which answers instead of doing what it does otherwise.

use std::cell::Cell;
use std::ptr::{NonNull, null_mut};

use crate::ggml::ggml_gallocr;
use crate::ggml::{Allocator, GraphRef, Need, ggml_cgraph};
use crate::report::explain::Explanation;

use super::arguments::BufferIds;

/// What is asked, and the answer.
pub(super) enum Question {
    /// Which allocator it is.
    Allocator(Option<NonNull<ggml_gallocr>>),
    /// What a graph needs, by buffer id.
    Needs(Option<Result<Vec<Need>, String>>),
    /// Why it needs that.
    Explanation(Option<Result<Box<Explanation>, String>>),
}

thread_local! {
    /// The question that is asked, on the stack of who asks it. Schedulers are freed until the very end of a thread, so this needs no
    /// destructor.
    static ASKED: Cell<*mut Question> = const { Cell::new(null_mut()) };
}

/// Asks a question during a call of a function of the scheduler, and returns it with its answer.
pub(super) fn ask(mut question: Question, call: impl FnOnce()) -> Question {
    ASKED.set(&raw mut question);
    call();
    ASKED.set(null_mut());
    question
}

/// Returns the question that is asked.
fn asked<'a>() -> Option<&'a mut Question> {
    // SAFETY: null, or the question of the call of `ask` that this thread is in, to which nothing else refers meanwhile.
    unsafe { ASKED.get().as_mut() }
}

/// Answers which allocator is called, if that is asked.
pub(super) fn answer_allocator(galloc: NonNull<ggml_gallocr>) {
    if let Some(Question::Allocator(answer)) = asked() {
        *answer = Some(galloc);
    }
}

/// Answers a question about a graph that is to be reserved. Returns `false` if there is none.
///
/// # Safety
/// `graph` is live with its tensors, and no other thread uses them.
pub(super) unsafe fn answer(allocator: &mut Allocator, graph: NonNull<ggml_cgraph>, ids: &BufferIds) -> bool {
    let (nodes, leafs) = (ids.nodes.as_deref(), ids.leafs.as_deref());
    match asked() {
        Some(Question::Needs(answer)) => {
            // SAFETY: live, and used by no other thread, as the caller guarantees.
            let measured = unsafe { allocator.measure_checked(graph, nodes, leafs) };
            *answer = Some(measured.map_err(|why| why.to_string()));
        }
        Some(Question::Explanation(answer)) => {
            // SAFETY: as above.
            let explained = allocator.explain(unsafe { GraphRef::new(graph) }, nodes, leafs);
            *answer = Some(explained.map(Box::new).map_err(|why| why.to_string()));
        }
        Some(Question::Allocator(_)) | None => return false,
    }
    true
}
