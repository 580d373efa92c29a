//! Output files whose names select the format.

use std::ffi::OsStr;
use std::path::Path;

/// Returns the format of a file by the ending of its name, in any case.
///
/// # Errors
/// Its name has none of the endings; the message lists them.
pub fn by_ending<T: Copy>(file: &Path, endings: &[(&str, T)]) -> Result<T, String> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let found = endings.iter().find(|(ending, _)| name.ends_with(ending));
    found.map(|&(_, kind)| kind).ok_or_else(|| {
        let known: Vec<&str> = endings.iter().map(|&(ending, _)| ending).collect();
        match known.as_slice() {
            [only] => format!("{:?} does not end in {only}: rename the output", file.display()),
            [one, other] => format!("{:?} ends neither in {one} nor in {other}: rename the output", file.display()),
            _ => format!("{:?} ends in none of {}: rename the output", file.display(), known.join(", ")),
        }
    })
}

/// Returns whether a name is that of the standard output ("-"), or of a device or a pipe, whose names say nothing.
pub fn is_stream(file: &Path) -> bool {
    file.as_os_str() == OsStr::new("-") || file.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_choose_in_any_case() {
        let endings = [(".jsonl", 1), (".jsonl.gz", 2), (".csv", 3)];
        let chosen = ["a.jsonl", "graphs/B.JSONL.GZ", "c.d.csv"].map(|name| by_ending(Path::new(name), &endings));
        assert_eq!(chosen, [Ok(1), Ok(2), Ok(3)]);
    }

    #[test]
    fn other_endings_are_refused_with_the_list() {
        let refused = |endings: &[(&str, ())]| by_ending(Path::new("x.png"), endings).expect_err("unknown");
        assert_eq!(refused(&[(".csv", ())]), "\"x.png\" does not end in .csv: rename the output");
        let two = refused(&[(".json", ()), (".txt", ())]);
        assert_eq!(two, "\"x.png\" ends neither in .json nor in .txt: rename the output");
        let three = refused(&[(".a", ()), (".b", ()), (".c", ())]);
        assert_eq!(three, "\"x.png\" ends in none of .a, .b, .c: rename the output");
        assert!(by_ending(Path::new("csv"), &[(".csv", ())]).is_err());
    }

    #[test]
    fn devices_have_no_endings() {
        assert!(is_stream(Path::new("-")) && is_stream(Path::new("/dev/null")));
        assert!(!is_stream(Path::new("/")) && !is_stream(Path::new("no such file")));
    }
}
