//! Cuts that are none.

use crate::graph::steps::{CutError, check_parts, parts_of};

#[test]
fn parts_are_between_cuts() {
    assert_eq!(parts_of(5, &[]).map(|parts| (parts.len(), parts[0].clone())), Ok((1, 0..5)));
    assert_eq!(parts_of(5, &[0, 3]), Ok(vec![0..1, 1..4, 4..5]));
    assert_eq!(parts_of(3, &[0, 1]), Ok(vec![0..1, 1..2, 2..3]));
}

#[test]
fn cuts_that_are_none_are_refused() {
    assert_eq!(parts_of(0, &[]), Err(CutError::EmptyGraph));
    assert_eq!(parts_of(5, &[4]), Err(CutError::AtEnd { cut: 0 }));
    assert_eq!(parts_of(5, &[1, 7]), Err(CutError::AtEnd { cut: 1 }));
    assert_eq!(parts_of(5, &[1, 2, 2]), Err(CutError::Repeated { cut: 2 }));
    assert_eq!(parts_of(5, &[3, 1]), Err(CutError::Unordered { cut: 1 }));
}

#[test]
fn numbers_of_parts_are_checked() {
    assert_eq!(check_parts(0, 1), Err(CutError::EmptyGraph));
    assert_eq!(check_parts(3, 0), Err(CutError::NoParts));
    assert_eq!(check_parts(3, 4), Err(CutError::TooManyParts { parts: 4, nodes: 3 }));
    assert_eq!(check_parts(3, 3), Ok(()));
}

#[test]
fn messages_say_what_is_wrong() {
    let texts = [
        (CutError::NoParts, "0 steps"),
        (CutError::TooManyParts { parts: 4, nodes: 3 }, "3 nodes, which are fewer than the 4 steps"),
        (CutError::AtEnd { cut: 1 }, "cut 1 is after the last node"),
        (CutError::Repeated { cut: 2 }, "cut 2 is at the same node as cut 1"),
        (CutError::Unordered { cut: 1 }, "cut 1 is at an earlier node than cut 0"),
    ];
    for (error, text) in texts {
        assert!(error.to_string().contains(text), "{error}");
    }
}
