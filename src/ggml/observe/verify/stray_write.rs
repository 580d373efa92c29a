//! The message about an operation that has written outside of its result.

use std::ops::Range;

use super::Violation;

/// A write of an operation outside of its result.
#[derive(Debug)]
pub struct StrayWrite {
    /// The tensor that was computed, with its step.
    pub writer: String,
    /// The addresses of its result.
    pub result: Range<usize>,
    /// The changed addresses next to the result.
    pub place: Range<usize>,
    /// The name of the buffer that `place` is in, and its first address.
    pub buffer: (String, usize),
    /// Whether the result is in that buffer too.
    pub is_same_buffer: bool,
    /// The number of changed bytes.
    pub bytes: usize,
    /// The number of changed places.
    pub places: usize,
    /// A predicate about the owner of the bytes at `place`, if they are known.
    pub owner: Option<String>,
}

impl StrayWrite {
    /// Formats the message.
    pub fn violation(&self) -> Violation {
        let Self { writer, place, buffer: (buffer, base), bytes, places, .. } = self;
        let (from, to) = (place.start - base, place.end - 1 - base);
        let places = if *places == 1 { String::new() } else { format!(" in {places} places, the nearest") };
        let owner = self.owner.as_deref().unwrap_or("belong to no known tensor");
        Violation(format!(
            "{writer} has written {} outside of its result,{places} {}: bytes {from} to {to} of {buffer} ({}), which {owner}",
            bytes_text(*bytes),
            self.distance(),
            bytes_text(place.len())
        ))
    }

    fn distance(&self) -> String {
        let Self { result, place, is_same_buffer, .. } = self;
        match () {
            () if !is_same_buffer => "in another buffer".to_owned(),
            () if place.start >= result.end => distance_text(place.start - result.end, "behind its end"),
            () if place.end <= result.start => distance_text(result.start - place.end, "before its start"),
            () => "between the parts of its result".to_owned(),
        }
    }
}

fn distance_text(bytes: usize, side: &str) -> String {
    if bytes == 0 { format!("right {side}") } else { format!("{} {side}", bytes_text(bytes)) }
}

fn bytes_text(bytes: usize) -> String {
    if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") }
}
