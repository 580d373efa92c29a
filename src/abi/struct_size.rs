//! C structs that begin with their size, so that later versions can add fields at the end.

use std::ptr::NonNull;

use crate::ggml::abort;

/// Returns the argument `report` and its size, as [`checked_struct`] does.
///
/// # Safety
/// `report` is NULL, or points to as many bytes as its first field, `size_t struct_size`, states.
pub(super) unsafe fn checked_report<T>(function: &str, report: *mut T) -> Option<(NonNull<T>, usize)> {
    // SAFETY: NULL or of its stated size, as the caller guarantees.
    unsafe { checked_struct(function, "report", report) }
}

/// Returns a struct that the caller passes as `argument`, and its size in bytes; `None` for NULL. Aborts if it is
/// smaller than `T`.
///
/// # Safety
/// `pointer` is NULL, or points to as many bytes as its first field, `size_t struct_size`, states.
pub(super) unsafe fn checked_struct<T>(function: &str, argument: &str, pointer: *mut T) -> Option<(NonNull<T>, usize)> {
    let pointer = NonNull::new(pointer)?;
    // SAFETY: every version of the struct has its first field, the size.
    let size = unsafe { pointer.cast::<usize>().read() };
    let least = size_of::<T>();
    if size < least {
        let wrong = format!("{function}: {argument}->struct_size is {size}, and at least {least} is needed");
        abort(file!(), line!(), &wrong);
    }
    Some((pointer, size))
}
