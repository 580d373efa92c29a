//! The legend of colours and lines.

use std::fmt::Write;

use crate::report::picture::graphs::DrawnGraph;
use crate::report::picture::kinds::OperationKind;
use crate::report::picture::scene::Sharing;

use super::frame::{MARGIN, WIDTH, px};

const LINE: f64 = 22.0;
const LETTER_WIDTH: f64 = 6.4;
const SAMPLE: f64 = 16.0;

/// Draws a sample of each kind that occurs and of each line, and returns the bottom.
pub fn draw(to: &mut String, graphs: &[DrawnGraph<'_>], top: f64) -> f64 {
    let (mut x, mut y) = (MARGIN, top);
    for (class, text) in entries(graphs) {
        let width = SAMPLE + 6.0 + width_of(text);
        if x + width > WIDTH - MARGIN {
            (x, y) = (MARGIN, y + LINE);
        }
        sample(to, &class, x, y);
        let _ =
            writeln!(to, "<text class=\"legend\" x=\"{}\" y=\"{}\">{text}</text>", px(x + SAMPLE + 6.0), px(y + 10.0));
        x += width + 16.0;
    }
    if x > MARGIN { y + LINE } else { y }
}

fn width_of(text: &str) -> f64 {
    text.chars().map(|_| LETTER_WIDTH).sum()
}

fn entries(graphs: &[DrawnGraph<'_>]) -> Vec<(String, &'static str)> {
    let spans = || {
        graphs.iter().flat_map(|drawn| {
            drawn.scenes.iter().flat_map(move |scene| scene.spans.iter().map(move |span| (drawn, span)))
        })
    };
    let occurs = |kind: OperationKind| {
        spans().any(|(drawn, span)| {
            span.size > 0 && OperationKind::of(&drawn.snapshot.tensors[span.tensor as usize].op) == kind
        })
    };
    let is_shared = |sharing| spans().any(|(_, span)| span.sharing == sharing);
    let kinds = OperationKind::ALL.into_iter().filter(|&kind| occurs(kind));
    let mut entries: Vec<_> = kinds.map(|kind| (format!("k{}", kind as u8), kind.name())).collect();
    let ways = [
        (Sharing::InPlace, "over", "computed in place"),
        (Sharing::Inside, "inside", "computed inside a later result"),
        (Sharing::Reserved, "kept", "reserved for that result"),
    ];
    entries.extend(ways.into_iter().filter(|way| is_shared(way.0)).map(|(_, class, text)| (class.to_owned(), text)));
    if spans().any(|(_, span)| span.is_retained) {
        entries.push(("retained".to_owned(), "retained for the program"));
    }
    if spans().next().is_some() {
        let lines = [("live", "live bytes"), ("bound", "lower bound"), ("end", "buffer size"), ("peak", "peak")];
        entries.extend(lines.map(|(class, text)| (class.to_owned(), text)));
    }
    entries
}

fn sample(to: &mut String, class: &str, x: f64, y: f64) {
    let (left, top) = (px(x), px(y));
    let _ = match class {
        "bound" | "end" => writeln!(to, "<path class=\"{class}\" d=\"M{left} {}h{SAMPLE}\"/>", px(y + 6.0)),
        "peak" => writeln!(to, "<path class=\"peak\" d=\"M{} {top}v13\"/>", px(x + SAMPLE / 2.0)),
        "over" => writeln!(
            to,
            "<rect class=\"k3\" x=\"{left}\" y=\"{top}\" width=\"{SAMPLE}\" height=\"13\"/><path class=\"over\" d=\"M{x} {top}v13\"/>\
             <path class=\"notch\" d=\"M{x} {}l5 5l-5 5z\"/>",
            px(y + 1.5),
            x = px(x + 3.0)
        ),
        "inside" | "retained" => writeln!(
            to,
            "<rect class=\"k0\" x=\"{left}\" y=\"{top}\" width=\"{SAMPLE}\" height=\"13\"/>\
             <rect class=\"{class}\" x=\"{left}\" y=\"{top}\" width=\"{SAMPLE}\" height=\"13\"/>"
        ),
        _ => writeln!(to, "<rect class=\"{class}\" x=\"{left}\" y=\"{top}\" width=\"{SAMPLE}\" height=\"13\"/>"),
    };
}
