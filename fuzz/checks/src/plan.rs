//! Files of plans.

use lastuse_tool::formats::PlanFile;

use crate::in_proportion;

/// Reads a plan.
///
/// # Panics
/// When it takes too much memory, or is refused without a reason.
pub fn plan(bytes: &[u8]) {
    let read = || PlanFile::read(bytes);
    let is_compressed = bytes.starts_with(&[0x1f, 0x8b]);
    let read = if is_compressed { read() } else { in_proportion(bytes.len(), read) };
    if let Err(error) = read {
        assert!(!error.to_string().is_empty());
    }
}
