//! The table of the peak.

use serde_json::{Value, json};

use lastuse_c_tests::Browser;

use super::super::{NASTY, Node, captured, drawn, expect, graph_file_with, in_light_and_dark, value};
use super::{LLAMA, text_of};

fn rows(browser: &mut Browser) -> u64 {
    value(browser, "document.querySelectorAll('#tables tbody tr').length").as_u64().expect("a number")
}

/// The texts of a column, from the top.
fn column(browser: &mut Browser, title: &str) -> Vec<String> {
    let texts = value(
        browser,
        &format!(
            "(() => {{ const at = [...document.querySelectorAll('#tables th')].findIndex((one) => one.innerText.trim() === {});
            return [...document.querySelectorAll('#tables tbody tr')].map((row) => row.children[at].innerText); }})()",
            json!(title)
        ),
    );
    texts
        .as_array()
        .expect("the column is there")
        .iter()
        .map(|text| text.as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Keeps the text that the page copies.
fn catch_copies(browser: &mut Browser) {
    value(browser, "navigator.clipboard.writeText = async (text) => { window.copied = text; }");
}

fn click(browser: &mut Browser, text: &str) {
    let found = value(
        browser,
        &format!(
            "(() => {{ const one = [...document.querySelectorAll('#tables button')].find((one) => one.textContent === {});
            one?.click(); return Boolean(one); }})()",
            json!(text)
        ),
    );
    assert_eq!(found, true, "there is no button {text}");
    expect(browser.paint());
}

fn filter(browser: &mut Browser, text: &str) {
    let typed = format!(
        "(() => {{ const field = document.querySelector('#tables input'); field.value = {}; field.dispatchEvent(new Event('input')); }})()",
        json!(text)
    );
    value(browser, &typed);
}

#[test]
fn everything_live_at_the_peak_is_listed_for_both_plans() {
    in_light_and_dark(&drawn(&[&captured(LLAMA)], "table.html", &[]), "table", |browser| {
        assert_eq!(value(browser, "document.getElementById('tables').hidden"), true);
        expect(browser.press("t"));
        let live = value(
            browser,
            "new Set(state.graph.plans.flatMap((plan) => plan.liveAt(plan.buffers[0], plan.buffers[0].peaks[0][0]).map((span) => plan.tensor[span]))).size",
        );
        assert_eq!(Some(rows(browser)), live.as_u64());
        // Live bytes add up to the peak of each plan.
        for (index, plan) in ["ggml-alloc", "lastuse"].iter().enumerate() {
            let sum = value(
                browser,
                &format!(
                    "document.getElementById('tables').table.rows.reduce((sum, row) => sum + (row.live[{index}]?.size || 0), 0)"
                ),
            );
            assert_eq!(sum, value(browser, &format!("Math.max(...state.graph.plans[{index}].buffers[0].live)")));
            let shares = column(browser, &format!("share, {plan}"));
            assert!(shares.iter().any(|share| share.ends_with(" %")), "{shares:?}");
        }
        let text = text_of(browser, "#tables");
        assert!(
            text.contains("ggml-alloc: 108.5 MiB live in ") && text.contains("lastuse: 72.51 MiB live in "),
            "{text}"
        );
        expect(browser.press("t"));
        assert_eq!(value(browser, "document.getElementById('tables').hidden"), true);
    });
}

#[test]
fn table_is_sorted_by_any_column_and_filtered_by_searches() {
    in_light_and_dark(&drawn(&[&captured(LLAMA)], "table-sorted.html", &[]), "table-sorted", |browser| {
        expect(browser.press("t"));
        let all = rows(browser);
        let sizes = "document.getElementById('tables').table.kept().map((row) => row.size)";
        let is_sorted = |sizes: &Value, order: fn(&f64, &f64) -> bool| {
            let sizes: Vec<f64> = sizes.as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
            sizes.is_sorted_by(order)
        };
        assert!(is_sorted(&value(browser, sizes), |one, other| one >= other), "the largest is first");
        click(browser, "bytes");
        assert!(is_sorted(&value(browser, sizes), |one, other| one <= other), "the smallest is first");
        click(browser, "tensor");
        let mut sorted = column(browser, "tensor");
        sorted.sort_by_key(|name| name.to_lowercase());
        assert_eq!(column(browser, "tensor").first(), sorted.first());
        assert_eq!(
            value(
                browser,
                "[...document.querySelectorAll('#tables th')].findIndex((one) => one.getAttribute('aria-sort') === 'ascending')"
            ),
            0
        );
        filter(browser, "size>16MiB");
        let kept = rows(browser);
        assert!(kept > 0 && kept < all, "{kept} of {all}");
        assert_eq!(value(browser, &format!("{sizes}.every((size) => size > 16 * 2 ** 20)")), true);
        filter(browser, "no such tensor");
        assert_eq!((rows(browser), text_of(browser, "#tables output")), (0, format!("0 of {all} rows")));
        // The filter stays while another plan is hidden.
        filter(browser, "op:mul_mat");
        let kept = rows(browser);
        value(browser, "togglePlan(0)");
        assert_eq!(value(browser, "document.querySelector('#tables input').value"), "op:mul_mat");
        assert!(rows(browser) <= kept && !text_of(browser, "#tables").contains("ggml-alloc"));
    });
}

/// ggml-alloc keeps what no node reads, and lastuse does not.
#[test]
fn tensors_that_a_plan_keeps_to_the_end_are_told() {
    in_light_and_dark(&drawn(&[&captured("noflash-8k-llama")], "table-kept.html", &[]), "table-kept", |browser| {
        expect(browser.press("t"));
        let text = text_of(browser, "#tables");
        for part in ["never; end, ggml-alloc", "3; end, ggml-alloc"] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        let last = "lastUseOf(state.graph, state.graph.tensors.name.indexOf('inp_embd'))";
        assert_eq!(value(browser, last), "never; kept to the end by ggml-alloc");
    });
}

#[test]
fn table_is_copied_as_text_and_as_csv() {
    let nodes = [
        Node::new(NASTY, "MUL_MAT", 64, &[0]),
        Node::new("a, b\"c", "ADD", 2048, &[1]),
        Node::new("end", "ADD", 64, &[2, 1]),
    ];
    let graph = graph_file_with("table.jsonl", "table", &nodes);
    in_light_and_dark(&drawn(&[&graph], "table-copied.html", &[]), "table-copied", |browser| {
        catch_copies(browser);
        expect(browser.press("t"));
        click(browser, "Copy as CSV");
        let csv = value(browser, "window.copied");
        let csv = csv.as_str().expect("it was copied");
        let lines: Vec<&str> = csv.trim_end().split("\r\n").collect();
        assert_eq!(
            lines[0],
            "tensor,operation,type,shape,bytes,\"share, ggml-alloc\",\"offset, ggml-alloc\",\"share, lastuse\",\"offset, lastuse\",defined,last use"
        );
        assert!(lines[1].starts_with("\"a, b\"\"c\",ADD,f32,524288,2097152,"), "{}", lines[1]);
        assert!(
            lines.iter().any(|line| line.starts_with(&format!("\"{}\",MUL_MAT", NASTY.replace('"', "\"\"")))),
            "{csv}"
        );
        click(browser, "Copy as text");
        let text = value(browser, "window.copied");
        let text = text.as_str().expect("it was copied");
        let bytes: Vec<Option<usize>> =
            text.lines().skip(1).map(|line| line.find(" KiB").or_else(|| line.find(" MiB"))).collect();
        assert!(bytes.len() > 1 && bytes.iter().all(|at| *at == bytes[0]), "numbers are below one another:\n{text}");
        assert_eq!(value(browser, "document.getElementById('notice').innerText"), "Table copied");
    });
}

#[test]
fn rows_lead_to_their_tensors() {
    in_light_and_dark(&drawn(&[&captured(LLAMA)], "table-rows.html", &[]), "table-rows", |browser| {
        expect(browser.press("t"));
        let name = &column(browser, "tensor")[0];
        value(browser, "document.querySelector('#tables tbody button').click()");
        assert_eq!(&text_of(browser, "#details h2"), name);
    });
}

#[test]
fn long_tables_show_their_first_rows_until_asked() {
    let nodes: Vec<Node> = (0..700).map(|number| Node::new(&format!("part-{number}"), "MUL_MAT", 1, &[0])).collect();
    let all: Vec<usize> = (1..=700).collect();
    let nodes =
        [nodes, vec![Node::new("sum", "CUSTOM", 1, &all[..10])], vec![Node::new("end", "CUSTOM", 1, &all)]].concat();
    let graph = graph_file_with("long-table.jsonl", "long", &nodes);
    in_light_and_dark(&drawn(&[&graph], "table-long.html", &[]), "table-long", |browser| {
        expect(browser.press("t"));
        assert_eq!(rows(browser), 400);
        let total = value(browser, "document.getElementById('tables').table.rows.length").as_u64().expect("a number");
        assert!(total > 700);
        click(browser, &format!("Show all {total} rows"));
        assert_eq!(rows(browser), total);
    });
}
