//! What C passes: enums, which may have any number, and structs that begin with their size, so that later versions can add
//! fields at the end. What a caller's older version lacks is read as zeros and not written; what a newer one has more is left
//! alone.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::ggml::abort;

/// An `enum lastuse_context_kind`.
pub type ContextKindNumber = u32;
/// An `enum lastuse_offload_order`.
pub type OffloadOrderNumber = u32;
/// An `enum lastuse_offload_rule`.
pub type OffloadRuleNumber = u32;
/// An `enum lastuse_offload_kind`.
pub type OffloadKindNumber = u32;
/// An `enum lastuse_offload_class`.
pub type OffloadClassNumber = u32;

/// Returns the meaning of a number of the C enum `name`, which is the argument or field `field`.
///
/// # Errors
/// A message: the enum has no such value.
pub(super) fn enum_value<T: Copy>(field: &str, number: u32, name: &str, values: &[(u32, T)]) -> Result<T, String> {
    let found = values.iter().find(|(other, _)| *other == number).map(|&(_, value)| value);
    found.ok_or_else(|| format!("{field} is {number}, which is not a value of enum {name}"))
}

/// A C struct that begins with its size.
///
/// # Safety
/// The first field is `struct_size: usize`, and all fields may be zeros.
pub(super) unsafe trait SizedStruct: Copy {}

/// Makes a struct whose fields are numbers, `bool`s, pointers, and functions that may be NULL, a [`SizedStruct`].
macro_rules! sized_struct {
    ($name:ty) => {
        const _: () = assert!(std::mem::offset_of!($name, struct_size) == 0);
        // SAFETY: checked above; all such fields may be zeros.
        unsafe impl $crate::abi::c_types::SizedStruct for $name {}
    };
}
pub(super) use sized_struct;

/// A struct of the caller, of which this version knows the first `known` bytes.
#[derive(Debug)]
pub(super) struct CallersStruct<T> {
    pointer: NonNull<T>,
    known: usize,
}

impl<T: SizedStruct> CallersStruct<T> {
    /// Returns the fields; zeros for those that the caller's version lacks.
    pub fn read(&self) -> T {
        let mut fields = MaybeUninit::<T>::zeroed();
        let from = self.pointer.as_ptr().cast::<u8>();
        // SAFETY: `known` bytes of the caller, and no more than a `T` has: see `callers_struct`.
        unsafe { fields.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from, self.known) };
        // SAFETY: fields as the caller has set them, and zeros, which all may be: see `SizedStruct`.
        unsafe { fields.assume_init() }
    }

    /// Writes the fields that the caller's version has, but the size.
    pub fn write(&self, fields: &T) {
        let start = size_of::<usize>();
        let from = (&raw const *fields).cast::<u8>().wrapping_add(start);
        let to = self.pointer.as_ptr().cast::<u8>().wrapping_add(start);
        // SAFETY: `known` bytes of the caller, and no more than a `T` has: see `callers_struct`.
        unsafe { to.copy_from_nonoverlapping(from, self.known - start) };
    }
}

/// Returns a struct that the caller passes as `argument`. Aborts if its size is not set.
///
/// # Safety
/// `pointer` points to as many bytes as its first field, `size_t struct_size`, states, for the whole call. They are those of a
/// version of the struct.
pub(super) unsafe fn callers_struct<T: SizedStruct>(
    function: &str,
    argument: &str,
    pointer: NonNull<T>,
) -> CallersStruct<T> {
    // SAFETY: every version of the struct has its first field, the size.
    let size = unsafe { pointer.cast::<usize>().read() };
    // A size that the program has forgotten, not one of an older version: the first has two fields.
    if size <= size_of::<usize>() {
        let wrong = format!("{function}: {argument}->struct_size is {size}: set it to the size of the struct");
        abort(file!(), line!(), &wrong);
    }
    CallersStruct { pointer, known: size.min(size_of::<T>()) }
}
