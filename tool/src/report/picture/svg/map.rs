//! The map of one chunk: rectangles over time.

use std::ops::Range;

use lastuse::graph::Op;
use lastuse::graph::snapshot::TensorInfo;
use lastuse::placement::{Bytes, Step};

use crate::report::picture::scene::{Sharing, Span};
use crate::report::sizes::short;

use super::frame::{Panel, Row};
use super::names::{self, Place};
use super::pen::{Area, Pen, Px};

/// Half of the height of the mark of a tensor in place, in pixels.
const MARK: f64 = 5.0;
/// Narrower rectangles have no seam either.
const SEAM: f64 = 3.5;
/// Narrower rectangles are drawn over the line of the peak.
const NARROW: f64 = 6.0;
/// Smaller rectangles have no frame, which would hide them.
const FRAMED: f64 = 2.5;

/// The map of a chunk in one plan.
struct Map<'a> {
    panel: &'a Panel<'a>,
    row: &'a Row,
    tensors: &'a [TensorInfo],
    /// Bytes of the chunk in this plan.
    used: Bytes,
    peaks: &'a [Range<Step>],
}

/// Draws the rectangles of a chunk. `size` is that of the largest plan of the graph.
pub fn draw(pen: &mut Pen, panel: &Panel<'_>, row: &Row, tensors: &[TensorInfo], size: Bytes) {
    let Some(chunk) = row.chunk else { return };
    let buffer = panel.buffer(row.buffer);
    let used = buffer.and_then(|buffer| buffer.chunks.get(chunk as usize)).copied().unwrap_or(0);
    let map = Map { panel, row, tensors, used, peaks: buffer.map_or(&[], |buffer| &buffer.peaks) };
    map.saved(pen, size);
    for peak in map.peaks {
        pen.rect("peaks", &panel.area(row, [peak.start, peak.end], [0, used]), "");
    }
    let spans = panel.scene.spans.iter();
    let spans: Vec<&Span> =
        spans.filter(|span| (span.buffer, span.chunk) == (row.buffer, chunk) && span.size > 0).collect();
    spans.iter().for_each(|span| map.rectangle(pen, span));
    spans.iter().filter(|span| span.sharing == Sharing::InPlace).for_each(|span| map.mark(pen, span));
    map.peak_line(pen);
    for span in spans.iter().filter(|span| map.is_at_peak(span)) {
        // The line would hide a narrow one.
        let visible = Span { end: span.visible_until, ..**span };
        if map.area(&visible).width() < NARROW {
            map.rectangle(pen, &visible);
        }
    }
    let named = spans.iter().filter(|span| span.sharing != Sharing::Reserved);
    names::write(pen, named.map(|span| map.place(span)).collect(), Area { top: row.y(used), ..panel.field(row) });
}

impl<'a> Map<'a> {
    fn area(&self, span: &Span) -> Area {
        let below = self.panel.buffer(span.buffer).map_or(span.offset, |buffer| buffer.below(span));
        self.panel.area(self.row, [span.start, span.end], [below, below + span.size])
    }

    /// Returns whether a rectangle is visible at the first peak.
    fn is_at_peak(&self, span: &Span) -> bool {
        let visible = span.start..span.visible_until;
        span.sharing != Sharing::Reserved && self.peaks.first().is_some_and(|peak| visible.contains(&peak.start))
    }

    /// Returns the visible part of a rectangle, without the mark of a tensor in place.
    fn place(&self, span: &Span) -> Place<'a> {
        let info = &self.tensors[span.tensor as usize];
        let mut area = self.area(&Span { end: span.visible_until, ..*span });
        if span.sharing == Sharing::InPlace && has_notch(&area) {
            area.left += MARK;
        }
        let (ink, is_at_peak) = (Op::named(&info.op).group(), self.is_at_peak(span));
        Place { name: &info.name, size: span.size, ink, area, is_at_peak }
    }

    fn rectangle(&self, pen: &mut Pen, span: &Span) {
        let (info, area) = (&self.tensors[span.tensor as usize], self.area(span));
        let thin = if area.width() < FRAMED || area.height() < FRAMED { " thin" } else { "" };
        let sharing = match span.sharing {
            Sharing::Own => "",
            Sharing::InPlace => ", in place",
            Sharing::Inside => ", computed inside a later result",
            Sharing::Reserved => ", reserved",
        };
        let retained = if span.is_retained { ", retained" } else { "" };
        let (size, offset, first, last) = (short(span.size), span.offset, span.start, span.end - 1);
        let title = format!(
            "{}: {}, {size} at offset {offset}, steps {first} to {last}{sharing}{retained}",
            info.name, info.desc
        );
        match span.sharing {
            Sharing::Reserved => pen.rect(&format!("kept{thin}"), &area, &title),
            _ => pen.rect(&format!("k{}{thin}", Op::named(&info.op).group() as u8), &area, &title),
        }
        if span.sharing == Sharing::Inside {
            pen.rect("inside", &area, "");
        }
        if span.is_retained {
            pen.rect("retained", &area, "");
        }
    }

    /// Marks a tensor that is computed in place, if there is space.
    fn mark(&self, pen: &mut Pen, span: &Span) {
        let area = self.area(span);
        let left = Px(area.left);
        if area.width() >= SEAM && area.height() >= SEAM {
            pen.path("over", format_args!("M{left} {}V{}", Px(area.top), Px(area.bottom)));
        }
        if has_notch(&area) && area.height() >= 2.0 * MARK {
            let top = Px(area.middle()[1] - MARK);
            pen.path("notch", format_args!("M{left} {top}l{MARK} {MARK}l-{MARK} {MARK}z"));
        }
    }

    /// Draws the bytes of the largest plan that this chunk does not need.
    fn saved(&self, pen: &mut Pen, size: Bytes) {
        let free = self.row.bytes.saturating_sub(self.used);
        if free == 0 {
            return;
        }
        let area = Area { bottom: self.row.y(self.used), ..self.panel.field(self.row) };
        pen.rect("saved", &area, "");
        pen.path("end", format_args!("M{} {}h{}", Px(area.left), Px(area.bottom), Px(area.width())));
        if area.height() > 24.0 && free >= size / 50 {
            let [x, y] = area.middle();
            pen.text("saving", x, y + 7.0, &format!("{} less", short(free)));
        }
    }

    /// Draws the line of the first peak, with a mark at the top of the chunk.
    fn peak_line(&self, pen: &mut Pen) {
        let buffer = self.panel.buffer(self.row.buffer).filter(|_| self.used > 0);
        let Some(x) = buffer.and_then(|buffer| self.panel.peak_x(buffer)) else { return };
        let (x, top) = (Px(x), Px(self.row.y(self.used)));
        pen.path("peak", format_args!("M{x} {top}V{}", Px(self.row.bottom)));
        pen.path("top", format_args!("M{x} {top}l-5 -8h10z"));
    }
}

/// Returns whether there is space for the mark beside a name.
fn has_notch(area: &Area) -> bool {
    area.width() >= 8.0 * MARK
}
