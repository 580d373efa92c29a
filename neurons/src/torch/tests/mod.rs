//! Files of both formats, as torch writes them, with wrong parts, and hostile ones.

mod archives;
mod handmade;
mod hostile;
mod older;

use super::read;
use handmade::{Saved, archive};

fn reason(file: &[u8]) -> String {
    read(file).expect_err("it is not a tensor").to_string()
}

/// Asserts that a file is refused, with these words.
fn assert_refused(file: &[u8], words: &str) {
    let reason = reason(file);
    assert!(reason.contains(words), "{words:?} in: {reason}");
}

#[test]
fn elements_of_every_type_are_read() {
    let types: [(&str, &[u8]); 9] = [
        ("FloatStorage", &2.5f32.to_le_bytes()),
        ("DoubleStorage", &2.5f64.to_le_bytes()),
        ("HalfStorage", &0x4100u16.to_le_bytes()),
        ("BFloat16Storage", &0x4020u16.to_le_bytes()),
        ("LongStorage", &3i64.to_le_bytes()),
        ("IntStorage", &3i32.to_le_bytes()),
        ("ShortStorage", &3i16.to_le_bytes()),
        ("CharStorage", &[3]),
        ("ByteStorage", &[3]),
    ];
    for (storage, element) in types {
        let saved = Saved { storage, elements: element.repeat(4), count: 4, size: 4, ..Saved::default() };
        let expected = if storage.starts_with(['L', 'I', 'S', 'C']) || storage == "ByteStorage" { 3.0 } else { 2.5 };
        assert_eq!(read(&saved.archive()), Ok(vec![expected; 4]), "{storage}");
        assert_eq!(read(&saved.pickles()), Ok(vec![expected; 4]), "{storage}");
    }
}

#[test]
fn views_take_their_part_of_the_storage() {
    let saved = Saved::floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let view = |offset, size, stride| Saved { offset, size, stride, ..saved.clone() };
    for (view, expected) in [
        (view(0, 7, 1), vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        (view(5, 2, 1), vec![5.0, 6.0]),
        (view(1, 3, 2), vec![1.0, 3.0, 5.0]),
        (view(0, 2, 6), vec![0.0, 6.0]),
        (view(6, 1, 0), vec![6.0]),
        (view(3, 0, 1), vec![]),
    ] {
        assert_eq!(read(&view.archive()), Ok(expected.clone()));
        assert_eq!(read(&view.pickles()), Ok(expected));
    }
    for beyond in
        [view(0, 8, 1), view(6, 2, 1), view(0, 3, 4), view(7, 1, 1), view(i32::MAX, 1, 1), view(1, i32::MAX, i32::MAX)]
    {
        assert_refused(&beyond.archive(), "reaches beyond its storage of 7");
        assert_refused(&beyond.pickles(), "reaches beyond its storage of 7");
    }
    assert_refused(&view(0, 7, 0).archive(), "the stride 0");
    assert_refused(&view(0, i32::MAX, 0).archive(), "the stride 0");
    for negative in [view(-1, 1, 1), view(0, -1, 1), view(0, 1, -1)] {
        assert!(read(&negative.archive()).is_err());
    }
}

#[test]
fn storages_have_the_stated_length() {
    let mut saved = Saved::floats(&[1.0, 2.0]);
    saved.elements.pop();
    assert_refused(&saved.archive(), "storage \"0\" has 7 bytes, and 2 elements of 4 bytes are expected");
    assert_refused(&saved.pickles(), "storage \"0\" has 7 bytes");
    let longer = Saved { elements: vec![0; 12], ..Saved::floats(&[1.0, 2.0]) };
    assert_refused(&longer.archive(), "has 12 bytes");
    assert_refused(&longer.pickles(), "has 12 bytes");
}

#[test]
fn other_files_are_refused() {
    for file in [&b""[..], b"PK", b"\x80\x02", b"\x93NUMPY", b"\x80\x04\x95", &[0; 64]] {
        assert_refused(file, "it is not a file of torch.save");
    }
    assert_refused(&archive(&[]), "it is not a file of torch.save");
}
