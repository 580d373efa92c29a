//! Plans that are hidden, and windows of any width.

use serde_json::{Value, json};

use super::super::{captured, drawn, expect, in_light_and_dark, value};
use super::{LLAMA, text_of};

#[test]
fn plans_are_hidden_and_shown_and_one_stays() {
    in_light_and_dark(&drawn(&[&captured(LLAMA)], "plans.html", &[]), "plans", |browser| {
        let labels = "state.painters.map(({ plan }) => plan.label)";
        let wide = "state.painters[0].size[0]";
        let half = value(browser, wide).as_f64().expect("a number");
        expect(browser.press("1"));
        assert_eq!(value(browser, labels), json!(["lastuse"]));
        assert!(value(browser, wide).as_f64().is_some_and(|whole| whole > 1.8 * half));
        assert!(!text_of(browser, "#plans").contains("ggml-alloc"));
        // The last stays.
        expect(browser.press("2"));
        assert_eq!(value(browser, labels), json!(["lastuse"]));
        value(browser, "document.querySelectorAll('#shown input')[0].click()");
        expect(browser.paint());
        assert_eq!(value(browser, labels), json!(["ggml-alloc", "lastuse"]));
        value(browser, "document.querySelectorAll('#shown input')[1].click()");
        expect(browser.paint());
        assert_eq!(
            (value(browser, labels), value(browser, wide).as_f64().is_some_and(|whole| whole > 1.8 * half)),
            (json!(["ggml-alloc"]), true)
        );
        assert!(text_of(browser, "#details").contains("ggml-alloc: 108.5 MiB in"));
        // A plan that does not exist.
        expect(browser.press("7"));
        assert_eq!(value(browser, labels), json!(["ggml-alloc"]));
    });
}

#[test]
fn plans_have_one_scale_at_every_width() {
    let page = drawn(&[&captured("sd-sd1-unet-512")], "widths.html", &[]);
    in_light_and_dark(&page, "widths", |browser| {
        for width in [2400, 1400, 1180, 1000, 901, 900, 700, 500, 360] {
            expect(browser.resize(width, 800));
            expect(browser.paint());
            let scales = value(
                browser,
                "state.painters.map((painter) => { const { frame, size, canvas } = painter; frame.fit(...size); const [map] = frame.maps;
                return [frame.y(state.view, map, 0) - frame.y(state.view, map, 1e8), frame.x(state.view, 100) - frame.x(state.view, 0),
                    canvas.width === canvas.clientWidth && canvas.height === canvas.clientHeight && size[0] <= canvas.clientWidth && size[1] <= canvas.clientHeight]; })",
            );
            assert_eq!(scales[0], scales[1], "{width}");
            assert_eq!(scales[0][2], true, "{width}: the canvas fits its place");
            assert!(scales[0][0].as_f64().is_some_and(|pixels| pixels > 10.0), "{width}: {scales}");
        }
    });
}

#[test]
fn narrow_screens_show_everything_without_scrolling_sideways() {
    let graphs = [LLAMA, "whisper-base-encode"].map(captured);
    let page = drawn(&graphs.each_ref().map(String::as_str), "narrow.html", &[]);
    in_light_and_dark(&page, "narrow", |browser| {
        for width in [420, 320] {
            expect(browser.resize(width, 740));
            expect(browser.press("t"));
            value(browser, "document.getElementById('keys').open = true");
            let outside = value(
                browser,
                "[...document.querySelectorAll('header *, .plan *, aside *, footer *, #tables > *')].filter((one) => one.checkVisibility() && !one.closest('.accounting')
                && one.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((one) => one.outerHTML.slice(0, 80))",
            );
            assert_eq!(outside, json!([]), "{width}");
            assert_eq!(
                value(browser, "document.documentElement.scrollWidth <= innerWidth"),
                Value::Bool(true),
                "{width}"
            );
            let map = value(browser, "[state.painters[0].frame.width, state.painters[0].frame.height]");
            assert!(
                map[0].as_f64().is_some_and(|wide| wide > 150.0) && map[1].as_f64().is_some_and(|high| high > 150.0),
                "{map}"
            );
            // A finger scrolls the page.
            assert_eq!(value(browser, "getComputedStyle(state.painters[0].canvas).touchAction"), "pan-y");
            expect(browser.press("t"));
        }
    });
}
