//! Pickles that are not tensors, or are made to do harm.

use super::handmade::{Saved, archive, start_of_pickles, text};
use super::{assert_refused, read};

/// Asserts that a pickle is refused in both formats.
fn assert_pickle_refused(pickle: &[u8], words: &str) {
    assert_refused(&archive(&[("a/data.pkl", pickle), ("a/data/0", b"")]), words);
    assert_refused(&[&start_of_pickles(true)[..], pickle].concat(), words);
}

#[test]
fn names_are_refused_and_nothing_is_called() {
    let target = std::env::temp_dir().join(format!("lastuse-pickle-{}", std::process::id()));
    let command = text(&format!("touch {}", target.display()));
    for (module, name) in [("posix", "system"), ("os", "system"), ("builtins", "eval"), ("torch", "load")] {
        let call = format!("c{module}\n{name}\n");
        let pickle = [&b"\x80\x02"[..], call.as_bytes(), &command, b"\x85R."].concat();
        assert_pickle_refused(&pickle, &format!("the pickle names \"{module}.{name}\""));
    }
    assert!(!target.exists());
    for name in ["BoolStorage", "ComplexFloatStorage", "UntypedStorage", "FloatStorage2"] {
        let saved = Saved { storage: name, ..Saved::floats(&[1.0]) };
        assert_refused(&saved.archive(), &format!("the pickle names \"torch.{name}\""));
    }
    assert_pickle_refused(b"\x80\x02ctorch._utils\n_rebuild_parameter\n.", "torch._utils._rebuild_parameter");
    assert_pickle_refused(b"\x80\x02ctorch._utils._rebuild_tensor_v2\nx\n.", "the pickle names");
    assert_pickle_refused(b"\x80\x02c\xff\n\xff\n.", "not UTF-8");
}

#[test]
fn operations_are_refused_by_name() {
    let cases: [(&[u8], &str); 9] = [
        (b"iposix\nsystem\n", "INST (0x69)"),
        (b"o", "OBJ (0x6f)"),
        (b"\x81", "NEWOBJ (0x81)"),
        (b"b", "BUILD (0x62)"),
        (b"\x93", "STACK_GLOBAL (0x93)"),
        (b"\x82\x01", "EXT1 (0x82)"),
        (b"2", "DUP (0x32)"),
        (b"I1\n", "INT (0x49)"),
        (b"\xfe", "0xfe"),
    ];
    for (operation, name) in cases {
        let pickle = [&b"\x80\x02"[..], operation, b"."].concat();
        assert_pickle_refused(&pickle, &format!("the operation {name}, which no tensor needs"));
    }
}

#[test]
fn other_protocols_are_refused() {
    for pickle in [&b"\x80\x03N."[..], b"\x80\x04N.", b"N.", b"\x80\x05\x95\0\0\0\0\0\0\0\0N."] {
        assert_pickle_refused(pickle, "protocol 2");
    }
    assert_pickle_refused(b"\x80\x02\x80\x02N.", "has its first operation again");
}

#[test]
fn values_that_are_no_tensor_are_refused() {
    for pickle in [&b"\x80\x02N."[..], b"\x80\x02].", b"\x80\x02}.", b"\x80\x02K\x01.", b"\x80\x02)."] {
        assert_pickle_refused(pickle, "the pickle is not a tensor");
    }
    assert_pickle_refused(b"\x80\x02.", "no value or with several");
    assert_pickle_refused(b"\x80\x02NN.", "no value or with several");
    assert_pickle_refused(b"\x80\x02ccollections\nOrderedDict\n)R.", "the pickle is not a tensor");
    assert_pickle_refused(b"\x80\x02ccollections\nOrderedDict\nN\x85R.", "with arguments that no tensor has");
    assert_pickle_refused(b"\x80\x02NNR.", "with arguments that no tensor has");
    assert_pickle_refused(b"\x80\x02NQ.", "not a float storage");
    assert_pickle_refused(b"\x80\x02)Q.", "not a float storage");
}

#[test]
fn dimensions_other_than_one_are_refused() {
    let pickle = Saved::floats(&[1.0]).pickle(b"");
    // The extents: J 1 0 0 0 TUPLE1.
    let size = b"J\x01\0\0\0\x85";
    let at = pickle.windows(size.len()).position(|window| window == size).expect("the pickle has extents");
    for (extents, count) in [(&b")"[..], 0), (b"K\x01K\x01\x86", 2), (b"K\x01K\x01K\x01\x87", 3)] {
        let other = [&pickle[..at], extents, &pickle[at + size.len()..]].concat();
        assert_pickle_refused(&other, &format!("the tensor has {count} dimensions"));
    }
}

#[test]
fn operations_without_their_values_are_refused() {
    for operation in [&b"R"[..], b"Q", b"t", b"\x85", b"\x86", b"\x87", b"e", b"u", b"q\0"] {
        assert_pickle_refused(&[&b"\x80\x02"[..], operation, b"."].concat(), "not there");
    }
    assert_pickle_refused(b"\x80\x02N(\x85.", "a value that is not there");
    for operation in [&b"NNa"[..], b"](Nu", b"}NNa", b"}(Nu", b"NNNs"] {
        assert_pickle_refused(
            &[&b"\x80\x02"[..], operation, b"."].concat(),
            "adds to something that is not a list or dictionary",
        );
    }
}

#[test]
fn pickles_that_end_early_are_refused() {
    for pickle in [
        &b"\x80"[..],
        b"\x80\x02",
        b"\x80\x02K",
        b"\x80\x02X\xff\xff\xff\xffabc",
        b"\x80\x02ctorch\nFloat",
        b"\x80\x02\x8a\x10\0",
    ] {
        assert_pickle_refused(pickle, "ends too early");
    }
    let endless = [b"\x80\x02".to_vec(), b"N".repeat(1 << 17), b".".to_vec()].concat();
    assert_pickle_refused(&endless, "ends too early");
    let behind = [&Saved::floats(&[]).pickle(b"")[..], b"N"].concat();
    assert_refused(&archive(&[("a/data.pkl", &behind), ("a/data/0", b"")]), "1 bytes follow the pickle");
}

#[test]
fn remembered_values_are_bounded() {
    assert_pickle_refused(b"\x80\x02h\x05.", "value 5, which is not there or can change");
    assert_pickle_refused(b"\x80\x02]q\0h\0.", "value 0, which is not there or can change");
    assert_pickle_refused(b"\x80\x02j\xff\xff\xff\xff.", "value 4294967295");
    assert_eq!(
        read(&archive(&[("a/data.pkl", b"\x80\x02Nr\xff\xff\xff\xffj\xff\xff\xff\xff\x860."), ("a/x", b"")]))
            .map_err(|error| error.to_string().contains("POP")),
        Err(true)
    );
    // Each tuple holds the one before it many times.
    let mut bomb = b"\x80\x02Nq\0".to_vec();
    for _ in 0..40 {
        bomb.extend([&b"("[..], &b"h\0".repeat(100), b"tq\0"].concat());
    }
    bomb.push(b'.');
    assert_pickle_refused(&bomb, "nested too deeply");
    let nested = [&b"\x80\x02N"[..], &b"\x85".repeat(60_000), b"."].concat();
    assert_pickle_refused(&nested, "nested too deeply");
    let lists = [&b"\x80\x02"[..], &b"]".repeat(20_000), &b"a".repeat(19_999), b"."].concat();
    assert_pickle_refused(&lists, "nested too deeply");
}

#[test]
fn numbers_have_at_most_16_bytes() {
    assert_pickle_refused(&[&b"\x80\x02\x8a\x11"[..], &[0; 17], b"."].concat(), "a number of 17 bytes");
    assert_pickle_refused(b"\x80\x02\x8a\0.", "the pickle is not a tensor");
    assert_pickle_refused(b"\x80\x02\x8a\x01\xff.", "the pickle is not a tensor");
}
