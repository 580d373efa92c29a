//! `lastuse_stats_get`: statistics of the process.

use crate::ggml::{captures, check_enabled, totals};

use super::abort::abort_on_panic;
use super::last_error::set_last_error;
use super::struct_size::{callers_struct, sized_struct};

/// The version of struct lastuse_stats in this header.
pub const LASTUSE_STATS_VERSION: u32 = 1;

/// Statistics of the process, filled in by lastuse_stats_get.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_stats {
    /// sizeof(struct lastuse_stats).
    pub struct_size: usize,
    /// LASTUSE_STATS_VERSION of the lastuse that filled in the struct; fields that it does not know are unchanged.
    pub version: u32,
    /// Allocators that exist now.
    pub allocators: u32,
    /// Plans made, those for measuring included.
    pub plans: u64,
    /// Times that a cached plan was used for a graph that was reserved again or allocated.
    pub served_again: u64,
    /// Time spent planning, in microseconds.
    pub planning_us: u64,
    /// Bytes of the buffers of the allocators that exist now.
    pub bytes: u64,
    /// Of these bytes, those that no plan could have saved: the lower bound of the largest plan of each buffer.
    pub lower_bound: u64,
    /// Graphs written to files (lastuse_set: capture).
    pub captures_written: u64,
    /// Graphs that could not be written to a file.
    pub captures_failed: u64,
}

sized_struct!(lastuse_stats);

/// Fills in the statistics of the process. Returns true if lastuse is enabled. Returns false if stats is NULL and if
/// lastuse is not enabled; then all fields after version are 0. A call of another thread at the same time may be
/// counted in some fields and not yet in others.
///
/// # Safety
/// `stats` is NULL, or points to struct_size bytes that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_stats_get(stats: *mut lastuse_stats) -> bool {
    const NAME: &str = "lastuse_stats_get";
    abort_on_panic(|| {
        // SAFETY: NULL or of its stated size, as the caller guarantees.
        let Some(stats) = (unsafe { callers_struct(NAME, "stats", stats) }) else {
            set_last_error(NAME, &"stats is NULL");
            return false;
        };
        let is_enabled = check_enabled().inspect_err(|why| set_last_error(NAME, why)).is_ok();
        let filled = if is_enabled { filled(captures().counts()) } else { lastuse_stats::default() };
        stats.write(&lastuse_stats { version: LASTUSE_STATS_VERSION, ..filled });
        is_enabled
    })
}

fn filled([captures_written, captures_failed]: [u64; 2]) -> lastuse_stats {
    let totals = totals();
    lastuse_stats {
        allocators: u32::try_from(totals.allocators).unwrap_or(u32::MAX),
        plans: totals.plans,
        served_again: totals.served_again,
        planning_us: u64::try_from(totals.planning.as_micros()).unwrap_or(u64::MAX),
        bytes: totals.held,
        lower_bound: totals.lower_bounds,
        captures_written,
        captures_failed,
        ..lastuse_stats::default()
    }
}
