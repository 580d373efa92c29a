//! `lastuse_stats_get`: what lastuse has done in this process.

use crate::ggml::{captures, check_enabled, totals};

use super::{checked_report, guard};

/// The version of struct lastuse_stats that this header has.
pub const LASTUSE_STATS_VERSION: u32 = 1;

/// What lastuse has done in this process. The caller sets struct_size and zeroes the rest.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_stats {
    /// sizeof(struct lastuse_stats): which fields there are. Later versions may add some at the end.
    pub struct_size: usize,
    /// Which fields were filled in: LASTUSE_STATS_VERSION of the lastuse that answers.
    pub version: u32,
    /// Allocators that are alive.
    pub allocators: u32,
    /// Plans that were made, those for measuring included.
    pub plans: u64,
    /// Times that a graph was served by a plan made before: reserved again, or allocated.
    pub served_again: u64,
    /// Microseconds that planning took.
    pub planning_us: u64,
    /// Bytes of the buffers of the allocators that are alive.
    pub bytes: u64,
    /// The bytes that no plan could have saved: the lower bound of the largest plan that each of these buffers had.
    pub lower_bound: u64,
    /// Graphs that were written to files (lastuse_set_capture).
    pub captures_written: u64,
    /// Graphs that could not be written.
    pub captures_failed: u64,
}

/// Fills in what lastuse has done in this process so far. Threads that allocate meanwhile may be seen in some fields and not
/// yet in others. False when stats is NULL, and when lastuse is not enabled: all fields after version are 0 then. Aborts when
/// struct_size is too small.
///
/// ```c
/// struct lastuse_stats stats = { sizeof(stats) };
/// if (lastuse_stats_get(&stats)) {
///     printf("%d allocators hold %.1f MiB\n", (int) stats.allocators, (double) stats.bytes / (1024 * 1024));
///     GGML_ASSERT(stats.version == LASTUSE_STATS_VERSION);
/// }
/// ```
///
/// # Safety
/// `stats` is NULL or has struct_size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_stats_get(stats: *mut lastuse_stats) -> bool {
    guard(|| {
        // SAFETY: the caller's promise; a struct of C that begins with its size.
        let Some((stats, struct_size)) = (unsafe { checked_report("lastuse_stats_get", stats) }) else { return false };
        let is_enabled = check_enabled().is_ok();
        let found = if is_enabled { filled(captures().counts()) } else { lastuse_stats::default() };
        let found = lastuse_stats { struct_size, version: LASTUSE_STATS_VERSION, ..found };
        // SAFETY: the caller's promise; there is room for all fields, as was checked.
        unsafe { stats.write(found) };
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
