//! Base64, in which the browser sends pictures.

/// Decodes standard base64; `None` if it is malformed.
pub fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in text.as_bytes().chunks(4) {
        let letters = group.iter().take_while(|&&letter| letter != b'=');
        let values: Vec<u32> = letters.map(|&letter| value(letter)).collect::<Option<_>>()?;
        if group.len() != 4 || values.len() < 2 {
            return None;
        }
        let bits = (0..4).fold(0, |bits, at| bits << 6 | values.get(at).copied().unwrap_or(0));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..values.len()]);
    }
    Some(bytes)
}

fn value(letter: u8) -> Option<u32> {
    match letter {
        b'A'..=b'Z' => Some(u32::from(letter - b'A')),
        b'a'..=b'z' => Some(u32::from(letter - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(letter - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn groups_of_three_bytes_and_ends_are_decoded() {
        assert_eq!(decoded("TWFu+/8=").as_deref(), Some(b"Man\xfb\xff".as_slice()));
        assert_eq!(decoded("TQ==").as_deref(), Some(b"M".as_slice()));
        assert_eq!((decoded("TWF"), decoded("T*=="), decoded("T===")), (None, None, None));
    }
}
