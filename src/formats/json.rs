//! Writes JSON without a library.

use std::fmt::{Display, Write};

/// A JSON object under construction.
#[derive(Debug)]
pub struct JsonObject<'o> {
    out: &'o mut String,
    is_empty: bool,
}

impl<'o> JsonObject<'o> {
    /// Begins an object at the end of `out`.
    pub fn begin(out: &'o mut String) -> Self {
        out.push('{');
        Self { out, is_empty: true }
    }

    /// Ends the object.
    pub fn end(self) {
        self.out.push('}');
    }

    /// Adds a member with a string.
    pub fn text(&mut self, key: &str, text: &str) -> &mut Self {
        string(self.member(key), text);
        self
    }

    /// Adds a member whose value is JSON as it prints: a number, `true` or `false`.
    pub fn value(&mut self, key: &str, value: impl Display) -> &mut Self {
        print(self.member(key), value);
        self
    }

    /// Adds a member with a number, or `null` where there is none.
    pub fn maybe(&mut self, key: &str, value: Option<u64>) -> &mut Self {
        match value {
            Some(value) => self.number(key, value),
            None => self.value(key, "null"),
        }
    }

    /// Adds a member with a number. Faster than [`Self::value`]: most of a graph is numbers.
    pub fn number(&mut self, key: &str, number: u64) -> &mut Self {
        digits(self.member(key), number);
        self
    }

    /// Adds a member with a list of numbers.
    pub fn numbers(&mut self, key: &str, numbers: impl IntoIterator<Item = u64>) -> &mut Self {
        list(self.member(key), numbers, digits);
        self
    }

    /// Adds a member with a list of strings.
    pub fn texts<'t>(&mut self, key: &str, texts: impl IntoIterator<Item = &'t str>) -> &mut Self {
        list(self.member(key), texts, string);
        self
    }

    /// Adds a member with a list of objects, each filled by `fill`.
    pub fn objects<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        fill: impl Fn(&mut JsonObject<'_>, T),
    ) -> &mut Self {
        list(self.member(key), items, |out, item| {
            let mut object = JsonObject::begin(out);
            fill(&mut object, item);
            object.end();
        });
        self
    }

    /// Appends a key, which needs no escaping.
    fn member(&mut self, key: &str) -> &mut String {
        self.out.push_str(if self.is_empty { "\"" } else { ",\"" });
        self.is_empty = false;
        self.out.push_str(key);
        self.out.push_str("\":");
        self.out
    }
}

fn print(out: &mut String, value: impl Display) {
    // Writing to memory cannot fail.
    let _ = write!(out, "{value}");
}

fn digits(out: &mut String, number: u64) {
    // The largest number has 20 digits.
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    let mut rest = number;
    while rest > 0 || first == digits.len() {
        first -= 1;
        digits[first] += u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
    }
    out.push_str(std::str::from_utf8(&digits[first..]).expect("digits are ASCII"));
}

fn list<T>(out: &mut String, items: impl IntoIterator<Item = T>, write: impl Fn(&mut String, T)) {
    out.push('[');
    for (position, item) in items.into_iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

/// Appends a string, escaping what JSON does not allow in one.
fn string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    let must_be_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    while let Some(place) = rest.bytes().position(must_be_escaped) {
        out.push_str(&rest[..place]);
        match rest.as_bytes()[place] {
            mark @ (b'"' | b'\\') => out.extend(['\\', char::from(mark)]),
            control => print(out, format_args!("\\u{control:04x}")),
        }
        rest = &rest[place + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(fill: impl Fn(&mut JsonObject<'_>)) -> String {
        let mut out = String::new();
        let mut object = JsonObject::begin(&mut out);
        fill(&mut object);
        object.end();
        out
    }

    #[test]
    fn members_are_separated() {
        assert_eq!(written(|_| ()), "{}");
        assert_eq!(
            written(|object| _ = object.value("a", 1).maybe("b", None).value("c", true)),
            r#"{"a":1,"b":null,"c":true}"#
        );
    }

    #[test]
    fn lists_are_separated() {
        assert_eq!(
            written(|object| _ = object.numbers("none", []).numbers("two", [1, 2])),
            r#"{"none":[],"two":[1,2]}"#
        );
        assert_eq!(written(|object| _ = object.texts("texts", ["a\"", "b"])), r#"{"texts":["a\"","b"]}"#);
        let objects = written(|object| _ = object.objects("list", [1, 2], |item, number| _ = item.number("n", number)));
        assert_eq!(objects, r#"{"list":[{"n":1},{"n":2}]}"#);
    }

    #[test]
    fn numbers_are_written_as_they_print() {
        for number in [0, 1, 9, 10, 99, 100, 1_234_567_890, u64::MAX - 1, u64::MAX] {
            assert_eq!(written(|object| _ = object.number("n", number)), format!("{{\"n\":{number}}}"));
        }
    }

    #[test]
    fn marks_and_control_characters_are_escaped() {
        let text = "a\"b\\c\nd\u{0}e\u{1f}é\u{7f}𝄞";
        assert_eq!(
            written(|object| _ = object.text("t", text)),
            "{\"t\":\"a\\\"b\\\\c\\u000ad\\u0000e\\u001fé\u{7f}𝄞\"}"
        );
        assert_eq!(written(|object| _ = object.text("t", "")), r#"{"t":""}"#);
    }
}
