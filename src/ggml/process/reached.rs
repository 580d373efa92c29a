//! Checks whether calls of ggml's allocator reach lastuse.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ggml::linking::caller::caller;
use crate::ggml::linking::loaded::{Library, Object};
use crate::ggml::linking::owner::defines_ggml;

/// True after a call that creates an allocator has reached lastuse. A program can look the function up by itself.
static WAS_REACHED: AtomicBool = AtomicBool::new(false);

/// Records that a call that creates an allocator has reached lastuse.
pub fn note_reached() {
    // Written once, so that threads that create allocators do not contend for it.
    if !WAS_REACHED.load(Ordering::Relaxed) {
        WAS_REACHED.store(true, Ordering::Relaxed);
    }
}

/// Returns `true` if calls of ggml's allocator reach lastuse.
pub fn is_reached() -> bool {
    if WAS_REACHED.load(Ordering::Relaxed) {
        return true;
    }
    let Some(own) = Object::own().filter(|own| !own.is_program()) else {
        // lastuse is linked into the program, whose calls the static linker has bound.
        return true;
    };
    let of_caller = || bound(Object::at(caller()?)?.open());
    match bound(Library::global_scope()).or_else(of_caller) {
        // A library without a ggml that is interposed before the allocator forwards calls to the next one: lastuse.
        Some(address) => {
            own.contains(address) || !Object::at(address.addr()).is_some_and(|object| defines_ggml(&object))
        }
        // Neither is bound: lastuse is a part of the plugin that has its ggml, or a library that plugins are linked
        // with.
        None => defines_ggml(own) || is_needed(own),
    }
}

/// Returns `true` if the dynamic linker has bound an object other than lastuse itself to lastuse.
fn is_needed(own: &Object) -> bool {
    let others = Object::all().into_iter().filter(|object| object != own);
    others.filter_map(|object| bound(object.open())).any(|address| own.contains(address))
}

/// Returns the address that calls of ggml's allocator from a library are bound to.
fn bound(library: Option<Library>) -> Option<*const c_void> {
    library.map(|library| library.symbol(c"ggml_gallocr_new_n")).filter(|address| !address.is_null())
}
