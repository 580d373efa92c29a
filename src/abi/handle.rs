//! Objects that C holds by a pointer. The program may call a function with one while another call uses it: in a callback.
//! Such a call looks at the object if nothing changes it at that moment, and is refused otherwise.

use std::cell::{Ref, RefCell, RefMut};
use std::ptr::NonNull;

use super::call::{Call, Failed};

/// A struct of which C knows only the name, and the object that a pointer to it stands for.
pub(super) trait Handle {
    /// The object.
    type Object;
    /// The argument by which functions take it.
    const ARGUMENT: &'static str;
}

/// Moves an object to where C finds it.
pub(super) fn into_handle<H: Handle>(object: H::Object) -> *mut H {
    Box::into_raw(Box::new(RefCell::new(object))).cast()
}

impl Call {
    /// Returns access to look at an object. Aborts if the pointer is NULL.
    ///
    /// # Errors
    /// [`Failed`]: a call that changes it has called the program.
    ///
    /// # Safety
    /// `handle` is NULL, or comes from [`into_handle`], is live for `'h`, and is used by no other thread.
    pub unsafe fn look_at<'h, H: Handle>(self, handle: *const H) -> Result<Ref<'h, H::Object>, Failed> {
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        unsafe { self.object(handle) }.try_borrow().map_err(|_| self.refuse_in_use(H::ARGUMENT))
    }

    /// Returns access to change an object. Aborts if the pointer is NULL.
    ///
    /// # Errors
    /// [`Failed`]: a call that uses it has called the program.
    ///
    /// # Safety
    /// `handle` is NULL, or comes from [`into_handle`], is live for `'h`, and is used by no other thread.
    pub unsafe fn change<'h, H: Handle>(self, handle: *mut H) -> Result<RefMut<'h, H::Object>, Failed> {
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        unsafe { self.object(handle) }.try_borrow_mut().map_err(|_| self.refuse_in_use(H::ARGUMENT))
    }

    /// # Safety
    /// `handle` is NULL, or comes from [`into_handle`], is live for `'h`, and is used by no other thread.
    unsafe fn object<'h, H: Handle>(self, handle: *const H) -> &'h RefCell<H::Object> {
        let object = self.required(H::ARGUMENT, handle.cast_mut()).cast::<RefCell<H::Object>>();
        // SAFETY: made by `into_handle`, and live for `'h`: see "# Safety"; only shared references to it are made.
        unsafe { object.as_ref() }
    }

    /// Frees an object. Does nothing for NULL.
    ///
    /// # Errors
    /// [`Failed`]: a call that uses it has called the program. It is not freed.
    ///
    /// # Safety
    /// `handle` is NULL, or comes from [`into_handle`], is used by no other thread, and is not used after it was freed.
    pub unsafe fn free<H: Handle>(self, handle: *mut H) -> Result<(), Failed> {
        let Some(handle) = NonNull::new(handle.cast::<RefCell<H::Object>>()) else { return Ok(()) };
        // SAFETY: made by `into_handle`, and live: see "# Safety".
        let object = unsafe { handle.as_ref() };
        if object.try_borrow_mut().is_err() {
            return Err(self.refuse_in_use(H::ARGUMENT));
        }
        // SAFETY: boxed by `into_handle`, freed once, and nothing borrows it.
        drop(unsafe { Box::from_raw(handle.as_ptr()) });
        Ok(())
    }

    fn refuse_in_use(self, argument: &str) -> Failed {
        self.refuse(&format_args!("{argument} is in use by the call that has called this function's caller"))
    }
}
