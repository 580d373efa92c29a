//! The objects that the dynamic linker has loaded: the program and its shared libraries.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;

use crate::ggml::linking::exports::defines;

/// A function that every ggml defines, and that neither lastuse nor another library interposes.
pub const ONLY_IN_GGML: &CStr = c"ggml_nbytes";

/// An open handle of a loaded library, which stays loaded until this value is dropped.
#[derive(Debug)]
pub struct Library {
    handle: *mut c_void,
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and not used afterwards.
        unsafe { libc::dlclose(self.handle) };
    }
}

impl Library {
    /// Keeps the library loaded to the end of the process.
    pub fn keep(self) {
        let _ = std::mem::ManuallyDrop::new(self);
    }

    /// Returns the address of a symbol that the library, or one that it needs, defines; null if there is none.
    pub fn symbol(&self, name: &CStr) -> *const c_void {
        // SAFETY: the handle is open, and the name ends in NUL.
        unsafe { libc::dlsym(self.handle, name.as_ptr()) }
    }

    /// Returns the global scope: the program, the libraries it needs, and those loaded later with `RTLD_GLOBAL`.
    pub fn global_scope() -> Option<Self> {
        // SAFETY: null means the program, which is loaded.
        let handle = unsafe { libc::dlopen(ptr::null(), libc::RTLD_LAZY) };
        // SAFETY: just opened.
        unsafe { Self::from_handle(handle) }
    }

    fn open(path: &CStr) -> Option<Self> {
        // SAFETY: RTLD_NOLOAD only opens a library that is loaded.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        // SAFETY: just opened.
        unsafe { Self::from_handle(handle) }
    }

    /// # Safety
    /// `handle` is null, or comes from `dlopen` and is closed by nothing else.
    unsafe fn from_handle(handle: *mut c_void) -> Option<Self> {
        (!handle.is_null()).then_some(Self { handle })
    }
}

/// The program or a shared library, as a range of addresses.
#[derive(Clone, Debug)]
pub struct Object {
    /// The file; empty for the program.
    path: CString,
    addresses: Range<usize>,
    /// True if it exports [`ONLY_IN_GGML`]; `None` if it has no GNU hash table of symbols.
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
        // SAFETY: `collect` matches the type of `objects`, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(collect), ptr::from_mut(&mut objects).cast()) };
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
        if self.is_program() { Library::global_scope() } else { Library::open(&self.path) }
    }

    /// Returns its file, for messages.
    pub fn name(&self) -> String {
        if self.is_program() { "the program".to_owned() } else { self.path.to_string_lossy().into_owned() }
    }
}

/// Returns the number of objects that the process has loaded so far. While it is unchanged, there is no new object.
pub fn load_count() -> u64 {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _size: usize, count: *mut c_void) -> c_int {
        // SAFETY: the linker passes a valid description.
        let adds = unsafe { (*info).dlpi_adds };
        // SAFETY: `count` is the number below.
        unsafe { count.cast::<u64>().write(adds) };
        1
    }
    let mut count = 0u64;
    // SAFETY: `first` matches the type of `count`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first), ptr::from_mut(&mut count).cast()) };
    count
}

/// Returns the definition of `name` that comes after lastuse's own in lookup order; null if there is none.
pub fn next_symbol(name: &CStr) -> *const c_void {
    // SAFETY: the name ends in NUL.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Returns the start of the exported function that contains `address`; null if there is none.
pub fn function_at(address: usize) -> *const c_void {
    // SAFETY: plain old data; all zero is a valid value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is writable; any address is allowed.
    let is_known = unsafe { libc::dladdr(ptr::without_provenance(address), &raw mut info) } != 0;
    if is_known { info.dli_saddr } else { ptr::null() }
}

/// Callback of `dl_iterate_phdr`: appends an object to the `Vec<Object>` that `list` points to.
unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _size: usize, list: *mut c_void) -> c_int {
    // SAFETY: the linker passes a valid description.
    let info = unsafe { &*info };
    // SAFETY: `list` is the vector of `Object::all`, which nothing else touches meanwhile.
    let list = unsafe { &mut *list.cast::<Vec<Object>>() };
    // SAFETY: a name that is not null ends in NUL.
    let path = (!info.dlpi_name.is_null()).then(|| unsafe { CStr::from_ptr(info.dlpi_name) }.to_owned());
    // SAFETY: the object has `dlpi_phnum` headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let start = loaded.clone().map(|header| header.p_vaddr).min().unwrap_or(0);
    let end = loaded.map(|header| header.p_vaddr.wrapping_add(header.p_memsz)).max().unwrap_or(0);
    let address = |offset: u64| usize::try_from(info.dlpi_addr.wrapping_add(offset)).unwrap_or(usize::MAX);
    let addresses = address(start)..address(end);
    // SAFETY: the linker keeps the object loaded until this returns.
    let is_ggml = unsafe { defines(info, ONLY_IN_GGML) };
    list.push(Object { path: path.unwrap_or_default(), addresses, is_ggml, position: list.len() });
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_by_their_addresses() {
        let own = Object::own().expect("this code is loaded");
        assert!(own.is_program() && own.contains(collect as *const c_void));
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
