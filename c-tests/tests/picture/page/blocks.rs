//! Layers and repeated blocks on the time axis.

use serde_json::json;

use super::super::{Node, PIXELS, captured, drawn, graph_file_with, in_light_and_dark, value};
use super::{LLAMA, text_of};

const BANDS: &str = "state.graph.bands.map((band) => [band.name, band.start, band.end])";

#[test]
fn layers_are_on_the_time_axis_where_names_tell_them() {
    in_light_and_dark(&drawn(&[&captured(LLAMA)], "layers.html", &[]), "layers", |browser| {
        assert_eq!(
            value(browser, "state.graph.bands.map((band) => band.name)"),
            json!(["0", "1", "2", "3", "4", "5", "6", "7"])
        );
        // Each ends where the next begins, and has the nodes that are named after it.
        let wrong = value(
            browser,
            "(() => { const { graph } = state; const { bands } = graph;
            const gaps = bands.slice(1).filter((band, index) => band.start !== bands[index].end);
            const outside = [...Array(graph.count).keys()].filter((id) => {
                const [, layer] = /^(?:ffn_out|l_out)-(\\d+)$/.exec(graph.tensors.name[id]) || [];
                return layer && graph.step(id) >= 0 && bandAt(graph, graph.step(id))?.name !== layer;
            });
            return [gaps.length, outside.map((id) => graph.name(id))]; })()",
        );
        assert_eq!(wrong, json!([0, []]));
        // They are painted: every second band has another ground.
        let grounds = value(
            browser,
            &format!(
                "(() => {{ const painter = state.painters[1]; const {{ frame }} = painter; frame.fit(...painter.size);
                const y = Math.round(frame.bottom + frame.axis - STRIP + 3), pen = {PIXELS}(painter);
                return painter.bandsIn(state.view).slice(0, 4).map(({{ left }}) => String([...pen.getImageData(Math.round(left) + 2, y, 1, 1).data])); }})()"
            ),
        );
        let grounds: Vec<&str> =
            grounds.as_array().expect("a list").iter().filter_map(serde_json::Value::as_str).collect();
        assert!(
            grounds.len() == 4 && grounds[0] == grounds[2] && grounds[1] == grounds[3] && grounds[0] != grounds[1],
            "{grounds:?}"
        );
        value(browser, "choose(state.graph.tensors.name.indexOf('l_out-3'))");
        let details = text_of(browser, "#details");
        assert!(details.contains("layer\n3"), "{details}");
    });
}

#[test]
fn blocks_of_weights_are_named_with_their_words() {
    let nodes: Vec<Node> = (0..40)
        .map(|step| {
            let name = format!("encoder.blocks.{}.attn.{}", step / 10, step % 10);
            Node::new(&name, "MUL_MAT", 64, &[step])
        })
        .collect();
    let graph = graph_file_with("blocks.jsonl", "blocks", &nodes);
    in_light_and_dark(&drawn(&[&graph], "blocks.html", &[]), "blocks", |browser| {
        let wanted = json!([
            ["encoder.blocks.0", 0, 10],
            ["encoder.blocks.1", 10, 20],
            ["encoder.blocks.2", 20, 30],
            ["encoder.blocks.3", 30, 40]
        ]);
        assert_eq!(value(browser, BANDS), wanted);
    });
}

#[test]
fn names_that_tell_no_blocks_leave_the_axis_alone() {
    for (graph, name) in [("whisper-base-encode", "no-blocks"), ("branches-googlenet", "no-blocks-branches")] {
        in_light_and_dark(&drawn(&[&captured(graph)], &format!("{name}.html"), &[]), name, |browser| {
            assert_eq!(value(browser, BANDS), json!([]));
            assert_eq!(value(browser, "state.frame.axis"), value(browser, "STEPS"));
        });
    }
}
