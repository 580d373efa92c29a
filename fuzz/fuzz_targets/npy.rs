//! Fuzzes `lastuse_fuzz_checks::npy`.
#![no_main]

use lastuse_fuzz_checks::Counting;

#[global_allocator]
static MEMORY: Counting = Counting;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lastuse_fuzz_checks::npy(bytes));
