//! The operating system: one module for each, with the same functions and types. No other code depends on which it is.
//!
//! - objects of the process: `for_each_object`, `LoadedObject`, `load_count`, `Library`, `next_symbol`, `function_at`, `backtrace`
//! - functions that may be missing: `weak_table`
//! - the end of the process: `at_end`
//! - threads: `Mutex`, `without_signals`
//! - reserved address space: `reserve`, `shorten`, `forbid`, `release`, `use_small_pages`, `LARGEST_DEFAULT`
//! - pages: `page_size`, `discard`, `is_private_and_anonymous`, `resident_pages`
//! - the machine's memory: `physical_memory`, `free_memory`
//! - files and texts: `text`, `check_writable_folder`, `Gzip`, `NO_GZIP`
//!
//! The guard, which is another library, is compiled with it too.

use std::ffi::CStr;

#[cfg(unix)]
mod unix;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "windows")]
mod windows;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
use macos as system;
#[cfg(target_os = "windows")]
use windows as system;

#[cfg(debug_assertions)]
pub use system::forbid;
pub use system::{Gzip, Library, LoadedObject, Mutex};
pub use system::{LARGEST_DEFAULT, NO_GZIP};
pub(in crate::ggml) use system::{at_end, weak_table};
pub use system::{backtrace, for_each_object, function_at, load_count, next_symbol};
pub use system::{check_writable_folder, text};
pub use system::{discard, is_private_and_anonymous, release, reserve, resident_pages, shorten, use_small_pages};
pub use system::{free_memory, page_size, physical_memory, without_signals};

/// A function that an object calls through the dynamic linker.
#[derive(Clone, Copy, Debug)]
pub struct BoundCall<'a> {
    /// Its name.
    pub name: &'a CStr,
    /// Where calls go now: to the function, or to code of the object itself that binds the call when it is made.
    pub target: usize,
    /// The address of the object's own definition, if it has one.
    pub own: Option<usize>,
}

impl Library {
    /// Keeps the library loaded to the end of the process.
    pub fn keep(self) {
        let _ = std::mem::ManuallyDrop::new(self);
    }
}
