//! Fixed branching orders: at which corner to branch, and which bar to try first there.

use super::columns::Bar;
use super::weights::Weighting;

/// A branching order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heuristic {
    /// Which bar is tried first at a corner.
    pub bar_order: BarOrder,
    /// Which columns have heavy corners; the search branches at those first.
    pub weighting: Weighting,
}

impl Heuristic {
    /// The heuristics of the runs, in turn: they seldom fail on the same problem.
    pub const ALL: [Self; 6] = [
        Self { bar_order: BarOrder::Height, weighting: Weighting::LastConflict },
        Self { bar_order: BarOrder::Width, weighting: Weighting::LastConflict },
        Self { bar_order: BarOrder::Area, weighting: Weighting::LastConflict },
        Self { bar_order: BarOrder::Height, weighting: Weighting::Conflicts },
        Self { bar_order: BarOrder::Area, weighting: Weighting::Conflicts },
        Self { bar_order: BarOrder::WideArea, weighting: Weighting::Tightness },
    ];
}

/// Which of the bars at a corner is tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarOrder {
    /// The highest; among equally high ones the widest.
    Height,
    /// The widest; among equally wide ones the highest.
    Width,
    /// The largest height times width.
    Area,
    /// The largest height times the square of the width.
    WideArea,
}

impl BarOrder {
    /// Returns the priority of a bar. Larger ones are tried first.
    pub fn priority(self, bar: Bar) -> u128 {
        let (height, width) = (u128::from(bar.height), u128::from(bar.right - bar.left));
        match self {
            Self::Height => height << 32 | width,
            Self::Width => width << 64 | height,
            Self::Area => height * width,
            Self::WideArea => (height * width).saturating_mul(width),
        }
    }
}
