//! Axes with their grids, and the curve of live bytes.

use std::fmt::Write;

use lastuse::placement::Step;

use crate::report::picture::scene::BufferPicture;
use crate::report::picture::units::{byte_ticks, round_step};
use crate::report::sizes::short;
use crate::report::xml::shortened;

use super::frame::{Panel, Row};
use super::pen::{Pen, Px};

/// The approximate distance of marks, in pixels.
const MARK_DISTANCE: f64 = 40.0;
/// The least number of marks, so that there is usually one above 0.
const MIN_MARKS: u64 = 3;
/// Half of the width of the text at a peak.
const REMARK: f64 = 170.0;

/// Draws the background of a row with its name and the axis of its bytes.
pub fn bytes_axis(pen: &mut Pen, panel: &Panel<'_>, row: &Row) {
    let (left, right) = (Px(panel.left), Px(panel.right));
    pen.rect("field", &panel.field(row), "");
    for (mark, text) in byte_ticks(row.bytes, marks_in(row.bottom - row.top).max(MIN_MARKS)) {
        let y = row.y(mark);
        pen.path("grid", format_args!("M{left} {}H{right}", Px(y)));
        pen.text("mark", panel.left - 7.0, y + 3.5, &text);
    }
    if let Some(name) = &row.name {
        pen.text("note", panel.left, row.top - 11.0, &shortened(name, 60));
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a height in pixels is small")]
fn marks_in(length: f64) -> u64 {
    (length / MARK_DISTANCE).max(1.0) as u64
}

/// Draws the axis of steps below the last row.
pub fn steps_axis(pen: &mut Pen, panel: &Panel<'_>, bottom: f64) {
    let steps = panel.scene.steps;
    let marks = marks_in((panel.right - panel.left) / 2.0);
    let apart = Step::try_from(round_step(steps.into(), marks)).unwrap_or(steps).max(1);
    for step in (0..=steps).step_by(apart as usize) {
        let x = panel.x(step);
        pen.path("tick", format_args!("M{} {}v4", Px(x), Px(bottom)));
        pen.text("step", x, bottom + 14.0, &step.to_string());
    }
    let middle = f64::midpoint(panel.left, panel.right);
    pen.text("step", middle, bottom + 30.0, "step (each runs one node of the graph)");
}

/// Draws the live bytes of a buffer, its size, its lower bound and its peak.
pub fn curve(pen: &mut Pen, panel: &Panel<'_>, row: &Row) {
    let Some(buffer) = panel.buffer(row.buffer) else { return };
    pen.path("live", outline(panel, row, buffer));
    for (class, bytes) in [("end", buffer.size()), ("bound", buffer.lower_bound)] {
        pen.path(class, format_args!("M{} {}H{}", Px(panel.left), Px(row.y(bytes)), Px(panel.right)));
    }
    let Some(x) = panel.peak_x(buffer) else { return };
    pen.path("peak", format_args!("M{} {}V{}", Px(x), Px(row.top - 8.0), Px(row.bottom)));
    let y = Px(row.y(buffer.lower_bound));
    pen.line(format_args!("<circle class=\"dot\" cx=\"{}\" cy=\"{y}\" r=\"4\"/>", Px(x)));
    // Centred at the peak, but inside the panel.
    let (anchor, x) = match x {
        x if x < panel.left + REMARK => ("left", panel.left),
        x if x > panel.right - REMARK => ("right", panel.right),
        x => ("middle", x),
    };
    pen.text(&format!("remark {anchor}"), x, row.top - 11.0, &remark(panel, buffer));
}

/// Returns the outline of the curve, down to the axis at both ends, with a point only where it changes.
fn outline(panel: &Panel<'_>, row: &Row, buffer: &BufferPicture<'_>) -> String {
    let mut path = format!("M{} {}", Px(panel.left), Px(row.bottom));
    let mut last = None;
    for (step, &load) in (0..).zip(&buffer.live) {
        if last.replace(load) != Some(load) {
            let _ = write!(path, "H{}V{}", Px(panel.x(step)), Px(row.y(load)));
        }
    }
    path + &format!("H{}V{}Z", Px(panel.right), Px(row.bottom))
}

/// Returns the text at a peak.
fn remark(panel: &Panel<'_>, buffer: &BufferPicture<'_>) -> String {
    let are_several = panel.scene.buffers.len() > 1;
    let name = if are_several { format!("{}, ", shortened(buffer.name, 24)) } else { String::new() };
    let again = match buffer.peaks.len() {
        0 | 1 => String::new(),
        2 => ", and once more".to_owned(),
        more => format!(", and {} more times", more - 1),
    };
    let step = buffer.peaks.first().map_or(0, |peak| peak.start);
    format!("{name}peak: {} live at step {step}{again}", short(buffer.lower_bound))
}
