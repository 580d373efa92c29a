//! The SVG for documents, without scripts.

mod pen;
mod frame;
mod lines;
mod names;
mod map;

use frame::{MARGIN, Panel, STEPS, WIDTH, rows};
use pen::{Pen, Px};

use crate::report::sizes::short;
use crate::report::xml::{escaped, shortened};

use super::scene::Scene;
use super::style::{self, Legend};
use super::units::change;
use super::{DrawnGraph, Options, PlanView};

/// The height of the heading of a graph, and of the heading of a plan.
const OF_GRAPH: f64 = 46.0;
const OF_PANEL: f64 = 62.0;

/// Draws plans as SVG: those of one graph side by side, and one graph below the other. The names of the largest tensors are
/// written in their rectangles; the others are titles, which viewers show as tooltips.
pub fn svg(views: &[PlanView<'_>], options: &Options<'_>) -> String {
    let graphs = DrawnGraph::all(views, options);
    let mut pen = Pen::default();
    let mut top = MARGIN;
    if graphs.is_empty() {
        top = nothing(&mut pen, top);
    }
    for drawn in &graphs {
        // A title replaces the label of a single graph.
        let title = options.title.filter(|_| graphs.len() == 1).unwrap_or(drawn.title());
        top = graph(&mut pen, drawn, title, top);
    }
    let height = legend(&mut pen, &graphs, top) + MARGIN;
    let title = escaped(options.title.unwrap_or(graphs.first().map_or("Memory over time", DrawnGraph::title)));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n{}\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\" rx=\"10\"/>\n{}</svg>\n",
        style::sheet(options.theme),
        pen.0
    )
}

/// Writes that there is nothing to draw, and returns its bottom.
fn nothing(pen: &mut Pen, top: f64) -> f64 {
    pen.text("note", MARGIN, top + 16.0, "The graph needs no memory.");
    top + 2.0 * MARGIN
}

/// Draws a graph with all its plans, and returns its bottom.
fn graph(pen: &mut Pen, drawn: &DrawnGraph<'_>, title: &str, top: f64) -> f64 {
    let (steps, tensors) = (drawn.snapshot.graph.nodes().len(), drawn.scenes.first().map_or(0, Scene::tensors));
    pen.text("title", MARGIN, top + 16.0, &shortened(title, 110));
    let note = format!(
        "{steps} steps, {tensors} tensors in buffers. A rectangle is a tensor, from its definition to its last use, as \
         high as its bytes."
    );
    pen.text("note", MARGIN, top + 37.0, &note);
    let top = top + OF_GRAPH;
    if drawn.size() == 0 {
        return nothing(pen, top);
    }
    let rows = rows(drawn, top + OF_PANEL);
    let bottom = rows.last().map_or(top, |row| row.bottom);
    for (index, scene) in drawn.scenes.iter().enumerate() {
        let panel = Panel::new(scene, index, drawn.scenes.len());
        heading(pen, &panel, drawn.scenes.first().filter(|_| index > 0), top + 27.0);
        rows.iter().for_each(|row| lines::bytes_axis(pen, &panel, row));
        lines::steps_axis(pen, &panel, bottom);
        for row in &rows {
            match row.chunk {
                Some(_) => map::draw(pen, &panel, row, &drawn.snapshot.tensors, drawn.size()),
                None => lines::curve(pen, &panel, row),
            }
        }
    }
    bottom + STEPS + MARGIN
}

/// Writes the name of a plan, its bytes, the change from the first plan, and the distance from the lower bound.
fn heading(pen: &mut Pen, panel: &Panel<'_>, first: Option<&Scene<'_>>, y: f64) {
    let (scene, size) = (panel.scene, panel.scene.size());
    let part = |class: &str, text: &str| format!("<tspan class=\"{class}\" dx=\"10\">{text}</tspan>");
    let compared = first.map_or_else(String::new, |first| {
        part(if size < first.size() { "less" } else { "bytes" }, &change(first.size(), size))
    });
    let (x, label) = (Px(panel.left), escaped(&shortened(scene.label, 24)));
    let bytes = part("bytes", &short(size));
    // Offset 0 is then at the green line.
    let turned = if scene.is_turned() { part("turned", "upside down") } else { String::new() };
    pen.line(format_args!("<text class=\"plan\" x=\"{x}\" y=\"{}\">{label}{bytes}{compared}{turned}</text>", Px(y)));
    pen.text("note", panel.left, y + 18.0, &scene.distance_from_bound());
}

/// Draws the legend of all that occurs, and returns its bottom.
fn legend(pen: &mut Pen, graphs: &[DrawnGraph<'_>], top: f64) -> f64 {
    const LINE: f64 = 22.0;
    const LETTER_WIDTH: f64 = 6.4;
    const SAMPLE: f64 = 24.0;
    let (mut x, mut y) = (MARGIN, top);
    for Legend { drawing, text, .. } in style::legend().iter().filter(|entry| entry.occurs(graphs)) {
        let width = SAMPLE + text.chars().map(|_| LETTER_WIDTH).sum::<f64>();
        if x + width > WIDTH - MARGIN {
            (x, y) = (MARGIN, y + LINE);
        }
        pen.line(format_args!("<g transform=\"translate({} {})\">{drawing}</g>", Px(x), Px(y)));
        pen.text("legend", x + SAMPLE, y + 10.0, text);
        x += width + 16.0;
    }
    if x > MARGIN { y + LINE } else { y }
}
