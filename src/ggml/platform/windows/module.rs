//! The modules of the process (the program and its DLLs), as their headers in memory describe them.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ops::Range;
use std::ptr;

use super::api::{GetCurrentProcess, GetModuleFileNameW, GetModuleHandleA, GetProcAddress, K32EnumProcessModules};

/// The most letters of a path that Windows knows.
const LONGEST_PATH: usize = 1 << 15;

/// A module, by the address of its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module(pub usize);

/// An entry of the table of the DLLs that a module needs; one without a name ends it.
#[repr(C)]
struct Import {
    others: [u32; 3],
    /// Offset of the name in the module.
    name: u32,
    addresses: u32,
}

impl Module {
    /// Returns all that are loaded now: the program comes first.
    pub fn all() -> Vec<Self> {
        let mut modules: Vec<usize> = vec![0; 256];
        loop {
            let bytes = u32::try_from(size_of_val(modules.as_slice())).unwrap_or(u32::MAX);
            let mut needed = 0;
            // SAFETY: takes nothing.
            let process = unsafe { GetCurrentProcess() };
            // SAFETY: writes `bytes` bytes at most.
            if unsafe { K32EnumProcessModules(process, modules.as_mut_ptr(), bytes, &raw mut needed) } == 0 {
                return Vec::new();
            }
            let count = needed as usize / size_of::<usize>();
            if count <= modules.len() {
                modules.truncate(count);
                return modules.into_iter().map(Self).collect();
            }
            // More were loaded, or there are many.
            modules.resize(2 * count, 0);
        }
    }

    /// Returns its file.
    pub fn path(self) -> CString {
        let mut letters = vec![0u16; LONGEST_PATH];
        // SAFETY: writes as many letters at most.
        let length = unsafe { GetModuleFileNameW(self.handle(), letters.as_mut_ptr(), 1 << 15) };
        CString::new(String::from_utf16_lossy(&letters[..length as usize])).unwrap_or_default()
    }

    /// Returns the addresses from its first to its last byte.
    pub fn addresses(self) -> Range<usize> {
        const SIZE_OF_IMAGE: usize = 56;
        self.0..self.0 + self.word(self.optional_header() + SIZE_OF_IMAGE) as usize
    }

    /// Returns the address of a symbol that it exports; null if it does not.
    pub fn export(self, name: &CStr) -> *const c_void {
        // SAFETY: a loaded module, and a name that ends in NUL.
        unsafe { GetProcAddress(self.handle(), name.as_ptr()) }
    }

    /// Returns the address of a symbol that it, or a module that it needs, exports; null if there is none.
    pub fn symbol(self, name: &CStr) -> *const c_void {
        let (mut found, mut next) = (vec![self], 0);
        while let Some(&module) = found.get(next) {
            let address = module.export(name);
            if !address.is_null() {
                return address;
            }
            for needed in module.needed() {
                if !found.contains(&needed) {
                    found.push(needed);
                }
            }
            next += 1;
        }
        ptr::null()
    }

    /// Returns the modules that it was linked with.
    fn needed(self) -> Vec<Self> {
        const IMPORTS: usize = 112 + 8;
        let start = self.word(self.optional_header() + IMPORTS) as usize;
        let mut needed = Vec::new();
        if start == 0 {
            return needed;
        }
        let mut import = ptr::with_exposed_provenance::<Import>(self.0 + start);
        loop {
            // SAFETY: the table lies in the module, and an entry without a name ends it.
            let name = unsafe { (*import).name };
            if name == 0 {
                return needed;
            }
            let name = ptr::with_exposed_provenance::<c_char>(self.0 + name as usize);
            // SAFETY: a name in the module that ends in NUL.
            let handle = unsafe { GetModuleHandleA(name) };
            needed.extend((!handle.is_null()).then(|| Self(handle.expose_provenance())));
            import = import.wrapping_add(1);
        }
    }

    pub fn handle(self) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.0)
    }

    /// The offset of the header of 64-bit programs.
    fn optional_header(self) -> usize {
        const OFFSET_OF_HEADERS: usize = 0x3c;
        const SIGNATURE_AND_FILE_HEADER: usize = 24;
        self.word(OFFSET_OF_HEADERS) as usize + SIGNATURE_AND_FILE_HEADER
    }

    /// Reads the word of its headers at an offset.
    fn word(self, offset: usize) -> u32 {
        // SAFETY: a loaded module begins with its headers.
        unsafe { ptr::with_exposed_provenance::<u32>(self.0 + offset).read_unaligned() }
    }
}
