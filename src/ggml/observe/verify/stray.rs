//! What is said of an operation that has written outside of its result.

use std::ops::Range;

use super::Violation;

/// An operation that has written where it must not.
#[derive(Debug)]
pub struct Stray {
    /// The operation: its tensor, with its step.
    pub writer: String,
    /// The addresses of its result.
    pub result: Range<usize>,
    /// The changed place next to that: addresses.
    pub place: Range<usize>,
    /// The name of the buffer that the place is in, and where that starts.
    pub buffer: (String, usize),
    /// Is the result in that buffer too?
    pub is_same_buffer: bool,
    /// Bytes that have changed, and in how many places.
    pub bytes: usize,
    /// The same.
    pub places: usize,
    /// Whose bytes those of the place are, in words.
    pub owner: Option<String>,
}

impl Stray {
    /// The same in plain language.
    pub fn violation(&self) -> Violation {
        let Self { writer, place, buffer: (buffer, base), bytes, places, .. } = self;
        let (from, to) = (place.start - base, place.end - 1 - base);
        let places = if *places == 1 { String::new() } else { format!(" in {places} places, the nearest") };
        let owner = self.owner.as_deref().unwrap_or("belong to no tensor that is known");
        Violation(format!(
            "{writer} has written {} outside of its result,{places} {}: bytes {from} to {to} of {buffer} ({}), which {owner}",
            counted(*bytes),
            self.distance(),
            counted(place.len())
        ))
    }

    fn distance(&self) -> String {
        let Self { result, place, is_same_buffer, .. } = self;
        match () {
            () if !is_same_buffer => "in another buffer".to_owned(),
            () if place.start >= result.end => from(place.start - result.end, "behind its end"),
            () if place.end <= result.start => from(result.start - place.end, "before its start"),
            () => "between the parts of its result".to_owned(),
        }
    }
}

fn from(bytes: usize, side: &str) -> String {
    if bytes == 0 { format!("right {side}") } else { format!("{} {side}", counted(bytes)) }
}

fn counted(bytes: usize) -> String {
    if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") }
}
