//! Finds functions in the objects that are loaded: the program and its libraries.

use std::ffi::{CStr, c_void};
use std::ops::Range;
use std::ptr::null;
use std::sync::{PoisonError, RwLock};

use crate::ggml::linking::caller::caller;
use crate::ggml::linking::loaded::Object;
use crate::ggml::platform::{Library, next_symbol};

/// Results for the code or data at some addresses. The objects there stay loaded.
static FOUND: RwLock<Vec<(Range<usize>, &'static CStr, usize)>> = RwLock::new(Vec::new());

/// Returns the definition of a function that the call of this library would have reached without it; null if there is
/// none. With several ggmls it is the one that the caller is bound to.
pub fn find_wrapped(name: &'static CStr) -> *const c_void {
    let bound = caller().and_then(|caller| remembered(caller, name, |object| find_bound(object, name)));
    // A library that the program has opened itself, as Python does.
    let anywhere = || Object::all().iter().find_map(|object| find_in(object, name));
    bound.or_else(|| Some(next_symbol(name)).filter(|next| !next.is_null())).or_else(anywhere).unwrap_or(null())
}

/// Returns the definition of a function in the object that contains `address`, or in those that it needs; `None` if
/// there is none but that of this library. With several ggmls it is the one that the owner of the address belongs to.
pub fn find_near(address: usize, name: &'static CStr) -> Option<*const c_void> {
    remembered(address, name, |object| find_in(object, name))
}

/// Returns the definition of a function anywhere, or null.
pub fn find_anywhere(name: &CStr) -> *const c_void {
    Library::global_scope().map_or(null(), |scope| scope.symbol(name))
}

/// Returns the earlier result for this address and name, or else by `find` for the object at the address.
fn remembered(
    address: usize,
    name: &'static CStr,
    find: impl FnOnce(&Object) -> Option<*const c_void>,
) -> Option<*const c_void> {
    let is_it = |(addresses, of, _): &&(Range<usize>, &CStr, usize)| addresses.contains(&address) && *of == name;
    let known = FOUND.read().unwrap_or_else(PoisonError::into_inner).iter().find(is_it).map(|(_, _, found)| *found);
    if let Some(known) = known {
        return Some(std::ptr::with_exposed_provenance(known));
    }
    let object = Object::at(address)?;
    let found = find(&object)?;
    object.open().map(Library::keep)?;
    let mut all = FOUND.write().unwrap_or_else(PoisonError::into_inner);
    all.push((object.addresses(), name, found.expose_provenance()));
    Some(found)
}

/// Returns the definition that the linker binds calls from an object to, but for this library: the global scope comes
/// first, where it had one when the object was loaded.
fn find_bound(object: &Object, name: &CStr) -> Option<*const c_void> {
    let next = Some(next_symbol(name)).filter(|next| !next.is_null());
    let is_before =
        |next: &*const c_void| Object::at(next.addr()).is_some_and(|global| global.position < object.position);
    let global = next.filter(|next| object.is_program() || is_before(next));
    global.or_else(|| find_in(object, name)).or(next)
}

/// Looks up a function in a loaded library and those that it needs; `None` for that of this library, which comes first
/// where the program looks, and for those of libraries that were preloaded before it, which call this one.
fn find_in(object: &Object, name: &CStr) -> Option<*const c_void> {
    let found = object.open()?.symbol(name);
    let is_before = |own: &Object| {
        let found = Object::at(found.addr());
        found.is_some_and(|found| !found.is_program() && found.position < own.position)
    };
    let calls_this = Object::own().is_some_and(|own| own.contains(found) || is_before(own));
    (!found.is_null() && !calls_this).then_some(found)
}
