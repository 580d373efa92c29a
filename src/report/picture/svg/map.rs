//! The map of one chunk: rectangles over time.

use std::fmt::Write;

use crate::graph::snapshot::TensorInfo;
use crate::placement::Bytes;
use crate::report::picture::kinds::OperationKind;
use crate::report::picture::scene::{Sharing, Span};
use crate::report::sizes::short;
use crate::report::xml::escaped;

use super::frame::{Panel, Row, px};
use super::labels;
use super::letters::Place;

/// Half of the height of the mark of a tensor in place, in pixels.
const MARK: f64 = 5.0;
/// Narrower rectangles have no seam either.
const SEAM: f64 = 3.5;
/// Narrower rectangles are drawn over the line of the peak.
const NARROW: f64 = 6.0;
/// The least width of those.
const AT_PEAK: f64 = 2.0;
/// The least width and height of all rectangles.
const THINNEST: f64 = 0.7;
/// Smaller rectangles have no frame.
const FRAMED: f64 = 2.5;

/// Draws the rectangles of a chunk. `size` is that of the largest plan of the graph.
pub fn draw(to: &mut String, panel: &Panel<'_>, row: &Row, tensors: &[TensorInfo], size: Bytes) {
    let spans = panel.scene.spans.iter();
    let spans: Vec<&Span> =
        spans.filter(|span| (span.buffer, Some(span.chunk)) == (row.buffer, row.chunk) && span.size > 0).collect();
    saved(to, panel, row, size);
    peaks(to, panel, row);
    for span in &spans {
        rectangle(to, panel, row, span, &tensors[span.tensor as usize], THINNEST);
    }
    spans.iter().filter(|span| span.sharing == Sharing::InPlace).for_each(|span| mark(to, panel, row, span));
    peak_line(to, panel, row);
    for span in spans.iter().filter(|span| is_at_peak(panel, row, span)) {
        // The line would hide a narrow one.
        let visible = Span { end: span.visible_until, ..**span };
        if panel.x(visible.end) - panel.x(visible.start) < NARROW {
            rectangle(to, panel, row, &visible, &tensors[span.tensor as usize], AT_PEAK);
        }
    }
    let field = [panel.left, row.y(used(panel, row)), panel.right(), row.bottom()];
    let named = spans.iter().filter(|span| span.sharing != Sharing::Reserved);
    labels::draw(to, named.map(|span| place(panel, row, span, &tensors[span.tensor as usize])).collect(), field);
}

/// Returns the visible part of a rectangle, without the mark of a tensor in place.
fn place<'a>(panel: &Panel<'_>, row: &Row, span: &Span, info: &'a TensorInfo) -> Place<'a> {
    let (left, right) = (panel.x(span.start), panel.x(span.visible_until));
    let (top, bottom) = (row.y(span.offset + span.size), row.y(span.offset));
    let left = if span.sharing == Sharing::InPlace && has_notch(right - left) { left + MARK } else { left };
    let (width, height, ink) = (right - left, bottom - top, OperationKind::of(&info.op));
    let is_at_peak = is_at_peak(panel, row, span);
    Place { name: &info.name, size: span.size, ink, left, top, width, height, is_at_peak }
}

/// Returns whether a rectangle is visible at the first peak.
fn is_at_peak(panel: &Panel<'_>, row: &Row, span: &Span) -> bool {
    let peak = panel.buffer(row.buffer).and_then(|buffer| buffer.peaks.first().map(|peak| peak.start));
    span.sharing != Sharing::Reserved && peak.is_some_and(|step| span.start <= step && step < span.visible_until)
}

fn rectangle(to: &mut String, panel: &Panel<'_>, row: &Row, span: &Span, info: &TensorInfo, thinnest: f64) {
    let (left, right) = (panel.x(span.start), panel.x(span.end));
    let (top, bottom) = (row.y(span.offset + span.size), row.y(span.offset));
    let (width, height) = ((right - left).max(thinnest), (bottom - top).max(THINNEST));
    // A frame would hide thin rectangles.
    let thin = if width < FRAMED || height < FRAMED { " thin" } else { "" };
    let sharing = match span.sharing {
        Sharing::Own => "",
        Sharing::InPlace => ", in place",
        Sharing::Inside => ", computed inside a later result",
        Sharing::Reserved => ", reserved",
    };
    let retained = if span.is_retained { ", retained" } else { "" };
    let class = match span.sharing {
        Sharing::Reserved => "kept".to_owned(),
        _ => format!("k{}", OperationKind::of(&info.op) as u8),
    };
    let area =
        format!("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", px(left), px(top), px(right - left), px(bottom - top));
    let _ = writeln!(
        to,
        "<rect class=\"{class}{thin}\" {area}><title>{}: {}, {} at offset {}, steps {} to {}{sharing}{retained}</title></rect>",
        escaped(&info.name),
        escaped(&info.desc),
        short(span.size),
        span.offset,
        span.start,
        span.end - 1,
    );
    if span.sharing == Sharing::Inside {
        let _ = writeln!(to, "<rect class=\"inside\" {area}/>");
    }
    if span.is_retained {
        let _ = writeln!(to, "<rect class=\"retained\" {area}/>");
    }
}

/// Marks a tensor that is computed in place, if there is space.
fn mark(to: &mut String, panel: &Panel<'_>, row: &Row, span: &Span) {
    let (left, top, bottom) = (px(panel.x(span.start)), row.y(span.offset + span.size), row.y(span.offset));
    let (width, height) = (panel.x(span.end) - panel.x(span.start), bottom - top);
    if width >= SEAM && height >= SEAM {
        let _ = writeln!(to, "<path class=\"over\" d=\"M{left} {}V{}\"/>", px(top), px(bottom));
    }
    if has_notch(width) && height >= 2.0 * MARK {
        let middle = px(f64::midpoint(top, bottom) - MARK);
        let _ = writeln!(to, "<path class=\"notch\" d=\"M{left} {middle}l{MARK} {MARK}l-{MARK} {MARK}z\"/>");
    }
}

/// Returns whether there is space for the mark beside a name.
fn has_notch(width: f64) -> bool {
    width >= 8.0 * MARK
}

/// Draws the bytes of the largest plan that this chunk does not need.
fn saved(to: &mut String, panel: &Panel<'_>, row: &Row, size: Bytes) {
    let chunk = used(panel, row);
    let free = row.bytes.saturating_sub(chunk);
    if free == 0 {
        return;
    }
    let (y, height) = (row.y(chunk), row.y(chunk) - row.top);
    let (left, width) = (px(panel.left), px(panel.width));
    let _ = writeln!(
        to,
        "<rect class=\"saved\" x=\"{left}\" y=\"{}\" width=\"{width}\" height=\"{}\"/>",
        px(row.top),
        px(height)
    );
    let _ = writeln!(to, "<path class=\"end\" d=\"M{left} {}h{width}\"/>", px(y));
    if height > 24.0 && free >= size / 50 {
        let (x, y) = (px(panel.left + panel.width / 2.0), px(row.top + height / 2.0 + 7.0));
        let _ = writeln!(to, "<text class=\"saving\" x=\"{x}\" y=\"{y}\">{} less</text>", short(free));
    }
}

fn peaks(to: &mut String, panel: &Panel<'_>, row: &Row) {
    let top = row.y(used(panel, row));
    for peak in panel.buffer(row.buffer).map_or(&[][..], |buffer| &buffer.peaks) {
        let (left, width) = (panel.x(peak.start), panel.x(peak.end) - panel.x(peak.start));
        let _ = writeln!(
            to,
            "<rect class=\"peaks\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
            px(left),
            px(top),
            px(width),
            px(row.bottom() - top)
        );
    }
}

fn peak_line(to: &mut String, panel: &Panel<'_>, row: &Row) {
    if let Some(x) = panel.buffer(row.buffer).and_then(|buffer| panel.peak_x(buffer)) {
        let used = used(panel, row);
        let top = row.y(used);
        if used == 0 {
            return;
        }
        let _ = writeln!(to, "<path class=\"peak\" d=\"M{} {}V{}\"/>", px(x), px(top), px(row.bottom()));
        let _ = writeln!(to, "<path class=\"top\" d=\"M{} {}l-5 -8h10z\"/>", px(x), px(top));
    }
}

/// Returns the bytes of the chunk in this plan.
fn used(panel: &Panel<'_>, row: &Row) -> Bytes {
    row.chunk.and_then(|chunk| panel.buffer(row.buffer)?.chunks.get(chunk as usize).copied()).unwrap_or(0)
}
