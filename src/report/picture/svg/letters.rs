//! Names in pictures: the rectangles that they belong to, and the letters that they are written in.

use crate::placement::Bytes;
use crate::report::picture::kinds::OperationKind;
use crate::report::sizes::as_float;

/// The free space at both ends together, in pixels.
const PADDING: f64 = 2.0;

/// The visible part of a tensor's rectangle, in pixels.
pub struct Place<'a> {
    pub name: &'a str,
    pub size: Bytes,
    pub ink: OperationKind,
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
    /// True if it is live at the peak.
    pub is_at_peak: bool,
}

/// The style of a name.
#[derive(Clone, Copy)]
pub struct Letters {
    pub class: &'static str,
    /// The font size in pixels.
    pub size: f64,
}

/// All styles, the preferred one first.
pub const LETTERS: [Letters; 2] = [Letters { class: "", size: 10.5 }, Letters { class: " small", size: 8.5 }];

impl Letters {
    /// Returns the width of a text; all letters are equally wide.
    pub fn width(self, text: &str) -> f64 {
        as_float(text.chars().count() as u64) * 0.605 * self.size
    }

    /// Returns how many letters fit.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a width in pixels is small")]
    pub fn count(self, length: f64) -> usize {
        ((length - PADDING).max(0.0) / (0.605 * self.size)) as usize
    }
}
