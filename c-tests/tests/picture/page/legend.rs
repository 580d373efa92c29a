//! Filters by the legend.

use serde_json::json;

use lastuse_c_tests::Browser;

use super::super::{PIXELS, captured, drawn, expect, in_light_and_dark, value};
use super::{LLAMA, middle_of};

fn click(browser: &mut Browser, text: &str) {
    let clicked = format!(
        "(() => {{ const one = [...document.querySelectorAll('#legend button')].find((one) => one.innerText.trim() === {});
        one.click(); return one.getAttribute('aria-pressed'); }})()",
        json!(text)
    );
    value(browser, &clicked);
    expect(browser.paint());
}

/// The kinds of the tensors that are not dimmed.
fn bright_kinds(browser: &mut Browser) -> serde_json::Value {
    value(
        browser,
        "(() => { const { graph } = state; const { isBright } = marksIn(graph, marksOf());
        return [...new Set(graph.planned.filter(isBright).map((id) => KINDS[graph.kind(id)].name))].sort(); })()",
    )
}

#[test]
fn clicks_on_the_legend_show_only_these_kinds() {
    in_light_and_dark(&drawn(&[&captured(LLAMA)], "legend.html", &[]), "legend", |browser| {
        let all = bright_kinds(browser);
        let [x, y] = middle_of(browser, "l_out-0");
        let pixel = format!(
            "(() => {{ const painter = state.painters[1]; const box = painter.canvas.getBoundingClientRect();
            return [...{PIXELS}(painter).getImageData({x} - box.left - 20, {y} + 8 - box.top, 1, 1).data].slice(0, 3); }})()"
        );
        assert_eq!(value(browser, &pixel), json!([86, 180, 233]));
        click(browser, "normalization");
        assert_eq!(bright_kinds(browser), json!(["normalization"]));
        assert_ne!(value(browser, &pixel), json!([86, 180, 233]), "others are dimmed");
        click(browser, "matrix product");
        assert_eq!(bright_kinds(browser), json!(["matrix product", "normalization"]));
        // A second click takes it away.
        click(browser, "normalization");
        assert_eq!(bright_kinds(browser), json!(["matrix product"]));
        let pressed = value(
            browser,
            "[...document.querySelectorAll('#legend [aria-pressed=true]')].map((one) => one.innerText.trim())",
        );
        assert_eq!(pressed, json!(["matrix product"]));
        expect(browser.press("t"));
        assert_eq!(
            value(
                browser,
                "document.getElementById('tables').table.kept().every(({ id }) => state.graph.op(id).startsWith('MUL_MAT'))"
            ),
            true
        );
        click(browser, "Show all");
        assert_eq!(bright_kinds(browser), all);
        assert_eq!(value(browser, "document.getElementById('show-all').hidden"), true);
        click(browser, "matrix product");
    });
}

#[test]
fn ways_to_share_memory_are_filters_too() {
    in_light_and_dark(&drawn(&[&captured(LLAMA)], "legend-ways.html", &[]), "legend-ways", |browser| {
        click(browser, "computed in place");
        let wrong = value(
            browser,
            "(() => { const { graph } = state; const { isBright } = marksIn(graph, marksOf());
            const isInPlace = (id) => graph.plans.some((plan) => (plan.spansOf.get(id) || []).some((span) => plan.sharing[span] === SHARING.IN_PLACE));
            return graph.planned.filter((id) => isBright(id) !== isInPlace(id)).length; })()",
        );
        assert_eq!(wrong, 0);
        assert_eq!(value(browser, "state.graph.planned.some((id) => state.graph.passing[id])"), true);
        // n goes through these alone.
        expect(browser.press("n"));
        assert_eq!(value(browser, "state.graph.passing[state.pointed]"), 1);
    });
}
