//! The list of graphs, and its filter.

use serde_json::json;

use super::super::{captured, drawn, expect, in_light_and_dark, value};
use super::{LLAMA, text_of};

const OFFERED: &str =
    "[...document.getElementById('graph').options].filter((one) => !one.hidden).map((one) => one.innerText)";

#[test]
fn list_of_graphs_is_filtered_by_words() {
    let graphs = [LLAMA, "whisper-base-encode", "whisper-base-decode", "sd-vae-decoder-512"].map(captured);
    let page = drawn(&graphs.each_ref().map(String::as_str), "graph-list.html", &[]);
    in_light_and_dark(&page, "graph-list", |browser| {
        assert_eq!(value(browser, &format!("{OFFERED}.length")), 4);
        let first = value(browser, "state.index");
        expect(browser.press("g"));
        assert_eq!(value(browser, "document.activeElement.id"), "graph-filter");
        expect(browser.type_text("Whisper encode"));
        let offered = value(browser, OFFERED);
        assert!(
            offered.as_array().is_some_and(|offered| offered.len() == 1)
                && offered[0].as_str().is_some_and(|one| one.starts_with("whisper.cpp encode")),
            "{offered}"
        );
        assert_eq!(text_of(browser, "#graph-count"), "1 of 4");
        // Until one is chosen, the graph that was shown stays.
        assert_eq!(
            (value(browser, "state.index"), value(browser, "Number(document.getElementById('graph').value)")),
            (first.clone(), first)
        );
        expect(browser.press("Enter"));
        assert!(text_of(browser, "h1").starts_with("whisper.cpp encode"));
        value(
            browser,
            "(() => { const field = document.getElementById('graph-filter'); field.value = ''; field.dispatchEvent(new Event('input')); })()",
        );
        assert_eq!(value(browser, &format!("{OFFERED}.length")), 4);
        assert_eq!(value(browser, "document.getElementById('graph').value === String(state.index)"), true);
    });
}

#[test]
fn graphs_are_read_when_they_are_shown() {
    let graphs = [LLAMA, "whisper-base-encode"].map(captured);
    let page = drawn(&[&graphs[0], &graphs[1], &captured("whisper-base-conv")], "graph-lazy.html", &[]);
    in_light_and_dark(&page, "graph-lazy", |browser| {
        assert_eq!(value(browser, "GRAPHS.map(({ graph }) => graph !== null)"), json!([true, false, false]));
        value(browser, "showGraph(2)");
        assert_eq!(value(browser, "GRAPHS.map(({ graph }) => graph !== null)"), json!([true, false, true]));
    });
}
