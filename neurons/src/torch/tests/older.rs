//! The older format.

use super::handmade::{Saved, start_of_pickles, text};
use super::{assert_refused, read};

fn saved() -> Saved {
    Saved::floats(&[4.0, 5.0])
}

#[test]
fn handmade_file_is_valid() {
    assert_eq!(read(&saved().pickles()), Ok(vec![4.0, 5.0]));
}

#[test]
fn files_that_are_cut_off_are_refused() {
    let file = saved().pickles();
    for length in 0..file.len() {
        assert!(read(&file[..length]).is_err(), "{length} of {}", file.len());
    }
    assert_refused(&[&file[..], b"\0"].concat(), "has 9 bytes");
}

#[test]
fn versions_and_byte_orders_are_checked() {
    let file = saved().pickles();
    let mut other = file.clone();
    other[18] = 0xea;
    assert_refused(&other, "the version of the format is not 1001");
    let rest = &file[start_of_pickles(true).len()..];
    assert_refused(&[&start_of_pickles(false)[..], rest].concat(), "the byte order is not little-endian");
}

#[test]
fn list_of_storages_is_the_one_of_the_tensor() {
    let start = [start_of_pickles(true), saved().pickle(b"N")].concat();
    let with = |list: &[u8]| [&start[..], list, &2u64.to_le_bytes(), &saved().elements].concat();
    let (right, other) = (text("0"), text("1"));
    assert_eq!(read(&with(&[&b"\x80\x02](("[..4], &right, b"e."].concat())), Ok(vec![4.0, 5.0]));
    for list in [
        b"\x80\x02].".to_vec(),
        [&b"\x80\x02]"[..], &other, b"a."].concat(),
        [&b"\x80\x02]("[..], &right, &other, b"e."].concat(),
        [&b"\x80\x02"[..], &right, b"\x85."].concat(),
    ] {
        assert_refused(&with(&list), "the list of storages is not just \"0\"");
    }
}

#[test]
fn counts_of_elements_agree() {
    let file = saved().pickles();
    let count = file.len() - 16;
    for wrong in [0, 3, u64::MAX] {
        let mut other = file.clone();
        other[count..count + 8].copy_from_slice(&wrong.to_le_bytes());
        assert_refused(&other, &format!("storage \"0\" has {wrong} elements; 2 are stated"));
    }
}
