//! Calls that lastuse forwards to ggml's own functions, and the allocators that those create.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::ggml::{Ggml, NoGgml, Server};
use crate::ggml::bindings::ggml_backend_buffer_type;
use crate::ggml::linking::caller::caller;
use crate::ggml::linking::original::{Original, ggml_gallocr};
use crate::ggml::live::lock::Lock;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::platform::function_at;
use crate::ggml::process::registry::{ggml_behind_call, ggml_of_caller, ggml_of_type};
use crate::ggml::version::SIGNATURE;

/// True after [`BYPASSED`] was logged.
static WAS_LOGGED: AtomicBool = AtomicBool::new(false);
const BYPASSED: &str = "the program has looked up ggml_gallocr_new in ggml's library";

thread_local! {
    static FORWARDING_TO: Cell<Option<&'static Ggml>> = const { Cell::new(None) };
}

/// Calls a function of this ggml's own allocator. If that calls other functions of `ggml-alloc.h`, they reach lastuse
/// again, which finds `ggml` with [`forwarding_to`].
pub fn forward_to<T>(ggml: &'static Ggml, call: impl FnOnce() -> T) -> T {
    let before = FORWARDING_TO.replace(Some(ggml));
    let result = call();
    FORWARDING_TO.set(before);
    result
}

/// Returns the ggml whose own allocator lastuse is calling in this thread.
pub fn forwarding_to() -> Option<&'static Ggml> {
    FORWARDING_TO.get()
}

/// The allocators that ggml's own functions have created for forwarded calls, by address.
static GALLOCS: Lock<BTreeMap<usize, &'static Ggml>> = Lock::new(BTreeMap::new());

/// Records that the functions of this ggml have created `galloc`.
pub fn register_forwarded(ggml: &'static Ggml, galloc: *mut ggml_gallocr) {
    if !galloc.is_null() {
        GALLOCS.lock().insert(galloc.addr(), ggml);
    }
}

/// Removes `galloc`, which is about to be freed.
pub fn unregister_forwarded(galloc: *mut ggml_gallocr) {
    GALLOCS.lock().remove(&galloc.addr());
}

/// Returns `true` if a forwarded call has created `galloc`.
pub fn is_forwarded(galloc: NonNull<ggml_gallocr>) -> bool {
    GALLOCS.lock().contains_key(&galloc.addr().get())
}

/// Returns the ggml whose own functions have created `galloc`, or that of the caller if the call bypassed lastuse.
///
/// # Errors
/// [`NoGgml`].
pub fn ggml_of_galloc(galloc: NonNull<ggml_gallocr>) -> Result<&'static Ggml, NoGgml> {
    let known = GALLOCS.lock().get(&galloc.addr().get()).copied();
    known.map_or_else(ggml_of_caller, Ok)
}

/// The code that creates an allocator.
#[derive(Debug)]
pub enum GallocFactory {
    /// lastuse, for this ggml.
    Lastuse(&'static Ggml, &'static Runtime),
    /// The original functions of this ggml.
    Original(&'static Ggml, &'static Original),
}

/// Selects the code that creates an allocator whose first buffer type is `buft`.
///
/// # Errors
/// [`NoGgml`].
///
/// # Safety
/// `buft` is null, or a live buffer type.
pub unsafe fn galloc_factory(buft: *const ggml_backend_buffer_type) -> Result<GallocFactory, NoGgml> {
    if let Some((ggml, original)) = forwarding_to().and_then(|ggml| Some((ggml, ggml.original.as_ref()?))) {
        return Ok(GallocFactory::Original(ggml, original));
    }
    // SAFETY: null or a live buffer type, as the caller guarantees.
    let ggml = unsafe { ggml_of_type(buft) }?;
    match &ggml.server {
        Server::Lastuse(runtime) => Ok(match ggml.original.as_ref().filter(|original| is_called_by(original)) {
            Some(original) => {
                if !WAS_LOGGED.swap(true, Relaxed) {
                    runtime.log_warning(&format!("{SIGNATURE}{BYPASSED}: ggml's own allocator does the work\n"));
                }
                GallocFactory::Original(ggml, original)
            }
            None => GallocFactory::Lastuse(ggml, runtime),
        }),
        Server::Original(original) => Ok(match ggml_behind_call().map(|bound| (bound, &bound.server)) {
            // The caller may be bound to another ggml than its buffer types belong to.
            Some((bound, Server::Original(original))) => GallocFactory::Original(bound, original),
            _ => GallocFactory::Original(ggml, original),
        }),
    }
}

/// Returns why an allocator of ggml was created in spite of lastuse, if the program has bypassed it.
pub fn why_bypassed() -> Option<&'static str> {
    WAS_LOGGED.load(Relaxed).then_some(BYPASSED)
}

/// Returns `true` if ggml's own `ggml_gallocr_new` has called lastuse. A program that looks up ggml's functions in
/// their library will pass the new allocator to those, which accept only ggml's own.
fn is_called_by(original: &Original) -> bool {
    caller().is_some_and(|caller| function_at(caller).addr() == original.gallocr_new as usize)
}
