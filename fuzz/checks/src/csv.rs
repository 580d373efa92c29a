//! Files of placement problems.

use lastuse::placement::{Effort, Placement, Problem, Workspace, choose, validate};
use lastuse_tool::formats::csv::{Sheet, write_blocks};

use crate::in_proportion;

/// Larger problems are read and written, not solved.
const MAX_SOLVED: usize = 500;

/// Reads a problem. A valid one gets a valid placement, and is unchanged when it is written and read again.
///
/// # Panics
/// When that does not hold.
pub fn csv(bytes: &[u8]) {
    match in_proportion(bytes.len(), || Sheet::read(bytes)) {
        Ok(sheet) => {
            if sheet.problem().blocks().len() <= MAX_SOLVED {
                assert_written_as_read(&sheet);
            }
        }
        Err(error) => assert!(error.line.is_some_and(|line| line > 0) && !error.reason.is_empty(), "{error}"),
    }
}

fn assert_written_as_read(sheet: &Sheet) {
    let choice = choose(sheet.problem(), None, Effort::units(2000), &mut Workspace::default());
    let placement = &choice.placement;
    if let Err(defect) = validate(sheet.problem(), placement) {
        panic!("{} makes an invalid placement: {defect:?}", choice.strategy);
    }
    assert!(
        placement.size() >= choice.lower_bound,
        "{} bytes, and the bound is {}",
        placement.size(),
        choice.lower_bound
    );
    let text = written(sheet, placement);
    let again = read(&text);
    assert_same_blocks(again.problem(), sheet.problem());
    assert_eq!(again.names(), sheet.names());
    assert_eq!(written(&again, placement), text);
    assert_blocks_alone(sheet.problem());
}

fn written(sheet: &Sheet, placement: &Placement) -> Vec<u8> {
    let mut text = Vec::new();
    sheet.write(placement, &mut text).expect("memory can be written to");
    text
}

fn read(text: &[u8]) -> Sheet {
    Sheet::read(text).unwrap_or_else(|error| panic!("cannot be read again: {error}\n{}", String::from_utf8_lossy(text)))
}

/// Writes and reads the blocks without offsets, a format that omits blocks without bytes.
fn assert_blocks_alone(problem: &Problem) {
    let ids: Vec<u64> = (0..).take(problem.blocks().len()).collect();
    let mut text = Vec::new();
    write_blocks(problem, &ids, &mut text).expect("memory can be written to");
    let again = read(&text);
    let expected: Vec<_> = problem.blocks().iter().filter(|block| block.size > 0).collect();
    assert_eq!(again.problem().blocks().iter().collect::<Vec<_>>(), expected);
}

fn assert_same_blocks(found: &Problem, expected: &Problem) {
    assert_eq!(found.blocks(), expected.blocks());
    assert_eq!(found.alignment(), expected.alignment());
}
