//! The allocators that ggml's own functions have made for calls that came through lastuse, and their ggmls.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::ggml::{Ggml, NoGgml, Server};
use crate::ggml::bindings::ggml_backend_buffer_type;
use crate::ggml::linking::caller::caller;
use crate::ggml::linking::loaded::function_at;
use crate::ggml::linking::original::{Original, ggml_gallocr};
use crate::ggml::live::runtime::Runtime;
use crate::ggml::process::registry::{ggml_behind_call, ggml_of_caller, ggml_of_type};
use crate::ggml::version::SIGNATURE;

/// Was it said that a program does not reach lastuse?
static WAS_SAID: AtomicBool = AtomicBool::new(false);
const PAST_US: &str =
    "the program has looked up ggml_gallocr_new in ggml's library: ggml's own allocator does the work";

thread_local! {
    static HANDED_TO: Cell<Option<&'static Ggml>> = const { Cell::new(None) };
}

/// Calls a function of this ggml's own allocator, which may call others of its functions: those come here first.
pub fn hand_to<T>(ggml: &'static Ggml, call: impl FnOnce() -> T) -> T {
    let before = HANDED_TO.replace(Some(ggml));
    let result = call();
    HANDED_TO.set(before);
    result
}

/// The ggml whose own allocator is at work in this thread, called by lastuse.
pub fn handed_to() -> Option<&'static Ggml> {
    HANDED_TO.get()
}

/// By address.
static HANDED: Mutex<BTreeMap<usize, &'static Ggml>> = Mutex::new(BTreeMap::new());

fn handed() -> MutexGuard<'static, BTreeMap<usize, &'static Ggml>> {
    HANDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `galloc` was made by the functions of this ggml.
pub fn remember(ggml: &'static Ggml, galloc: *mut ggml_gallocr) {
    if !galloc.is_null() {
        handed().insert(galloc.addr(), ggml);
    }
}

/// `galloc` is about to be freed.
pub fn forget(galloc: *mut ggml_gallocr) {
    handed().remove(&galloc.addr());
}

/// Was it made by a call that came through lastuse?
pub fn is_remembered(galloc: NonNull<ggml_gallocr>) -> bool {
    handed().contains_key(&galloc.addr().get())
}

/// The ggml whose own functions have made `galloc`; for one that did not come through lastuse that of the caller.
///
/// # Errors
/// [`NoGgml`].
pub fn ggml_of_handed(galloc: NonNull<ggml_gallocr>) -> Result<&'static Ggml, NoGgml> {
    let known = handed().get(&galloc.addr().get()).copied();
    known.map_or_else(ggml_of_caller, Ok)
}

/// What makes an allocator.
#[derive(Debug)]
pub enum Maker {
    /// lastuse, for this ggml.
    Lastuse(&'static Ggml, &'static Runtime),
    /// The original functions of this ggml.
    Original(&'static Ggml, &'static Original),
}

/// What is to make an allocator whose first buffer type is `buft`.
///
/// # Errors
/// [`NoGgml`].
///
/// # Safety
/// `buft` is null, or a live buffer type.
pub unsafe fn maker(buft: *const ggml_backend_buffer_type) -> Result<Maker, NoGgml> {
    if let Some((ggml, original)) = handed_to().and_then(|ggml| Some((ggml, ggml.original.as_ref()?))) {
        return Ok(Maker::Original(ggml, original));
    }
    // SAFETY: the caller's promise.
    let ggml = unsafe { ggml_of_type(buft) }?;
    match &ggml.server {
        Server::Lastuse(runtime) => Ok(match ggml.original.as_ref().filter(|original| is_called_by(original)) {
            Some(original) => {
                if !WAS_SAID.swap(true, Relaxed) {
                    runtime.log_warning(&format!("{SIGNATURE}{PAST_US}\n"));
                }
                Maker::Original(ggml, original)
            }
            None => Maker::Lastuse(ggml, runtime),
        }),
        Server::Original(original) => Ok(match ggml_behind_call().map(|bound| (bound, &bound.server)) {
            // The caller may be bound to another one than its objects are of.
            Some((bound, Server::Original(original))) => Maker::Original(bound, original),
            _ => Maker::Original(ggml, original),
        }),
    }
}

/// Has ggml's own `ggml_gallocr_new` called lastuse? A program that has looked up ggml's functions in their library calls those
/// with what is made now, and they know only what is theirs.
fn is_called_by(original: &Original) -> bool {
    caller().is_some_and(|caller| function_at(caller).addr() == original.gallocr_new as usize)
}
