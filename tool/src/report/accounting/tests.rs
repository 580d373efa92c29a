//! Tables of an accounting, as text and on a page.

use lastuse::accounting::{
    AccountedBuffer, AccountedDevice, AccountedGraph, AccountedTensor, Accounting, AllocatorTurn, BufferUsage, BytesAt,
    Location, MemoryClass, Steps, Sums, SumsAt,
};

use super::{
    BufferRow, RunRow, SizeUnit, accounting_html, accounting_summary, accounting_text, devices_in, live_html, resident,
    with_ggml_alloc,
};

const DEVICES: [&str; 2] = ["CPU", "GPU0"];

fn tensor(name: &str, ne: [i64; 4], device: usize, offset: Option<u64>) -> AccountedTensor {
    AccountedTensor {
        name: name.to_owned(),
        op: "NONE".to_owned(),
        element: "i32".to_owned(),
        ne,
        class: MemoryClass::Weights,
        bytes: 4096,
        view_of: None,
        resides: Some(DEVICES[device].to_owned()),
        buffer_type: Some("CPU".to_owned()),
        location: offset.map(|offset| Location { buffer: 1, offset }),
        steps: Some(Steps { first: 2, last: 7 }),
        executes: None,
    }
}

fn example() -> Accounting {
    let device = |name: &str, kind: &str, sums| AccountedDevice {
        name: name.to_owned(),
        description: format!("the <{name}>"),
        kind: kind.to_owned(),
        free: (kind == "gpu").then_some(100),
        memory: (kind == "gpu").then_some(400),
        sums,
        history: Vec::new(),
        samples: Vec::new(),
    };
    let sums = [Sums { weights: 4000, rounding: 96, ..Sums::default() }, Sums { compute: 300, ..Sums::default() }];
    let buffer = |id: u64, device: usize, mapped| AccountedBuffer {
        id,
        device: DEVICES[device].to_owned(),
        buffer_type: "CPU".to_owned(),
        usage: BufferUsage::Weights,
        mapped,
        asked: sums[device].total(),
        bytes: sums[device].total(),
        resident: (!mapped).then_some(64),
        sums: sums[device],
    };
    let view = AccountedTensor {
        view_of: Some("Kcur-0".to_owned()),
        location: None,
        resides: None,
        buffer_type: None,
        steps: None,
        ..tensor("Kcur-0 (view)", [4, 4, 1, 1], 1, None)
    };
    let computed = AccountedTensor {
        op: "MUL_MAT".to_owned(),
        executes: Some("GPU0".to_owned()),
        class: MemoryClass::Compute,
        ..tensor("ffn\n<up>", [4, 4, 1, 1], 1, Some(64))
    };
    let tensors = vec![
        tensor("blk.0.gpu_idx", [32768, 1, 1, 1], 0, Some(0)),
        tensor("blk.0.gpu_bucket", [1024, 1, 1, 1], 1, Some(64)),
        view,
        computed,
    ];
    Accounting {
        process: 1,
        ggml: "0.26.0".to_owned(),
        devices: vec![device("CPU", "cpu", sums[0]), device("GPU0", "gpu", sums[1])],
        buffers: vec![buffer(1, 0, true), buffer(2, 1, false)],
        graphs: vec![AccountedGraph { allocator: 1, leafs: 2, nodes: 2, tensors }],
        unread: vec![tensor("spare", [1, 1, 1, 1], 0, Some(128))],
        turns: Vec::new(),
        resident: Vec::new(),
    }
}

#[test]
fn tables_have_sums_and_what_is_free() {
    let expected = "\
device  weights  kv  compute  other  rounding  total  free
CPU        4000   0        0      0        96   4096     -
GPU0          0   0      300      0         0    300   100
all        4000   0      300      0        96   4396

buffer  device  type  usage    weights  kv  compute  other  rounding  total  resident
1       CPU     CPU   mapped      4000   0        0      0        96   4096         -
2       GPU0    CPU   weights        0   0      300      0         0    300        64
";
    assert_eq!(accounting_summary(&example()), expected);
    let text = accounting_text(&example());
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("\ntensors that no graph has\n"), "{text}");
    let in_bytes = devices_in(SizeUnit::Bytes, &example(), &[]);
    let rows: Vec<Vec<&str>> = in_bytes.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), ["device,", "CPU", "GPU0", "resident", "all"]);
    assert_eq!(rows[3].last(), Some(&"64"), "{in_bytes}");
    assert_eq!(resident(&example(), &example().devices[1]).map(|sums| sums.compute), Some(64));
    assert_eq!(accounting_summary(&Accounting::default()), "no buffers were recorded\n");
}

#[test]
fn a_device_is_compared_with_ggml_alloc_where_the_rows_have_its_compute_buffers() {
    let mut accounting = example();
    let buffer = &mut accounting.buffers[1];
    (buffer.usage, buffer.buffer_type) = (BufferUsage::Compute, "GPU0".to_owned());
    let row = |pid, bytes, ggml_alloc| RunRow {
        pid,
        allocator: 1,
        plans: Some(1),
        plan_us: None,
        buffers: vec![BufferRow { id: 0, name: "GPU0".to_owned(), bytes, lower_bound: None, ggml_alloc, alone: None }],
        graphs: Vec::new(),
    };
    let compute = |accounting: &Accounting, row: &RunRow| {
        with_ggml_alloc(accounting, &accounting.devices[1], &[row]).map(|sums| sums.compute)
    };
    assert_eq!(compute(&accounting, &row(1, 300, Some(500))), Some(500));
    let text = devices_in(SizeUnit::Bytes, &accounting, &[&row(1, 300, Some(500))]);
    assert_eq!(
        text.lines().filter(|line| line.starts_with("  ggml-alloc ") && line.ends_with(" 500")).count(),
        1,
        "{text}"
    );
    for other in [row(2, 300, Some(500)), row(1, 299, Some(500)), row(1, 300, None)] {
        assert_eq!(compute(&accounting, &other), None, "{other:?}");
    }
    assert_eq!(with_ggml_alloc(&accounting, &accounting.devices[0], &[&row(1, 300, Some(500))]), None);
}

#[test]
fn every_tensor_has_a_row_with_its_shape_and_place() {
    let expected = "
graph of allocator 1: 2 leafs, 2 nodes
tensor            view of  class    op       elements              executes  resides  type  buffer  offset  bytes  steps
blk.0.gpu_idx     -        weights  NONE     i32 [32768, 1, 1, 1]  -         CPU      CPU        1       0   4096    2-7
blk.0.gpu_bucket  -        weights  NONE     i32 [1024, 1, 1, 1]   -         GPU0     CPU        1      64   4096    2-7
Kcur-0 (view)     Kcur-0   weights  NONE     i32 [4, 4, 1, 1]      -         -        -          -       -   4096      -
ffn\u{fffd}<up>          -        compute  MUL_MAT  i32 [4, 4, 1, 1]      GPU0      GPU0     CPU        1      64   4096    2-7
";
    let text = accounting_text(&example());
    assert!(text.contains(expected), "{text}");
}

#[test]
fn names_are_escaped_on_the_page() {
    let part = accounting_html(&example());
    assert!(
        part.contains("ffn\u{fffd}&lt;up&gt;") && part.contains("the &lt;CPU&gt;") && !part.contains("<up>"),
        "{part}"
    );
    assert!(part.contains("title=\"weights: 4000 bytes\"") && part.ends_with("</div>\n"), "{part}");
    assert!(part.contains("<td class=\"n\" title=\"4096 bytes\">4.00 KiB</td>"), "{part}");
    assert!(!part.contains("<script") && !part.contains("http"), "{part}");
}

#[test]
fn memory_over_time_is_drawn_in_steps() {
    let at = |ms, bytes| BytesAt { ms, bytes };
    let mut accounting = example();
    accounting.devices[0].history = vec![at(0, 1024), at(250, 4096), at(500, 0)];
    accounting.resident = vec![at(0, 1024), at(1000, 2048)];
    let part = accounting_html(&accounting);
    assert!(part.contains("CPU, over 1 s: ") && part.contains("at most 4.00 KiB"), "{part}");
    assert!(part.contains("<path class=\"held\" d=\"M0 140H0.0V105.0H180.0V0.0H360.0V140.0H720V140z\"/>"), "{part}");
    assert!(part.contains("<path class=\"resident\" d=\"M0 140H0.0V105.0H720.0V70.0H720\"/>"), "{part}");
    assert_eq!(part.matches("<svg").count(), 1, "nothing is known of the other device: {part}");
}

#[test]
fn turns_of_allocators_are_drawn_in_lanes() {
    let mut accounting = example();
    assert!(!accounting_html(&accounting).contains("share memory"));
    let turn = |ms, allocator, bytes| AllocatorTurn { ms, allocator, bytes };
    accounting.turns = vec![turn(0, 3, 1024), turn(250, 1, 4096), turn(500, 3, 2048), turn(1000, 1, 4096)];
    let part = accounting_html(&accounting);
    assert!(part.contains("Allocators that share memory, in turns over 1 s: a graph needs at most 4.00 KiB"), "{part}");
    let first =
        "<path class=\"held\" d=\"M180.0 28V0.0H360.0V28zM720.0 28V0.0H720.5V28z\"><title>allocator 1</title></path>";
    let second =
        "<path class=\"held\" d=\"M0.0 62V55.0H180.0V62zM360.0 62V48.0H720.0V62z\"><title>allocator 3</title></path>";
    assert!(part.contains(first) && part.contains(second), "{part}");
}

#[test]
fn samples_are_drawn_by_class_in_place_of_the_history() {
    let mut accounting = example();
    accounting.devices[0].history = vec![BytesAt { ms: 0, bytes: 64 }, BytesAt { ms: 9, bytes: 4096 }];
    assert!(!live_html(&accounting).contains("class=\"samples\""));
    let sample =
        |ms, weights, compute, resident| SumsAt { ms, sums: Sums { weights, compute, ..Sums::default() }, resident };
    accounting.devices[0].samples = vec![sample(1000, 300, 0, Some(0)), sample(3000, 300, 700, Some(500))];
    let html = live_html(&accounting);
    assert_eq!(html.matches("<figure").count(), 1, "the history has the same device: {html}");
    // 140 pixels are 1000 bytes. The sum of all classes is behind that of the first ones.
    let [all, weights] =
        ["<path class=\"rounding\"", "<path class=\"weights\""].map(|path| html.find(path).expect(path));
    assert!(all < weights);
    assert!(
        html[all..].starts_with("<path class=\"rounding\" fill=\"#999999\" d=\"M0 140H0.0V98.0H720.0V0.0H720V140z\""),
        "{html}"
    );
    assert!(html[weights..].contains("d=\"M0 140H0.0V98.0H720.0V98.0H720V140z\""), "{html}");
    assert!(html.contains("<path class=\"resident\" d=\"M0 140H0.0V140.0H720.0V70.0H720\"/>"), "{html}");
    assert!(html.contains("1.0 s to 3.0 s: <span class=\"reserved\">"), "{html}");
    assert!(!html.contains("<details>"), "a page that follows has no tensors: {html}");
}
