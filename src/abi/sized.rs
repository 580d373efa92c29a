//! Structs of C that begin with their size, so that later versions can add fields.

use std::ptr::NonNull;

use crate::ggml::abort;

/// The report and its size, which must be enough.
///
/// # Safety
/// `report` is NULL or has as many bytes as its first field, `size_t struct_size`, says.
pub unsafe fn checked_report<T>(function: &str, report: *mut T) -> Option<(NonNull<T>, usize)> {
    // SAFETY: the caller's promise.
    unsafe { checked_struct(function, "report", report) }
}

/// The same of a struct that the caller passes as `argument`.
///
/// # Safety
/// As [`checked_report`].
pub unsafe fn checked_struct<T>(function: &str, argument: &str, pointer: *mut T) -> Option<(NonNull<T>, usize)> {
    let pointer = NonNull::new(pointer)?;
    // SAFETY: the first field, which tells the size, is there in every version.
    let size = unsafe { pointer.cast::<usize>().read() };
    let least = size_of::<T>();
    if size < least {
        let wrong = format!("{function}: {argument}->struct_size is {size}, and at least {least} is needed");
        abort(file!(), line!(), &wrong);
    }
    Some((pointer, size))
}
