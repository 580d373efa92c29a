//! Text inside XML and HTML.

/// `text` with nothing left in it that XML or HTML would take for markup, or that XML does not allow.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' => escaped.push(' '),
            control if control.is_control() || matches!(control, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// At most `length` letters of `text`; the last is "…" where some are left out.
pub fn shortened(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    text.chars().take(length.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped() {
        assert_eq!(escaped("</script><b>\"'&"), "&lt;/script&gt;&lt;b&gt;&quot;&#39;&amp;");
        assert_eq!(escaped("a\u{0}\u{1b}\u{ffff}\nb"), "a\u{fffd}\u{fffd}\u{fffd} b");
    }

    #[test]
    fn long_text_is_shortened_by_letters() {
        assert_eq!((shortened("äöü", 3), shortened("äöüß", 3)), ("äöü".to_owned(), "äö…".to_owned()));
    }
}
