//! Finds the ggml that an object (the program or a shared library) uses, by how the dynamic linker binds its symbols.

use std::ffi::c_void;

use crate::ggml::linking::functions::Functions;
use crate::ggml::linking::loaded::{ONLY_IN_GGML, Object};
use crate::ggml::platform::Library;

/// Returns `true` if `object` contains a ggml.
pub fn defines_ggml(object: &Object) -> bool {
    let is_exported = || definition(object.open()).is_some_and(|found| object.contains(found));
    object.is_ggml.unwrap_or_else(is_exported) || (Object::own() == Some(object) && is_linked(object))
}

/// Returns `true` if `object` contains the ggml that lastuse itself was bound to when it was loaded.
pub fn is_linked(object: &Object) -> bool {
    object.contains(Functions::linked_address(ONLY_IN_GGML))
}

/// Returns the object with the ggml that the code of `object` (such as a backend) was linked with.
pub fn owner_of_code(object: &Object) -> Option<Object> {
    if defines_ggml(object) { Some(object.clone()) } else { own_or_global(object, definition(object.open())?) }
}

/// Returns the object with the ggml that calls from `address` reach: the global scope comes first, then the libraries
/// that were loaded with the caller's.
pub fn bound_to(address: usize) -> Option<Object> {
    let object = Object::at(address)?;
    match definition(object.open()) {
        Some(own) => own_or_global(&object, own),
        None => at(definition(Library::global_scope())?),
    }
}

/// Returns the object with the ggml at `own`, or the one in the global scope if that was loaded before `object`.
fn own_or_global(object: &Object, own: *const c_void) -> Option<Object> {
    let global = definition(Library::global_scope()).and_then(at).filter(|global| global.position < object.position);
    global.or_else(|| at(own))
}

fn definition(library: Option<Library>) -> Option<*const c_void> {
    library.map(|library| library.symbol(ONLY_IN_GGML)).filter(|found| !found.is_null())
}

fn at(address: *const c_void) -> Option<Object> {
    Object::at(address.addr())
}
