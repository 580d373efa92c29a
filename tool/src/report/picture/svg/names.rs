//! Names in the largest rectangles that have space, and in free space next to those that are too narrow.

use std::cmp::Reverse;

use lastuse::graph::OpGroup;
use lastuse::placement::Bytes;

use crate::report::sizes::{as_float, short};
use crate::report::xml::{escaped, shortened};

use super::pen::{Area, Pen, Px};

/// The most names in a map.
const MAX_NAMES: usize = 80;
/// Names are not cut to fewer letters.
const MIN_LETTERS: usize = 7;
/// The classes and sizes of letters, the preferred one first.
const LETTERS: [(&str, f64); 2] = [("", 10.5), (" small", 8.5)];
/// The width of a letter by its size: all letters are equally wide.
const LETTER: f64 = 0.605;
/// The free space at both ends of a name together, in pixels.
const PADDING: f64 = 2.0;
/// The distance of a rectangle and a name next to it, in pixels.
const DISTANCE: f64 = 3.0;

/// The visible part of a tensor's rectangle.
pub struct Place<'a> {
    pub name: &'a str,
    pub size: Bytes,
    pub ink: OpGroup,
    pub area: Area,
    /// True if it is live at the peak.
    pub is_at_peak: bool,
}

/// Writes the names of the largest rectangles, along time if there is space, or else upwards; names of tensors that are live
/// at the peak also in free space next to them, inside `field`.
pub fn write(pen: &mut Pen, mut places: Vec<Place<'_>>, field: Area) {
    places.sort_by_key(|place| Reverse(place.size));
    let mut occupied: Vec<Area> = places.iter().map(|place| place.area).collect();
    let mut written = 0;
    for place in &places {
        if written == MAX_NAMES {
            break;
        }
        let is_written =
            write_inside(pen, place) || (place.is_at_peak && write_next_to(pen, place, &field, &mut occupied));
        written += usize::from(is_written);
    }
}

/// Writes the label with most of the name, the first of several; returns whether one fits.
fn write_inside(pen: &mut Pen, place: &Place<'_>) -> bool {
    let Place { name, size, ink, area, .. } = place;
    let full = format!("{name} {}", short(*size));
    let mut best: Option<(usize, String)> = None;
    for turn in ["", " rotate(-90)"] {
        let (along, across) = (area.width(), area.height());
        let (along, across) = if turn.is_empty() { (along, across) } else { (across, along) };
        for (class, letters) in LETTERS {
            let count = letters_in(along, letters);
            if across < letters + 2.0 || count < MIN_LETTERS.min(name.chars().count().max(1)) {
                continue;
            }
            let text = if full.chars().count() <= count { full.clone() } else { shortened(name, count) };
            let shown = if text.starts_with(name) { usize::MAX } else { text.chars().count() };
            if best.as_ref().is_none_or(|(most, _)| shown > *most) {
                let ([x, y], below, text) = (area.middle().map(Px), Px(letters * 0.35), escaped(&text));
                let turned = format!("transform=\"translate({x} {y}){turn}\" y=\"{below}\"");
                best = Some((shown, format!("<text class=\"name i{}{class}\" {turned}>{text}</text>", *ink as u8)));
            }
        }
    }
    let Some((_, text)) = best else { return false };
    pen.line(text);
    true
}

/// Returns how many letters fit.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a width in pixels is small")]
fn letters_in(length: f64, size: f64) -> usize {
    ((length - PADDING).max(0.0) / (LETTER * size)) as usize
}

/// Writes the name next to its rectangle, preferably with the bytes and in large letters; returns whether there was space.
fn write_next_to(pen: &mut Pen, place: &Place<'_>, field: &Area, occupied: &mut Vec<Area>) -> bool {
    let Place { name, size, area, .. } = place;
    let middle = area.middle()[1];
    for text in [format!("{name} {}", short(*size)), (*name).to_owned()] {
        for (class, letters) in LETTERS.into_iter().filter(|(_, letters)| area.height() >= *letters) {
            let (width, half) = (as_float(text.chars().count() as u64) * LETTER * letters, letters / 2.0 + 1.0);
            for left in [area.right + DISTANCE, area.left - DISTANCE - width] {
                let taken = Area { left, top: middle - half, right: left + width, bottom: middle + half };
                if field.holds(&taken) && !occupied.iter().any(|other| taken.overlaps(other)) {
                    occupied.push(taken);
                    pen.text(&format!("beside{class}"), left, middle + letters * 0.35, &text);
                    return true;
                }
            }
        }
    }
    false
}
