//! The shared libraries of this process: where ggml's own allocator is, when lastuse stands before it.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;

/// A shared library that the process has loaded, and keeps loaded as long as this value is there.
#[derive(Debug)]
pub struct Library {
    handle: *mut c_void,
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and nobody uses it afterwards.
        unsafe { libc::dlclose(self.handle) };
    }
}

impl Library {
    /// Keeps it loaded to the end of the process.
    pub fn keep(self) {
        let _ = std::mem::ManuallyDrop::new(self);
    }

    /// The address of a symbol that the library, or one that it needs, defines; null when there is none.
    pub fn symbol(&self, name: &CStr) -> *const c_void {
        // SAFETY: the handle is open, and the name ends in NUL.
        unsafe { libc::dlsym(self.handle, name.as_ptr()) }
    }

    fn open(path: &CStr) -> Option<Self> {
        // SAFETY: RTLD_NOLOAD loads nothing; it finds a library that is there and keeps it there.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Self { handle })
    }
}

/// The definition of `name` that comes after lastuse's own in the order of the linker; null when there is none.
pub fn next_symbol(name: &CStr) -> *const c_void {
    // SAFETY: the name ends in NUL.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// The libraries that define `name` themselves, other than lastuse: also those that were loaded after the start, which
/// nobody else can see.
pub fn libraries_with(name: &CStr) -> Vec<(Library, CString)> {
    let own = file_of(libraries_with as *const c_void);
    let mut found = Vec::new();
    for path in loaded_paths() {
        let Some(library) = Library::open(&path).filter(|_| Some(&path) != own.as_ref()) else { continue };
        if file_of(library.symbol(name)).as_ref() == Some(&path) {
            found.push((library, path));
        }
    }
    found
}

/// The file that an address was loaded from.
pub fn file_of(address: *const c_void) -> Option<CString> {
    // SAFETY: plain old data; all zero is a valid value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is writable; any address may be asked for.
    let known = unsafe { libc::dladdr(address, &raw mut info) } != 0 && !info.dli_fname.is_null();
    // SAFETY: a name that the linker keeps for as long as the library is loaded.
    known.then(|| unsafe { CStr::from_ptr(info.dli_fname) }.to_owned())
}

fn loaded_paths() -> Vec<CString> {
    /// Adds the path of one library to the list behind `list`.
    unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _size: usize, list: *mut c_void) -> c_int {
        // SAFETY: the linker passes a valid description.
        let name = unsafe { (*info).dlpi_name };
        if !name.is_null() {
            // SAFETY: the name ends in NUL.
            let name = unsafe { CStr::from_ptr(name) };
            // SAFETY: `list` is the vector below, which nobody else touches meanwhile.
            let list = unsafe { &mut *list.cast::<Vec<CString>>() };
            list.push(name.to_owned());
        }
        0
    }
    let mut paths: Vec<CString> = Vec::new();
    // SAFETY: `collect` matches the type of `paths`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(collect), ptr::from_mut(&mut paths).cast()) };
    paths.retain(|path| !path.is_empty());
    paths
}
