//! macOS: objects as the dynamic linker `dyld` lists them. The rest is as on any Unix.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ops::Range;

use super::BoundCall;
#[cfg(debug_assertions)]
pub use super::unix::forbid;
pub use super::unix::{Gzip, Library, Mutex, backtrace, check_writable_folder, discard, function_at};
pub use super::unix::{next_symbol, page_size, physical_memory, release, reserve, shorten, text, without_signals};

/// The name of zlib on every macOS.
pub(super) const ZLIB: &CStr = c"/usr/lib/libz.1.dylib";

/// Why [`Gzip`] is not found.
pub const NO_GZIP: &str = "/usr/lib/libz.1.dylib cannot be loaded";

/// The most bytes that a context of default size reserves; `None` where address space costs nothing.
pub const LARGEST_DEFAULT: Option<usize> = None;

/// Flags for a mapping that takes memory only where it is used.
pub(super) const RESERVED: c_int = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;

/// The header of an object, which its load commands follow.
#[repr(C)]
struct Header {
    magic: u32,
    processor: [u32; 2],
    file_type: u32,
    commands: u32,
    bytes_of_commands: u32,
    flags: [u32; 2],
}

/// The beginning of a load command, as far as those of segments have it.
#[repr(C)]
struct Segment {
    command: u32,
    bytes: u32,
    name: [u8; 16],
    address: u64,
    length: u64,
    offset: u64,
    bytes_in_file: u64,
    most_protection: u32,
    protection: u32,
}

/// The load command of a 64-bit segment.
const SEGMENT: u32 = 0x19;

unsafe extern "C" {
    fn _dyld_image_count() -> u32;
    fn _dyld_get_image_header(index: u32) -> *const Header;
    fn _dyld_get_image_vmaddr_slide(index: u32) -> isize;
    fn _dyld_get_image_name(index: u32) -> *const c_char;
}

/// An object, which stays loaded while it is looked at unless another thread unloads it.
#[derive(Debug)]
pub struct LoadedObject<'a> {
    index: u32,
    header: *const Header,
    loaded: PhantomData<&'a ()>,
}

impl LoadedObject<'_> {
    /// Returns its file.
    pub fn path(&self) -> CString {
        // SAFETY: any number is allowed.
        let name = unsafe { _dyld_get_image_name(self.index) };
        // SAFETY: a name that is not null ends in NUL.
        if name.is_null() { CString::default() } else { unsafe { CStr::from_ptr(name) }.to_owned() }
    }

    /// Returns the addresses from its first to its last byte.
    pub fn addresses(&self) -> Range<usize> {
        // SAFETY: any number is allowed.
        let slide = unsafe { _dyld_get_image_vmaddr_slide(self.index) };
        // SAFETY: the header of a loaded object.
        let count = unsafe { (*self.header).commands };
        let mut command = self.header.wrapping_add(1).cast::<u8>();
        let (mut start, mut end) = (usize::MAX, 0);
        for _ in 0..count {
            // SAFETY: a load command has at least a kind and a length.
            let [kind, bytes] = unsafe { command.cast::<[u32; 2]>().read() };
            if kind == SEGMENT {
                // SAFETY: a load command of this kind.
                let segment = unsafe { command.cast::<Segment>().read() };
                // Segments that cannot be accessed are left out: the page of null pointers is one.
                if segment.most_protection != 0 {
                    let at = |address: u64| usize::try_from(address).unwrap_or(usize::MAX).wrapping_add_signed(slide);
                    start = start.min(at(segment.address));
                    end = end.max(at(segment.address + segment.length));
                }
            }
            command = command.wrapping_add(bytes as usize);
        }
        start.min(end)..end
    }

    /// Returns `None`: what it exports is looked up.
    #[allow(clippy::unused_self, reason = "other systems have tables")]
    pub fn exports(&self, _name: &CStr) -> Option<bool> {
        None
    }

    /// Calls nothing: calls are bound to the library that they were linked with, and not to the first that has the function.
    #[allow(clippy::unused_self, reason = "other systems have tables")]
    pub fn bound_calls(&self, _prefix: &[u8], _visit: impl FnMut(BoundCall<'_>)) {}
}

/// Calls `visit` for each object that is loaded now, in load order: the program comes first.
pub fn for_each_object<F: FnMut(&LoadedObject<'_>)>(mut visit: F) {
    // SAFETY: takes nothing.
    for index in 0..unsafe { _dyld_image_count() } {
        // SAFETY: any number is allowed.
        let header = unsafe { _dyld_get_image_header(index) };
        if !header.is_null() {
            visit(&LoadedObject { index, header, loaded: PhantomData });
        }
    }
}

/// Returns a number that changes when objects are loaded.
pub fn load_count() -> u64 {
    let (mut count, mut sum) = (0u64, 0u64);
    for_each_object(|object| {
        count += 1;
        sum = sum.rotate_left(5) ^ object.header.addr() as u64;
    });
    sum ^ count
}

/// Defines a table of one pointer for each name, null where the program has no such function. The functions of a `hidden`
/// table are in the same object, or in none.
macro_rules! weak_table {
    (hidden $table:literal: $($name:expr),* $(,)?) => {
        weak_table!($table: $($name),*);
    };
    ($table:literal: $($name:expr),* $(,)?) => {
        std::arch::global_asm!(
            ".section __DATA,__const",
            ".p2align 3",
            concat!(".globl _", $table),
            concat!(".private_extern _", $table),
            concat!("_", $table, ":"),
            $(concat!(".weak_reference _", $name, "\n.quad _", $name),)*
            ".text",
        );
    };
}
pub(in crate::ggml) use weak_table;

/// Calls a function when the process ends: `atexit` is told when the program starts.
macro_rules! at_end {
    ($function:path) => {
        #[used]
        #[unsafe(link_section = "__DATA,__mod_init_func")]
        static AT_START: extern "C" fn() = {
            extern "C" fn register() {
                // SAFETY: a function of this library, which the C library calls before it unloads the library.
                unsafe { libc::atexit($function) };
            }
            register
        };
    };
}
pub(in crate::ggml) use at_end;

/// Does nothing: pages are small.
///
/// # Safety
/// None.
pub unsafe fn use_small_pages(_start: *mut c_void, _length: usize) {}

/// Returns `false`, so that no pages are given back: those of macOS are not 0 when they are read again.
pub fn is_private_and_anonymous(_addresses: &Range<usize>) -> bool {
    false
}

/// Returns `None`: which pages are in memory is not asked.
pub fn resident_pages(_start: usize, _pages: usize) -> Option<usize> {
    None
}

/// Returns `None`: macOS does not count pages that nothing uses as `sysconf` would.
pub fn free_memory() -> Option<u64> {
    None
}
