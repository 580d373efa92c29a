//! Which maps are drawn upside down.
//!
//! ggml-alloc places at the lowest free offset, so what lives long is at the bottom of its maps. lastuse may place it at
//! the end of the buffer instead. Turned over, such a map is as correct, and the eye finds the same tensors at the same
//! place in both.

use lastuse::placement::Bytes;

use super::{BufferPicture, Span};

/// Returns for each chunk of a buffer whether the centre of its rectangles, weighed by bytes and steps, is in its upper half.
pub fn chunks(buffer: &BufferPicture<'_>, spans: &[Span]) -> Vec<bool> {
    let is_turned = |(chunk, &bytes): (u32, &Bytes)| {
        let mut above: i128 = 0;
        for span in spans.iter().filter(|span| (span.buffer, span.chunk) == (buffer.id, chunk)) {
            let weight = i128::from(span.size) * i128::from(span.end - span.start);
            // Twice the distance of its middle from that of the chunk.
            let distance = 2 * i128::from(span.offset) + i128::from(span.size) - i128::from(bytes);
            above = above.saturating_add(weight.saturating_mul(distance));
        }
        above > 0
    };
    (0..).zip(buffer.chunks).map(is_turned).collect()
}
