//! Names beside what is too narrow for them, where nothing else is.

use std::fmt::Write;

use crate::report::picture::units::bytes;
use crate::report::picture::xml::escaped;

use super::frame::px;
use super::labels::{LETTERS, Place};

/// From a rectangle to its name, in pixels.
const DISTANCE: f64 = 3.0;

/// A rectangle in pixels: left, top, right, bottom.
type Area = [f64; 4];

/// What is taken already.
pub struct Beside {
    field: Area,
    taken: Vec<Area>,
}

impl Beside {
    /// Nothing is free where a rectangle is.
    pub fn new(places: &[Place<'_>], field: Area) -> Self {
        let area = |place: &Place<'_>| [place.left, place.top, place.left + place.width, place.top + place.height];
        Self { field, taken: places.iter().map(area).collect() }
    }

    /// Writes the name of `place` beside it, if there is a free area: with its bytes rather than without, large rather
    /// than small.
    pub fn write(&mut self, to: &mut String, place: &Place<'_>) -> bool {
        let texts = [format!("{} {}", place.name, bytes(place.size)), place.name.to_owned()];
        for text in texts {
            for letters in LETTERS {
                let (width, half) = (letters.width(&text), letters.size / 2.0 + 1.0);
                let middle = place.top + place.height / 2.0;
                for left in [place.left + place.width + DISTANCE, place.left - DISTANCE - width] {
                    let area = [left, middle - half, left + width, middle + half];
                    if place.height >= letters.size && self.is_free(area) {
                        self.taken.push(area);
                        let (y, class) = (px(middle + letters.size * 0.35), letters.class);
                        let (x, text) = (px(left), escaped(&text));
                        let _ = writeln!(to, "<text class=\"beside{class}\" x=\"{x}\" y=\"{y}\">{text}</text>");
                        return true;
                    }
                }
            }
        }
        false
    }

    fn is_free(&self, [left, top, right, bottom]: Area) -> bool {
        let [start, above, end, below] = self.field;
        let is_inside = left >= start && right <= end && top >= above && bottom <= below;
        is_inside
            && self
                .taken
                .iter()
                .all(|taken| left >= taken[2] || right <= taken[0] || top >= taken[3] || bottom <= taken[1])
    }
}
