//! Objects that C holds by a pointer. The program may call a function with one while another call uses it: in a callback.
//! Such a call looks at the object if nothing changes it at that moment, and is refused otherwise.

use std::cell::{Ref, RefCell, RefMut};
use std::ptr::NonNull;

use super::abort::required;
use super::last_error::fail;

/// Moves an object to where C finds it.
pub(super) fn into_handle<T, H>(object: T) -> *mut H {
    Box::into_raw(Box::new(RefCell::new(object))).cast()
}

/// Returns the object behind a pointer of the program. Aborts if it is NULL.
///
/// # Safety
/// `handle` is NULL, or comes from [`into_handle`] for a `T`, is live for `'h`, and is used by no other thread.
pub(super) unsafe fn object<'h, T, H>(function: &str, argument: &str, handle: *const H) -> &'h RefCell<T> {
    let object = required(handle.cast_mut(), function, argument).cast::<RefCell<T>>();
    // SAFETY: made by `into_handle` for a `T`, and live for `'h`: see "# Safety". There are no references but shared ones.
    unsafe { object.as_ref() }
}

/// Returns access to look at an object; `None`, with the last error set, if a call that changes it has called the program.
pub(super) fn to_look_at<'h, T>(function: &str, argument: &str, object: &'h RefCell<T>) -> Option<Ref<'h, T>> {
    object.try_borrow().inspect_err(|_| fail_in_use(function, argument)).ok()
}

/// Returns access to change an object; `None`, with the last error set, if a call that uses it has called the program.
pub(super) fn to_change<'h, T>(function: &str, argument: &str, object: &'h RefCell<T>) -> Option<RefMut<'h, T>> {
    object.try_borrow_mut().inspect_err(|_| fail_in_use(function, argument)).ok()
}

/// Frees the object behind a pointer of the program. Does nothing for NULL. Refuses, with the last error set, if a call that
/// uses it has called the program, and where `is_free` is false.
///
/// # Safety
/// `handle` is NULL, or comes from [`into_handle`] for a `T`, is used by no other thread, and is not used after it was freed.
pub(super) unsafe fn free<T, H>(function: &str, argument: &str, handle: *mut H, is_free: impl FnOnce(&T) -> bool) {
    let Some(handle) = NonNull::new(handle.cast::<RefCell<T>>()) else { return };
    // SAFETY: made by `into_handle` for a `T`, and live: see "# Safety".
    let object = unsafe { handle.as_ref() };
    if !object.try_borrow_mut().is_ok_and(|object| is_free(&object)) {
        return fail_in_use(function, argument);
    }
    // SAFETY: boxed by `into_handle`, freed once, and nothing borrows it.
    drop(unsafe { Box::from_raw(handle.as_ptr()) });
}

/// Sets the last error: the object is in use.
pub(super) fn fail_in_use(function: &str, argument: &str) {
    fail(function, &format_args!("{argument} is in use by the call that has called this function's caller"));
}
