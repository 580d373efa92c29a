//! Which ggml is a call about, and whose is an allocator?

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ggml::{
    Allocator, Ggml, GraphRef, NoGgml, NotEnabled, Original, SIGNATURE, TensorRef, abort, check_enabled,
    ggml_backend_buffer_type, ggml_cgraph, ggml_gallocr, ggml_of_buffers, ggml_of_handed, ggml_of_type, is_remembered,
    log_error, now_for,
};

use super::refusal::note;
use super::required;

/// Whose an allocator is.
pub enum Whose<'g> {
    /// One of lastuse.
    Ours(&'g mut Allocator),
    /// One of the original functions of this ggml.
    Ggmls(&'static Ggml, &'static Original),
}

/// # Safety
/// `galloc` is NULL, or alive for `'g` and used by this thread only.
pub unsafe fn whose<'g>(function: &str, galloc: *mut ggml_gallocr) -> Whose<'g> {
    let galloc = required(galloc, function, "galloc");
    // SAFETY: the caller's promise.
    if let Some(mut own) = unsafe { Allocator::from_c(galloc) } {
        // SAFETY: made by lastuse, alive, and used by this thread only.
        let allocator = unsafe { own.as_mut() };
        now_for(Some(&allocator.runtime().functions));
        return Whose::Ours(allocator);
    }
    let ggml = usable(ggml_of_handed(galloc));
    match &ggml.original {
        Some(original) => Whose::Ggmls(ggml, original),
        None => abort(file!(), line!(), &format!("{function}: galloc is no allocator, or was freed")),
    }
}

/// What was found of a ggml, without which nothing can be done.
pub fn usable<T>(found: Result<T, NoGgml>) -> T {
    found.unwrap_or_else(|why| abort(file!(), line!(), &format!("{SIGNATURE}{why}")))
}

/// The allocator, which must be one of lastuse.
///
/// # Errors
/// [`NotEnabled`]: why it is another one.
///
/// # Safety
/// `galloc` is NULL, or alive for `'g` and used by this thread only.
pub unsafe fn own<'g>(function: &str, galloc: *mut ggml_gallocr) -> Result<&'g mut Allocator, NotEnabled> {
    let galloc = required(galloc, function, "galloc");
    // SAFETY: the caller's promise.
    let own = unsafe { Allocator::from_c(galloc) };
    let is_handed_on = own.is_none() && is_remembered(galloc);
    let mut own = own.ok_or(if is_handed_on { NotEnabled::HandsOn } else { NotEnabled::NotReached })?;
    // SAFETY: made by lastuse, alive, and used by this thread only.
    let allocator = unsafe { own.as_mut() };
    now_for(Some(&allocator.runtime().functions));
    Ok(allocator)
}

/// The allocator if it is one of lastuse; otherwise `None`, and `lastuse_last_error` tells why.
///
/// # Safety
/// `galloc` is NULL, or alive for `'g` and used by this thread only.
pub unsafe fn own_or_nothing<'g>(function: &str, galloc: *mut ggml_gallocr) -> Option<&'g mut Allocator> {
    // SAFETY: the caller's promise.
    unsafe { own(function, galloc) }.inspect_err(|why| note_not_enabled(function, *why)).ok()
}

/// Does lastuse do the work? Where no ggml is loaded yet, it will.
///
/// # Errors
/// [`NotEnabled`].
pub fn expect_enabled() -> Result<(), NotEnabled> {
    check_enabled().or_else(|why| if why == NotEnabled::NoGgml(NoGgml::NotLoaded) { Ok(()) } else { Err(why) })
}

/// True if lastuse does the work; otherwise `lastuse_last_error` tells why it does not.
pub fn is_enabled(function: &str) -> bool {
    expect_enabled().inspect_err(|why| note_not_enabled(function, *why)).is_ok()
}

/// For `lastuse_last_error`. That the program is linked in the wrong order goes to ggml's log too, once.
fn note_not_enabled(function: &str, why: NotEnabled) {
    static WAS_SAID: AtomicBool = AtomicBool::new(false);
    note(function, &why);
    if why == NotEnabled::NotReached && !WAS_SAID.swap(true, Ordering::Relaxed) {
        log_error(&format!("{function}: {why}\n"));
    }
}

/// The ggml of tensors: of the buffers that they, or what they are views of, lie in; otherwise the caller's.
pub fn ggml_of_tensors(tensors: &[TensorRef<'_>]) -> Result<&'static Ggml, NoGgml> {
    let buffers = tensors.iter().flat_map(|tensor| buffers_of(*tensor));
    // SAFETY: buffers of live tensors.
    unsafe { ggml_of_buffers(buffers) }
}

/// The ggml of a buffer type; where it is NULL, that of the tensors of a graph, or else the caller's.
///
/// # Safety
/// `buft` is NULL or alive; `graph` and its tensors are alive.
pub unsafe fn ggml_of_graph(
    buft: *mut ggml_backend_buffer_type,
    graph: NonNull<ggml_cgraph>,
) -> Result<&'static Ggml, NoGgml> {
    if !buft.is_null() {
        // SAFETY: a live buffer type.
        return unsafe { ggml_of_type(buft) };
    }
    let buffers = std::iter::once_with(|| {
        // SAFETY: a live graph; only looked at where its layout is known.
        let graph = unsafe { GraphRef::new(graph) };
        let listed = graph.leafs.iter().chain(graph.nodes);
        listed.flat_map(|tensor| tensor.sources().chain([*tensor])).flat_map(buffers_of)
    });
    // SAFETY: buffers of live tensors.
    unsafe { ggml_of_buffers(buffers.flatten()) }
}

fn buffers_of(tensor: TensorRef<'_>) -> impl Iterator<Item = *const u8> {
    let places = std::iter::once(tensor).chain(tensor.view_source());
    places.map(|tensor| tensor.buffer().cast_const().cast())
}
