//! Writes SVG elements.

use std::fmt::{self, Display, Write};

use crate::report::xml::escaped;

/// A number of pixels, with at most two decimals.
pub struct Px(pub f64);

impl Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.2}", self.0);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// A rectangle in pixels.
#[derive(Clone, Copy)]
pub struct Area {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Area {
    pub fn width(&self) -> f64 {
        self.right - self.left
    }

    pub fn height(&self) -> f64 {
        self.bottom - self.top
    }

    /// Returns the middle, left to right and top to bottom.
    pub fn middle(&self) -> [f64; 2] {
        [f64::midpoint(self.left, self.right), f64::midpoint(self.top, self.bottom)]
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    pub fn holds(&self, other: &Self) -> bool {
        other.left >= self.left && other.right <= self.right && other.top >= self.top && other.bottom <= self.bottom
    }
}

/// Elements, each on a line. Classes and paths are not escaped.
#[derive(Default)]
pub struct Pen(pub String);

impl Pen {
    /// Adds a line.
    pub fn line(&mut self, line: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{line}");
    }

    pub fn path(&mut self, class: &str, path: impl Display) {
        self.line(format_args!("<path class=\"{class}\" d=\"{path}\"/>"));
    }

    /// Adds a rectangle, which viewers describe by its title; without one if that is empty.
    pub fn rect(&mut self, class: &str, area: &Area, title: &str) {
        let [left, top, width, height] = [area.left, area.top, area.width(), area.height()].map(Px);
        let end = match title {
            "" => "/>".to_owned(),
            title => format!("><title>{}</title></rect>", escaped(title)),
        };
        self.line(format_args!(
            "<rect class=\"{class}\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"{end}"
        ));
    }

    pub fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let (x, y, text) = (Px(x), Px(y), escaped(text));
        self.line(format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>"));
    }
}
