//! Valid and malformed files, as people and other tools write them.

use lastuse::placement::{Block, BlockId, Bytes, Location, Placement, Problem, Step};

use crate::testing::Random;

use super::Sheet;

fn read(text: &str) -> Sheet {
    Sheet::read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// (size, first_step, end_step) of all blocks.
fn blocks(problem: &Problem) -> Vec<(Bytes, Step, Step)> {
    problem.blocks().iter().map(|&Block { size, first_step, end_step }| (size, first_step, end_step)).collect()
}

/// The output when the offset of a block is 100 times its id.
fn written(sheet: &Sheet) -> String {
    let locations = (0..sheet.problem().blocks().len() as u64).map(|id| Location { chunk: 0, offset: 100 * id });
    let placement = Placement { locations: locations.collect(), chunks: vec![Bytes::MAX] };
    let mut output = Vec::new();
    sheet.write(&placement, &mut output).expect("memory can be written to");
    String::from_utf8(output).expect("the output is UTF-8")
}

fn assert_malformed(text: &str, line: usize, reason: &str) {
    let error = Sheet::read(text.as_bytes()).err().unwrap_or_else(|| panic!("accepted:\n{text}"));
    assert!(
        error.line == Some(line) && error.reason.contains(reason),
        "{error:?} is not line {line}: {reason}\n{text}"
    );
}

#[test]
fn rows_become_blocks_by_first_step() {
    let sheet = read("id,lower,upper,size\nb2,3,9,20\nb1,0,3,10\nb3,0,21,30\n");
    assert_eq!(blocks(sheet.problem()), [(10, 0, 3), (30, 0, 21), (20, 3, 9)]);
    assert_eq!(sheet.blocks, [2, 0, 1] as [BlockId; 3]);
    assert_eq!((sheet.problem().alignment(), sheet.problem().max_chunk()), (1, None));
}

#[test]
fn rows_are_written_back_in_their_order() {
    let sheet = read("id,lower,upper,size\nb2,3,9,20\nb1,0,3,10\nb3,0,21,30\n");
    assert_eq!(written(&sheet), "id,lower,upper,size,offset\nb2,3,9,20,200\nb1,0,3,10,0\nb3,0,21,30,100\n");
}

#[test]
fn what_is_written_can_be_read() {
    let sheet = read("id,lower,upper,size\nb2,3,9,20\nb1,0,3,10\n");
    let again = read(&written(&sheet));
    assert_eq!(blocks(again.problem()), blocks(sheet.problem()));
    assert_eq!(written(&again), written(&sheet));
}

#[test]
fn every_name_of_a_column_is_known() {
    for id in ["id", "buffer", "buffer_id"] {
        for lower in ["lower", "begin", "start"] {
            for (upper, end_step) in [("upper", 5), ("end", 4)] {
                let sheet = read(&format!("size,{upper},{id},{lower}\n7,{end_step},a,2\n8,4,b,3\n"));
                let starts: Vec<_> =
                    sheet.problem().blocks().iter().map(|block| (block.size, block.first_step)).collect();
                assert_eq!(starts, [(7, 2), (8, 3)]);
                assert_eq!(written(&sheet).lines().next(), Some(&*format!("size,{upper},{id},{lower},offset")));
            }
        }
    }
}

#[test]
fn end_is_the_last_step_of_a_live_range() {
    let until = blocks(read("id,lower,upper,size\na,0,5,1\nb,4,6,1\nc,5,7,1\n").problem());
    assert_eq!(blocks(read("id,lower,end,size\na,0,4,1\nb,4,5,1\nc,5,6,1\n").problem()), until);
    assert_eq!(until, [(1, 0, 5), (1, 4, 6), (1, 5, 7)]);
    assert_eq!(blocks(read("id,lower,end,size\na,4,4,1\n").problem()), [(1, 4, 5)]);
}

#[test]
fn steps_may_be_any_numbers() {
    let most = u32::MAX;
    let sheet = read(&format!("id,lower,upper,size\na,0,{most},1\nb,{},{most},2\n", most - 1));
    assert_eq!(blocks(sheet.problem()), [(1, 0, most), (2, most - 1, most)]);
    let largest = u64::MAX;
    let sheet = read(&format!("id,lower,upper,size\na,0,{largest},1\nb,{},{largest},2\n", largest - 1));
    assert_eq!(blocks(sheet.problem()), [(1, 0, 2), (2, 1, 2)]);
}

#[test]
fn line_ends_blank_lines_blanks_and_a_mark_of_utf8_change_nothing() {
    let plain = "id,lower,upper,size\na,0,3,10\nb,1,2,20\n";
    let variants = [
        plain.replace('\n', "\r\n"),
        plain.replace('\n', "\n\n"),
        plain.trim_end().to_owned(),
        plain.replace(',', " , ").replace("a ", "a").replace("b ", "b"),
        format!("\u{feff}{plain}"),
        format!("\u{feff}{}", plain.replace('\n', "\r\n")),
        format!("\n\r\n{plain}"),
    ];
    for text in variants {
        let sheet = read(&text);
        assert_eq!(blocks(sheet.problem()), [(10, 0, 3), (20, 1, 2)], "{text:?}");
        assert_eq!(written(&sheet).replace(' ', ""), "id,lower,upper,size,offset\na,0,3,10,0\nb,1,2,20,100\n");
    }
}

#[test]
fn ids_are_any_text() {
    let text = "id,lower,upper,size\n\"a, b\",0,1,1\n\"say \"\"c\"\"\",0,1,1\n\u{3b1} ,0,1,1\n\u{3b1},0,1,1\n,0,1,1\n";
    let lines: Vec<String> = written(&read(text)).lines().map(str::to_owned).collect();
    let expected = text.lines().enumerate().map(|(line, row)| match line {
        0 => format!("{row},offset"),
        _ => format!("{row},{}", 100 * (line - 1)),
    });
    assert_eq!(lines, expected.collect::<Vec<_>>());
}

#[test]
fn offsets_of_an_earlier_plan_are_replaced_where_they_stand() {
    let sheet = read("id,offset,lower,upper,size\na,77,0,1,1\nb,nonsense,0,1,1\n");
    assert_eq!(written(&sheet), "id,offset,lower,upper,size\na,0,0,1,1\nb,100,0,1,1\n");
}

#[test]
fn hints_and_empty_gaps_are_kept() {
    let text = "id,lower,upper,size,hint,gaps\na,0,1,1,12,\nb,0,1,1,,\n";
    assert_eq!(written(&read(text)), "id,lower,upper,size,hint,gaps,offset\na,0,1,1,12,,0\nb,0,1,1,,,100\n");
}

#[test]
fn gaps_are_refused() {
    for gap in ["1-2", "1-2@0:4", "1-2 3-4"] {
        assert_malformed(
            &format!("id,lower,upper,size,gaps\na,0,9,1,\nb,0,9,1,{gap}\n"),
            3,
            "gaps cannot be planned: leave the field empty",
        );
    }
}

#[test]
fn one_alignment_pads_all_sizes() {
    let sheet = read("id,lower,upper,size,alignment\na,0,2,1,16\nb,1,2,16,16\nc,1,2,17,16\n");
    assert_eq!(sheet.problem().alignment(), 16);
    assert_eq!(blocks(sheet.problem()), [(16, 0, 2), (16, 1, 2), (32, 1, 2)]);
    assert!(written(&sheet).starts_with("id,lower,upper,size,alignment,offset\na,0,2,1,16,0\n"), "sizes stay");
}

#[test]
fn different_alignments_need_sizes_that_keep_them() {
    let sheet = read("id,lower,upper,size,alignment\na,0,2,64,16\nb,1,2,128,64\nc,1,2,64,\n");
    assert_eq!(sheet.problem().alignment(), 64);
    let text = "id,lower,upper,size,alignment\na,0,2,48,16\nb,1,2,128,64\nc,1,2,64,64\n";
    assert_malformed(text, 2, "alignment 16, and 64 on line 3: ");
    assert_malformed(text, 2, "round the sizes up to multiples of 64");
    assert_malformed("id,lower,upper,size,alignment\na,0,2,1,8\nb,1,2,1,\n", 3, "alignment 1, and 8 on line 2: ");
}

#[test]
fn wrong_alignments_are_named() {
    for (alignment, reason) in
        [("0", "0 is not a power of two"), ("24", "24 is not a power of two"), ("x", "\"x\" is not a whole")]
    {
        let text = format!("id,lower,upper,size,alignment\na,0,2,64,{alignment}\n");
        assert_malformed(&text, 2, &format!("alignment {reason}"));
    }
}

#[test]
fn wrong_headers_are_named() {
    let cases = [
        ("lower,upper,size", "the header has no column id or buffer or buffer_id"),
        ("id,upper,size", "the header has no column lower or begin or start"),
        ("id,lower,size", "the header has no column upper or end"),
        ("id,lower,upper", "the header has no column size"),
        ("id,id,lower,upper,size", "the columns \"id\" and \"id\" have the same meaning"),
        ("id,lower,start,upper,size", "the columns \"lower\" and \"start\" have the same meaning"),
        ("id,lower,end,upper,size", "the columns \"upper\" and \"end\" have the same meaning"),
        ("id,lower,upper,size,size", "the columns \"size\" and \"size\" have the same meaning"),
        ("id,lower,upper,size,aligment", "unknown column \"aligment\"; the columns are id, buffer, "),
        ("0,1,2,3", "unknown column \"0\""),
    ];
    for (header, reason) in cases {
        assert_malformed(&format!("{header}\n"), 1, reason);
        assert_malformed(&format!("\r\n\r\n{header}\r\n"), 3, reason);
    }
}

#[test]
fn empty_files_are_refused_and_files_without_rows_are_not() {
    for text in ["", "\n", "\r\n\n", "\u{feff}"] {
        assert_malformed(text, 1, "the file is empty");
    }
    let sheet = read("id,lower,upper,size\n");
    assert_eq!((sheet.problem().blocks().len(), &*written(&sheet)), (0, "id,lower,upper,size,offset\n"));
}

#[test]
fn wrong_rows_are_named_with_their_line() {
    let too_large = u64::MAX.to_string() + "0";
    let cases = [
        ("b,0,1".to_owned(), "the header has 4 fields, and this row 3".to_owned()),
        ("b,0,1,2,3".to_owned(), "the header has 4 fields, and this row 5".to_owned()),
        ("b".to_owned(), "the header has 4 fields, and this row 1".to_owned()),
        ("b,x,1,2".to_owned(), "lower \"x\" is not a whole number".to_owned()),
        ("b,0,1.5,2".to_owned(), "upper \"1.5\" is not a whole number".to_owned()),
        ("b,0,1,".to_owned(), "size \"\" is not a whole number".to_owned()),
        ("b,0,1,1e3".to_owned(), "size \"1e3\" is not a whole number".to_owned()),
        ("b,0,1,+3".to_owned(), "size \"+3\" is not a whole number".to_owned()),
        ("b,-1,1,2".to_owned(), "lower -1 is negative".to_owned()),
        ("b,0,1,-2".to_owned(), "size -2 is negative".to_owned()),
        ("b,0,-,2".to_owned(), "upper \"-\" is not a whole number".to_owned()),
        (format!("b,0,1,{too_large}"), format!("size {too_large} is too large")),
        ("b,1,1,2".to_owned(), "the live range is empty".to_owned()),
        ("b,2,1,2".to_owned(), "the live range is empty".to_owned()),
        ("a,0,1,2".to_owned(), "id \"a\" is taken by line 2".to_owned()),
    ];
    for (row, reason) in cases {
        assert_malformed(&format!("id,lower,upper,size\na,0,1,2\n{row}\nc,0,1,2\n"), 3, &reason);
        assert_malformed(&format!("id,lower,upper,size\r\na,0,1,2\r\n\r\n{row}\r\n"), 4, &reason);
    }
    assert_malformed(
        "id,lower,end,size\na,5,4,1\n",
        2,
        "the live range is empty: it ends before step 5, and starts at 5",
    );
    assert_malformed(&format!("id,lower,end,size\na,0,{},1\n", u64::MAX), 2, "end is too large");
}

#[test]
fn lines_are_counted_through_quoted_line_ends() {
    assert_malformed("id,lower,upper,size\n\"a\nb\",0,1,2\nc,0,1,x\n", 4, "size \"x\" is not a whole number");
}

#[test]
fn sizes_that_add_up_to_too_much_are_named() {
    let half = u64::MAX / 2;
    let text = |last: u64| format!("id,lower,upper,size\na,5,6,{}\nb,0,1,3\nc,0,1,{last}\n", half - 5);
    assert_eq!(read(&text(2)).problem().check_total(), Ok(()));
    assert_malformed(&text(3), 4, &format!("the sizes up to here add up to more than {half} bytes"));
    let padded = format!("id,lower,upper,size,alignment\na,0,1,{},64\n", u64::MAX - 5);
    assert_malformed(&padded, 2, "add up to more than");
}

#[test]
fn input_that_is_not_utf8_is_refused() {
    let error = Sheet::read(&b"id,lower,upper,size\na,0,1,2\n\xff,0,1,2\n"[..]).expect_err("no UTF-8");
    assert_eq!(error.to_string(), "line 3: this is not UTF-8 text");
}

#[test]
fn mutilated_files_are_read_or_refused() {
    const BYTES: &[u8] = b",\"\n\r-0195 aid\xff\xc3";
    let text =
        b"id,lower,upper,size,alignment,gaps,hint,offset\n\"a\",0,3,16,16,,,\nb,1,2,32,16,,5,7\r\nc,2,9,64,16,,,\n";
    let mut random = Random::new(1);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..5000 {
        let mut bytes = text.to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(u32::try_from(bytes.len()).expect("small")) as usize;
            let byte = BYTES[random.below(u32::try_from(BYTES.len()).expect("small")) as usize];
            match random.below(3) {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        match Sheet::read(&bytes[..]) {
            Ok(sheet) => {
                let again = self::read(&written(&sheet));
                assert_eq!(blocks(again.problem()), blocks(sheet.problem()));
                read += 1;
            }
            Err(error) => {
                let lines = 1 + bytes.iter().filter(|&&byte| byte == b'\n').count();
                assert!(
                    error.line.is_some_and(|line| (1..=lines).contains(&line)),
                    "{error:?} {:?}",
                    String::from_utf8_lossy(&bytes)
                );
                refused += 1;
            }
        }
    }
    assert!(read > 200 && refused > 500, "{read} read, {refused} refused");
}
