//! Linux: objects by `dl_iterate_phdr` and their ELF tables, mappings by `/proc`. The rest is as on any Unix.

mod elf;
mod maps;

use std::ffi::{CStr, CString, c_int, c_void};
use std::ops::Range;
use std::ptr;

pub use maps::is_private_and_anonymous;

use super::BoundCall;
#[cfg(debug_assertions)]
pub use super::unix::forbid;
pub use super::unix::{Gzip, Library, Mutex, backtrace, check_writable_folder, discard, function_at};
pub use super::unix::{next_symbol, page_size, physical_memory, release, reserve, shorten, text, without_signals};

/// The name of zlib on every Linux.
pub(super) const ZLIB: &CStr = c"libz.so.1";

/// Why [`Gzip`] is not found.
pub const NO_GZIP: &str = "libz.so.1 cannot be loaded; install zlib to have them compressed";

/// The most bytes that a context of default size reserves; `None` where address space costs nothing.
pub const LARGEST_DEFAULT: Option<usize> = None;

/// Flags for a mapping that takes memory only where it is used.
pub(super) const RESERVED: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

/// An object while the dynamic linker keeps it loaded.
pub struct LoadedObject<'a> {
    info: &'a libc::dl_phdr_info,
    tables: Option<elf::Tables>,
}

impl LoadedObject<'_> {
    /// Returns its file; empty for the program.
    pub fn path(&self) -> CString {
        let name = self.info.dlpi_name;
        // SAFETY: a name that is not null ends in NUL.
        if name.is_null() { CString::default() } else { unsafe { CStr::from_ptr(name) }.to_owned() }
    }

    /// Returns the addresses from its first to its last byte.
    pub fn addresses(&self) -> Range<usize> {
        // SAFETY: the object has `dlpi_phnum` headers.
        let headers = unsafe { std::slice::from_raw_parts(self.info.dlpi_phdr, self.info.dlpi_phnum.into()) };
        let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let start = loaded.clone().map(|header| header.p_vaddr).min().unwrap_or(0);
        let end = loaded.map(|header| header.p_vaddr.wrapping_add(header.p_memsz)).max().unwrap_or(0);
        let address = |offset: u64| usize::try_from(self.info.dlpi_addr.wrapping_add(offset)).unwrap_or(usize::MAX);
        address(start)..address(end)
    }

    /// Returns `true` if it exports `name`; `None` if its tables do not tell.
    pub fn exports(&self, name: &CStr) -> Option<bool> {
        let tables = self.tables.as_ref()?;
        // SAFETY: the tables of an object that stays loaded as long as this value exists.
        unsafe { elf::exports(tables, name) }
    }

    /// Calls `visit` for each function whose name begins with `prefix` that it calls through the dynamic linker.
    pub fn bound_calls(&self, prefix: &[u8], visit: impl FnMut(BoundCall<'_>)) {
        if let Some(tables) = &self.tables {
            // SAFETY: the object stays loaded, and the linker has relocated the objects that it lists.
            unsafe { elf::bound_calls(tables, prefix, visit) };
        }
    }
}

/// Calls `visit` for each object that is loaded now, in load order: the program comes first.
pub fn for_each_object<F: FnMut(&LoadedObject<'_>)>(mut visit: F) {
    unsafe extern "C" fn each<F: FnMut(&LoadedObject<'_>)>(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        visit: *mut c_void,
    ) -> c_int {
        // SAFETY: the linker passes a valid description.
        let info = unsafe { &*info };
        // SAFETY: the closure below, which nothing else touches meanwhile.
        let visit = unsafe { &mut *visit.cast::<F>() };
        // SAFETY: the linker keeps the object loaded until this returns.
        let tables = unsafe { elf::tables(info) };
        visit(&LoadedObject { info, tables });
        0
    }
    // SAFETY: `each` matches the type of `visit`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(each::<F>), ptr::from_mut(&mut visit).cast()) };
}

/// Returns the number of objects that the process has loaded so far, which changes when objects are loaded.
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

/// Defines a table of one pointer for each name, null where the program has no such function. The functions of a `hidden`
/// table are in the same object, or in none.
macro_rules! weak_table {
    (hidden $table:literal: $($name:expr),* $(,)?) => {
        weak_table!(@ $table: $(concat!(".weak ", $name, "\n.hidden ", $name, "\n.8byte ", $name)),*);
    };
    ($table:literal: $($name:expr),* $(,)?) => {
        weak_table!(@ $table: $(concat!(".weak ", $name, "\n.8byte ", $name)),*);
    };
    (@ $table:literal: $($entry:expr),*) => {
        std::arch::global_asm!(
            concat!(".pushsection .data.rel.ro.", $table, ", \"aw\""),
            ".balign 8",
            concat!(".globl ", $table),
            concat!(".hidden ", $table),
            concat!($table, ":"),
            $($entry,)*
            ".popsection",
        );
    };
}
pub(in crate::ggml) use weak_table;

/// Calls a function when the process ends or the library is unloaded: the dynamic linker does.
macro_rules! at_end {
    ($function:path) => {
        #[used]
        #[unsafe(link_section = ".fini_array")]
        static AT_END: extern "C" fn() = $function;
    };
}
pub(in crate::ggml) use at_end;

/// Backs the first bytes of a reservation with small pages only.
///
/// # Safety
/// The bytes are of one reservation.
pub unsafe fn use_small_pages(start: *mut c_void, length: usize) {
    // SAFETY: advice about memory of this process. A system without huge pages rejects it, which is harmless.
    unsafe { libc::madvise(start, length, libc::MADV_NOHUGEPAGE) };
}

/// Counts those of `pages` pages from `start` that are in memory. `None` if the system does not say.
pub fn resident_pages(start: usize, pages: usize) -> Option<usize> {
    let mut states = vec![0u8; pages];
    let length = pages * page_size();
    // SAFETY: one byte for each page is written; the call fails where nothing is mapped.
    let status = unsafe { libc::mincore(ptr::with_exposed_provenance_mut(start), length, states.as_mut_ptr()) };
    (status == 0).then(|| states.iter().filter(|&&state| state & 1 != 0).count())
}

/// Returns the bytes of the machine's memory that programs can have: what nothing uses, and what Linux would give up for them.
pub fn free_memory() -> Option<u64> {
    let all = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kibibytes = all.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?.trim().strip_suffix(" kB")?;
    kibibytes.parse::<u64>().ok()?.checked_mul(1024)
}
