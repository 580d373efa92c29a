//! The functions of Windows that lastuse calls, in its own words for their types.

use std::ffi::{c_char, c_int, c_void};

/// `MEMORYSTATUSEX`.
#[repr(C)]
pub struct MemoryStatus {
    pub length: u32,
    pub load: u32,
    pub total_physical: u64,
    pub available_physical: u64,
    pub others: [u64; 5],
}

/// `MEM_COMMIT | MEM_RESERVE`: memory with its addresses.
pub const COMMIT_AND_RESERVE: u32 = 0x3000;
/// `MEM_DECOMMIT`: addresses stay.
pub const DECOMMIT: u32 = 0x4000;
/// `MEM_RELEASE`: the whole of what was reserved.
pub const RELEASE: u32 = 0x8000;
/// `PAGE_READWRITE`.
pub const READ_AND_WRITE: u32 = 4;

#[link(name = "kernel32")]
unsafe extern "system" {
    pub fn GetCurrentProcess() -> *mut c_void;
    pub fn K32EnumProcessModules(process: *mut c_void, modules: *mut usize, bytes: u32, needed: *mut u32) -> c_int;
    pub fn GetModuleHandleA(name: *const c_char) -> *mut c_void;
    pub fn GetModuleFileNameW(module: *mut c_void, name: *mut u16, length: u32) -> u32;
    pub fn GetModuleHandleExW(flags: u32, address: *const c_void, module: *mut *mut c_void) -> c_int;
    pub fn FreeLibrary(module: *mut c_void) -> c_int;
    pub fn GetProcAddress(module: *mut c_void, name: *const c_char) -> *const c_void;
    pub fn RtlCaptureStackBackTrace(skip: u32, most: u32, frames: *mut *mut c_void, hash: *mut u32) -> u16;
    pub fn RtlLookupFunctionEntry(address: u64, base: *mut u64, history: *mut c_void) -> *const u32;
    pub fn AcquireSRWLockExclusive(lock: *mut c_void);
    pub fn ReleaseSRWLockExclusive(lock: *mut c_void);
    pub fn VirtualAlloc(start: *mut c_void, bytes: usize, kind: u32, protection: u32) -> *mut c_void;
    pub fn VirtualFree(start: *mut c_void, bytes: usize, kind: u32) -> c_int;
    pub fn GlobalMemoryStatusEx(status: *mut MemoryStatus) -> c_int;
}
