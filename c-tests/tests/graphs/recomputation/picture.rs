//! The curve of memory against work, as an SVG for light and dark pages.

use std::fmt::Write;

use lastuse::graph::recompute::Needs;

use super::Training;
use super::every_kth::{Kept, Point};

const STYLE: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;fill:#14181d}
text.title{font-size:19px;font-weight:600} text.y{text-anchor:end} text.x{text-anchor:middle}
.page{fill:#ffffff} .field{fill:#f4f6f8} .grid{fill:none;stroke:#dfe4ea} .note{fill:#55606d}
.line{fill:none;stroke-width:2} .ours{stroke:#00734f} .theirs{stroke:#c2185b;stroke-dasharray:5 4}
.dot{fill:#00734f} .mark{fill:#c2185b} .open{fill:#f4f6f8;stroke:#c2185b;stroke-width:2} .k{fill:#c2185b}
@media (prefers-color-scheme: dark) {
text{fill:#e8edf2} .page{fill:#0f1318} .field{fill:#181e25} .grid{stroke:#2b343f} .note{fill:#9dabb9}
.ours{stroke:#3ddba5} .theirs{stroke:#ff6fa3} .dot{fill:#3ddba5} .mark,.k{fill:#ff6fa3}
.open{fill:#181e25;stroke:#ff6fa3}
}
";

/// Left, right, top and bottom of the field.
const FIELD: [f64; 4] = [72.0, 880.0, 112.0, 480.0];
/// The most work on the axis, in relation to the given graph.
const MOST_WORK: f64 = 1.35;

/// Returns where needs are in the picture.
fn at(training: &Training, needs: Needs) -> (f64, f64) {
    (x(training.bytes_ratio(needs)), y(training.work_ratio(needs)))
}

fn x(bytes: f64) -> f64 {
    FIELD[0] + (FIELD[1] - FIELD[0]) * bytes
}

fn y(work: f64) -> f64 {
    FIELD[3] - (FIELD[3] - FIELD[2]) * (work - 1.0) / (MOST_WORK - 1.0)
}

/// Draws the needs that were found, and those of the competitor.
pub fn curve(training: &Training, found: &[Needs], competitor: &[Point]) -> String {
    let title = format!("Memory against work: a training graph of {} layers", training.layers);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 920 540\" width=\"920\" height=\"540\" role=\"img\" \
         aria-label=\"{title}\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n\
         <rect class=\"page\" width=\"920\" height=\"540\" rx=\"10\"/>\n<text class=\"title\" x=\"20\" y=\"36\">{title}</text>\n\
         <text class=\"note\" x=\"20\" y=\"58\">{}. Lower and further left is better.</text>\n",
        training.snapshot.label
    );
    axes(&mut svg);
    let lines = [("ours", found.to_vec()), ("theirs", competitor.iter().map(|point| point.needs).collect())];
    for (class, needs) in lines {
        let points: Vec<String> =
            needs.iter().map(|&needs| at(training, needs)).map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        line(&mut svg, format_args!("<path class=\"line {class}\" d=\"M{}\"/>", points.join("L")));
    }
    for &needs in found {
        let (x, y) = at(training, needs);
        line(&mut svg, format_args!("<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"));
    }
    for point in competitor {
        let (x, y) = at(training, point.needs);
        mark(&mut svg, point.kept, x, y);
        line(
            &mut svg,
            format_args!("<text class=\"k\" x=\"{:.1}\" y=\"{:.1}\">k={}</text>", x + 8.0, y - 7.0, point.k),
        );
    }
    legend(&mut svg);
    svg.push_str("</svg>\n");
    svg
}

fn line(svg: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(svg, "{text}").expect("a string takes everything");
}

fn mark(svg: &mut String, kept: Kept, x: f64, y: f64) {
    let class = if kept == Kept::Streams { "mark" } else { "open" };
    let (left, top) = (x - 4.0, y - 4.0);
    line(svg, format_args!("<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"8\" height=\"8\"/>"));
}

fn axes(svg: &mut String) {
    let [left, right, top, bottom] = FIELD;
    let (width, height) = (right - left, bottom - top);
    line(svg, format_args!("<rect class=\"field\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"/>"));
    for tenth in (0..=10).step_by(2) {
        let (bytes, label) = (f64::from(tenth) / 10.0, bottom + 18.0);
        let x = x(bytes);
        line(svg, format_args!("<path class=\"grid\" d=\"M{x:.1} {top}V{bottom}\"/>"));
        line(svg, format_args!("<text class=\"x note\" x=\"{x:.1}\" y=\"{label}\">{bytes:.1}</text>"));
    }
    for part in 0..=7 {
        let work = 1.0 + f64::from(part) / 20.0;
        let (y, label) = (y(work), left - 8.0);
        line(svg, format_args!("<path class=\"grid\" d=\"M{left} {y:.1}H{right}\"/>"));
        line(svg, format_args!("<text class=\"y note\" x=\"{label}\" y=\"{:.1}\">{work:.2}</text>", y + 4.0));
    }
    let middle = f64::midpoint(left, right);
    line(svg, format_args!("<text class=\"x\" x=\"{middle}\" y=\"522\">bytes of the plan / ggml-alloc's</text>"));
    line(svg, format_args!("<text x=\"20\" y=\"98\">work / given graph</text>"));
}

fn legend(svg: &mut String) {
    line(svg, format_args!("<circle class=\"dot\" cx=\"560\" cy=\"136\" r=\"4\"/>"));
    line(svg, format_args!("<text x=\"572\" y=\"140\">lastuse plan --recompute</text>"));
    mark(svg, Kept::Streams, 560.0, 158.0);
    line(svg, format_args!("<text x=\"572\" y=\"162\">residual stream kept after every k-th layer</text>"));
    mark(svg, Kept::Layers, 560.0, 180.0);
    line(svg, format_args!("<text x=\"572\" y=\"184\">every k-th layer kept, of the others the stream</text>"));
}
