//! The text of a drop-in, which tells whether a person has changed it.

use flate2::Crc;

/// The name of its file: drop-ins are read in the order of their names, and a later one wins.
pub const NAME: &str = "50-lastuse.conf";

/// Returns a drop-in that adds variables to the environment of a service.
pub fn text(unit: &str, variables: &[(&str, String)]) -> String {
    let lines = variables.iter().map(|(name, value)| format!("Environment={}\n", quoted(&format!("{name}={value}"))));
    let body = format!("[Service]\n{}", lines.collect::<String>());
    format!("{}\n{body}", first_line(unit, &body))
}

/// Returns whether a drop-in is as it was written.
pub fn is_unchanged(unit: &str, text: &str) -> bool {
    text.split_once('\n').is_some_and(|(first, body)| first == first_line(unit, body))
}

/// The comment that a drop-in begins with, and a checksum of what follows.
fn first_line(unit: &str, body: &str) -> String {
    let mut sum = Crc::new();
    sum.update(body.as_bytes());
    format!(
        "# Written by \"lastuse enable\". \"lastuse disable {unit}\" removes it while it is unchanged ({:08x}).",
        sum.sum()
    )
}

/// Writes a value between quotes, so that systemd reads it as it is: backslashes and quotes are escaped, "%" would begin a
/// specifier, and a line ends the assignment.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '%' => quoted += "%%",
            '\n' => quoted += "\\n",
            '\t' => quoted += "\\t",
            control if control.is_ascii_control() => quoted += &format!("\\x{:02x}", u32::from(control)),
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_for_systemd() {
        assert_eq!(quoted("A=a b"), "\"A=a b\"");
        assert_eq!(quoted("A=50% \"of\" a\\b $HOME"), "\"A=50%% \\\"of\\\" a\\\\b $HOME\"");
        assert_eq!(quoted("A=1\n2\t\x07"), "\"A=1\\n2\\t\\x07\"");
    }

    #[test]
    fn any_change_by_hand_is_seen() {
        let written = text("ollama.service", &[("LASTUSE_ARENA", "shared".to_owned())]);
        assert!(written.ends_with("\n[Service]\nEnvironment=\"LASTUSE_ARENA=shared\"\n"), "{written}");
        assert!(is_unchanged("ollama.service", &written));
        assert!(!is_unchanged("other.service", &written));
        let others =
            [written.replace("shared", "off"), format!("{written}\n"), written.replacen('#', ";", 1), String::new()];
        assert!(others.iter().all(|other| !is_unchanged("ollama.service", other)));
    }
}
