//! The frame of a C function: a panic ends in `ggml_abort`, an argument that must not be NULL is checked by its name, and an
//! error becomes the last error of the thread and the value that the function returns on failure.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::ptr::{NonNull, null_mut};

use crate::ggml::{Allocator, Ggml, NoGgml, Runtime, TensorRef, ggml_gallocr, ggml_tensor};
use crate::placement::Bytes;

use super::abort::{abort_on_panic, required};
use super::enabled::is_enabled;
use super::ggml_of_arguments::runtime_or_fail;
use super::graph_allocator::lastuse_allocator;
use super::last_error::{fail, set_last_error};
use super::struct_size::{CallersStruct, SizedStruct, callers_struct, required_struct};

/// A call of a C function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// The name of the function, for messages.
    pub name: &'static str,
}

/// The call has failed; the last error says why.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed;

/// What C functions return.
pub(super) trait Returned {
    /// What they return on failure.
    const FAILED: Self;
}

impl Returned for bool {
    const FAILED: Self = false;
}

impl Returned for c_int {
    const FAILED: Self = -1;
}

impl<T> Returned for *mut T {
    const FAILED: Self = null_mut();
}

/// Runs the body of a C function.
pub(super) fn call<T: Returned>(name: &'static str, body: impl FnOnce(Call) -> Result<T, Failed>) -> T {
    abort_on_panic(|| body(Call { name }).unwrap_or(T::FAILED))
}

/// Returns bytes, or the most that C can say.
pub(super) fn size(bytes: Bytes) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl Call {
    /// Sets the last error and logs it.
    pub fn refuse(self, why: &dyn Display) -> Failed {
        fail(self.name, why);
        Failed
    }

    /// Sets the last error.
    pub fn refuse_silently(self, why: &dyn Display) -> Failed {
        set_last_error(self.name, why);
        Failed
    }

    /// Returns what was done; sets the last error and logs it if it was not.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn done<T>(self, done: Result<T, impl Display>) -> Result<T, Failed> {
        done.map_err(|why| self.refuse(&why))
    }

    /// Checks that lastuse is enabled.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn enabled(self) -> Result<(), Failed> {
        is_enabled(self.name).then_some(()).ok_or(Failed)
    }

    /// Returns the runtime of a ggml.
    ///
    /// # Errors
    /// [`Failed`]: there is none, or its layout is unknown.
    pub fn runtime(self, found: Result<&'static Ggml, NoGgml>) -> Result<&'static Runtime, Failed> {
        runtime_or_fail(self.name, found).ok_or(Failed)
    }

    /// Returns an argument that must not be NULL; aborts with its name otherwise.
    pub fn required<T>(self, argument: &str, pointer: *mut T) -> NonNull<T> {
        required(pointer, self.name, argument)
    }

    /// Returns a tensor; aborts if it is NULL.
    ///
    /// # Safety
    /// `tensor` is NULL, or live for `'t` and not used by another thread.
    pub unsafe fn tensor<'t>(self, argument: &str, tensor: *mut ggml_tensor) -> TensorRef<'t> {
        // SAFETY: live, and of this thread: see "# Safety".
        unsafe { TensorRef::from_non_null(self.required(argument, tensor)) }
    }

    /// Returns the allocator; aborts if it is NULL.
    ///
    /// # Errors
    /// [`Failed`]: lastuse has not created it.
    ///
    /// # Safety
    /// `galloc` is NULL, or live for `'g` and used by this thread only.
    pub unsafe fn allocator<'g>(self, galloc: *mut ggml_gallocr) -> Result<&'g mut Allocator, Failed> {
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        unsafe { lastuse_allocator(self.name, galloc) }.ok_or(Failed)
    }

    /// Returns a string; aborts if it is NULL.
    ///
    /// # Safety
    /// `text` is NULL, or a string that ends in NUL and does not change for `'s`.
    pub unsafe fn text<'s>(self, argument: &str, text: *const c_char) -> &'s OsStr {
        let text = self.required(argument, text.cast_mut());
        // SAFETY: not NULL, so a string: see "# Safety".
        OsStr::from_bytes(unsafe { CStr::from_ptr(text.as_ptr()) }.to_bytes())
    }

    /// Returns a string that may be left out.
    ///
    /// # Safety
    /// `text` is NULL, or a string that ends in NUL and does not change for `'s`.
    pub unsafe fn text_if_any<'s>(self, text: *const c_char) -> Option<&'s OsStr> {
        // SAFETY: not NULL, so a string: see "# Safety".
        (!text.is_null()).then(|| unsafe { self.text("", text) })
    }

    /// Returns the struct `params`, `None` if it is NULL; aborts if its size is not set.
    ///
    /// # Safety
    /// `params` is NULL, or points to as many bytes as its first field states.
    pub unsafe fn params_if_any<T: SizedStruct>(self, params: *const T) -> Option<T> {
        // SAFETY: NULL or of its stated size: see "# Safety".
        unsafe { callers_struct(self.name, "params", params.cast_mut()) }.map(|params| params.read())
    }

    /// Returns the struct `report`, which gets results; aborts if it is NULL or its size is not set.
    ///
    /// # Safety
    /// `report` is NULL, or points to as many bytes as its first field states, for the whole call.
    pub unsafe fn report<T: SizedStruct>(self, report: *mut T) -> CallersStruct<T> {
        // SAFETY: NULL or of its stated size: see "# Safety".
        unsafe { required_struct(self.name, "report", report) }
    }

    /// Returns the struct `report`, `None` if it is NULL; aborts if its size is not set.
    ///
    /// # Safety
    /// `report` is NULL, or points to as many bytes as its first field states, for the whole call.
    pub unsafe fn report_if_any<T: SizedStruct>(self, report: *mut T) -> Option<CallersStruct<T>> {
        // SAFETY: NULL or of its stated size: see "# Safety".
        unsafe { callers_struct(self.name, "report", report) }
    }
}
