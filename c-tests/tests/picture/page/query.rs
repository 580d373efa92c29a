//! The language of searches.

use serde_json::json;

use super::super::{Node, drawn, expect, graph_file_with, in_light_and_dark, value};
use super::text_of;

fn page() -> String {
    let nodes = [
        Node::new("attn_norm-0", "RMS_NORM", 64, &[0]),
        Node::new("Qcur-0", "MUL_MAT", 256, &[1]),
        Node::new("kq-0", "SOFT_MAX", 4096, &[2]),
        Node::new("attn_out-0", "MUL_MAT", 64, &[3]),
        Node::new("attn_norm-1", "RMS_NORM", 64, &[4]),
        Node::new("kq-1", "SOFT_MAX", 8192, &[5]),
        Node::new("result [all]", "MUL_MAT", 64, &[6]),
    ];
    drawn(&[&graph_file_with("query.jsonl", "queries", &nodes)], "query.html", &[])
}

#[test]
fn tensors_are_found_by_name_operation_size_and_regular_expression() {
    in_light_and_dark(&page(), "query", |browser| {
        for (query, found) in [
            ("KQ-", json!(["kq-0", "kq-1"])),
            ("op:soft_max", json!(["kq-0", "kq-1"])),
            ("op:mul_mat attn", json!(["attn_out-0"])),
            ("kind:norm layer:1", json!(["attn_norm-1"])),
            ("/^attn_(norm|out)-0$/", json!(["attn_norm-0", "attn_out-0"])),
            ("/t \\[a/", json!(["result [all]"])),
            ("size>=4MiB", json!(["kq-0", "kq-1"])),
            ("size > 4 MiB", json!(["kq-1"])),
            (">4194304", json!(["kq-1"])),
            ("size=256K", json!(["Qcur-0"])),
            ("size<1MiB !attn !result", json!(["Qcur-0"])),
            ("shape:65536", json!(["Qcur-0"])),
            ("type:f32 op:rms", json!(["attn_norm-0", "attn_norm-1"])),
            ("type:f16", json!([])),
            ("constructor:x", json!([])),
        ] {
            value(browser, &format!("search({})", json!(query)));
            assert_eq!(value(browser, "state.hits.map((id) => state.graph.name(id))"), found, "{query}");
            assert_eq!(
                value(browser, "document.getElementById('search').hasAttribute('aria-invalid')"),
                false,
                "{query}"
            );
        }
    });
}

#[test]
fn malformed_searches_say_why() {
    in_light_and_dark(&page(), "query-wrong", |browser| {
        for (query, message) in
            [("/a(/", "/a(/ is not a regular expression"), ("size>8MiBs", "\"8MiBs\" is not a size")]
        {
            expect(browser.press("/"));
            expect(browser.type_text(query));
            assert_eq!(text_of(browser, "#hits"), message);
            assert_eq!(value(browser, "document.getElementById('search').hasAttribute('aria-invalid')"), true);
            assert_eq!(value(browser, "state.hits"), json!([]));
            expect(browser.press("Escape"));
            assert_eq!((text_of(browser, "#hits"), value(browser, "state.query")), (String::new(), json!("")));
        }
    });
}
