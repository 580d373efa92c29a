//! Finds functions in the objects that are loaded.

use std::collections::HashSet;
use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

/// Returns the definition of a function that this library wraps: the next one in the search order of the linker, or
/// that of a library which the program has opened itself, as Python does. Null if there is none.
pub fn find_wrapped(name: &CStr) -> *mut c_void {
    let next = look_up(libc::RTLD_NEXT, name);
    if !next.is_null() {
        return next;
    }
    let own = look_up(libc::RTLD_DEFAULT, name);
    let mut found = loaded_objects().into_iter().map(|object| find_in(&object, name));
    found.find(|address| !address.is_null() && *address != own).unwrap_or(null_mut())
}

/// Returns the definition of a function in the object that contains `address`, or in those that it needs; null if there is
/// none but that of this library. Of several ggmls it is the one that the owner of the address belongs to.
pub fn find_near(address: *const c_void, name: &CStr) -> *mut c_void {
    // SAFETY: plain old data; all zero is a valid value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is writable; any address is allowed.
    let is_known = unsafe { libc::dladdr(address, &raw mut info) } != 0;
    if !is_known || info.dli_fname.is_null() {
        return null_mut();
    }
    // SAFETY: names end in NUL, and this one is copied.
    let object = unsafe { CStr::from_ptr(info.dli_fname) }.to_owned();
    let found = find_in(&object, name);
    if found == look_up(libc::RTLD_DEFAULT, name) { null_mut() } else { found }
}

/// Returns whether several ggmls are loaded. Objects are searched again when others were loaded.
pub fn has_several_ggmls() -> bool {
    const OF_EVERY_GGML: &CStr = c"ggml_backend_tensor_set";
    static SEARCHED: Mutex<(u64, bool)> = Mutex::new((0, false));
    let loads = load_count();
    let mut searched = SEARCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if searched.0 != loads {
        let own = look_up(libc::RTLD_DEFAULT, OF_EVERY_GGML);
        let found = loaded_objects().into_iter().map(|object| find_in(&object, OF_EVERY_GGML).addr());
        let ggmls: HashSet<usize> = found.filter(|&address| address != 0 && address != own.addr()).collect();
        *searched = (loads, ggmls.len() > 1);
    }
    searched.1
}

/// Returns a number that grows with each object that is loaded.
fn load_count() -> u64 {
    let mut count = 0_u64;
    // SAFETY: `first` gets the number, which lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(count_of_first), (&raw mut count).cast()) };
    count
}

/// # Safety
/// `info` describes a loaded object, and `count` is a number that nothing else uses.
unsafe extern "C" fn count_of_first(info: *mut libc::dl_phdr_info, _size: usize, count: *mut c_void) -> c_int {
    // SAFETY: `info` describes a loaded object.
    let loads = unsafe { (*info).dlpi_adds };
    // SAFETY: a number that nothing else uses.
    unsafe { count.cast::<u64>().write(loads) };
    1
}

/// Returns the definition of a function anywhere, or null.
pub fn find_anywhere(name: &CStr) -> *mut c_void {
    look_up(libc::RTLD_DEFAULT, name)
}

fn look_up(place: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the name ends in NUL, and the place is a handle or one of the constants.
    unsafe { libc::dlsym(place, name.as_ptr()) }
}

/// Looks up a function in a loaded object and those that it needs.
fn find_in(object: &CStr, name: &CStr) -> *mut c_void {
    // SAFETY: the path ends in NUL; nothing is loaded.
    let handle = unsafe { libc::dlopen(object.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return null_mut();
    }
    let address = look_up(handle, name);
    // The handle is kept open if it has the function, so that the object stays.
    if address.is_null() {
        // SAFETY: opened above, and not used afterwards.
        unsafe { libc::dlclose(handle) };
    }
    address
}

/// Returns the paths of all loaded objects.
fn loaded_objects() -> Vec<CString> {
    let mut paths: Vec<CString> = Vec::new();
    // SAFETY: `add` gets the vector, which lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut paths).cast()) };
    paths
}

/// # Safety
/// `info` describes a loaded object, and `paths` is a vector that nothing else uses.
unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _size: usize, paths: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let name = unsafe { (*info).dlpi_name };
    if !name.is_null() {
        // SAFETY: names end in NUL.
        let path = unsafe { CStr::from_ptr(name) }.to_owned();
        if !path.is_empty() {
            // SAFETY: the caller's promise.
            unsafe { &mut *paths.cast::<Vec<CString>>() }.push(path);
        }
    }
    0
}
