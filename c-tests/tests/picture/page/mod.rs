//! The page in a real browser.

mod blocks;
mod callouts;
mod colours;
mod compared;
mod export;
mod graph_list;
mod keys;
mod legend;
mod long_names;
mod peaks;
mod permalink;
mod plans;
mod query;
mod table;

use lastuse::graph::TensorId;
use lastuse::graph::snapshot::Snapshot;
use lastuse_c_tests::{Browser, read_graph};
use serde_json::{Value, json};

use std::fs;

use super::{
    NASTY, assert_no_problems, browser, captured, drawn, expect, graph_file, graph_of, opened, scratch, value,
};

const LLAMA: &str = "flash-v32k-llama";

/// A page with the graph of a llama, and the graph.
fn llama(name: &str) -> (Browser, Snapshot) {
    let mut browser = browser();
    opened(&mut browser, &drawn(&[&captured(LLAMA)], name, &[]));
    (browser, expect(read_graph(captured(LLAMA).as_ref())))
}

/// Returns the centre of the visible part of a tensor in the last plan, in the page.
fn middle_of(browser: &mut Browser, tensor: &str) -> [f64; 2] {
    let place = value(
        browser,
        &format!(
            "(() => {{
                const painter = state.painters[state.painters.length - 1];
                const span = painter.plan.spanOf(state.graph.tensors.name.indexOf({}));
                const place = painter.place(state.view, span, painter.plan.visibleUntil[span]);
                const box = painter.canvas.getBoundingClientRect();
                return [box.left + place.left + place.width / 2, box.top + place.top + place.height / 2];
            }})()",
            json!(tensor)
        ),
    );
    // The mouse is on whole pixels.
    [0, 1].map(|index| place[index].as_f64().expect("the tensor is seen").round())
}

fn text_of(browser: &mut Browser, selector: &str) -> String {
    let text = value(browser, &format!("document.querySelector({}).innerText", json!(selector)));
    text.as_str().expect("the element is there").to_owned()
}

/// Where the view begins and ends, in steps.
fn seen_steps(browser: &mut Browser) -> [f64; 2] {
    let view = value(browser, "[state.view.x0, state.view.x1]");
    [0, 1].map(|index| view[index].as_f64().expect("a number"))
}

fn id_of(graph: &Snapshot, name: &str) -> TensorId {
    let id = graph.tensors.iter().position(|tensor| tensor.name == name).expect("the graph has it");
    TensorId::try_from(id).expect("few tensors")
}

fn names(graph: &Snapshot, ids: impl IntoIterator<Item = TensorId>) -> Vec<String> {
    ids.into_iter().map(|id| graph.tensors[id as usize].name.clone()).collect()
}

/// Whose values a node reads: the owners of the memory, each once.
fn read_by(graph: &Snapshot, id: TensorId) -> Vec<TensorId> {
    let mut roots: Vec<TensorId> = Vec::new();
    for root in graph.graph.sources(id).iter().map(|&source| graph.graph.root(source)) {
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    roots
}

/// Returns the nodes that read the memory of a tensor and compute something.
fn readers_of(graph: &Snapshot, id: TensorId) -> Vec<TensorId> {
    let computes = |node: TensorId| !graph.graph.tensor(node).op.is_view();
    let nodes = graph.graph.nodes().iter().copied();
    nodes.filter(|&node| computes(node) && read_by(graph, node).contains(&id)).collect()
}

/// The names in a list of the column at the side.
fn listed(browser: &mut Browser, list: &str) -> Vec<String> {
    let names = value(
        browser,
        &format!("[...document.querySelectorAll('#details .{list} button')].map((one) => one.innerText)"),
    );
    names.as_array().expect("a list").iter().map(|name| name.as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn pages_load_without_problems_and_are_not_blank() {
    let mut browser = browser();
    for (graph, dark) in [(LLAMA, false), ("deep48-falcon-h1", true), ("sd-sdxl-unet-1024-flash", false)] {
        expect(browser.prefer_dark(dark));
        opened(&mut browser, &drawn(&[&captured(graph)], &format!("load-{graph}.html"), &[]));
        assert_eq!(value(&mut browser, "state.painters.length"), 2, "{graph}");
        assert_eq!(value(&mut browser, "isDark()"), dark, "{graph}");
        // Axes alone have some dozens, letters being smoothed.
        let colours = expect(browser.colours());
        assert!(colours > 200, "{graph}: there are {colours} colours only");
        assert_no_problems(&mut browser);
    }
}

#[test]
fn each_rectangle_is_painted_in_the_colour_of_its_kind() {
    let mut browser = browser();
    // Inactive nodes, of which "node_2" is one, have no rectangle with that rule.
    opened(&mut browser, &drawn(&[&captured(LLAMA)], "colours.html", &["--rules", "no-inactive"]));
    for (tensor, colour) in [("node_2", [204, 121, 167]), ("embd", [230, 159, 0]), ("l_out-0", [86, 180, 233])] {
        let [x, y] = middle_of(&mut browser, tensor);
        // Not where the name is written.
        let (found, y) = (format!("({x} - box.left - 20) * dots, ({} - box.top) * dots", y + 8.0), y);
        let pixel = value(
            &mut browser,
            &format!(
                "(() => {{
                    const painter = state.painters[1];
                    const [box, dots] = [painter.canvas.getBoundingClientRect(), painter.dots];
                    return [...painter.context.getImageData({found}, 1, 1).data].slice(0, 3);
                }})()"
            ),
        );
        assert_eq!(pixel, json!(colour), "{tensor} at {x}, {y}");
    }
}

#[test]
fn search_finds_tensors_and_enter_goes_from_one_to_the_next() {
    let (mut browser, graph) = llama("search.html");
    let wanted = graph.tensors.iter().filter(|tensor| tensor.name.starts_with("ffn_gate-")).count();
    expect(browser.press("/"));
    assert_eq!(value(&mut browser, "document.activeElement.id"), "search");
    expect(browser.type_text("FFN_GATE-"));
    assert_eq!(text_of(&mut browser, "#hits"), format!("{wanted} found"));
    expect(browser.press("Enter"));
    assert_eq!(text_of(&mut browser, "#hits"), format!("1 of {wanted}"));
    assert_eq!(text_of(&mut browser, "#details h2"), "ffn_gate-0");
    expect(browser.press("Enter"));
    assert_eq!(text_of(&mut browser, "#details h2"), "ffn_gate-1");
    expect(browser.type_text(" is not there"));
    assert_eq!(text_of(&mut browser, "#hits"), "none");
    expect(browser.press("Escape"));
    assert_eq!((value(&mut browser, "state.chosen"), text_of(&mut browser, "#hits")), (json!(-1), String::new()));
    assert_no_problems(&mut browser);
}

#[test]
fn what_is_found_comes_into_sight() {
    let mut browser = browser();
    opened(&mut browser, &drawn(&[&captured("deep48-falcon-h1")], "sight.html", &[]));
    expect(browser.press("/"));
    expect(browser.type_text("l_out-31"));
    expect(browser.press("Enter"));
    let [from, to] = seen_steps(&mut browser);
    let step = value(&mut browser, "state.graph.step(state.chosen)").as_f64().expect("it is a node");
    assert!(from < step && step < to && to - from < 1000.0, "step {step} is not well seen in {from} to {to}");
    let width = value(
        &mut browser,
        "(() => { const { plan } = state.painters[1]; const span = plan.spanOf(state.chosen);
        return state.painters[1].place(state.view, span, plan.end[span]).width; })()",
    );
    assert!(width.as_f64().is_some_and(|width| width > 3.0), "{width}");
}

#[test]
fn tooltip_tells_what_is_under_the_pointer() {
    let (mut browser, graph) = llama("tooltip.html");
    assert_eq!(value(&mut browser, "document.getElementById('tooltip').hidden"), true);
    let place = middle_of(&mut browser, "embd");
    expect(browser.point(place));
    let text = text_of(&mut browser, "#tooltip");
    let info = graph.tensors.iter().find(|tensor| tensor.name == "embd").expect("the graph has it");
    assert_eq!(info.nbytes, 8 << 20);
    for part in ["embd", "GET_ROWS, f32, 4096 × 512", "8 MiB (8,388,608 bytes), offset ", "last use: step "] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    expect(browser.point([5.0, 5.0]));
    assert_eq!(value(&mut browser, "document.getElementById('tooltip').hidden"), true);
}

#[test]
fn click_lists_sources_and_readers_which_lead_on() {
    let (mut browser, graph) = llama("click.html");
    let place = middle_of(&mut browser, "l_out-0");
    expect(browser.click(place));
    assert_eq!(text_of(&mut browser, "#details h2"), "l_out-0");
    let id = id_of(&graph, "l_out-0");
    assert_eq!(listed(&mut browser, "sources"), names(&graph, read_by(&graph, id)));
    let readers = names(&graph, readers_of(&graph, id));
    assert!(readers.len() > 1, "the test needs a tensor with several readers: {readers:?}");
    assert_eq!(listed(&mut browser, "readers"), readers);
    value(&mut browser, "document.querySelector('#details .readers button').click()");
    assert_eq!(text_of(&mut browser, "#details h2"), readers[0]);
    assert!(listed(&mut browser, "sources").contains(&"l_out-0".to_owned()));
    expect(browser.press("Escape"));
    assert!(text_of(&mut browser, "#details h2").starts_with("ggml-alloc at the peak, step "));
    assert_no_problems(&mut browser);
}

#[test]
fn shared_memory_is_told() {
    let (mut browser, _) = llama("shared.html");
    // Computed in the memory of another tensor, in lastuse's plan.
    let name = value(
        &mut browser,
        "(() => { const { plan } = state.painters[1];
        return state.graph.name(plan.tensor[plan.sharing.indexOf(SHARING.IN_PLACE)]); })()",
    );
    value(&mut browser, &format!("choose(state.graph.tensors.name.indexOf({name}))"));
    let text = text_of(&mut browser, "#details");
    assert!(text.contains("Shares memory in lastuse") && text.contains("in the memory of"), "{text}");
    assert!(!listed(&mut browser, "sharers").is_empty());
}

#[test]
fn page_works_with_the_keyboard_alone() {
    let (mut browser, graph) = llama("keyboard.html");
    let steps = f64::from(graph.graph.steps());
    value(&mut browser, "state.painters[1].canvas.focus()");
    expect(browser.press("+"));
    let [from, to] = seen_steps(&mut browser);
    assert!(from > 0.0 && to < steps, "{from} to {to}");
    expect(browser.press("ArrowRight"));
    let [moved_from, moved_to] = seen_steps(&mut browser);
    assert!(moved_from > from && (moved_to - moved_from - (to - from)).abs() < 1e-6);
    expect(browser.press("ArrowLeft"));
    expect(browser.press("-"));
    expect(browser.press("0"));
    assert_eq!(seen_steps(&mut browser), [0.0, steps]);
    expect(browser.press("n"));
    let told = value(&mut browser, "document.getElementById('announcer').textContent");
    let name = value(&mut browser, "state.graph.name(state.pointed)");
    assert!(told.as_str().zip(name.as_str()).is_some_and(|(told, name)| told.starts_with(name)), "{told} {name}");
    assert_eq!(value(&mut browser, "document.getElementById('tooltip').hidden"), false);
    expect(browser.press("Enter"));
    assert_eq!(Value::String(text_of(&mut browser, "#details h2")), name);
    assert_no_problems(&mut browser);
}

#[test]
fn everything_that_can_be_used_has_a_name_for_those_who_listen() {
    let (mut browser, _) = llama("names.html");
    let nameless = value(
        &mut browser,
        "[...document.querySelectorAll('button, input, select, canvas')].filter((one) =>
        !one.getAttribute('aria-label') && !one.innerText.trim() && !one.labels?.length).map((one) => one.outerHTML)",
    );
    assert_eq!(nameless, json!([]));
    let label = value(&mut browser, "state.painters[1].canvas.getAttribute('aria-label')");
    let label = label.as_str().expect("it has one");
    assert!(label.starts_with("lastuse: 72.51 MiB; peak of CPU: 72.51 MiB at step "), "{label}");
}

#[test]
fn wheel_zooms_around_the_pointer_and_dragging_moves() {
    let (mut browser, _) = llama("wheel.html");
    let place = middle_of(&mut browser, "l_out-2");
    let step_at =
        format!("state.frame.step(state.view, {} - state.painters[1].canvas.getBoundingClientRect().left)", place[0]);
    let before = value(&mut browser, &step_at).as_f64().expect("a step");
    expect(browser.wheel(place, -300.0));
    expect(browser.wait_for("state.view.x1 - state.view.x0 < 200"));
    let after = value(&mut browser, &step_at).as_f64().expect("a step");
    assert!((before - after).abs() < 0.01, "{before} {after}");
    let [from, _] = seen_steps(&mut browser);
    expect(browser.drag(place, [place[0] - 60.0, place[1]]));
    let [moved, _] = seen_steps(&mut browser);
    assert!(moved > from, "{from} {moved}");
    // A drag is not a click.
    assert_eq!(value(&mut browser, "state.chosen"), -1);
}

#[test]
fn several_graphs_are_offered_the_largest_first() {
    let mut browser = browser();
    let graphs = [LLAMA, "whisper-base-encode", "sd-vae-decoder-512"].map(captured);
    let page = drawn(&graphs.each_ref().map(String::as_str), "several.html", &["--title", "Three graphs"]);
    opened(&mut browser, &page);
    let sizes = value(&mut browser, "DATA.graphs.map((graph) => Math.max(...graph.plans.map((plan) => plan.size)))");
    assert_eq!(sizes, json!([1_744_830_464_u64, 130_568_192, 21_504_000]));
    assert_eq!(value(&mut browser, "document.getElementById('graph').options.length"), 3);
    let first = text_of(&mut browser, "h1");
    value(
        &mut browser,
        "(() => { const choice = document.getElementById('graph'); choice.value = '1';
        choice.dispatchEvent(new Event('change')); })()",
    );
    expect(browser.paint());
    assert_ne!(text_of(&mut browser, "h1"), first);
    assert_eq!(value(&mut browser, "state.graph.nodes"), 257);
    assert_eq!(value(&mut browser, "document.title"), "Three graphs");
    assert_no_problems(&mut browser);
}

#[test]
fn names_are_shown_as_they_are_and_do_no_harm() {
    let graph = graph_file("nasty.jsonl", &[(NASTY, &[0]), ("<img id=harm>", &[1]), ("constructor", &[2, 1])]);
    let mut browser = browser();
    opened(&mut browser, &drawn(&[&graph], "nasty.html", &["--title", NASTY]));
    assert_eq!(value(&mut browser, "document.title"), NASTY);
    assert_eq!(text_of(&mut browser, "h1"), NASTY);
    expect(browser.press("/"));
    expect(browser.type_text("</SCRIPT><b>\"'&"));
    expect(browser.press("Enter"));
    assert_eq!(text_of(&mut browser, "#details h2"), NASTY);
    assert_eq!(listed(&mut browser, "readers"), ["<img id=harm>", "constructor"]);
    expect(browser.press("Escape"));
    value(&mut browser, "showTooltip(state.graph.plans[0], state.graph.tensors.name.indexOf('<img id=harm>'), 9, 9)");
    assert!(text_of(&mut browser, "#tooltip").starts_with("<img id=harm>"));
    assert_eq!(value(&mut browser, "document.querySelectorAll('b, img, #harm').length"), 0);
    assert_no_problems(&mut browser);
}

#[test]
fn buffers_and_chunks_are_below_one_another() {
    let graph = scratch("chunks.jsonl");
    let two = r#"[{"name":"GPU","alignment":32,"max_size":3000000},{"name":"CPU","alignment":32,"max_size":null}]"#;
    let text = graph_of(&[("a", &[0]), ("b", &[1]), ("c", &[2, 1]), ("d", &[3, 2, 1])]);
    let text = text.replacen(r#"[{"alignment":32,"max_size":null,"name":"CPU"}]"#, two, 1);
    // The last node is computed elsewhere.
    let last = text.rfind(r#""buffer":0"#).expect("each tensor has a buffer");
    fs::write(&graph, format!("{}\"buffer\":1{}", &text[..last], &text[last + 10..])).expect("it can be written");
    let mut browser = browser();
    opened(&mut browser, &drawn(&[&graph], "chunks.html", &[]));
    let maps = value(&mut browser, "state.frame.maps.map((map) => state.frame.name(map))");
    assert_eq!(maps, json!(["GPU, chunk 1", "GPU, chunk 2", "CPU"]));
    let are_apart =
        value(&mut browser, "state.frame.maps.every((map, index, maps) => !index || map.top > maps[index - 1].bottom)");
    assert_eq!(are_apart, true);
    let inside = value(&mut browser, "state.painters.every(({ plan }) => plan.buffers.every((buffer) =>
        [...plan.tensor.keys()].every((span) => plan.buffer[span] !== buffer.id || plan.offset[span] + plan.size_[span] <= buffer.chunks[plan.chunk[span]])))");
    assert_eq!(inside, true);
    for tensor in ["a", "d"] {
        let place = middle_of(&mut browser, tensor);
        expect(browser.point(place));
        let text = text_of(&mut browser, "#tooltip");
        assert!(text.starts_with(tensor) && text.contains("1 MiB (1,048,576 bytes)"), "{text}");
    }
    assert_no_problems(&mut browser);
}
