//! Plans that are hidden, and windows of any width.

use serde_json::{Value, json};

use super::super::{captured, drawn, expect, in_light_and_dark, value};
use super::{LLAMA, middle_of, text_of};

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
        let details = text_of(browser, "#details");
        assert!(details.contains("ggml-alloc at the peak, step 32\n\n108.5 MiB in"), "{details}");
        assert!(!details.contains("lastuse at the peak"), "{details}");
        // A plan that does not exist.
        expect(browser.press("7"));
        assert_eq!(value(browser, labels), json!(["ggml-alloc"]));
    });
}

#[test]
fn peaks_of_both_plans_are_listed_with_operation_shape_and_layer() {
    in_light_and_dark(&drawn(&[&captured(LLAMA)], "peaks-of-both.html", &[]), "peaks-of-both", |browser| {
        let heads = value(
            browser,
            "[...document.querySelectorAll('#details h2')].map((one) => [one.innerText, one.nextSibling.innerText])",
        );
        assert_eq!(
            heads,
            json!([
                ["ggml-alloc at the peak, step 32", "108.5 MiB in 11 tensors"],
                ["lastuse at the peak, step 31", "72.51 MiB in 9 tensors"]
            ])
        );
        let facts = value(
            browser,
            "[...document.querySelectorAll('#details .largest')].map((list) => [2, 3].map((at) => list.querySelectorAll('.facts')[at].innerText))",
        );
        assert_eq!(
            facts,
            json!([
                ["SWIGLU, 14336 × 512, layer 0", "input, 4096 × 512"],
                ["ADD, 4096 × 512, layer 0", "MUL, 4096 × 512, layer 0"]
            ])
        );
        assert!(text_of(browser, "#details").contains("Largest (6 of 11)"));
        // A selected tensor has them too, and so have its sources.
        value(browser, "choose(state.graph.tensors.name.indexOf('ffn_out-3'))");
        let facts = "[...document.querySelectorAll('#details .sources .facts')].map((one) => one.innerText)";
        assert_eq!(value(browser, facts), json!(["input, 14336 × 4096", "SWIGLU, 14336 × 512, layer 3"]));
    });
}

#[test]
fn stacked_maps_have_one_scale_and_one_axis_of_steps() {
    in_light_and_dark(&drawn(&[&captured(LLAMA)], "stacked.html", &[]), "stacked", |browser| {
        let places = "state.painters.map((painter) => { const { frame, size, canvas } = painter; frame.fit(...size); const [map] = frame.maps;
            const box = canvas.getBoundingClientRect();
            return [frame.y(state.view, map, 0) - frame.y(state.view, map, 1e8), box.left + frame.x(state.view, 100), box.top]; })";
        for press in ["layout button", "key"] {
            if press == "key" {
                expect(browser.press("s"));
            } else {
                value(browser, "document.getElementById('layout').click()");
            }
            expect(browser.paint());
            let stacked = value(browser, places);
            assert_eq!((&stacked[0][0], &stacked[0][1]), (&stacked[1][0], &stacked[1][1]), "{press}");
            assert!(stacked[0][2].as_f64() < stacked[1][2].as_f64(), "{press}: {stacked}");
            assert_eq!(text_of(browser, "#layout"), "Side by side");
            expect(browser.press("s"));
            expect(browser.paint());
            let beside = value(browser, places);
            assert_eq!((&beside[0][0], &beside[0][2]), (&beside[1][0], &beside[1][2]), "{press}");
            assert_eq!(text_of(browser, "#layout"), "Stack");
        }
        // The page itself says what the button does.
        value(browser, "document.getElementById('reading').open = true");
        assert!(text_of(browser, "#reading").contains("puts the maps one above the other"));
    });
}

#[test]
fn maps_with_long_lived_tensors_at_their_end_are_upside_down() {
    in_light_and_dark(&drawn(&[&captured(LLAMA)], "turned.html", &[]), "turned", |browser| {
        assert_eq!(value(browser, "state.painters.map(({ plan }) => plan.isTurned())"), json!([false, true]));
        let told = "state.painters.map((painter) => painter.canvas.closest('.plan').querySelector('h2').innerText.includes('upside down'))";
        assert_eq!(value(browser, told), json!([false, true]));
        // A tensor that lives through a layer is in the lower half of both maps, and its tooltip has the real offset.
        let places = value(
            browser,
            "state.painters.map(({ plan }) => { const span = plan.spanOf(state.graph.tensors.name.indexOf('l_out-3'));
            return [plan.below[span], plan.offset[span], plan.size_[span], plan.size]; })",
        );
        let number = |plan: usize, at: usize| places[plan][at].as_u64().expect("bytes");
        for plan in [0, 1] {
            assert!(number(plan, 0) < number(plan, 3) / 2, "{places}");
        }
        assert_eq!(number(0, 0), number(0, 1));
        assert_eq!(number(1, 0) + number(1, 2) + number(1, 1), number(1, 3));
        let place = middle_of(browser, "l_out-3");
        expect(browser.point(place));
        let offset =
            format!("offset {}", value(browser, &format!("formatNumber({})", number(1, 1))).as_str().unwrap_or(""));
        let tooltip = text_of(browser, "#tooltip");
        assert!(tooltip.starts_with("l_out-3") && tooltip.contains(&offset), "{offset} is not in {tooltip}");
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
            value(browser, "document.getElementById('keys').open = document.getElementById('reading').open = true");
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
