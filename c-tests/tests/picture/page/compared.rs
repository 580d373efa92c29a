//! Two captures compared.

use serde_json::json;

use super::super::{Node, captured, drawn, expect, graph_file_with, in_light_and_dark, value};
use super::text_of;

fn graphs() -> [String; 2] {
    let before = [
        Node::new("embd", "GET_ROWS", 512, &[0]),
        Node::new("scores-0", "SOFT_MAX", 4096, &[1]),
        Node::new("mask", "ADD", 1024, &[2]),
        Node::new("node_3", "CONT", 256, &[2]),
        Node::new("out", "MUL_MAT", 128, &[4, 3]),
    ];
    let after = [
        Node::new("embd", "GET_ROWS", 512, &[0]),
        Node::new("bias", "ADD", 2048, &[1]),
        Node::new("scores-0", "SOFT_MAX", 16384, &[2]),
        // A number of ggml is not a name: it is matched by its place.
        Node::new("node_7", "CONT", 128, &[3]),
        Node::new("out", "MUL_MAT", 128, &[4]),
    ];
    [graph_file_with("before.jsonl", "the first", &before), graph_file_with("after.jsonl", "the second", &after)]
}

#[test]
fn what_grew_and_what_went_is_shown_at_first() {
    let [before, after] = graphs();
    in_light_and_dark(&drawn(&[&before, &after], "compared.html", &[]), "compared", |browser| {
        assert_eq!(text_of(browser, "h1"), "the second");
        let fates = value(
            browser,
            "Object.fromEntries(state.comparison.rows.map((row) => [state.comparison.tensorOf(row)[0].name(state.comparison.tensorOf(row)[1]), row.fate]))",
        );
        let wanted = json!({"input": "unchanged", "embd": "unchanged", "scores-0": "grew", "bias": "new", "mask": "gone", "node_7": "shrank", "out": "unchanged"});
        assert_eq!(fates, wanted);
        // Both plans of lastuse, before and after, on one scale.
        assert_eq!(
            value(browser, "state.painters.map(({ plan }) => [plan.label, plan.graph.label])"),
            json!([["lastuse", "the first"], ["lastuse", "the second"]])
        );
        assert_eq!(value(browser, "String(state.painters[0].size) === String(state.painters[1].size)"), true);
        // A size is compared with that of the same planner before.
        let headings = [1, 2].map(|number| text_of(browser, &format!("#plans section:nth-child({number}) h2")));
        assert!(!headings[0].contains('%') && headings[1].contains("+243 %"), "{headings:?}");
        let details = text_of(browser, "#details");
        for part in [
            "Compared with the first",
            "1 grew (+12 MiB), 1 new (+2 MiB), 1 gone (−1 MiB), 1 shrank (−128 KiB), 3 unchanged",
            "scores-0",
        ] {
            assert!(details.contains(part), "{part} is not in {details}");
        }
        // Unchanged tensors are dimmed.
        let bright = "state.painters.map(({ graph }) => graph.planned.filter(marksIn(graph, marksOf()).isBright).map((id) => graph.name(id)).sort())";
        assert_eq!(value(browser, bright), json!([["mask", "node_3", "scores-0"], ["bias", "node_7", "scores-0"]]));
    });
}

#[test]
fn changes_are_a_table_and_lead_to_their_tensors_in_both_plans() {
    let [before, after] = graphs();
    in_light_and_dark(&drawn(&[&before, &after], "changes.html", &[]), "changes", |browser| {
        expect(browser.press("c"));
        let rows = value(
            browser,
            "[...document.querySelectorAll('#tables tbody tr')].map((row) => [0, 2, 5, 6, 7].map((at) => row.children[at].innerText))",
        );
        assert_eq!(
            rows,
            json!([
                ["scores-0", "grew", "4 MiB", "16 MiB", "+12 MiB"],
                ["bias", "new", "", "2 MiB", "+2 MiB"],
                ["mask", "gone", "1 MiB", "", "−1 MiB"],
                ["node_7", "shrank", "256 KiB", "128 KiB", "−128 KiB"]
            ])
        );
        value(
            browser,
            "(() => { const field = document.querySelector('#tables input'); field.value = 'gone'; field.dispatchEvent(new Event('input')); })()",
        );
        assert_eq!(value(browser, "document.querySelectorAll('#tables tbody tr').length"), 1);
        // A tensor that only the first graph has shows its details there.
        value(browser, "document.querySelector('#tables tbody button').click()");
        let details = text_of(browser, "#details");
        assert!(details.starts_with("mask") && details.contains("the first"), "{details}");
        value(browser, "choose(state.graph.tensors.name.indexOf('scores-0'))");
        assert!(text_of(browser, "#details").contains("4 MiB: it grew by 12 MiB"));
        let marked = value(browser, "state.painters.map(({ graph }) => graph.name(marksIn(graph, marksOf()).chosen))");
        assert_eq!(marked, json!(["scores-0", "scores-0"]));
        expect(browser.press("Escape"));
    });
}

#[test]
fn order_of_the_files_is_the_order_in_time() {
    let [before, after] = graphs();
    in_light_and_dark(&drawn(&[&after, &before], "compared-back.html", &[]), "compared-back", |browser| {
        assert_eq!(text_of(browser, "h1"), "the first");
        assert_eq!(value(browser, "state.comparison.sums().find(({ fate }) => fate === 'gone').count"), 1);
        assert!(text_of(browser, "#details").contains("Compared with the second"));
    });
}

#[test]
fn any_two_graphs_can_be_compared_and_parted_again() {
    let graphs = ["llama-8-softmax", "llama-8-flash", "flash-v32k-llama"].map(captured);
    let page = drawn(&graphs.each_ref().map(String::as_str), "compared-any.html", &[]);
    in_light_and_dark(&page, "compared-any", |browser| {
        assert_eq!(value(browser, "state.comparison"), json!(null));
        let choose = |number: usize| {
            format!("(() => {{ const list = document.getElementById('other'); list.value = [...list.options].find((one) => Number(one.value) === {number}).value;
            list.dispatchEvent(new Event('change')); }})()")
        };
        value(browser, &choose(2));
        expect(browser.paint());
        assert_eq!(value(browser, "state.comparison.after === state.graph && state.painters.length"), 2);
        // Each tensor is in one row, and matched with at most one.
        let wrong = value(
            browser,
            "(() => { const { comparison: c } = state; const ids = c.rows.map(({ after }) => after).filter((id) => id >= 0);
            const before = c.rows.map(({ before }) => before).filter((id) => id >= 0);
            return [ids.length - c.after.planned.length, new Set(ids).size - ids.length, before.length - c.before.planned.length, new Set(before).size - before.length]; })()",
        );
        assert_eq!(wrong, json!([0, 0, 0, 0]));
        value(
            browser,
            "(() => { const list = document.getElementById('other'); list.value = '-1'; list.dispatchEvent(new Event('change')); })()",
        );
        assert_eq!(value(browser, "state.comparison"), json!(null));
        assert_eq!(value(browser, "state.painters.map(({ plan }) => plan.label)"), json!(["ggml-alloc", "lastuse"]));
    });
}

#[test]
fn graph_and_its_changed_self_are_not_compared_unasked() {
    let graph = captured("train-8-512");
    let page = drawn(&[&graph], "not-compared.html", &["--recompute", "55M"]);
    in_light_and_dark(&page, "not-compared", |browser| {
        assert_eq!(value(browser, "[GRAPHS.length, state.comparison]"), json!([2, null]));
    });
}

#[test]
fn tensors_without_names_are_matched_by_their_place() {
    // Every layer of the second graph has a node more, and larger scores.
    let layers = |with_more: bool, scores: usize| {
        let mut nodes = Vec::new();
        let mut push = |op, kib| {
            let step = nodes.len();
            nodes.push(Node::new(&format!("node_{step}"), op, kib, &[step]));
        };
        for layer in 0..6 {
            push("RMS_NORM", 64);
            push("MUL_MAT", 128 + layer);
            push("SOFT_MAX", scores);
            if with_more {
                push("CONT", 512);
            }
            push("MUL_MAT", 256 + layer);
        }
        nodes
    };
    let before = graph_file_with("places-before.jsonl", "before", &layers(false, 1024));
    let after = graph_file_with("places-after.jsonl", "after", &layers(true, 4096));
    in_light_and_dark(&drawn(&[&before, &after], "places.html", &[]), "places", |browser| {
        let sums = value(browser, "state.comparison.sums().map(({ fate, count, change }) => [fate, count, change])");
        assert_eq!(sums, json!([["grew", 6, 6 * (3 << 20)], ["new", 6, 6 * (512 << 10)], ["unchanged", 19, 0]]));
        let wrong = value(
            browser,
            "state.comparison.rows.filter(({ fate, after }) =>
            (fate === 'new') !== (state.graph.op(after) === 'CONT') || (fate === 'grew') !== (state.graph.op(after) === 'SOFT_MAX')).length",
        );
        assert_eq!(wrong, 0);
    });
}

#[test]
fn pointer_tells_and_selects_in_the_plan_before_too() {
    let [before, after] = graphs();
    in_light_and_dark(&drawn(&[&before, &after], "compared-pointer.html", &[]), "compared-pointer", |browser| {
        let place = |name: &str| {
            format!(
                "(() => {{ const painter = state.painters[0]; painter.frame.fit(...painter.size);
                const span = painter.plan.spanOf(painter.graph.tensors.name.indexOf('{name}'));
                const place = painter.place(state.view, span, painter.plan.visibleUntil[span]), box = painter.canvas.getBoundingClientRect();
                return [box.left + place.left + place.width / 2, box.top + place.top + place.height / 2].map(Math.round); }})()"
            )
        };
        let mut place_of = |name: &str| {
            let place = value(browser, &place(name));
            [0, 1].map(|at| place[at].as_f64().expect("the tensor is seen"))
        };
        let (mask, scores) = (place_of("mask"), place_of("scores-0"));
        // Only the first graph has it.
        expect(browser.point(mask));
        let tooltip = text_of(browser, "#tooltip");
        assert!(tooltip.starts_with("mask") && tooltip.contains("1 MiB (1,048,576 bytes)"), "{tooltip}");
        // Nothing is above it at its step.
        let top =
            value(browser, "state.painters[0].canvas.getBoundingClientRect().top + state.painters[0].frame.top + 12");
        expect(browser.point([mask[0], top.as_f64().expect("a number")]));
        assert_eq!(value(browser, "document.getElementById('tooltip').hidden"), true);
        expect(browser.click(scores));
        assert_eq!(value(browser, "state.graph.name(state.chosen)"), "scores-0");
        assert!(text_of(browser, "#details").contains("it grew by 12 MiB"));
        expect(browser.click(mask));
        assert!(text_of(browser, "#details").starts_with("mask"));
    });
}
