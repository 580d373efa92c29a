//! The HTML page to explore: one file that loads nothing.

mod data;

use lastuse::accounting::Accounting;

use crate::report::accounting::{ACCOUNTING_STYLE, accounting_html};
use crate::report::xml::escaped;

use super::{DrawnGraph, Options, PlanView, Theme, style};

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");

/// The script of the page: one script, in the order in which its parts are needed.
const PROGRAM: [&str; 20] = [
    include_str!("page/units.js"),
    include_str!("page/query.js"),
    include_str!("page/model.js"),
    include_str!("page/frame.js"),
    include_str!("page/painter.js"),
    include_str!("page/map.js"),
    include_str!("page/curve.js"),
    include_str!("page/callouts.js"),
    include_str!("page/state.js"),
    include_str!("page/elements.js"),
    include_str!("page/details.js"),
    include_str!("page/legend.js"),
    include_str!("page/compare.js"),
    include_str!("page/table.js"),
    include_str!("page/plans.js"),
    include_str!("page/peaks.js"),
    include_str!("page/permalink.js"),
    include_str!("page/export.js"),
    include_str!("page/input.js"),
    include_str!("page/main.js"),
];

/// The part of a page that follows a program, and what it adds to the script.
const LIVE: &str = include_str!("page/live.html");
const FOLLOW: &str = include_str!("page/live.js");

/// Draws all graphs as one HTML page, which shows one graph at a time, the largest first, with its plans side by side, or two
/// graphs compared. The page loads nothing.
pub fn html(views: &[PlanView<'_>], options: &Options<'_>) -> String {
    let graphs = sorted(views, options);
    let title = options.title.unwrap_or(graphs.first().map_or("Memory over time", DrawnGraph::title));
    let theme = match options.theme {
        Theme::Auto => "auto",
        Theme::Light => "light",
        Theme::Dark => "dark",
    };
    let has_devices = options.live || !options.accountings.is_empty();
    // `fill` never searches inserted text, so names in the data are safe.
    let parts = [
        ("{{theme}}", theme.to_owned()),
        ("{{title}}", escaped(title)),
        ("{{style}}", style::page_sheet() + STYLE + if has_devices { ACCOUNTING_STYLE } else { "" }),
        ("{{live}}", if options.live { LIVE.to_owned() } else { String::new() }),
        ("{{devices}}", devices(options.accountings)),
        ("{{program}}", PROGRAM.concat() + if options.live { FOLLOW } else { "" }),
        ("{{data}}", data::lines(&graphs, options)),
    ];
    fill(PAGE, &parts)
}

/// Returns the data of the page with these graphs.
pub fn html_data(views: &[PlanView<'_>], options: &Options<'_>) -> String {
    data::lines(&sorted(views, options), options)
}

/// The graphs, the largest first.
fn sorted<'a>(views: &[PlanView<'a>], options: &Options<'_>) -> Vec<DrawnGraph<'a>> {
    let mut graphs = DrawnGraph::all(views, options);
    graphs.sort_by_key(|drawn| std::cmp::Reverse(drawn.size()));
    graphs
}

/// Returns the memory of the devices, as a part of the page that is opened by a click.
fn devices(accountings: &[&Accounting]) -> String {
    if accountings.is_empty() {
        return String::new();
    }
    let parts: String = accountings.iter().map(|accounting| accounting_html(accounting)).collect();
    format!("  <details id=\"devices\">\n    <summary>Devices</summary>\n{parts}  </details>\n")
}

/// Inserts each part at the first occurrence of its name, in one pass.
fn fill(page: &str, parts: &[(&str, String)]) -> String {
    let mut filled = String::new();
    let mut rest = page;
    loop {
        let next = parts.iter().filter_map(|part| Some((rest.find(part.0)?, part))).min_by_key(|(at, _)| *at);
        let Some((at, (name, text))) = next else { break };
        filled.push_str(&rest[..at]);
        filled.push_str(text);
        rest = &rest[at + name.len()..];
    }
    filled + rest
}
