//! The frame of a C function: a panic ends in `ggml_abort`, an argument that must not be NULL is checked by its name, and an
//! error becomes the last error of the thread and the value that the function returns on failure.

use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ggml::{
    Allocator, Ggml, NoGgml, NotEnabled, Runtime, SIGNATURE, TensorRef, Violation, abort, check_enabled, ggml_gallocr,
    ggml_tensor, is_forwarded, log_error, set_current_ggml, text_of_c,
};
use crate::placement::Bytes;

use super::c_types::{CallersStruct, SizedStruct, callers_struct};

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

impl Returned for () {
    const FAILED: Self = ();
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
    total(name, |call| body(call).unwrap_or(T::FAILED))
}

/// Runs the body of a C function that cannot fail, or sets the last error itself.
pub(super) fn total<T>(name: &'static str, body: impl FnOnce(Call) -> T) -> T {
    abort_on_panic(|| body(Call { name }))
}

/// Returns bytes, or the most that C can say.
pub(super) fn size(bytes: Bytes) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Returns a count or an index, or the most that C can say.
pub(super) fn number(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

thread_local! {
    static LAST_ERROR: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Sets the last error of this thread to the name of the function and `why`, and logs it.
pub(super) fn fail(function: &str, why: &dyn Display) {
    log_error(&format!("{function}: {why}\n"));
    set_last_error(function, why);
}

/// Sets the last error of this thread to the name of the function and `why`, without a line in ggml's log.
pub(super) fn set_last_error(function: &str, why: &dyn Display) {
    let message = format!("{function}: {why}");
    LAST_ERROR.set(CString::new(message.replace('\0', " ")).ok());
}

/// Returns the last error of this thread, valid until the next one; before the first, a static empty string.
pub(super) fn last_error() -> *const c_char {
    LAST_ERROR.with_borrow(|message| message.as_deref().unwrap_or(c"").as_ptr())
}

/// Runs the body of a C function. A panic inside is a defect of lastuse: it ends in `ggml_abort` with its message,
/// since a plan that is half done must not be used, and unwinding into C is undefined.
pub(super) fn abort_on_panic<T>(body: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(payload) => abort(file!(), line!(), &format!("lastuse: internal error: {}", message(&*payload))),
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Logs `violation` and aborts: nothing computed from memory that is not as it must be would be right.
pub(super) fn abort_on_violation(violation: &Violation) -> ! {
    let message = format!("lastuse: {violation}");
    log_error(&format!("{message}\n"));
    abort(file!(), line!(), &message)
}

/// Returns `galloc` if lastuse has made it, and makes its ggml the current one of this thread.
///
/// # Safety
/// `galloc` is live for `'g` and used by this thread only.
pub(super) unsafe fn made_by_lastuse<'g>(galloc: NonNull<ggml_gallocr>) -> Option<&'g mut Allocator> {
    // SAFETY: live: see "# Safety".
    let mut made = unsafe { Allocator::from_c(galloc) }?;
    // SAFETY: an allocator of lastuse, live for `'g` and used by this thread only.
    let allocator = unsafe { made.as_mut() };
    set_current_ggml(Some(&allocator.runtime().functions));
    Some(allocator)
}

/// How a call fails.
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

    /// Ends the process in `ggml_abort`.
    pub fn abort(self, why: &dyn Display) -> ! {
        abort(file!(), line!(), &format!("{}: {why}", self.name))
    }
}

/// What a call is for.
impl Call {
    /// Checks that lastuse is enabled. Before a ggml is loaded it is taken to be.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn enabled(self) -> Result<(), Failed> {
        match check_enabled() {
            Ok(()) | Err(NotEnabled::NoGgml(NoGgml::NotLoaded)) => Ok(()),
            Err(why) => Err(self.refuse_not_enabled(&why)),
        }
    }

    /// Sets the last error. That the program is linked in the wrong order also goes to ggml's log, once.
    fn refuse_not_enabled(self, why: &NotEnabled) -> Failed {
        static IS_LOGGED: AtomicBool = AtomicBool::new(false);
        let is_order = matches!(why, NotEnabled::NotReached(_));
        if is_order && !IS_LOGGED.swap(true, Ordering::Relaxed) { self.refuse(why) } else { self.refuse_silently(why) }
    }

    /// Returns what was found of the ggml that the arguments belong to; aborts where none was found.
    pub fn found<T>(self, found: Result<T, NoGgml>) -> T {
        found.unwrap_or_else(|why| abort(file!(), line!(), &format!("{SIGNATURE}{why}")))
    }

    /// Returns the runtime of a ggml. That a layout is unknown was logged when the ggml was found.
    ///
    /// # Errors
    /// [`Failed`]: there is none, or its layout is unknown.
    pub fn runtime(self, found: Result<&'static Ggml, NoGgml>) -> Result<&'static Runtime, Failed> {
        let unknown = "this ggml has a layout that lastuse does not know";
        self.done(found)?.runtime().ok_or_else(|| self.refuse_silently(&unknown))
    }

    /// Returns the runtime of a ggml whose graphs lastuse plans.
    ///
    /// # Errors
    /// [`Failed`]: there is none, or ggml's own allocator does the work.
    pub fn served(self, found: Result<&'static Ggml, NoGgml>) -> Result<&'static Runtime, Failed> {
        let off = "lastuse is not enabled; ggml's own allocator would plan the changed graph";
        self.done(found)?.served().ok_or_else(|| self.refuse_silently(&off))
    }

    /// Returns a function of ggml that not every version has; aborts where this one lacks it.
    pub fn original<F>(self, function: Option<F>) -> F {
        function.unwrap_or_else(|| self.abort(&"this ggml has no such function"))
    }

    /// Returns the allocator; aborts if it is NULL.
    ///
    /// # Errors
    /// [`Failed`]: lastuse has not created it.
    ///
    /// # Safety
    /// `galloc` is NULL, or live for `'g` and used by this thread only.
    pub unsafe fn allocator<'g>(self, galloc: *mut ggml_gallocr) -> Result<&'g mut Allocator, Failed> {
        let galloc = self.required("galloc", galloc);
        // SAFETY: live, and of this thread: see "# Safety".
        let made = unsafe { made_by_lastuse(galloc) };
        made.ok_or_else(|| self.refuse_not_enabled(&NotEnabled::of_allocator(is_forwarded(galloc))))
    }
}

/// Arguments as safe values.
impl Call {
    /// Returns an argument that must not be NULL; aborts with its name otherwise.
    pub fn required<T>(self, argument: &str, pointer: *mut T) -> NonNull<T> {
        NonNull::new(pointer).unwrap_or_else(|| self.abort(&format_args!("{argument} is NULL")))
    }

    /// Returns a number as an index.
    ///
    /// # Errors
    /// [`Failed`]: there are only `count` of what it numbers.
    pub fn index(self, what: &str, number: c_int, count: usize) -> Result<usize, Failed> {
        let found = usize::try_from(number).ok().filter(|&at| at < count);
        found.ok_or_else(|| self.refuse(&format_args!("there is no {what} {number}; there are {count}")))
    }

    /// Returns a tensor; aborts if it is NULL.
    ///
    /// # Safety
    /// `tensor` is NULL, or live for `'t` and not used by another thread.
    pub unsafe fn tensor<'t>(self, argument: &str, tensor: *mut ggml_tensor) -> TensorRef<'t> {
        // SAFETY: live, and of this thread: see "# Safety".
        unsafe { TensorRef::from_non_null(self.required(argument, tensor)) }
    }

    /// Returns the entries of a list, which may be NULL if it is empty; aborts where it is NULL otherwise.
    ///
    /// # Safety
    /// `list` is NULL, or holds `count` entries, which do not change for `'a`.
    pub unsafe fn list<'a, T>(self, argument: &str, list: *const T, count: usize) -> &'a [T] {
        if count == 0 {
            return &[];
        }
        let list = self.required(argument, list.cast_mut());
        // SAFETY: `count` entries: see "# Safety".
        unsafe { std::slice::from_raw_parts(list.as_ptr(), count) }
    }

    /// Returns the tensors of a list; aborts where one is NULL.
    ///
    /// # Safety
    /// `list` is NULL, or holds `count` tensors that are NULL, or live for `'t` and not used by another thread.
    pub unsafe fn tensors<'t>(self, argument: &str, list: *const *mut ggml_tensor, count: usize) -> Vec<TensorRef<'t>> {
        // SAFETY: NULL, or `count` pointers: see "# Safety".
        let list = unsafe { self.list(argument, list, count) };
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        let tensor = |(at, &tensor): (usize, _)| unsafe { self.tensor(&format!("{argument}[{at}]"), tensor) };
        list.iter().enumerate().map(tensor).collect()
    }

    /// Returns a string; aborts if it is NULL.
    ///
    /// # Safety
    /// `text` is NULL, or a string that ends in NUL and does not change for `'s`.
    pub unsafe fn text<'s>(self, argument: &str, text: *const c_char) -> Cow<'s, OsStr> {
        let text = self.required(argument, text.cast_mut());
        // SAFETY: not NULL, so a string: see "# Safety".
        text_of_c(unsafe { CStr::from_ptr(text.as_ptr()) })
    }

    /// Returns a string that may be left out.
    ///
    /// # Safety
    /// `text` is NULL, or a string that ends in NUL and does not change for `'s`.
    pub unsafe fn text_if_any<'s>(self, text: *const c_char) -> Option<Cow<'s, OsStr>> {
        // SAFETY: not NULL, so a string: see "# Safety".
        (!text.is_null()).then(|| unsafe { self.text("", text) })
    }

    /// Returns the struct `argument`; aborts if it is NULL or its size is not set.
    ///
    /// # Safety
    /// `params` is NULL, or points to as many bytes as its first field states.
    pub unsafe fn params<T: SizedStruct>(self, argument: &str, params: *const T) -> T {
        // SAFETY: NULL or of its stated size: see "# Safety".
        unsafe { callers_struct(self.name, argument, self.required(argument, params.cast_mut())) }.read()
    }

    /// Returns the struct `params`, `None` if it is NULL; aborts if its size is not set.
    ///
    /// # Safety
    /// `params` is NULL, or points to as many bytes as its first field states.
    pub unsafe fn params_if_any<T: SizedStruct>(self, params: *const T) -> Option<T> {
        // SAFETY: not NULL, so of its stated size: see "# Safety".
        (!params.is_null()).then(|| unsafe { self.params("params", params) })
    }

    /// Returns the struct `report`, which gets results; aborts if it is NULL or its size is not set.
    ///
    /// # Safety
    /// `report` is NULL, or points to as many bytes as its first field states, for the whole call.
    pub unsafe fn report<T: SizedStruct>(self, report: *mut T) -> CallersStruct<T> {
        // SAFETY: NULL or of its stated size: see "# Safety".
        unsafe { callers_struct(self.name, "report", self.required("report", report)) }
    }

    /// Returns the struct `report`, `None` if it is NULL; aborts if its size is not set.
    ///
    /// # Safety
    /// `report` is NULL, or points to as many bytes as its first field states, for the whole call.
    pub unsafe fn report_if_any<T: SizedStruct>(self, report: *mut T) -> Option<CallersStruct<T>> {
        // SAFETY: not NULL, so of its stated size: see "# Safety".
        (!report.is_null()).then(|| unsafe { self.report(report) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_share_one_empty_string_before_an_error() {
        let here = last_error();
        let there = std::thread::spawn(|| last_error().addr()).join().expect("no panic");
        assert_eq!(there, here.addr(), "a thread's own string would be freed with it");
    }
}
