//! The curve of live bytes, the lower bound, and the peak.

use std::fmt::Write;

use crate::report::picture::scene::BufferPicture;
use crate::report::sizes::short;
use crate::report::xml::{escaped, shortened};

use super::frame::{Panel, Row, px};

/// Half of the width of the text at a peak.
const REMARK: f64 = 170.0;

pub fn draw(to: &mut String, panel: &Panel<'_>, row: &Row) {
    let Some(buffer) = panel.buffer(row.buffer) else { return };
    let _ = writeln!(to, "<path class=\"live\" d=\"{}\"/>", outline(panel, row, buffer));
    let (left, right) = (px(panel.left), px(panel.right()));
    for (class, at) in [("end", buffer.size()), ("bound", buffer.lower_bound)] {
        let _ = writeln!(to, "<path class=\"{class}\" d=\"M{left} {}H{right}\"/>", px(row.y(at)));
    }
    peak(to, panel, row, buffer);
}

/// Returns the outline of the curve, down to the axis at both ends, with a point only where it changes.
fn outline(panel: &Panel<'_>, row: &Row, buffer: &BufferPicture<'_>) -> String {
    let mut path = format!("M{} {}", px(panel.left), px(row.bottom()));
    let mut last = None;
    for (step, &load) in (0..).zip(&buffer.live) {
        if last != Some(load) {
            let _ = write!(path, "H{}V{}", px(panel.x(step)), px(row.y(load)));
            last = Some(load);
        }
    }
    let _ = write!(path, "H{}V{}Z", px(panel.right()), px(row.bottom()));
    path
}

fn peak(to: &mut String, panel: &Panel<'_>, row: &Row, buffer: &BufferPicture<'_>) {
    let (Some(x), Some(first)) = (panel.peak_x(buffer), buffer.peaks.first()) else { return };
    let y = row.y(buffer.lower_bound);
    let _ = writeln!(to, "<path class=\"peak\" d=\"M{} {}V{}\"/>", px(x), px(row.top - 8.0), px(row.bottom()));
    let _ = writeln!(to, "<circle class=\"dot\" cx=\"{}\" cy=\"{}\" r=\"4\"/>", px(x), px(y));
    let again = buffer.peaks.len() - 1;
    let again = match again {
        0 => String::new(),
        1 => ", and once more".to_owned(),
        more => format!(", and {more} more times"),
    };
    let are_several = panel.scene.buffers.len() > 1;
    let name = if are_several { format!("{}, ", escaped(&shortened(buffer.name, 24))) } else { String::new() };
    // Centred at the peak, but inside the panel.
    let (anchor, at) = if x < panel.left + REMARK {
        ("start", panel.left)
    } else if x > panel.right() - REMARK {
        ("end", panel.right())
    } else {
        ("middle", x)
    };
    let _ = writeln!(
        to,
        "<text class=\"remark\" text-anchor=\"{anchor}\" x=\"{}\" y=\"{}\">{name}peak: {} live at step {}{again}</text>",
        px(at),
        px(row.top - 11.0),
        short(buffer.lower_bound),
        first.start
    );
}

impl Panel<'_> {
    /// Returns the middle of the step of a buffer's first peak.
    pub fn peak_x(&self, buffer: &BufferPicture<'_>) -> Option<f64> {
        let first = buffer.peaks.first()?.start;
        Some(f64::midpoint(self.x(first), self.x(first + 1)))
    }
}
