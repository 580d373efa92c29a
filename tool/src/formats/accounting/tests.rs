//! Written files can be read, and defects are named.

use lastuse::accounting::{
    AccountedBuffer, AccountedDevice, AccountedGraph, AccountedTensor, Accounting, AllocatorTurn, BufferUsage, BytesAt,
    Location, MemoryClass, Steps, Sums,
};

use super::read_accounting;

fn example() -> Accounting {
    let sums = Sums { weights: 1, kv: 2, compute: 3, other: 4, rounding: 5 };
    let weight = AccountedTensor {
        name: "a \"name\"".to_owned(),
        op: "NONE".to_owned(),
        element: "q4_0".to_owned(),
        ne: [32, 2, 1, 1],
        class: MemoryClass::Weights,
        bytes: 36,
        view_of: None,
        resides: Some("CPU".to_owned()),
        buffer_type: Some("CPU".to_owned()),
        location: Some(Location { buffer: 3, offset: 0 }),
        steps: Some(Steps { first: 4, last: 9 }),
        executes: None,
    };
    let view = AccountedTensor {
        op: "VIEW".to_owned(),
        view_of: Some("a".to_owned()),
        location: None,
        steps: None,
        resides: None,
        executes: Some("CPU".to_owned()),
        ..weight.clone()
    };
    Accounting {
        process: 7,
        ggml: "0.26.0".to_owned(),
        devices: vec![AccountedDevice {
            name: "CPU".to_owned(),
            description: "a processor".to_owned(),
            kind: "cpu".to_owned(),
            free: Some(5),
            memory: Some(9),
            sums,
            history: vec![BytesAt { ms: 0, bytes: 9 }, BytesAt { ms: 4, bytes: 15 }],
            samples: Vec::new(),
        }],
        buffers: vec![AccountedBuffer {
            id: 3,
            device: "CPU".to_owned(),
            buffer_type: "CPU".to_owned(),
            usage: BufferUsage::Weights,
            mapped: true,
            asked: 15,
            bytes: 16,
            resident: Some(64),
            sums,
        }],
        graphs: vec![AccountedGraph { allocator: 1, leafs: 1, nodes: 1, tensors: vec![weight.clone(), view] }],
        unread: vec![weight],
        turns: vec![AllocatorTurn { ms: 2, allocator: 1, bytes: 8 }],
        resident: Vec::new(),
    }
}

#[test]
fn what_is_written_is_read() {
    for accounting in [example(), Accounting::default()] {
        assert_eq!(read_accounting(&accounting.json()), Ok(accounting));
    }
}

#[test]
fn defects_are_named() {
    let text = example().json();
    let cases = [
        ("lastuse-accounting", "lastuse-plan", "format \"lastuse-plan\", version 1"),
        ("\"version\":1", "\"version\":2", "version 2; expected"),
        ("\"kv\":2", "\"kv\":3", "the sums of buffer 3 are 16 bytes, not the total of 15"),
        ("\"asked\":15", "\"asked\":16", "the sums of buffer 3 are 15 bytes, and 16 were asked for"),
        ("\"usage\":\"weights\"", "\"usage\":\"w\"", "unknown variant `w`, expected one of `any`"),
        ("\"class\":\"weights\"", "\"class\":\"w\"", "unknown variant `w`, expected one of `weights`"),
        ("\"device\":\"CPU\"", "\"device\":\"GPU\"", "buffer 3 is on the device \"GPU\", which is not listed"),
        ("\"resides\":\"CPU\"", "\"resides\":\"GPU\"", "resides on a device that is not listed"),
        ("\"process\":7,", "", "missing field `process`"),
        ("}", "", "line 1 column"),
    ];
    for (from, to, expected) in cases {
        let why = read_accounting(&text.replace(from, to)).expect_err(expected).to_string();
        assert!(why.starts_with("not an accounting of lastuse: ") && why.contains(expected), "{why}");
    }
    let mut wrong = example();
    wrong.devices[0].sums.add(&Sums { kv: 1, ..Sums::default() });
    let why = read_accounting(&wrong.json()).expect_err("sums differ").to_string();
    assert!(why.ends_with("the sums of CPU are not those of its buffers"), "{why}");
}
