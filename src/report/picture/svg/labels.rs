//! Names in the largest rectangles, where they fit.

use std::cmp::Reverse;
use std::fmt::Write;

use crate::placement::Bytes;
use crate::report::picture::kinds::Kind;
use crate::report::picture::units::bytes;
use crate::report::picture::xml::{escaped, shortened};

use super::frame::px;

/// No more names than one likes to read.
const MOST: usize = 80;
/// Free space at both ends together.
const PADDING: f64 = 2.0;
/// A name that is cut to less is not worth reading.
const SHORTEST: usize = 4;

/// What is to be seen of a tensor's rectangle, in pixels.
pub struct Place<'a> {
    pub name: &'a str,
    pub size: Bytes,
    pub ink: Kind,
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

/// How a name is written.
#[derive(Clone, Copy)]
struct Letters {
    class: &'static str,
    size: f64,
}

/// The larger are preferred.
const LETTERS: [Letters; 2] = [Letters { class: "", size: 10.5 }, Letters { class: " small", size: 8.5 }];

/// A name that fits.
struct Label {
    text: String,
    letters: Letters,
    turn: &'static str,
}

/// Writes the names of the largest, along time where there is space, else upwards.
pub fn draw(to: &mut String, mut places: Vec<Place<'_>>) {
    places.sort_by_key(|place| Reverse(place.size));
    for (place, label) in places.iter().filter_map(|place| Some((place, label(place)?))).take(MOST) {
        write(to, place, &label);
    }
}

/// The best label: with the whole name, or else with the most of it.
fn label(place: &Place<'_>) -> Option<Label> {
    let ways = LETTERS.into_iter().flat_map(|letters| [("", letters), (" rotate(-90)", letters)]);
    let candidates = ways.filter_map(|(turn, letters)| {
        let (along, across) = if turn.is_empty() { (place.width, place.height) } else { (place.height, place.width) };
        let count = letters.count(along);
        let fits = across >= letters.size + 2.0 && count >= SHORTEST.min(place.name.chars().count().max(1));
        fits.then(|| Label { text: text(place, count), letters, turn })
    });
    // Of those that say as much the first.
    candidates.fold(None, |best: Option<Label>, other| match best {
        Some(best) if said(place, &best) >= said(place, &other) => Some(best),
        _ => Some(other),
    })
}

/// How much of the name a label has; the bytes behind it count for nothing.
fn said(place: &Place<'_>, label: &Label) -> usize {
    if label.text.starts_with(place.name) { usize::MAX } else { label.text.chars().count() }
}

impl Letters {
    /// How many fit, all of which are equally wide.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a width in pixels is small")]
    fn count(self, length: f64) -> usize {
        ((length - PADDING).max(0.0) / (0.605 * self.size)) as usize
    }
}

/// The name, with the bytes where they fit too.
fn text(place: &Place<'_>, length: usize) -> String {
    let full = format!("{} {}", place.name, bytes(place.size));
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
