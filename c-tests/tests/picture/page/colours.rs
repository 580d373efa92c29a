//! Colours of thin rectangles.

use serde_json::json;

use super::super::{Node, PIXELS, drawn, expect, graph_file_with, in_light_and_dark, value};

/// An operation of each kind that nodes have.
const OPS: [&str; 8] = ["MUL_MAT", "SOFT_MAX", "NORM", "ADD", "GET_ROWS", "CONT", "IM2COL", "CUSTOM"];

/// A chain in which tensors of each kind follow those of each other kind at the same offset.
fn pairs() -> Vec<Node> {
    let ops: Vec<&str> =
        OPS.iter().flat_map(|one| OPS.iter().flat_map(move |other| [*one, *one, *other, *other])).collect();
    (0..ops.len() * 3).map(|step| Node::new(&format!("t{step}"), ops[step % ops.len()], 64, &[step])).collect()
}

#[test]
fn colours_of_neighbours_stay_apart_at_two_pixels() {
    let graph = graph_file_with("two-pixels.jsonl", "two pixels", &pairs());
    in_light_and_dark(&drawn(&[&graph], "two-pixels.html", &[]), "two-pixels", |browser| {
        // A step is one pixel, so each tensor, which two steps hold, is two.
        value(browser, "setView(100, 100 + state.frame.width, 0, 1)");
        expect(browser.paint());
        let mixed = value(
            browser,
            &format!(
                "(() => {{ const painter = state.painters[1]; const {{ frame, plan }} = painter, pen = {PIXELS}(painter); frame.fit(...painter.size);
            const colours = KINDS.map(({{ colour }}) => colour);
            const wrong = [];
            for (let span = 0; span < plan.count; span += 1) {{
                const place = painter.place(state.view, span, plan.end[span]);
                if (!place || place.left < frame.left || place.left + 2 > frame.left + frame.width) continue;
                // A tensor computed in place of another covers half of it.
                if (plan.visibleUntil[span] - plan.start[span] !== 2 || Math.abs(plan.start[span] - plan.buffers[0].peaks[0][0]) < 5) continue;
                const {{ data }} = pen.getImageData(Math.round(place.left), Math.round(place.top + place.height / 2), 2, 1);
                const found = [0, 4].map((at) => '#' + [0, 1, 2].map((i) => data[at + i].toString(16).padStart(2, '0')).join(''));
                const wanted = colours[painter.graph.kind(plan.tensor[span])];
                if (found.some((one) => one !== wanted)) wrong.push([wanted, ...found]);
            }}
            return [wrong.slice(0, 5), plan.count > 300]; }})()"
            ),
        );
        assert_eq!(mixed, json!([[], true]));
    });
}
