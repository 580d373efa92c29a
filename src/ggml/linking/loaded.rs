//! The objects that the dynamic linker has loaded: the program and its shared libraries.

use std::ffi::{CStr, CString, c_void};
use std::ops::Range;
use std::sync::OnceLock;

use crate::ggml::platform::{Library, for_each_object};

/// A function that every ggml defines, and that neither lastuse nor another library interposes.
pub const ONLY_IN_GGML: &CStr = c"ggml_nbytes";

/// The program or a shared library, as a range of addresses.
#[derive(Clone, Debug)]
pub struct Object {
    /// The file; empty for the program.
    path: CString,
    addresses: Range<usize>,
    /// True if it exports [`ONLY_IN_GGML`]; `None` if its tables do not tell.
    pub is_ggml: Option<bool>,
    /// The position in load order; the program is at 0.
    pub position: usize,
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.addresses == other.addresses
    }
}

impl Object {
    /// Returns all objects that are loaded now, in load order.
    pub fn all() -> Vec<Self> {
        let mut objects: Vec<Self> = Vec::new();
        for_each_object(|object| {
            objects.push(Self {
                path: object.path(),
                addresses: object.addresses(),
                is_ggml: object.exports(ONLY_IN_GGML),
                position: objects.len(),
            });
        });
        objects
    }

    /// Returns the object that contains an address.
    pub fn at(address: usize) -> Option<Self> {
        Self::all().into_iter().find(|object| object.addresses.contains(&address))
    }

    /// Returns the object that contains this code: liblastuse.so, or the object that lastuse is linked into statically.
    pub fn own() -> Option<&'static Self> {
        static OWN: OnceLock<Option<Object>> = OnceLock::new();
        OWN.get_or_init(|| Self::at(Self::own as *const () as usize)).as_ref()
    }

    /// Returns `true` for the program.
    pub fn is_program(&self) -> bool {
        self.position == 0
    }

    /// Returns the addresses from its first to its last byte.
    pub fn addresses(&self) -> Range<usize> {
        self.addresses.clone()
    }

    /// Returns `true` if it contains `address`.
    pub fn contains(&self, address: *const c_void) -> bool {
        self.addresses.contains(&address.addr())
    }

    /// Opens it for symbol lookups, which keeps it loaded.
    pub fn open(&self) -> Option<Library> {
        if self.is_program() { Library::global_scope() } else { Library::loaded(&self.path, &self.addresses) }
    }

    /// Returns its file, for messages.
    pub fn name(&self) -> String {
        if self.is_program() { "the program".to_owned() } else { self.path.to_string_lossy().into_owned() }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::ggml::platform::{function_at, load_count};

    #[test]
    fn objects_are_found_by_their_addresses() {
        let own = Object::own().expect("this code is loaded");
        assert!(own.is_program() && own.contains((Object::own as *const ()).cast()));
        let malloc = Library::global_scope().map(|scope| scope.symbol(c"malloc")).expect("the program is loaded");
        let library = Object::at(malloc.addr()).expect("the C library is loaded");
        assert!(!library.is_program() && library != *own, "{library:?}");
        let opened = library.open().expect("it is loaded");
        assert_eq!(opened.symbol(c"malloc"), malloc);
        assert_eq!(Object::at(1), None);
    }

    #[test]
    fn functions_are_found_by_the_addresses_in_them() {
        let malloc = Library::global_scope().map(|scope| scope.symbol(c"malloc")).expect("the program is loaded");
        assert_eq!(function_at(malloc.addr() + 1), malloc);
        assert_eq!(function_at(1), ptr::null());
    }

    #[test]
    fn loads_are_counted() {
        let before = load_count();
        assert!(before > 0 && load_count() >= before);
    }
}
