//! Which bar is tried first.

use super::columns::Bar;

/// Which of the bars at a corner is tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// The highest, of equal ones the widest.
    Height,
    /// The widest, of equal ones the highest.
    Width,
    /// The largest.
    Area,
    /// The largest, where width weighs more than height.
    WideArea,
}

impl Preference {
    /// The larger the earlier.
    pub fn of(self, bar: Bar) -> u128 {
        let (height, width) = (u128::from(bar.height), u128::from(bar.right - bar.left));
        match self {
            Self::Height => height << 32 | width,
            Self::Width => width << 64 | height,
            Self::Area => height * width,
            Self::WideArea => (height * width).saturating_mul(width),
        }
    }
}
