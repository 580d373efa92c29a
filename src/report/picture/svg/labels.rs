//! Names in the largest rectangles that have space.

use std::cmp::Reverse;
use std::fmt::Write;

use crate::report::sizes::short;
use crate::report::xml::{escaped, shortened};

use super::beside::Beside;
use super::frame::px;
use super::letters::{LETTERS, Letters, Place};

/// The most names in a map.
const MAX_NAMES: usize = 80;
/// Names are not cut to fewer letters.
const MIN_LETTERS: usize = 7;

/// A name that fits.
struct Label {
    text: String,
    letters: Letters,
    turn: &'static str,
}

/// Writes the names of the largest rectangles, along time if there is space, or else upwards; names of tensors that are live
/// at the peak also in free space beside them. `field` limits all names: left, top, right, bottom.
pub fn draw(to: &mut String, mut places: Vec<Place<'_>>, field: [f64; 4]) {
    places.sort_by_key(|place| Reverse(place.size));
    let mut beside = Beside::new(&places, field);
    let mut written = 0;
    for place in &places {
        if let Some(label) = label(place) {
            write(to, place, &label);
        } else if !(place.is_at_peak && beside.write(to, place)) {
            continue;
        }
        written += 1;
        if written == MAX_NAMES {
            break;
        }
    }
}

/// Returns the label with most of the name.
fn label(place: &Place<'_>) -> Option<Label> {
    let ways = ["", " rotate(-90)"].into_iter().flat_map(|turn| LETTERS.map(|letters| (turn, letters)));
    let candidates = ways.filter_map(|(turn, letters)| {
        let (along, across) = if turn.is_empty() { (place.width, place.height) } else { (place.height, place.width) };
        let count = letters.count(along);
        let fits = across >= letters.size + 2.0 && count >= MIN_LETTERS.min(place.name.chars().count().max(1));
        fits.then(|| Label { text: text(place, count), letters, turn })
    });
    // The first of those with the same number of letters.
    candidates.fold(None, |best: Option<Label>, other| match best {
        Some(best) if shown(place, &best) >= shown(place, &other) => Some(best),
        _ => Some(other),
    })
}

/// Counts the letters of the name in a label, without the bytes.
fn shown(place: &Place<'_>, label: &Label) -> usize {
    if label.text.starts_with(place.name) { usize::MAX } else { label.text.chars().count() }
}

/// Returns the name, with the bytes if they fit too.
fn text(place: &Place<'_>, length: usize) -> String {
    let full = format!("{} {}", place.name, short(place.size));
    if full.chars().count() <= length { full } else { shortened(place.name, length) }
}

fn write(to: &mut String, place: &Place<'_>, Label { text, letters, turn }: &Label) {
    let (x, y) = (px(place.left + place.width / 2.0), px(place.top + place.height / 2.0));
    let (below, text) = (px(letters.size * 0.35), escaped(text));
    let (ink, class) = (place.ink as u8, letters.class);
    let _ = writeln!(
        to,
        "<text class=\"name i{ink}{class}\" transform=\"translate({x} {y}){turn}\" y=\"{below}\">{text}</text>"
    );
}
