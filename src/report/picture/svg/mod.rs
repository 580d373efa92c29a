//! The SVG for documents, without scripts.

mod frame;
mod axes;
mod curve;
mod heading;
mod letters;
mod beside;
mod labels;
mod legend;
mod map;
mod style;

use std::fmt::Write;

use super::graphs::DrawnGraph;
use super::{Options, PlanView};
use crate::report::xml::escaped;
use frame::{Panel, Rows, WIDTH};

/// Draws plans as SVG: those of one graph side by side, and one graph below the other. The names of the largest tensors are
/// written in their rectangles; the others are titles, which viewers show as tooltips.
pub fn svg(views: &[PlanView<'_>], options: &Options<'_>) -> String {
    let graphs = DrawnGraph::all(views, options);
    let mut body = String::new();
    let mut top = frame::MARGIN;
    if graphs.is_empty() {
        top = heading::nothing(&mut body, top);
    }
    for drawn in &graphs {
        // A title replaces the label of a single graph.
        let title = options.title.filter(|_| graphs.len() == 1).unwrap_or(drawn.title());
        top = graph(&mut body, drawn, title, top);
    }
    let height = legend::draw(&mut body, &graphs, top) + frame::MARGIN;
    let title = escaped(options.title.unwrap_or(graphs.first().map_or("Memory over time", DrawnGraph::title)));
    let mut document = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n"
    );
    document.push_str(&style::sheet(options.theme));
    let _ = writeln!(document, "<rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\" rx=\"10\"/>");
    document.push_str(&body);
    document.push_str("</svg>\n");
    document
}

/// Draws a graph with all its plans, and returns its bottom.
fn graph(to: &mut String, drawn: &DrawnGraph<'_>, title: &str, top: f64) -> f64 {
    let top = heading::of_graph(to, drawn, title, top);
    if drawn.size() == 0 {
        return heading::nothing(to, top);
    }
    let rows = Rows::of(drawn, top + heading::OF_PANEL);
    for (index, scene) in drawn.scenes.iter().enumerate() {
        let panel = Panel::new(scene, index, drawn.scenes.len(), &rows);
        heading::of_panel(to, &panel, drawn, top);
        axes::draw(to, &panel);
        for row in &rows.rows {
            match row.chunk {
                Some(_) => map::draw(to, &panel, row, &drawn.snapshot.tensors, drawn.size()),
                None => curve::draw(to, &panel, row),
            }
        }
    }
    rows.bottom + frame::MARGIN
}
