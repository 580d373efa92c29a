//! Which ggml does an object (the program or a shared library) use? Told by what the dynamic linker binds it to.

use std::ffi::c_void;

use crate::ggml::linking::functions::Functions;
use crate::ggml::linking::loaded::{Library, ONLY_IN_GGML, Object};

/// Is it the object in which a ggml lies?
pub fn defines_ggml(object: &Object) -> bool {
    let is_exported = || definition(object.open()).is_some_and(|found| object.contains(found));
    object.is_ggml.unwrap_or_else(is_exported) || (Object::own() == Some(object) && is_linked(object))
}

/// The ggml that the linker found for lastuse itself when that was loaded: does it lie in `object`?
pub fn is_linked(object: &Object) -> bool {
    object.contains(Functions::linked_address(ONLY_IN_GGML))
}

/// The object with the ggml whose structs the code of `object` knows: code of a backend, say.
pub fn owner_of_code(object: &Object) -> Option<Object> {
    if defines_ggml(object) { Some(object.clone()) } else { own_or_global(object, definition(object.open())?) }
}

/// The object with the ggml that calls from an address reach: the global scope comes first, then the libraries that were
/// loaded with the caller's.
pub fn bound_to(address: usize) -> Option<Object> {
    let object = Object::at(address)?;
    match definition(object.open()) {
        Some(own) => own_or_global(&object, own),
        None => at(definition(Library::global_scope())?),
    }
}

/// The ggml at `own`, unless one that was global before `object` was loaded comes first for it.
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
