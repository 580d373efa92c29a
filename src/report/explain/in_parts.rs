//! How much less a graph needs if its large intermediates are computed in parts.

use std::fmt::{self, Write};

use crate::graph::split::{SplitEffort, SplitLimits};
use crate::placement::Bytes;
use crate::report::sizes::exact;

use super::case::Case;
use super::change::counted;
use super::named::Named;

/// The work limit of the search for cuts: some tenths of a second.
const EFFORT: SplitEffort = SplitEffort(1_000_000);

/// Savings below this part of the plan, in hundredths, are not worth the time of the parts.
const MIN_SAVED: Bytes = 5;

/// The smallest graph that was found with large intermediates in parts.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct InParts {
    /// Bytes that it takes less than the plan, in all buffers.
    pub saves: Bytes,
    /// Bytes that it takes, in all buffers.
    pub size: Bytes,
    /// The largest tensor that is computed in parts.
    #[cfg_attr(feature = "cli", serde(flatten))]
    pub tensor: Named,
    /// How many parts it has.
    pub parts: u32,
    /// How many other tensors are computed in parts.
    pub others: usize,
}

/// Searches for the smallest graph with large intermediates in parts. `None` if it takes hardly less, or no work is left.
pub fn in_parts(case: &Case<'_>) -> Option<InParts> {
    if !case.may_try(1) {
        return None;
    }
    let mut snapshot = case.planned.snapshot.clone();
    let limits = SplitLimits { effort: EFFORT, ..SplitLimits::of(0) };
    let found = snapshot.split(case.planned.buffers, limits, &mut |_| true).ok()?;
    let largest = found.splits.iter().max_by_key(|split| split.bytes[0])?;
    let saves = found.before.saturating_sub(found.after);
    let is_worth_it = u128::from(saves) * 100 >= u128::from(found.before) * u128::from(MIN_SAVED);
    is_worth_it.then(|| InParts {
        saves,
        size: found.after,
        tensor: case.named(largest.tensor),
        parts: largest.parts,
        others: found.splits.len() - 1,
    })
}

/// Writes the savings, and how to have them.
pub fn write_in_parts(out: &mut String, in_parts: &InParts) -> fmt::Result {
    let InParts { saves, size, tensor, parts, others } = in_parts;
    let parts = counted(*parts as usize, "part", "parts");
    let others = match others {
        0 => String::new(),
        1 => ", and another tensor".to_owned(),
        some => format!(", and {some} other tensors"),
    };
    writeln!(
        out,
        "\nWith {tensor} in {parts}{others}, the graph needs {}, {} less, for some more time; a budget between decides how \
         much is cut (lastuse plan --split, lastuse_graph_split)",
        exact(*size),
        exact(*saves)
    )
}
