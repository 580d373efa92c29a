//! What is said above: the graph, and each plan with its bytes.

use std::fmt::Write;

use crate::report::picture::graphs::Drawn;
use crate::report::picture::scene::Scene;
use crate::report::picture::units::{bytes, change};
use crate::report::picture::xml::{escaped, shortened};

use super::frame::{MARGIN, Panel, px};

/// The height of the heading of a plan.
pub const OF_PANEL: f64 = 62.0;

/// Writes the title of a graph.
pub fn of_graph(to: &mut String, drawn: &Drawn<'_>, title: &str, top: f64) -> f64 {
    let graph = &drawn.snapshot.graph;
    let planned = drawn.scenes.first().map_or(0, tensors);
    let (x, title) = (px(MARGIN), escaped(&shortened(title, 110)));
    let _ = writeln!(to, "<text class=\"title\" x=\"{x}\" y=\"{}\">{title}</text>", px(top + 16.0));
    let _ = writeln!(
        to,
        "<text class=\"note\" x=\"{x}\" y=\"{}\">{} steps, {planned} tensors that need memory. Each rectangle is a tensor: \
         from the step that makes it to the last that reads it, as high as its bytes.</text>",
        px(top + 37.0),
        graph.nodes().len()
    );
    top + 46.0
}

fn tensors(scene: &Scene<'_>) -> usize {
    let mut tensors: Vec<_> = scene.spans.iter().filter(|span| span.size > 0).map(|span| span.tensor).collect();
    tensors.sort_unstable();
    tensors.dedup();
    tensors.len()
}

/// Says that there is nothing to draw.
pub fn nothing(to: &mut String, top: f64) -> f64 {
    let _ = writeln!(
        to,
        "<text class=\"note\" x=\"{}\" y=\"{}\">There is nothing to place.</text>",
        px(MARGIN),
        px(top + 16.0)
    );
    top + 2.0 * MARGIN
}

/// Writes the name of a plan, its bytes, how it compares, and how good it is.
pub fn of_panel(to: &mut String, panel: &Panel<'_>, drawn: &Drawn<'_>, top: f64) {
    let (scene, size) = (panel.scene, panel.scene.size());
    let (x, y) = (px(panel.left), top + 27.0);
    let _ = write!(
        to,
        "<text class=\"plan\" x=\"{x}\" y=\"{}\">{}<tspan class=\"bytes\" dx=\"10\">{}</tspan>",
        px(y),
        escaped(&shortened(scene.label, 24)),
        bytes(size)
    );
    if let Some(first) = drawn.scenes.first().filter(|_| panel.is_compared) {
        let (class, text) = (if size < first.size() { "less" } else { "bytes" }, change(first.size(), size));
        let _ = write!(to, "<tspan class=\"{class}\" dx=\"10\">{text}</tspan>");
    }
    to.push_str("</text>\n");
    let _ = writeln!(to, "<text class=\"note\" x=\"{x}\" y=\"{}\">{}</text>", px(y + 18.0), goodness(scene));
}

/// How far from the best a plan is.
fn goodness(scene: &Scene<'_>) -> String {
    let bound = scene.buffers.iter().map(|buffer| buffer.lower_bound).fold(0, u64::saturating_add);
    if scene.is_at_bound() {
        "at the lower bound: no plan with these live_ranges is smaller".to_owned()
    } else if scene.is_optimal() {
        format!("proven: no plan with these live_ranges is smaller, though only {} are alive at once", bytes(bound))
    } else {
        format!("{} above the lower bound of its live_ranges", bytes(scene.size().saturating_sub(bound)))
    }
}
