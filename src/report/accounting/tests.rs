//! Tables, lines and pages of an accounting.

use crate::offload::accounting::{
    AccountedBuffer, AccountedDevice, AccountedGraph, AccountedTensor, Accounting, BufferUsage, DeviceMemory, Location,
    MemoryClass, Steps, Sums,
};

use super::{AccountingFormat, accounting_summary};

fn tensor(name: &str, ne: [i64; 4], device: usize, offset: Option<u64>) -> AccountedTensor {
    AccountedTensor {
        name: name.to_owned(),
        op: "NONE".to_owned(),
        element: "i32".to_owned(),
        ne,
        class: MemoryClass::Weights,
        bytes: 4096,
        view_of: None,
        device: Some(device),
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
        memory: (kind == "gpu").then_some(DeviceMemory { free: 100, total: 400 }),
        sums,
    };
    let sums = [Sums { weights: 4000, rounding: 96, ..Sums::default() }, Sums { compute: 300, ..Sums::default() }];
    let buffer = |id: u64, device: usize, is_mapped| AccountedBuffer {
        id,
        device,
        buffer_type: "CPU".to_owned(),
        usage: BufferUsage::Weights,
        is_mapped,
        asked: sums[device].total(),
        bytes: sums[device].total(),
        sums: sums[device],
    };
    let view = AccountedTensor {
        view_of: Some("Kcur-0".to_owned()),
        location: None,
        device: None,
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
        graphs: vec![AccountedGraph { allocator: Some(1), leafs: 2, nodes: 2, tensors }],
        unread: vec![tensor("spare", [1, 1, 1, 1], 0, Some(128))],
    }
}

#[test]
fn lines_have_every_tensor_with_its_shape() {
    let text = AccountingFormat::Lines.format(&example());
    let expected = "\
lastuse:                    blk.0.gpu_idx: CPU [32768, 1, 1, 1] i32, 4096 bytes at 0 of buffer 1 (CPU), steps 2-7
lastuse:                 blk.0.gpu_bucket: GPU (GPU0) [1024, 1, 1, 1] i32, 4096 bytes at 64 of buffer 1 (CPU), steps 2-7
lastuse:                    Kcur-0 (view): CPU KQ [4, 4, 1, 1] i32, 4096 bytes in no buffer, view of Kcur-0
lastuse:                         ffn\u{fffd}<up>: GPU (GPU0) [4, 4, 1, 1] i32, 4096 bytes at 64 of buffer 1 (CPU), steps 2-7, MUL_MAT on GPU0
lastuse:                            spare: CPU [1, 1, 1, 1] i32, 4096 bytes at 128 of buffer 1 (CPU), steps 2-7
lastuse: non-view tensors processed: 4/4
lastuse: tensors processed: 5/5
";
    assert_eq!(text, expected);
}

#[test]
fn tables_have_sums_and_what_is_free() {
    let expected = "\
device  weights  kv  compute  other  rounding  total  free
CPU        4000   0        0      0        96   4096     -
GPU0          0   0      300      0         0    300   100
all        4000   0      300      0        96   4396

buffer  device  type  usage    weights  kv  compute  other  rounding  total
1       CPU     CPU   mapped      4000   0        0      0        96   4096
2       GPU0    CPU   weights        0   0      300      0         0    300
";
    assert_eq!(accounting_summary(&example()), expected);
    let text = AccountingFormat::Text.format(&example());
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("\ngraph of allocator 1: 2 leafs, 2 nodes\ntensor "), "{text}");
    assert!(text.contains("\ntensors that no graph has\n"), "{text}");
    assert_eq!(accounting_summary(&Accounting::default()), "no buffers were recorded\n");
}

#[test]
fn names_are_escaped_on_the_page() {
    let page = AccountingFormat::Html.format(&example());
    assert!(page.contains("ffn &lt;up&gt;") && page.contains("the &lt;CPU&gt;") && !page.contains("<up>"), "{page}");
    assert!(page.contains("title=\"weights: 4000 bytes\"") && page.ends_with("</html>\n"), "{page}");
    assert!(!page.contains("<script") && !page.contains("http"), "{page}");
}

#[test]
fn formats_have_words() {
    for format in AccountingFormat::ALL {
        assert_eq!(AccountingFormat::with_word(format.word()), Some(format));
    }
    assert_eq!(AccountingFormat::with_word("JSON"), Some(AccountingFormat::Json));
    assert_eq!(AccountingFormat::with_word("xml"), None);
}
