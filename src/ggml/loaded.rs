//! The shared libraries of this process: where ggml's own allocator is, when lastuse stands before it.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;

use super::exports::defines;

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

/// The libraries at [`paths_with`], kept loaded.
pub fn libraries_with(name: &CStr) -> Vec<(Library, CString)> {
    paths_with(name).into_iter().filter_map(|path| Some((Library::open(&path)?, path))).collect()
}

/// The paths of the libraries that define `name` themselves, other than lastuse: also those that were loaded after the start,
/// which nobody else can see.
pub fn paths_with(name: &CStr) -> Vec<CString> {
    /// Adds the path of one library to what is found.
    unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
        // SAFETY: the linker passes a valid description.
        let info = unsafe { &*info };
        // SAFETY: `search` is the value below, which nobody else touches meanwhile.
        let Search { name, found } = unsafe { &mut *search.cast::<Search<'_>>() };
        // SAFETY: the linker keeps the object loaded until this returns.
        let is_found = unsafe { defines(info, name) } != Some(false);
        // SAFETY: as above.
        if is_found && !info.dlpi_name.is_null() && !unsafe { holds(info, collect as *const c_void) } {
            // SAFETY: the path ends in NUL.
            found.push(unsafe { CStr::from_ptr(info.dlpi_name) }.to_owned());
        }
        0
    }
    let mut search = Search { name, found: Vec::new() };
    // SAFETY: `collect` matches the type of `search`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(collect), ptr::from_mut(&mut search).cast()) };
    search.found.retain(|path| !path.is_empty());
    search.found
}

/// Does an address lie in an object?
///
/// # Safety
/// `info` describes an object that stays loaded meanwhile.
unsafe fn holds(info: &libc::dl_phdr_info, address: *const c_void) -> bool {
    // SAFETY: that many headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let offset = (address.addr() as u64).wrapping_sub(info.dlpi_addr);
    headers.iter().any(|it| it.p_type == libc::PT_LOAD && offset.wrapping_sub(it.p_vaddr) < it.p_memsz)
}

/// A symbol, and the libraries that define it.
struct Search<'a> {
    name: &'a CStr,
    found: Vec<CString>,
}
