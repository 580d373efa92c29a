//! The version of lastuse and the prefix of its messages.

/// The version of lastuse.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The prefix of messages that name no function.
pub const SIGNATURE: &str = concat!("lastuse ", env!("CARGO_PKG_VERSION"), ": ");

#[cfg(test)]
mod tests {
    #[test]
    fn header_has_the_version_of_the_library() {
        let header = include_str!("../../include/lastuse.h");
        for (name, number) in [
            ("MAJOR", env!("CARGO_PKG_VERSION_MAJOR")),
            ("MINOR", env!("CARGO_PKG_VERSION_MINOR")),
            ("PATCH", env!("CARGO_PKG_VERSION_PATCH")),
        ] {
            let line = format!("#define LASTUSE_VERSION_{name} {number}\n");
            assert!(header.contains(&line), "cbindgen.toml lacks {line}");
        }
    }
}
