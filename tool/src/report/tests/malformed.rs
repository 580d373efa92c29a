//! Malformed files, which are refused, and valid files at the limits.

use super::*;

#[test]
fn empty_file_is_refused() {
    for empty in ["", "\n", " \n\t\n"] {
        assert_malformed(empty, 1, "the file is empty");
    }
}

#[test]
fn lines_that_are_not_json_are_refused() {
    assert_malformed("GGUF", 1, "this is not a lastuse graph file");
    assert_malformed("[]", 1, "this is not a lastuse graph file");
    assert_malformed("\u{feff}{}", 1, "this is not a lastuse graph file");
    let whole = text(&sample());
    assert_malformed(&whole[..whole.len() - 9], 8, "EOF while parsing");
    assert_malformed(whole.replacen("}\n", "} x\n", 2), 1, "trailing characters");
    assert_malformed(format!("{whole}nonsense\n"), 9, "expected ident");
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let mut bytes = text(&sample()).into_bytes();
    bytes.extend(b"\"\xff\xfe\"\n");
    assert_malformed(bytes, 9, "cannot be read: this is not UTF-8 text");
    assert_malformed([0xff], 1, "cannot be read");
}

#[test]
fn deep_nesting_is_refused() {
    let deep = "[".repeat(100_000);
    assert_malformed(&deep, 1, "");
    assert_malformed(format!("{}{{\"id\":{deep}", text(&sample())), 9, "");
    assert_malformed(format!("{}{{\"unknown\":{deep}", text(&sample())), 9, "EOF while parsing a list");
}

#[test]
fn other_formats_and_versions_are_refused() {
    let format = r#"the format is "lastuse-plan", and "lastuse-graph" is expected"#;
    assert_malformed(with(1, "format", json!("lastuse-plan")), 1, format);
    for version in [0, 2, u64::MAX] {
        assert_malformed(with(1, "version", json!(version)), 1, &format!("version {version} is unknown; known is 1"));
    }
    let other = json!({"format": "lastuse-graph", "version": 2, "everything": "else differs"});
    assert_malformed(text(&[other]), 1, "version 2 is unknown; known is 1");
}

#[test]
fn missing_keys_are_refused() {
    assert_malformed(without(1, "format"), 1, "this is not a lastuse graph file");
    for key in ["version", "n_leafs", "n_nodes", "buffers"] {
        assert_malformed(without(1, key), 1, &format!("missing field `{key}`"));
    }
    let keys =
        ["id", "kind", "op", "type", "ne", "nb", "nbytes", "size", "buffer", "flags", "inplace", "external", "src"];
    for key in keys {
        assert_malformed(without(4, key), 4, &format!("missing field `{key}`"));
    }
}

#[test]
fn values_of_the_wrong_type_are_refused() {
    for key in ["id", "nbytes", "size", "buffer", "flags", "ne", "nb", "src", "op", "type", "inplace", "external"] {
        assert_malformed(with(4, key, json!({"an": "object"})), 4, "invalid type: map");
    }
    for key in ["id", "nbytes", "size", "buffer", "flags", "view_of", "view_offset"] {
        assert_malformed(with(4, key, json!("7")), 4, "invalid type: string \"7\"");
        assert_malformed(with(4, key, json!(7.5)), 4, "invalid type: floating point");
    }
    assert_malformed(with(4, "kind", json!("grad")), 4, "unknown variant `grad`");
    assert_malformed(with(4, "ne", json!([1, 2, 3])), 4, "invalid length 3");
    assert_malformed(with(4, "nb", json!([1, 2, 3, 4, 5])), 4, "trailing characters");
    assert_malformed(with(1, "buffers", json!({})), 1, "invalid type: map");
}

#[test]
fn numbers_below_zero_are_refused() {
    for key in ["id", "nbytes", "size", "buffer", "flags", "view_of", "view_offset"] {
        assert_malformed(with(4, key, json!(-1)), 4, "invalid value: integer `-1`");
    }
    assert_malformed(with(4, "src", json!([7, -5])), 4, "invalid value: integer `-5`");
    assert_malformed(with(4, "nb", json!([4, 4, -4, 4])), 4, "invalid value: integer `-4`");
    assert_malformed(with(4, "ne", json!([4, -1, 1, 1])), 4, "ne has an extent below 0");
    assert_malformed(with(1, "n_nodes", json!(-4)), 1, "invalid value: integer `-4`");
}

#[test]
fn numbers_that_are_too_large_are_refused() {
    let number = "123456789";
    for beyond in ["18446744073709551616", "1e400", "340282366920938463463374607431768211456"] {
        for key in ["id", "nbytes", "size", "buffer", "flags", "view_of", "view_offset"] {
            let text = with(4, key, json!(123_456_789)).replace(number, beyond);
            let found = read(text).expect_err("the number is too large");
            assert_eq!(found.line, Some(4), "{key}: {found}");
        }
    }
    assert_malformed(with(4, "flags", json!(1u64 << 32)), 4, "invalid value: integer `4294967296`");
    assert_malformed(with(4, "ne", json!([1u64 << 63, 1, 1, 1])), 4, "invalid value: integer `9223372036854775808`");
}

#[test]
fn largest_numbers_are_read() {
    let mut lines = sample();
    lines[3]["ne"] = json!(vec![i64::MAX; 4]);
    lines[3]["nb"] = json!(vec![u64::MAX; 4]);
    lines[3]["nbytes"] = json!(u64::MAX);
    lines[3]["flags"] = json!(!3u32);
    lines[5]["view_offset"] = json!(u64::MAX);
    lines[7]["id"] = json!(u64::MAX);
    lines[6]["src"] = json!([u64::MAX]);
    let snapshot = good(&lines);
    let plan = snapshot.plan(Rules::ALL).expect("sizes are small");
    assert_eq!(simulated(&snapshot, &plan), Ok(()));
    assert_eq!(document(&snapshot, &plan)["tensors"][4]["id"], u64::MAX);
}

#[test]
fn duplicate_keys_and_ids_are_refused() {
    let twice = text(&sample()).replacen("\"flags\":0", "\"flags\":0,\"flags\":0", 1);
    assert_malformed(twice, 3, "duplicate field `flags`");
    assert_malformed(with(7, "id", json!(5)), 7, "id 5 is there twice");
}

#[test]
fn references_to_unknown_ids_are_refused() {
    assert_malformed(with(4, "src", json!([7, 6])), 4, "src refers to id 6, which is in no line");
    assert_malformed(with(8, "src", json!([8])), 8, "src refers to id 8, which is in no line");
    assert_malformed(with(6, "view_of", json!(6)), 6, "view_of refers to id 6, which is in no line");
    assert_malformed(with(4, "buffer", json!(2)), 4, "buffer 2 does not exist: there are 2");
    assert_malformed(with(4, "buffer", json!(u32::MAX)), 4, "buffer 4294967295 does not exist: there are 2");
}

#[test]
fn views_of_views_are_refused() {
    let reason = "view_of refers to a view; it must name the owner of the memory";
    assert_malformed(with(7, "view_of", json!(12)), 7, reason);
    assert_malformed(with(7, "view_of", json!(13)), 7, reason);
}

#[test]
fn unusable_buffers_are_refused() {
    assert_malformed(with(1, "buffers", json!([])), 1, "there is no buffer");
    for alignment in [0, 3, 48, u64::MAX] {
        let mut lines = sample();
        lines[0]["buffers"][1]["alignment"] = json!(alignment);
        let reason = format!("buffer \"GPU\": the alignment {alignment} is not a power of two");
        assert_malformed(text(&lines), 1, &reason);
    }
}

#[test]
fn counts_that_differ_from_the_header_are_refused() {
    let promised = |leafs, nodes| format!("the header promises {leafs} leafs and {nodes} nodes, but there are 2 and 4");
    assert_malformed(with(1, "n_leafs", json!(3)), 8, &promised(3, 4));
    assert_malformed(with(1, "n_nodes", json!(3)), 8, &promised(2, 3));
    let lines = sample();
    let cut = "the header promises 2 leafs and 4 nodes, but there are 2 and 2: is the file whole?";
    assert_malformed(text(&lines[..5]), 5, cut);
    assert_malformed(text(&lines[..1]), 1, "the header promises 2 leafs and 4 nodes, but there are 0 and 0");
}

#[test]
fn nodes_that_read_later_results_are_refused() {
    let mut lines = chain();
    lines.swap(2, 3);
    assert_malformed(text(&lines), 3, "tensor 3 reads 2, which is computed later");
    let mut lines = chain();
    lines[2]["src"] = json!([3]);
    assert_malformed(text(&lines), 3, "there is a cycle: tensor 2 reads 3, which depends on 2");
}

#[test]
fn views_of_later_results_are_refused() {
    let mut lines = chain();
    lines[2]["view_of"] = json!(3);
    lines[3]["src"] = json!([1]);
    assert_malformed(text(&lines), 3, "tensor 2 reads 3, which is computed later");
    let mut lines = chain();
    let mut view = tensor(4, "extra", "VIEW", 64, &[]);
    view["view_of"] = json!(3);
    lines[2]["src"] = json!([4]);
    lines[3]["src"] = json!([1]);
    lines.push(view);
    assert_malformed(text(&lines), 3, "tensor 2 reads 3, which is computed later");
}

#[test]
fn nodes_that_read_views_of_themselves_are_refused() {
    let mut lines = chain();
    let mut view = tensor(4, "extra", "VIEW", 64, &[]);
    view["view_of"] = json!(2);
    lines[2]["src"] = json!([1, 4]);
    lines.push(view);
    assert_malformed(text(&lines), 3, "there is a cycle: tensor 2 reads 2");
}

#[test]
fn dependency_markers_may_have_any_source() {
    let mut lines = chain();
    lines[2]["op"] = json!("NONE");
    lines[2]["src"] = json!([3]);
    lines[3]["src"] = json!([1, 3]);
    let snapshot = good(&lines);
    let plan = snapshot.plan(Rules::ALL).expect("sizes are small");
    assert_eq!(simulated(&snapshot, &plan), Ok(()));
}

#[test]
fn size_that_overflows_when_padded_is_refused() {
    for size in [u64::MAX, u64::MAX - 31, 1 << 63, (1 << 63) - 31] {
        let reason = format!("the size {size} overflows when padded to 32");
        assert_malformed(with(4, "size", json!(size)), 4, &reason);
    }
    assert!(read(with(4, "size", json!((1u64 << 63) - 32))).is_ok());
    let mut lines = sample();
    lines[0]["buffers"][0]["alignment"] = json!(1u64 << 63);
    assert_malformed(text(&lines), 2, "the size 100 overflows when padded to 9223372036854775808");
}

#[test]
fn sizes_that_overflow_together_have_no_plan() {
    let mut lines = sample();
    for line in [1, 3] {
        lines[line]["size"] = json!(1u64 << 62);
    }
    let plan = good(&lines).plan(Rules::ALL);
    assert!(matches!(plan, Err(PlanError::TooLarge { buffer: 0, .. })));
}

#[test]
fn wrong_retention_is_refused() {
    assert_malformed(with(4, "retained", json!("yes")), 4, "invalid type: string");
    assert_malformed(with(4, "retained_until", json!(-1)), 4, "invalid value: integer `-1`");
    assert_malformed(with(4, "retained_until", json!(77)), 4, "retained_until refers to id 77, which is not a node");
    assert_malformed(with(4, "retained_until", json!(true)), 4, "invalid type: boolean");
}
