//! Names in the largest rectangles, where they fit.

use std::cmp::Reverse;
use std::fmt::Write;

use crate::placement::Bytes;
use crate::report::picture::kinds::Kind;
use crate::report::picture::units::{as_float, bytes};
use crate::report::picture::xml::{escaped, shortened};

use super::beside::Beside;
use super::frame::px;

/// No more names than one likes to read.
const MOST: usize = 80;
/// Free space at both ends together.
const PADDING: f64 = 2.0;
/// A name that is cut to less is not worth reading.
const SHORTEST: usize = 7;

/// What is to be seen of a tensor's rectangle, in pixels.
pub struct Place<'a> {
    pub name: &'a str,
    pub size: Bytes,
    pub ink: Kind,
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
    /// Is it alive at the peak?
    pub is_at_peak: bool,
}

/// How a name is written.
#[derive(Clone, Copy)]
pub struct Letters {
    pub class: &'static str,
    /// The height in pixels.
    pub size: f64,
}

/// The larger are preferred.
pub const LETTERS: [Letters; 2] = [Letters { class: "", size: 10.5 }, Letters { class: " small", size: 8.5 }];

/// A name that fits.
struct Label {
    text: String,
    letters: Letters,
    turn: &'static str,
}

/// Writes the names of the largest, along time where there is space, else upwards; of what is alive at the peak also
/// beside it, where nothing else is. `field` is where names may be at all: left, top, right, bottom.
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
        if written == MOST {
            break;
        }
    }
}

/// The best label: with the whole name, or else with the most of it.
fn label(place: &Place<'_>) -> Option<Label> {
    let ways = ["", " rotate(-90)"].into_iter().flat_map(|turn| LETTERS.map(|letters| (turn, letters)));
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
    /// The width of a text, of which all letters are equally wide.
    pub fn width(self, text: &str) -> f64 {
        as_float(text.chars().count() as u64) * 0.605 * self.size
    }

    /// How many fit.
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
