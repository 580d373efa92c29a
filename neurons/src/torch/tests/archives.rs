//! Damaged and hostile zip archives.

use super::handmade::{Saved, archive};
use super::{assert_refused, read};

fn valid() -> Vec<u8> {
    Saved::floats(&[1.0, 2.0, 3.0]).archive()
}

/// Returns the position of the n-th occurrence of `part`.
fn find(file: &[u8], part: &[u8], number: usize) -> usize {
    let found = file.windows(part.len()).enumerate().filter(|(_, window)| *window == part).nth(number);
    found.expect("the file has this part").0
}

/// The valid archive with other bytes at a distance from the n-th occurrence of `part`.
fn changed(part: &[u8], number: usize, at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = valid();
    let start = find(&file, part, number) + at;
    file[start..start + bytes.len()].copy_from_slice(bytes);
    file
}

/// A change of the valid archive, and words of the refusal: a part, its number, a distance, bytes.
type Change = (&'static [u8], usize, usize, &'static [u8], &'static str);

const RECORD: &[u8] = b"PK\x03\x04";
const ENTRY: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
const END_64: &[u8] = b"PK\x06\x06";

#[test]
fn handmade_archive_is_valid() {
    assert_eq!(read(&valid()), Ok(vec![1.0, 2.0, 3.0]));
}

#[test]
fn archives_that_are_cut_off_are_refused() {
    let file = valid();
    for length in 4..file.len() {
        assert_refused(&file[..length], "does not end as a zip archive does: is the file whole?");
    }
    assert_refused(&[&file[..], b"\0"].concat(), "does not end as a zip archive does");
}

#[test]
fn checksums_are_compared() {
    let data = find(&valid(), &2f32.to_le_bytes(), 0);
    let mut file = valid();
    file[data] ^= 1;
    assert_refused(&file, "record \"a/data/0\" has the checksum");
    assert_refused(&file, "it is damaged");
    assert_refused(&changed(ENTRY, 3, 16, b"\0\0\0\0"), "record \"a/version\" has the checksum");
}

#[test]
fn every_changed_byte_is_found_or_harmless() {
    let file = valid();
    let mut refused = 0;
    for position in 0..file.len() {
        for flip in [1, 0x80, 0xff] {
            let mut damaged = file.clone();
            damaged[position] ^= flip;
            match read(&damaged) {
                Ok(values) => assert_eq!(values, [1.0, 2.0, 3.0], "byte {position}"),
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 800, "{refused}");
}

#[test]
fn directory_must_agree_with_the_records() {
    let cases: [Change; 14] = [
        (ENTRY, 0, 10, b"\x08\0", "record \"a/data.pkl\" is compressed"),
        (ENTRY, 0, 20, b"\x01", "is compressed"),
        (ENTRY, 0, 8, b"\x09", "is encrypted"),
        (ENTRY, 0, 46, b"b", "has another name in its own header"),
        (RECORD, 0, 30, b"b", "has another name in its own header"),
        (RECORD, 0, 8, b"\x08\0", "other flags or methods in its own header"),
        (RECORD, 0, 6, b"\0", "other flags or methods"),
        (RECORD, 0, 14, b"\x01", "another checksum or size in its own header"),
        (RECORD, 0, 28, b"\xff\xff", "reaches beyond the records"),
        (RECORD, 1, 0, b"XX", "record \"a/byteorder\" has no header at byte"),
        (ENTRY, 0, 42, b"\x01", "has no header at byte 1"),
        (ENTRY, 0, 42, b"\xff\xff\xff\xff", "reaches beyond the records"),
        (ENTRY, 3, 0, b"XX", "entry 3 of the directory cannot be read: Invalid signature"),
        (ENTRY, 3, 28, b"\xff\xff", "entry 3 of the directory cannot be read: Unexpected end of file"),
    ];
    for (part, number, at, bytes, words) in cases {
        assert_refused(&changed(part, number, at, bytes), words);
    }
    // Both sizes of the entry are changed: they agree with each other only.
    let huge = changed(ENTRY, 2, 20, b"\xff\xff\xff\xff\xff\xff\xff\xff");
    assert_refused(&huge, "record \"a/data/0\" reaches beyond the records");
}

#[test]
fn end_records_must_agree() {
    /// The end record with numbers of 64 bits is read as an entry where it differs from the other one.
    const UNREAD: &str = "entry 4 of the directory cannot be read";
    assert_refused(&changed(END, 0, 4, b"\x01"), "several parts");
    assert_refused(&changed(END, 0, 8, b"\x03"), "several parts");
    assert_refused(&changed(END, 0, 8, b"\x03\0\x03\0"), UNREAD);
    assert_refused(&changed(END, 0, 12, b"\xff\xff"), UNREAD);
    let in_the_other = changed(END, 0, 12, b"\xff\xff\xff\xff");
    assert_eq!(read(&in_the_other), Ok(vec![1.0, 2.0, 3.0]), "the other end record has the number");
    assert_refused(&changed(END_64, 0, 24, b"\x09"), UNREAD);
    assert_refused(&changed(END_64, 0, 0, b"XX"), UNREAD);
    assert_refused(&changed(b"PK\x06\x07", 0, 8, &[0xff; 8]), UNREAD);
    // Without the locator there is one end record, and the directory must end there.
    assert_refused(&changed(b"PK\x06\x07", 0, 0, b"XX"), UNREAD);
}

#[test]
fn records_must_not_overlap() {
    let mut file = valid();
    let (first, second) = (find(&file, ENTRY, 0), find(&file, ENTRY, 1));
    let start = file[first + 42..first + 46].to_vec();
    file[second + 42..second + 46].copy_from_slice(&start);
    assert_refused(&file, "overlaps the one before it");
}

#[test]
fn records_are_in_one_folder_and_there_once() {
    let saved = Saved::floats(&[1.0]);
    let (pickle, data) = (saved.pickle(b""), &saved.elements[..]);
    let of = |records: &[(&str, &[u8])]| archive(records);
    assert_eq!(
        read(&of(&[("x y/data.pkl", &pickle), ("x y/data/0", data)])),
        Ok(vec![1.0]),
        "no byte order before torch 2.1"
    );
    assert_refused(
        &of(&[("a/data.pkl", &pickle), ("b/data/0", data)]),
        "record \"b/data/0\" is outside of the folder \"a\"",
    );
    assert_refused(&of(&[("data.pkl", &pickle), ("data", data)]), "has no folder");
    assert_refused(
        &of(&[("a/data.pkl", &pickle), ("a/data.pkl", &pickle), ("a/data/0", data)]),
        "record \"a/data.pkl\" is there twice",
    );
    assert_refused(&of(&[("a/data/0", data)]), "record \"a/data.pkl\" is missing");
    assert_refused(&of(&[("a/data.pkl", &pickle), ("a/data/1", data)]), "record \"a/data/0\" is missing");
    let with_order = |order: &[u8]| of(&[("a/byteorder", order), ("a/data.pkl", &pickle), ("a/data/0", data)]);
    assert_refused(&with_order(b"big"), "the byte order is \"big\"; \"little\" is supported");
    assert_refused(&with_order(b""), "the byte order is \"\"");
}
