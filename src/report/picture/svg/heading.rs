//! The headings: the graph, and each plan with its bytes.

use std::fmt::Write;

use crate::report::picture::graphs::DrawnGraph;
use crate::report::picture::scene::Scene;
use crate::report::picture::units::change;
use crate::report::sizes::short;
use crate::report::xml::{escaped, shortened};

use super::frame::{MARGIN, Panel, px};

/// The height of the heading of a plan.
pub const OF_PANEL: f64 = 62.0;

/// Writes the title of a graph, and returns its bottom.
pub fn of_graph(to: &mut String, drawn: &DrawnGraph<'_>, title: &str, top: f64) -> f64 {
    let graph = &drawn.snapshot.graph;
    let planned = drawn.scenes.first().map_or(0, tensors);
    let (x, title) = (px(MARGIN), escaped(&shortened(title, 110)));
    let _ = writeln!(to, "<text class=\"title\" x=\"{x}\" y=\"{}\">{title}</text>", px(top + 16.0));
    let _ = writeln!(
        to,
        "<text class=\"note\" x=\"{x}\" y=\"{}\">{} steps, {planned} tensors in buffers. A rectangle is a tensor, \
         from its definition to its last use, as high as its bytes.</text>",
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

/// Writes that there is nothing to draw, and returns its bottom.
pub fn nothing(to: &mut String, top: f64) -> f64 {
    let _ = writeln!(
        to,
        "<text class=\"note\" x=\"{}\" y=\"{}\">The graph needs no memory.</text>",
        px(MARGIN),
        px(top + 16.0)
    );
    top + 2.0 * MARGIN
}

/// Writes the name of a plan, its bytes, the change from the first plan, and the distance from the lower bound.
pub fn of_panel(to: &mut String, panel: &Panel<'_>, drawn: &DrawnGraph<'_>, top: f64) {
    let (scene, size) = (panel.scene, panel.scene.size());
    let (x, y) = (px(panel.left), top + 27.0);
    let _ = write!(
        to,
        "<text class=\"plan\" x=\"{x}\" y=\"{}\">{}<tspan class=\"bytes\" dx=\"10\">{}</tspan>",
        px(y),
        escaped(&shortened(scene.label, 24)),
        short(size)
    );
    if let Some(first) = drawn.scenes.first().filter(|_| panel.is_compared) {
        let (class, text) = (if size < first.size() { "less" } else { "bytes" }, change(first.size(), size));
        let _ = write!(to, "<tspan class=\"{class}\" dx=\"10\">{text}</tspan>");
    }
    to.push_str("</text>\n");
    let _ = writeln!(to, "<text class=\"note\" x=\"{x}\" y=\"{}\">{}</text>", px(y + 18.0), distance_from_bound(scene));
}

/// Formats how far a plan is from its lower bound.
fn distance_from_bound(scene: &Scene<'_>) -> String {
    let bound = scene.buffers.iter().map(|buffer| buffer.lower_bound).fold(0, u64::saturating_add);
    if scene.is_at_bound() {
        "at the lower bound: no plan with these live ranges is smaller".to_owned()
    } else if scene.is_optimal() {
        format!("proven to be the smallest with these live ranges; the lower bound is {}", short(bound))
    } else {
        format!("{} above the lower bound", short(scene.size().saturating_sub(bound)))
    }
}
