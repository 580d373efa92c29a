//! Regular expressions for layers: ranges of digits, and not every number.

use std::collections::BTreeSet;

/// Returns a regular expression that matches exactly these numbers, in parentheses where it has alternatives: "(9|1[0-5])".
pub fn of_numbers(numbers: &BTreeSet<u32>) -> String {
    let texts: Vec<String> = numbers.iter().map(u32::to_string).collect();
    let longest = texts.iter().map(String::len).max().unwrap_or(0);
    let of_length = |length: usize| {
        let texts: Vec<&[u8]> = texts.iter().filter(|text| text.len() == length).map(String::as_bytes).collect();
        if texts.is_empty() { Vec::new() } else { alternatives(&texts) }
    };
    one_of(&(1..=longest).flat_map(of_length).collect::<Vec<_>>())
}

/// Returns a regular expression that matches what one of several matches.
pub fn one_of(alternatives: &[String]) -> String {
    match alternatives {
        [only] => only.clone(),
        all => format!("({})", all.join("|")),
    }
}

/// Returns expressions for sorted numbers of equally many digits. First digits that the same digits follow share a class.
fn alternatives(texts: &[&[u8]]) -> Vec<String> {
    let mut groups: Vec<(Vec<u8>, Vec<String>)> = Vec::new();
    for of_digit in texts.chunk_by(|one, other| one[0] == other[0]) {
        let digit = of_digit[0][0];
        let rests: Vec<&[u8]> = of_digit.iter().map(|text| &text[1..]).collect();
        let rest = if rests[0].is_empty() { vec![String::new()] } else { alternatives(&rests) };
        match groups.iter_mut().find(|(_, other)| *other == rest) {
            Some((digits, _)) => digits.push(digit),
            None => groups.push((vec![digit], rest)),
        }
    }
    let of_group = |(digits, rests): (Vec<u8>, Vec<String>)| {
        let class = class(&digits);
        rests.into_iter().map(move |rest| format!("{class}{rest}"))
    };
    groups.into_iter().flat_map(of_group).collect()
}

/// Returns an expression for one of these digits, which are sorted: "7", "[0-59]".
fn class(digits: &[u8]) -> String {
    let of_run = |run: &[u8]| match run {
        [first, _, .., last] => format!("{}-{}", char::from(*first), char::from(*last)),
        few => few.iter().copied().map(char::from).collect(),
    };
    let runs: String = digits.chunk_by(|one, next| one + 1 == *next).map(of_run).collect();
    if digits.len() == 1 { runs } else { format!("[{runs}]") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: impl IntoIterator<Item = u32>) -> String {
        of_numbers(&numbers.into_iter().collect())
    }

    /// Returns whether an expression as those above matches a whole text.
    fn matches(expression: &str, text: &str) -> bool {
        let inner = expression.trim_start_matches('(').trim_end_matches(')');
        inner.split('|').any(|alternative| {
            let mut rest = alternative;
            let mut takes = |digit: char| {
                let (class, after) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                    Some(parts) => parts,
                    None => rest.split_at(rest.len().min(1)),
                };
                rest = after;
                let letters: Vec<char> = class.chars().collect();
                let in_range =
                    |three: &[char]| three[1] == '-' && (three[0]..=three[2]).contains(&digit) && digit != '-';
                letters.contains(&digit) || letters.windows(3).any(in_range)
            };
            text.chars().all(&mut takes) && rest.is_empty()
        })
    }

    #[test]
    fn every_range_matches_its_numbers_alone() {
        for first in 0..=120 {
            for last in first..=120 {
                let expression = of(first..=last);
                for number in (0..=130).chain([200, 1000, 1200]) {
                    let is_meant = (first..=last).contains(&number);
                    assert_eq!(matches(&expression, &number.to_string()), is_meant, "{number} in {expression}");
                }
            }
        }
    }

    #[test]
    fn expressions_are_short() {
        assert_eq!([of(3..=3), of(0..=1), of(2..=9), of(12..=23)], ["3", "[01]", "[2-9]", "(1[2-9]|2[0-3])"]);
        assert_eq!([of(0..=99), of(0..=120)], ["([0-9]|[1-9][0-9])", "([0-9]|[1-9][0-9]|1[01][0-9]|120)"]);
        assert_eq!([of([0, 2, 4, 5, 6]), of([8, 18, 28, 38])], ["[024-6]", "(8|[1-3]8)"]);
        // Any numbers.
        let odd: Vec<u32> = (0..200).filter(|number| number % 7 == 1 || number % 5 == 3).collect();
        let expression = of(odd.iter().copied());
        assert!((0..2500).all(|number| matches(&expression, &number.to_string()) == odd.contains(&number)));
    }
}
