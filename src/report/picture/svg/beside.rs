//! Names in free space beside rectangles that are too narrow for them.

use std::fmt::Write;

use crate::report::sizes::short;
use crate::report::xml::escaped;

use super::frame::px;
use super::letters::{LETTERS, Place};

/// The distance of a rectangle and its name, in pixels.
const DISTANCE: f64 = 3.0;

/// A rectangle in pixels: left, top, right, bottom.
type Area = [f64; 4];

/// The areas that are occupied.
pub struct Beside {
    field: Area,
    occupied: Vec<Area>,
}

impl Beside {
    /// Marks all rectangles as occupied.
    pub fn new(places: &[Place<'_>], field: Area) -> Self {
        let area = |place: &Place<'_>| [place.left, place.top, place.left + place.width, place.top + place.height];
        Self { field, occupied: places.iter().map(area).collect() }
    }

    /// Writes the name of `place` beside it if there is space: preferably with its bytes, and in large letters. Returns
    /// whether there was space.
    pub fn write(&mut self, to: &mut String, place: &Place<'_>) -> bool {
        let texts = [format!("{} {}", place.name, short(place.size)), place.name.to_owned()];
        for text in texts {
            for letters in LETTERS {
                let (width, half) = (letters.width(&text), letters.size / 2.0 + 1.0);
                let middle = place.top + place.height / 2.0;
                for left in [place.left + place.width + DISTANCE, place.left - DISTANCE - width] {
                    let area = [left, middle - half, left + width, middle + half];
                    if place.height >= letters.size && self.is_free(area) {
                        self.occupied.push(area);
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
                .occupied
                .iter()
                .all(|taken| left >= taken[2] || right <= taken[0] || top >= taken[3] || bottom <= taken[1])
    }
}
