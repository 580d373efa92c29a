//! The keyboard, from the first moment.

use serde_json::json;

use super::super::{captured, drawn, expect, in_light_and_dark, value};
use super::{LLAMA, seen_steps, text_of};

#[test]
fn keys_work_before_anything_has_the_focus() {
    in_light_and_dark(&drawn(&[&captured(LLAMA)], "keys.html", &[]), "keys", |browser| {
        assert_eq!(value(browser, "document.activeElement === document.body"), true);
        expect(browser.press("n"));
        let name = value(browser, "state.graph.name(state.pointed)");
        assert_eq!(value(browser, "document.getElementById('tooltip').hidden"), false);
        expect(browser.press("Enter"));
        assert_eq!(json!(text_of(browser, "#details h2")), name);
        expect(browser.press("Escape"));
        assert_eq!(
            (value(browser, "document.getElementById('tooltip').hidden"), value(browser, "state.pointed")),
            (json!(true), json!(-1))
        );
        expect(browser.press("n"));
        assert_eq!(value(browser, "document.getElementById('tooltip').hidden"), false);
        expect(browser.press("0"));
        assert_eq!(value(browser, "document.getElementById('tooltip').hidden"), true);
        expect(browser.press("+"));
        let [from, to] = seen_steps(browser);
        expect(browser.press("ArrowRight"));
        let [moved, _] = seen_steps(browser);
        assert!(moved > from, "{moved} {from}");
        expect(browser.press("ArrowLeft"));
        expect(browser.press("-"));
        let [_, wide] = seen_steps(browser);
        assert!(wide > to);
        expect(browser.press("?"));
        assert_eq!(value(browser, "document.getElementById('keys').open"), true);
        assert_eq!(value(browser, "document.activeElement === document.body"), true);
    });
}

#[test]
fn keys_are_text_in_fields_and_presses_on_buttons() {
    in_light_and_dark(&drawn(&[&captured(LLAMA)], "keys-fields.html", &[]), "keys-fields", |browser| {
        expect(browser.press("/"));
        expect(browser.press("k"));
        assert_eq!(
            (value(browser, "document.getElementById('search').value"), value(browser, "state.pin")),
            (json!("k"), json!(-1))
        );
        expect(browser.press("Escape"));
        // Escape gives the keys back.
        expect(browser.press("k"));
        assert_ne!(value(browser, "state.pin"), -1);
        // Enter on a button is not Enter on the map.
        expect(browser.press("n"));
        value(browser, "document.getElementById('show-table').focus()");
        value(browser, "state.pointed = state.graph.planned[3]");
        expect(browser.press("Enter"));
        assert_eq!(value(browser, "state.chosen"), -1);
    });
}

#[test]
fn every_key_in_the_list_of_keys_does_something() {
    in_light_and_dark(&drawn(&[&captured(LLAMA)], "keys-list.html", &[]), "keys-list", |browser| {
        let listed = value(
            browser,
            "[...document.querySelectorAll('#keys dt')].flatMap((one) => one.textContent.split(/[ ,]+/)).filter((key) => key.length === 1)
            .map((key) => key.replace('−', '-')).filter((key) => !Object.hasOwn(KEYS, key) && !/[1-9]/.test(key))",
        );
        assert_eq!(listed, json!([]));
        let unlisted = value(
            browser,
            "Object.keys(KEYS).filter((key) => !['=', '?'].includes(key)).filter((key) =>
            ![...document.querySelectorAll('#keys dt')].some((one) => one.textContent.replace('−', '-').split(/[ ,]+/).includes(key)))",
        );
        assert_eq!(unlisted, json!([]));
    });
}
