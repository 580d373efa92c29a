//! The page to explore: one file that holds everything it needs.

mod data;

use super::graphs::Drawn;
use super::xml::escaped;
use super::{Options, Theme, View};

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");

/// The program of the page, in the order in which its parts need one another.
const PROGRAM: [&str; 10] = [
    include_str!("page/units.js"),
    include_str!("page/model.js"),
    include_str!("page/frame.js"),
    include_str!("page/colours.js"),
    include_str!("page/painter.js"),
    include_str!("page/state.js"),
    include_str!("page/details.js"),
    include_str!("page/search.js"),
    include_str!("page/input.js"),
    include_str!("page/main.js"),
];

/// One page with all graphs, the largest first. Plans of one graph are beside one another; which graph is seen can be
/// chosen. Nothing is loaded from elsewhere.
pub fn html(views: &[View<'_>], options: &Options<'_>) -> String {
    let mut graphs = Drawn::all(views, options);
    graphs.sort_by_key(|drawn| std::cmp::Reverse(drawn.size()));
    let title = options.title.unwrap_or(graphs.first().map_or("Memory over time", Drawn::title));
    let theme = match options.theme {
        Theme::Auto => "auto",
        Theme::Light => "light",
        Theme::Dark => "dark",
    };
    // The data last: what is in it is never looked into for what else is to be put in.
    let parts = [
        ("{{theme}}", theme.to_owned()),
        ("{{title}}", escaped(title)),
        ("{{style}}", STYLE.to_owned()),
        ("{{program}}", PROGRAM.concat()),
        ("{{data}}", data::json(&graphs, options.title)),
    ];
    filled(PAGE, &parts)
}

/// Puts each part where its name first is, in one pass.
fn filled(page: &str, parts: &[(&str, String)]) -> String {
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
