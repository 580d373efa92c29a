//! Parts of names of files, which need not be text.

use std::ffi::OsStr;

/// Returns what is before and behind the first `word` in a name; `None` if it is not there.
pub fn split_around<'a>(name: &'a OsStr, word: &str) -> Option<(&'a OsStr, &'a OsStr)> {
    let bytes = name.as_encoded_bytes();
    let at = bytes.windows(word.len()).position(|part| part == word.as_bytes())?;
    let (before, after) = (&bytes[..at], &bytes[at + word.len()..]);
    // SAFETY: a part of a name that ends before UTF-8.
    let before = unsafe { OsStr::from_encoded_bytes_unchecked(before) };
    // SAFETY: a part of a name that begins behind UTF-8.
    let after = unsafe { OsStr::from_encoded_bytes_unchecked(after) };
    Some((before, after))
}

/// Returns a name without an ending; `None` if it has another one.
pub fn without_ending<'a>(name: &'a OsStr, ending: &str) -> Option<&'a OsStr> {
    let before = name.as_encoded_bytes().strip_suffix(ending.as_bytes())?;
    // SAFETY: a part of a name that ends before UTF-8.
    Some(unsafe { OsStr::from_encoded_bytes_unchecked(before) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_parts() {
        let parts = split_around(OsStr::new("a%sb%s.gz"), "%s");
        assert_eq!(parts, Some((OsStr::new("a"), OsStr::new("b%s.gz"))));
        assert_eq!(split_around(OsStr::new("a%"), "%s"), None);
        assert_eq!(without_ending(OsStr::new("a.gz"), ".gz"), Some(OsStr::new("a")));
        assert_eq!(without_ending(OsStr::new("a.gz.b"), ".gz"), None);
    }
}
