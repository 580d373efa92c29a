//! The colours, the style sheet and the legend, which the SVG and the page share.

use lastuse::graph::OpGroup;

use super::kinds::{KINDS, Kind};
use super::scene::Sharing;
use super::{DrawnGraph, Theme};

/// The colours that differ between light and dark, by name.
const COLOURS: [(&str, [&str; 2]); 11] = [
    ("page", ["#ffffff", "#0f1318"]),
    ("field", ["#f4f6f8", "#181e25"]),
    ("line", ["#dfe4ea", "#2b343f"]),
    ("text", ["#14181d", "#e8edf2"]),
    ("note", ["#55606d", "#9dabb9"]),
    ("raised", ["#ffffff", "#1d242c"]),
    ("less", ["#00734f", "#3ddba5"]),
    ("peak", ["#c2185b", "#ff6fa3"]),
    ("live", ["#8fa6bd", "#50677f"]),
    ("accent", ["#0057c2", "#7ab8ff"]),
    ("mark", ["#7b2ff7", "#c9a6ff"]),
];

/// The styles of shapes in both, with the colours as variables.
pub const SHAPES: &str = "\
.live{fill:var(--live)} .kept{stroke:var(--note)} .hatch{stroke:var(--note);stroke-width:1.6}
.bound{fill:none;stroke:var(--text);stroke-width:1.5;stroke-dasharray:6 4} .end{fill:none;stroke:var(--less);stroke-width:1.5}
.peak{fill:none;stroke:var(--peak);stroke-width:1.5;stroke-dasharray:4 3}
";

/// The other styles of the SVG whose colours differ.
const THEMED: &str = "\
text{fill:var(--text)} .page{fill:var(--page)} .field{fill:var(--field)} .grid,.tick{stroke:var(--line)}
.note,.mark,.step,.legend,.bytes,.turned{fill:var(--note)} .less,.saving,.saved{fill:var(--less)}
[class^=k]:not(.thin){stroke:var(--field)}
.peaks,.top,.remark{fill:var(--peak)} .dot{fill:var(--peak);stroke:var(--page)}
";

/// The styles of the SVG that are the same in light and dark.
const FIXED: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
text.title{font-size:19px;font-weight:600}
text.plan{font-size:17px;font-weight:600}
.bytes{font-weight:400} .less{font-weight:700} .turned{font-size:13px;font-weight:400}
text.mark{text-anchor:end;font-size:11px} text.step{text-anchor:middle;font-size:11px}
text.remark{font-weight:600} text.saving{text-anchor:middle;font-weight:600;font-size:20px}
.middle{text-anchor:middle} .right{text-anchor:end}
text.name{text-anchor:middle} text.name,text.beside{font:10.5px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}
[class^=k]{stroke-width:.6}
.grid,.tick{fill:none;stroke-width:1}
.inside{fill:url(#lastuse-inside)} .retained{fill:url(#lastuse-retained)} .kept{fill:url(#lastuse-kept);stroke-dasharray:3 2;stroke-width:1}
.small{font-size:8.5px!important} .over{fill:none;stroke:#fff;stroke-width:1.2;stroke-dasharray:2 2} .notch{fill:#fff}
.peaks{opacity:.14} .dot{stroke-width:1.5} .saved{opacity:.1}
";

const PATTERNS: &str = "<defs>
<pattern id=\"lastuse-kept\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><path class=\"hatch\" d=\"M0 0V6\"/></pattern>
<pattern id=\"lastuse-inside\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><path d=\"M0 0V6\" stroke=\"#fff\" stroke-width=\"1.6\" stroke-opacity=\".7\"/></pattern>
<pattern id=\"lastuse-retained\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\"><circle cx=\"3.5\" cy=\"3.5\" r=\"1.2\" fill=\"#fff\" fill-opacity=\".75\"/></pattern>
</defs>
";

/// Returns the style sheet of the SVG and the patterns of stripes. Not every viewer of SVG supports variables, so it has none.
pub fn sheet(theme: Theme) -> String {
    let rules = |theme: usize| {
        let rules = [SHAPES, THEMED].concat();
        COLOURS.iter().fold(rules, |rules, (name, colours)| rules.replace(&format!("var(--{name})"), colours[theme]))
    };
    let themed = match theme {
        Theme::Light => rules(0),
        Theme::Dark => rules(1),
        Theme::Auto => format!("{}@media (prefers-color-scheme: dark) {{\n{}}}\n", rules(0), rules(1)),
    };
    let kind = |(number, kind): (usize, &Kind)| {
        format!(".k{number}{{fill:{}}} .i{number}{{fill:{}}}\n", kind.colour, kind.ink)
    };
    let kinds: String = KINDS.iter().enumerate().map(kind).collect();
    format!("<style>\n{FIXED}{kinds}{themed}</style>\n{PATTERNS}")
}

/// Returns the start of the style sheet of the page: the colours as variables, and the shapes.
pub fn page_sheet() -> String {
    let variables = |theme: usize| COLOURS.map(|(name, colours)| format!(" --{name}: {};", colours[theme])).concat();
    let (light, dark) = (variables(0), variables(1));
    format!(
        ":root {{ color-scheme: light;{light} }}\n:root[data-theme=\"dark\"] {{ color-scheme: dark;{dark} }}\n\
         @media (prefers-color-scheme: dark) {{ :root[data-theme=\"auto\"] {{ color-scheme: dark;{dark} }} }}\n{SHAPES}"
    )
}

/// An entry of the legend.
pub struct Legend {
    /// The tensors that it is about: "kind" or "way" with a number, or "retained"; empty for lines, which always occur.
    pub key: String,
    /// SVG of 18 by 12 pixels.
    pub drawing: String,
    pub text: &'static str,
}

/// Returns all entries in their order.
pub fn legend() -> Vec<Legend> {
    let box_of = |colour: &str| format!("<rect width=\"18\" height=\"12\" rx=\"2\" fill=\"{colour}\"/>");
    let kind = |(number, kind): (usize, &Kind)| (format!("kind {number}"), box_of(kind.colour), kind.name);
    let [blue, white] = [KINDS[OpGroup::Elementwise as usize].colour, "stroke=\"#fff\""];
    let on_box = |drawing: &str| box_of(blue) + drawing;
    let stripes = |paint: &str| format!("<path {paint} d=\"M2 12L10 0M8 12L16 0\"/>");
    let arrow =
        format!("<path {white} stroke-dasharray=\"2 2\" d=\"M3 0V12\"/><path fill=\"#fff\" d=\"M3 1l5 5l-5 5z\"/>");
    let dots = [3, 9, 15].map(|x| format!("<circle cx=\"{x}\" cy=\"6\" r=\"1.4\" fill=\"#fff\"/>")).concat();
    let way = |sharing: Sharing| format!("way {}", sharing as u8);
    let line = |class: &str, path: &str| format!("<path class=\"{class}\" d=\"{path}\"/>");
    let others = [
        (way(Sharing::InPlace), on_box(&arrow), "computed in place"),
        (
            way(Sharing::Inside),
            on_box(&stripes(&format!("{white} stroke-width=\"1.6\""))),
            "computed inside a later result",
        ),
        (way(Sharing::Reserved), stripes("class=\"hatch\""), "reserved for that result"),
        ("retained".to_owned(), on_box(&dots), "retained for the program"),
        (String::new(), line("live", "M0 2H18V12H0z"), "live bytes"),
        (String::new(), line("bound", "M0 6H18"), "lower bound"),
        (String::new(), line("end", "M0 6H18"), "buffer size"),
        (String::new(), line("peak", "M9 0V12"), "peak"),
    ];
    let all = KINDS.iter().enumerate().map(kind).chain(others);
    all.map(|(key, drawing, text)| Legend { key, drawing, text }).collect()
}

impl Legend {
    /// Returns whether one of the graphs has such tensors.
    pub fn occurs(&self, graphs: &[DrawnGraph<'_>]) -> bool {
        graphs.iter().any(|drawn| {
            drawn.scenes.iter().flat_map(|scene| &scene.spans).any(|span| {
                let kind = drawn.snapshot.graph.tensor(span.tensor).op.group();
                match self.key.split_once(' ') {
                    Some(("kind", number)) => span.size > 0 && number == (kind as u8).to_string(),
                    Some((_, number)) => number == (span.sharing as u8).to_string(),
                    None => self.key.is_empty() || span.is_retained,
                }
            })
        })
    }
}
