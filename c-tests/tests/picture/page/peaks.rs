//! From peak to peak.

use serde_json::json;

use super::super::{chain_with, drawn, expect, graph_file_with, in_light_and_dark, value};
use super::{seen_steps, text_of};

/// A page of a graph with three peaks, the second of which is the highest.
fn page() -> String {
    let spikes =
        [(100, "first", "ADD", 100 << 10), (300, "second", "ADD", 300 << 10), (600, "third", "ADD", 200 << 10)];
    drawn(&[&graph_file_with("peaks.jsonl", "three peaks", &chain_with(800, &spikes))], "peaks.html", &[])
}

#[test]
fn peak_is_zoomed_to_and_others_follow_in_time() {
    in_light_and_dark(&page(), "peaks", |browser| {
        assert_eq!(value(browser, "peakSteps(activePlan().largest().live)"), json!([100, 300, 600]));
        expect(browser.press("k"));
        assert_eq!(value(browser, "state.pin"), 300);
        let [from, to] = seen_steps(browser);
        assert!(from < 300.0 && to > 301.0 && to - from <= 40.0, "{from} to {to}");
        assert_eq!(text_of(browser, "#details h2"), "ggml-alloc at the peak, step 300");
        expect(browser.press("]"));
        assert_eq!(value(browser, "state.pin"), 600);
        assert_eq!(text_of(browser, "#details h2"), "ggml-alloc at step 600");
        assert_eq!(value(browser, "document.querySelector('#details .largest button').innerText"), "third");
        // After the last the first, and the other way round.
        expect(browser.press("]"));
        assert_eq!(value(browser, "state.pin"), 100);
        expect(browser.press("["));
        assert_eq!(value(browser, "state.pin"), 600);
        expect(browser.press("Escape"));
        assert_eq!(text_of(browser, "#details h2"), "ggml-alloc at the peak, step 300");
    });
}

#[test]
fn buttons_go_to_peaks_too() {
    in_light_and_dark(&page(), "peaks-buttons", |browser| {
        for (button, step) in [("peak-after", 100), ("peak-after", 300), ("peak-before", 100), ("peak", 300)] {
            value(browser, &format!("document.getElementById('{button}').click()"));
            assert_eq!(value(browser, "state.pin"), step, "{button}");
        }
        let told = value(browser, "document.getElementById('announcer').textContent");
        assert!(told.as_str().is_some_and(|told| told.starts_with("Peak: step 300, ")), "{told}");
    });
}

#[test]
fn peaks_of_a_profile_stand_out() {
    in_light_and_dark(&page(), "peaks-profile", |browser| {
        for (live, steps) in [
            (json!([]), json!([])),
            (json!([0, 0]), json!([])),
            (json!([5]), json!([0])),
            (json!([1, 5, 5, 1]), json!([1])),
            (json!([100, 98, 100, 60, 97, 60]), json!([0, 4])),
            (json!([1, 2, 3]), json!([2])),
            (json!([3, 2, 1]), json!([0])),
        ] {
            assert_eq!(value(browser, &format!("peakSteps({live})")), steps, "{live}");
        }
    });
}
