//! Links to a view and a tensor.

use std::path::Path;

use serde_json::{Value, json};

use super::super::{captured, drawn, expect, in_light_and_dark, value};
use super::LLAMA;

/// The state that a link restores.
const SHOWN: &str = "[state.index, state.view, state.pin, state.chosen, state.query, state.hits.length, [...state.filter], [...state.hidden], openTable,
    state.comparison ? state.comparison.before.label : null]";

#[test]
fn links_lead_to_the_view_and_the_tensor() {
    let graphs = [LLAMA, "whisper-base-encode", "llama-8-flash"].map(captured);
    let page = drawn(&graphs.each_ref().map(String::as_str), "permalink.html", &[]);
    in_light_and_dark(&page, "permalink", |browser| {
        assert_eq!(value(browser, "writeAddress(), location.hash"), "#graph=1");
        for script in [
            "setView(20, 60.25, 0.125, 0.5)",
            "choose(state.graph.tensors.name.indexOf('l_out-3')), setView(90, 140, 0, 1)",
            "showPeak(), showTable('peak')",
            "search('op:rms !ffn'), setFilter(['kind 2', 'way 0'])",
            "togglePlan(0)",
            "showGraph(1, 0), togglePlan(0)",
            "showGraph(2), choose(state.graph.planned[40])",
        ] {
            value(browser, script);
            // The address follows by itself.
            expect(browser.wait_for("location.hash === address()"));
            let (link, shown) = (value(browser, "location.hash"), value(browser, SHOWN));
            expect(browser.open_at(Path::new(&page), link.as_str().expect("an address")));
            assert_eq!(value(browser, SHOWN), shown, "{script}: {link}");
        }
        // A link that is pasted into an open page works too.
        value(browser, "location.hash = '#graph=1&tensor=l_out-2'");
        expect(browser.wait_for("state.index === 0 && state.graph.name(state.chosen) === 'l_out-2'"));
    });
}

#[test]
fn nonsense_in_links_is_left_out() {
    let page = drawn(&[&captured(LLAMA)], "permalink-nonsense.html", &[]);
    in_light_and_dark(&page, "permalink-nonsense", |browser| {
        let plain = value(browser, SHOWN);
        for link in [
            "#graph=99&before=99&steps=9-1&part=x-y&at=1e9&tensor=~99999999&only=evil,kind-99,way&table=constructor&hide=1,2,3,99",
            "#graph=-1&steps=NaN-Infinity&part=0-0&at=-5&tensor=no%20such%20tensor&hide=x&table=",
            "#before=1&<script>&%E0%A4%A&=&&&#",
        ] {
            expect(browser.open_at(Path::new(&page), link));
            assert_eq!(value(browser, SHOWN), plain, "{link}");
        }
    });
}

#[test]
fn link_is_copied() {
    in_light_and_dark(&drawn(&[&captured(LLAMA)], "permalink-copied.html", &[]), "permalink-copied", |browser| {
        value(browser, "navigator.clipboard.writeText = async (text) => { window.copied = text; }");
        value(browser, "choose(state.graph.tensors.name.indexOf('l_out-3'))");
        expect(browser.press("l"));
        let copied = value(browser, "window.copied");
        assert!(
            copied.as_str().is_some_and(|link| link.starts_with("file://")
                && link.contains("permalink-copied.html#")
                && link.contains("tensor=l_out-3")),
            "{copied}"
        );
        assert_eq!(value(browser, "document.getElementById('notice').hidden"), Value::Bool(false));
        // Two tensors with one name are told apart by number.
        let keys = value(
            browser,
            "(() => { const { graph } = state; return [...Array(graph.count).keys()].every((id) => tensorOf(graph, tensorKey(graph, id)) === id); })()",
        );
        assert_eq!(keys, json!(true));
    });
}
