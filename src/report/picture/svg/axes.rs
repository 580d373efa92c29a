//! Axes, grids, and the names of rows.

use std::fmt::Write;

use crate::placement::Step;
use crate::report::picture::units::{byte_ticks, round_step};
use crate::report::xml::{escaped, shortened};

use super::frame::{Panel, Row, px};

/// The approximate distance of marks, in pixels.
const MARK_DISTANCE: f64 = 40.0;
/// The least number of marks, so that there is usually one above 0.
const MIN_MARKS: u64 = 3;

pub fn draw(to: &mut String, panel: &Panel<'_>) {
    for row in &panel.rows.rows {
        bytes_axis(to, panel, row);
    }
    steps_axis(to, panel);
}

fn bytes_axis(to: &mut String, panel: &Panel<'_>, row: &Row) {
    let [left, right, top, height] = [panel.left, panel.right(), row.top, row.height].map(px);
    let _ = writeln!(
        to,
        "<rect class=\"field\" x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{height}\"/>",
        px(panel.width)
    );
    for (mark, text) in byte_ticks(row.bytes, marks_in(row.height).max(MIN_MARKS)) {
        let y = row.y(mark);
        let _ = writeln!(to, "<path class=\"grid\" d=\"M{left} {y}H{right}\"/>", y = px(y));
        let _ = writeln!(to, "<text class=\"mark\" x=\"{}\" y=\"{}\">{text}</text>", px(panel.left - 7.0), px(y + 3.5));
    }
    if let Some(name) = &row.name {
        let name = escaped(&shortened(name, 60));
        let _ = writeln!(to, "<text class=\"note\" x=\"{left}\" y=\"{}\">{name}</text>", px(row.top - 11.0));
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a height in pixels is small")]
fn marks_in(length: f64) -> u64 {
    (length / MARK_DISTANCE).max(1.0) as u64
}

fn steps_axis(to: &mut String, panel: &Panel<'_>) {
    let Some(last) = panel.rows.rows.last() else { return };
    let steps = panel.scene.steps;
    let apart = Step::try_from(round_step(steps.into(), marks_in(panel.width / 2.0))).unwrap_or(steps).max(1);
    let y = px(last.bottom() + 14.0);
    for step in (0..=steps).step_by(apart as usize) {
        let x = px(panel.x(step));
        let _ = writeln!(to, "<path class=\"tick\" d=\"M{x} {}v4\"/>", px(last.bottom()));
        let _ = writeln!(to, "<text class=\"step\" x=\"{x}\" y=\"{y}\">{step}</text>");
    }
    let (x, y) = (px(panel.left + panel.width / 2.0), px(last.bottom() + 30.0));
    let _ = writeln!(to, "<text class=\"step\" x=\"{x}\" y=\"{y}\">step (each runs one node of the graph)</text>");
}
