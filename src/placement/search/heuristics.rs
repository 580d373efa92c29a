//! Fixed branching orders: at which corner to branch, and which bar to try first there. Conflict weights of columns, as in
//! the branching heuristic dom/wdeg, choose the corner: first those with few moves in columns with many conflicts.

use super::columns::{Bar, Columns};

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

/// The weighting of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighting {
    /// Conflicts, most of all recent ones.
    Conflicts,
    /// Conflicts, and a short distance to the last one.
    LastConflict,
    /// Conflicts, a short distance to the last one, and little slack: for problems with much slack in other columns.
    Tightness,
}

impl Weighting {
    /// All weightings, in the order of their discriminants.
    pub const ALL: [Self; 3] = [Self::Conflicts, Self::LastConflict, Self::Tightness];
}

/// The weight of a conflict.
const UNIT: u64 = 1000;

/// With [`Weighting::Tightness`], how many times the initial weight of an empty column that of a full one is.
const FULL: u64 = 16;

/// By column, how often and how recently there was a conflict.
#[derive(Debug)]
pub struct Weights {
    weighting: Weighting,
    weights: Vec<u64>,
    /// The weights before any conflict.
    initial: Vec<u64>,
    /// The column of the last conflict.
    last: u32,
    /// Conflicts since the weights were last reduced.
    conflicts: u32,
}

impl Weights {
    /// Creates the initial weights. No column has more than `capacity` live units.
    pub fn new(weighting: Weighting, columns: &Columns, capacity: u64) -> Self {
        let initial: Vec<u64> = match weighting {
            Weighting::Conflicts | Weighting::LastConflict => vec![UNIT; columns.count() as usize],
            Weighting::Tightness => columns.live_units().iter().map(|&live| tightness(live, capacity)).collect(),
        };
        Self { weighting, weights: initial.clone(), initial, last: 0, conflicts: 0 }
    }

    /// Returns the weight of a column.
    fn of(&self, column: u32) -> u64 {
        let weight = self.weights[column as usize];
        match self.weighting {
            Weighting::Conflicts => weight,
            Weighting::LastConflict | Weighting::Tightness => {
                weight * (4 + 40 / (1 + u64::from(self.distance_to_last_conflict(column))))
            }
        }
    }

    /// Returns the cost of branching at an edge. Leaving a strip empty counts for more than a bar, since it propagates
    /// less.
    #[allow(clippy::cast_precision_loss, reason = "costs and weights are small numbers")]
    pub fn cost(&self, bars: u64, leave: bool, edge: u32) -> f64 {
        let moves = 2 * bars + self.cost_of_leaving() * u64::from(leave);
        moves as f64 / self.of(edge) as f64
    }

    /// Returns the cost of leaving a strip empty, where a bar costs 2.
    fn cost_of_leaving(&self) -> u64 {
        match self.weighting {
            Weighting::Conflicts | Weighting::LastConflict => 3,
            Weighting::Tightness => 16,
        }
    }

    /// Returns the number of conflicts after which the weights are reduced.
    fn period(&self) -> u32 {
        match self.weighting {
            Weighting::Conflicts | Weighting::LastConflict => 100,
            Weighting::Tightness => 1000,
        }
    }

    /// Returns the number of columns between `column` and that of the last conflict.
    pub fn distance_to_last_conflict(&self, column: u32) -> u32 {
        column.abs_diff(self.last)
    }

    /// Counts a conflict in `column`.
    pub fn add_conflict(&mut self, column: u32) {
        self.weights[column as usize] += UNIT;
        self.last = column;
        self.conflicts += 1;
        if self.conflicts == self.period() {
            self.conflicts = 0;
            for (weight, initial) in self.weights.iter_mut().zip(&self.initial) {
                *weight = *weight / 8 * 7 + initial;
            }
        }
    }
}

fn tightness(live: u64, capacity: u64) -> u64 {
    let weight = u128::from(UNIT) * u128::from(capacity) / u128::from(capacity - live + (capacity / FULL).max(1));
    u64::try_from(weight).unwrap_or(UNIT)
}
