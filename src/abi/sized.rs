//! Structs of C that begin with their size, so that later versions can add fields.

use std::ptr::NonNull;

use crate::ggml::abort;

/// The report and its size, which must be enough.
///
/// # Safety
/// `report` is NULL or has as many bytes as its first field, `size_t struct_size`, says.
pub unsafe fn checked_report<T>(function: &str, report: *mut T) -> Option<(NonNull<T>, usize)> {
    let report = NonNull::new(report)?;
    // SAFETY: the first field, which tells the size, is there in every version.
    let size = unsafe { report.cast::<usize>().read() };
    let least = size_of::<T>();
    if size < least {
        abort(file!(), line!(), &format!("{function}: report->struct_size is {size}, and at least {least} is needed"));
    }
    Some((report, size))
}
