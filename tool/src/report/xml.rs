//! Text for XML and HTML.

/// Escapes the markup of XML and HTML, and replaces characters that XML does not allow.
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

/// Shortens `text` to at most `length` characters; the last is "…" if some are cut.
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
