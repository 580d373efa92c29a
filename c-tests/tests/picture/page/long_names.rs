//! Names of any length.

use serde_json::json;

use super::super::{Node, drawn, expect, graph_file_with, in_light_and_dark, opened, value};

/// Elements that leave the window at its right.
const OUTSIDE: &str = "(() => {
    const wide = document.documentElement.clientWidth;
    const all = document.querySelectorAll('h1, h2, p, button, select, input, canvas, #tooltip, #notice, li, dd');
    const seen = [...all].filter((one) => one.checkVisibility() && !one.closest('.scroll'));
    return [document.documentElement.scrollWidth - wide, ...seen.filter((one) => one.getBoundingClientRect().right > wide + 1).map((one) => one.outerHTML.slice(0, 90))];
})()";

#[test]
fn names_of_any_length_stay_inside_the_window() {
    let long = |start: &str| format!("{start}{}-end", "x".repeat(5000));
    let nodes: Vec<Node> = (0..30)
        .map(|step| {
            Node::new(&long(&format!("name-{step}-")), if step % 2 == 0 { "MUL_MAT" } else { "ADD" }, 1024, &[step])
        })
        .collect();
    let graph = graph_file_with("long-names.jsonl", &long("label "), &nodes);
    let other = graph_file_with("long-names-2.jsonl", &long("other "), &nodes[..20]);
    let third = graph_file_with("long-names-3.jsonl", "short", &nodes[..10]);
    let page = drawn(&[&graph, &other, &third], "long-names.html", &[]);
    in_light_and_dark(&page, "long-names", |browser| {
        for width in [1400, 360] {
            expect(browser.resize(width, 900));
            opened(browser, &page);
            assert_eq!(value(browser, OUTSIDE), json!([0]), "{width}");
            expect(browser.press("n"));
            let tooltip = value(
                browser,
                "(() => { const box = document.getElementById('tooltip').getBoundingClientRect();
                return [box.left >= 0, box.right <= innerWidth, box.height < 400]; })()",
            );
            assert_eq!(tooltip, json!([true, true, true]), "{width}");
            expect(browser.press("Enter"));
            expect(browser.press("t"));
            value(browser, "showGraph(0, 1)");
            expect(browser.paint());
            assert_eq!(value(browser, OUTSIDE), json!([0]), "{width}");
            assert_eq!(value(browser, "fileName().length <= 60"), true);
        }
        // The end of a name, which tells tensors apart, is in its call-out.
        value(browser, "showGraph(0)");
        value(browser, "setView(0, state.frame.steps, 0, 0.4)");
        expect(browser.paint());
        let texts = value(browser, "state.painters[0].calledOut.map(({ text }) => text)");
        assert!(
            texts.as_array().is_some_and(|texts| !texts.is_empty()
                && texts.iter().all(|text| text.as_str().is_some_and(|text| text.contains("-end  1 MiB")))),
            "{texts}"
        );
    });
}
