//! Call-outs: the largest tensors are named however thin they are.

use serde_json::json;

use super::super::{PIXELS, chain_with, drawn, expect, graph_file_with, in_light_and_dark, value};
use super::text_of;

/// A page of a graph in which a large tensor is two steps of many.
fn spiked() -> String {
    let nodes = chain_with(900, &[(450, "kq_soft_max-3", "SOFT_MAX", 512 << 10), (700, "logits", "MUL_MAT", 96 << 10)]);
    drawn(&[&graph_file_with("spiked.jsonl", "a spike", &nodes)], "spiked.html", &[])
}

#[test]
fn largest_tensors_are_called_out_however_thin_they_are() {
    in_light_and_dark(&spiked(), "callouts", |browser| {
        let width = value(
            browser,
            "(() => { const p = state.painters[1]; const span = p.plan.bySize[0];
            return p.place(state.view, span, p.plan.visibleUntil[span]).width; })()",
        );
        assert!(width.as_f64().is_some_and(|width| width < 3.0), "the test needs a thin tensor: {width}");
        for painter in 0..2 {
            let texts = value(browser, &format!("state.painters[{painter}].calledOut.map((one) => one.text)"));
            assert_eq!(texts, json!(["kq_soft_max-3  512 MiB", "logits  96 MiB"]));
        }
        // The rectangle is seen: two pixels of its colour.
        let pixels = value(
            browser,
            &format!(
                "(() => {{ const p = state.painters[1]; const {{ span }} = p.calledOut[0]; p.frame.fit(...p.size);
                const {{ left, top, height }} = p.place(state.view, span, p.plan.visibleUntil[span]);
                const {{ data }} = {PIXELS}(p).getImageData(Math.round(left) - 2, Math.round(top + height / 3), 8, 1);
                const wanted = KINDS[p.graph.kind(p.plan.tensor[span])].colour;
                const hex = (at) => '#' + [0, 1, 2].map((i) => data[at * 4 + i].toString(16).padStart(2, '0')).join('');
                return [...Array(8).keys()].filter((at) => hex(at) === wanted).length; }})()"
            ),
        );
        assert!(pixels.as_u64().is_some_and(|pixels| pixels >= 2), "{pixels}");
    });
}

#[test]
fn call_outs_are_inside_and_apart_and_lead_to_their_tensors() {
    in_light_and_dark(&spiked(), "callouts-click", |browser| {
        let overlaps = value(
            browser,
            "state.painters.flatMap(({ calledOut, frame, size }) => calledOut.filter((a, index) =>
                a.left < 0 || a.left + a.width > size[0] || a.top + a.height > frame.top ||
                calledOut.slice(index + 1).some((b) => a.row === b.row && a.left < b.left + b.width && b.left < a.left + a.width))).length",
        );
        assert_eq!(overlaps, 0);
        let place = value(
            browser,
            "(() => { const { canvas, calledOut: [one] } = state.painters[0]; const box = canvas.getBoundingClientRect();
            return [box.left + one.left + one.width / 2, box.top + one.top + one.height / 2]; })()",
        );
        let place = [0, 1].map(|at| place[at].as_f64().expect("a number").round());
        expect(browser.click(place));
        assert_eq!(text_of(browser, "#details h2"), "kq_soft_max-3");
    });
}

#[test]
fn tensors_with_their_name_inside_have_no_call_out_and_all_can_be_hidden() {
    in_light_and_dark(&spiked(), "callouts-zoomed", |browser| {
        value(browser, "setView(445, 457, 0, 1)");
        expect(browser.paint());
        assert_eq!(value(browser, "state.painters[1].calledOut.length"), 0, "the name is inside");
        value(browser, "fitAll()");
        expect(browser.paint());
        assert_eq!(value(browser, "state.painters[1].calledOut.length"), 2);
        expect(browser.press("o"));
        assert_eq!(value(browser, "state.painters[1].calledOut.length"), 0);
        assert_eq!(value(browser, "document.getElementById('call-outs').getAttribute('aria-pressed')"), "false");
    });
}
