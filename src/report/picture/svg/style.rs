//! The style sheet. It has no variables, which not every viewer of SVG supports.

use std::fmt::Write;

use crate::report::picture::Theme;
use crate::report::picture::kinds::OperationKind;

/// The colours that differ between light and dark.
struct Palette {
    page: &'static str,
    field: &'static str,
    grid: &'static str,
    text: &'static str,
    note: &'static str,
    less: &'static str,
    peak: &'static str,
    live: &'static str,
    bound: &'static str,
}

const LIGHT: Palette = Palette {
    page: "#ffffff",
    field: "#f4f6f8",
    grid: "#dfe4ea",
    text: "#14181d",
    note: "#55606d",
    less: "#00734f",
    peak: "#c2185b",
    live: "#8fa6bd",
    bound: "#14181d",
};

const DARK: Palette = Palette {
    page: "#0f1318",
    field: "#181e25",
    grid: "#2b343f",
    text: "#e8edf2",
    note: "#9dabb9",
    less: "#3ddba5",
    peak: "#ff6fa3",
    live: "#50677f",
    bound: "#e8edf2",
};

/// Returns the style sheet and the patterns of stripes.
pub fn sheet(theme: Theme) -> String {
    let mut sheet = String::from("<style>\n");
    sheet.push_str(SHAPES);
    for kind in OperationKind::ALL {
        let (number, colour, ink) = (kind as u8, kind.colour(), kind.ink());
        let _ = writeln!(sheet, ".k{number}{{fill:{colour}}} .i{number}{{fill:{ink}}}");
    }
    match theme {
        Theme::Light => sheet.push_str(&LIGHT.rules()),
        Theme::Dark => sheet.push_str(&DARK.rules()),
        Theme::Auto => {
            sheet.push_str(&LIGHT.rules());
            let _ = writeln!(sheet, "@media (prefers-color-scheme: dark) {{\n{}}}", DARK.rules());
        }
    }
    sheet.push_str("</style>\n");
    sheet.push_str(PATTERNS);
    sheet
}

const SHAPES: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
text.title{font-size:19px;font-weight:600}
text.plan{font-size:17px;font-weight:600}
.bytes{font-weight:400} .less{font-weight:700}
text.mark{text-anchor:end;font-size:11px} text.step{text-anchor:middle;font-size:11px}
text.remark{font-weight:600} text.saving{text-anchor:middle;font-weight:600;font-size:20px}
text.name{text-anchor:middle} text.name,text.beside{font:10.5px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}
[class^=k]{stroke-width:.6}
.grid,.tick{fill:none;stroke-width:1}
.inside{fill:url(#lastuse-inside)} .retained{fill:url(#lastuse-retained)} .kept{fill:url(#lastuse-kept);stroke-dasharray:3 2;stroke-width:1}
.small{font-size:8.5px!important} .over{fill:none;stroke:#fff;stroke-width:1.2;stroke-dasharray:2 2} .notch{fill:#fff}
.peak{fill:none;stroke-width:1.5;stroke-dasharray:4 3} .peaks{opacity:.14} .dot{stroke-width:1.5}
.bound{fill:none;stroke-width:1.5;stroke-dasharray:6 4} .end{fill:none;stroke-width:1.5}
.saved{opacity:.1}
";

const PATTERNS: &str = "<defs>
<pattern id=\"lastuse-kept\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><path class=\"hatch\" d=\"M0 0V6\"/></pattern>
<pattern id=\"lastuse-inside\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><path d=\"M0 0V6\" stroke=\"#fff\" stroke-width=\"1.6\" stroke-opacity=\".7\"/></pattern>
<pattern id=\"lastuse-retained\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\"><circle cx=\"3.5\" cy=\"3.5\" r=\"1.2\" fill=\"#fff\" fill-opacity=\".75\"/></pattern>
</defs>
";

impl Palette {
    fn rules(&self) -> String {
        let Self { page, field, grid, text, note, less, peak, live, bound } = self;
        format!(
            "text{{fill:{text}}} .page{{fill:{page}}} .field{{fill:{field}}} .grid,.tick{{stroke:{grid}}}\n\
             .note,.mark,.step,.legend,.bytes{{fill:{note}}} .less,.saving{{fill:{less}}} .saved{{fill:{less}}}\n\
             [class^=k]:not(.thin){{stroke:{field}}} .kept{{stroke:{note}}} .hatch{{stroke:{note}}}\n\
             .peak{{stroke:{peak}}} .peaks,.top{{fill:{peak}}} .dot{{fill:{peak};stroke:{page}}} .remark{{fill:{peak}}}\n\
             .live{{fill:{live}}} .bound{{stroke:{bound}}} .end{{stroke:{less}}}\n"
        )
    }
}
