//! Questions to the allocator of a scheduler, which shows it to no caller: a function of the scheduler is called that calls one of
//! the allocator, which answers instead of doing what it does otherwise.

use std::cell::RefCell;
use std::ptr::NonNull;

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
    static ASKED: RefCell<Option<Question>> = const { RefCell::new(None) };
}

/// Asks a question during a call of a function of the scheduler, and returns it with its answer.
pub(super) fn ask(question: Question, call: impl FnOnce()) -> Option<Question> {
    ASKED.set(Some(question));
    call();
    ASKED.take()
}

/// Answers which allocator is called, if that is asked.
pub(super) fn answer_allocator(galloc: NonNull<ggml_gallocr>) {
    ASKED.with_borrow_mut(|asked| {
        if let Some(Question::Allocator(answer)) = asked {
            *answer = Some(galloc);
        }
    });
}

/// Answers a question about a graph that is to be reserved. Returns `false` if there is none.
///
/// # Safety
/// `graph` is live with its tensors, and no other thread uses them.
pub(super) unsafe fn answer(allocator: &mut Allocator, graph: NonNull<ggml_cgraph>, ids: &BufferIds) -> bool {
    let (nodes, leafs) = (ids.nodes.as_deref(), ids.leafs.as_deref());
    ASKED.with_borrow_mut(|asked| match asked {
        Some(Question::Needs(answer)) => {
            // SAFETY: live, and used by no other thread, as the caller guarantees.
            let measured = unsafe { allocator.measure_checked(graph, nodes, leafs) };
            *answer = Some(measured.map_err(|why| why.to_string()));
            true
        }
        Some(Question::Explanation(answer)) => {
            // SAFETY: as above.
            let explained = allocator.explain(unsafe { GraphRef::new(graph) }, nodes, leafs);
            *answer = Some(explained.map(Box::new).map_err(|why| why.to_string()));
            true
        }
        _ => false,
    })
}
