//! Inputs made from others, as a fuzzer without coverage does: deterministic, and for every toolchain.

/// A deterministic random number generator: SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts the sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Returns a number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("it is below a usize")
    }

    fn pick<'t, T: ?Sized>(&mut self, from: &[&'t T]) -> &'t T {
        from[self.below(from.len())]
    }
}

/// Numbers that readers are likely to mishandle.
const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "2",
    "3",
    "16",
    "32",
    "255",
    "-1",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e400",
    "0.5",
];

/// Text that readers are likely to mishandle.
const PIECES: [&str; 14] = [
    "",
    "\n",
    "\r\n",
    "{}",
    "[]",
    "[[[[",
    "null",
    "true",
    "\"",
    "\\u0000",
    "\u{feff}",
    ",",
    "\0",
    "{\"format\":\"lastuse-plan\",",
];

/// Returns `input` with one to four changes: numbers replaced; lines repeated, moved, removed or replaced by those of
/// `other`; bytes changed; text inserted or truncated.
pub fn mutated(input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 + random.below(4) {
        bytes = match random.below(8) {
            0..3 => with_another_number(&bytes, random),
            3 => with_other_lines(&bytes, other, random),
            4 => with_moved_lines(&bytes, random),
            5 => with_another_byte(bytes, random),
            6 => with_a_piece(&bytes, random),
            _ => cut_off(bytes, random),
        };
    }
    bytes
}

/// Returns the start and end of every number in the text.
fn numbers(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length > 0 {
            found.push((at, at + length));
        }
        at += length + 1;
    }
    found
}

/// Replaces a number by one of [`NUMBERS`] or by another one of the input.
fn with_another_number(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let numbers = numbers(bytes);
    if numbers.is_empty() {
        return bytes.to_vec();
    }
    let (start, end) = numbers[random.below(numbers.len())];
    let (from, to) = numbers[random.below(numbers.len())];
    let new = if random.below(2) == 0 { &bytes[from..to] } else { random.pick(&NUMBERS).as_bytes() };
    [&bytes[..start], new, &bytes[end..]].concat()
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|&byte| byte == b'\n').collect()
}

fn with_other_lines(bytes: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let (mut own, other) = (lines(bytes), lines(other));
    if own.is_empty() || other.is_empty() {
        return other.concat();
    }
    let at = random.below(own.len());
    own[at] = other[random.below(other.len())];
    own.concat()
}

fn with_moved_lines(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut lines = lines(bytes);
    if lines.is_empty() {
        return Vec::new();
    }
    let (from, to) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(3) {
        0 => lines.swap(from, to),
        1 => lines.insert(to, lines[from]),
        _ => drop(lines.remove(from)),
    }
    lines.concat()
}

fn with_another_byte(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    if !bytes.is_empty() {
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
    }
    bytes
}

fn with_a_piece(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let (before, behind) = bytes.split_at(random.below(bytes.len() + 1));
    [before, random.pick(&PIECES).as_bytes(), behind].concat()
}

fn cut_off(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    bytes.truncate(random.below(bytes.len() + 1));
    bytes
}
