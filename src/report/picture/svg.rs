//! The picture for documents: one SVG without scripts.

mod axes;
mod beside;
mod curve;
mod frame;
mod heading;
mod labels;
mod legend;
mod map;
mod style;

use std::fmt::Write;

use super::graphs::Drawn;
use super::xml::escaped;
use super::{Options, View};
use frame::{Panel, Rows, WIDTH};

/// Draws plans: those of one graph beside one another, one graph below the other. Names of the largest tensors are
/// written into their rectangles; the others are told where a viewer shows titles.
pub fn svg(views: &[View<'_>], options: &Options<'_>) -> String {
    let graphs = Drawn::all(views, options);
    let mut body = String::new();
    let mut top = frame::MARGIN;
    if graphs.is_empty() {
        top = heading::nothing(&mut body, top);
    }
    for drawn in &graphs {
        // A title stands in place of the label of a single graph.
        let title = options.title.filter(|_| graphs.len() == 1).unwrap_or(drawn.title());
        top = graph(&mut body, drawn, title, top);
    }
    let height = legend::draw(&mut body, &graphs, top) + frame::MARGIN;
    let title = escaped(options.title.unwrap_or(graphs.first().map_or("Memory over time", Drawn::title)));
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

/// Draws one graph with all its plans; tells where the next one may begin.
fn graph(to: &mut String, drawn: &Drawn<'_>, title: &str, top: f64) -> f64 {
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
