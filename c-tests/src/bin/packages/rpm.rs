//! The recipe for RPM: made by cargo-generate-rpm, installed by rpm to a folder.

use std::path::PathBuf;
use std::process::Command;

use lastuse_c_tests::Result;
use lastuse_c_tests::packages::{output_of, packages_folder};

use crate::recipes::{Recipe, as_root};
use crate::release::LIBC;

/// What makes the packages, and its version.
const MAKER: [&str; 2] = ["cargo-generate-rpm", "0.21.0"];

const NAMES: [&str; 2] = ["lastuse", "lastuse-devel"];

/// Makes both packages, installs them to a folder and uses what is there.
///
/// # Errors
/// What does not hold, or the message of a build.
pub fn test() -> Result<()> {
    let recipe = Recipe::copied("rpm")?;
    let path = maker()?;
    eprintln!("[rpm] building, which takes minutes");
    let mut build = recipe.command(&["sh", "build.sh"]);
    build.arg(recipe.tarball().file_name().unwrap_or_default());
    build.env("PATH", format!("{}:{}", path.display(), std::env::var("PATH").unwrap_or_default()));
    output_of(build)?;
    let files = NAMES.map(|name| format!("{name}-{}-1.{}.rpm", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH));
    check_needs(&output_of(recipe.command(&["rpm", "--query", "--requires", "--package", &files[0]]))?)?;
    let mut list = recipe.command(&["rpm", "--query", "--list", "--verbose", "--package"]);
    list.args(&files);
    check_modes(&output_of(list)?)?;
    let root = recipe.folder.join("root");
    let mut install = recipe.command(&as_root(&["rpm", "--force-debian", "--nodeps", "--install"]));
    install.arg("--root").arg(&root).args(&files);
    output_of(install)?;
    let mut verify = recipe.command(&as_root(&["rpm", "--verify", "--nodeps"]));
    verify.arg("--root").arg(&root).args(NAMES);
    output_of(verify)?;
    println!("rpm: {} are installed, and rpm finds them unchanged", files.join(" and "));
    let usr = root.join("usr");
    recipe.check_files(&usr, "lastuse.1", place, &NAMES.map(licence).each_ref().map(String::as_str))?;
    recipe.check_installed(&usr, "lib64", "lib/lastuse/liblastuse.so")
}

fn licence(name: &str) -> String {
    format!("share/licenses/{name}/LICENSE")
}

/// The libraries that the tool preloads are its own, and others are where Fedora has them.
fn place(name: String) -> Option<String> {
    match name.strip_prefix("lib/") {
        Some("liblastuse.so") => Some("lib/lastuse/liblastuse.so".to_owned()),
        Some(rest) if !rest.starts_with("lastuse/") => Some(format!("lib64/{rest}")),
        _ => (!name.starts_with("share/doc/")).then_some(name),
    }
}

/// Returns the folder of the programs of cargo-generate-rpm, which is installed unless it is there.
fn maker() -> Result<PathBuf> {
    let root = packages_folder().join("tools").join(MAKER.join("-"));
    if !root.join("bin").join(MAKER[0]).is_file() {
        eprintln!("[rpm] building {}, which takes minutes", MAKER[0]);
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["install", "--quiet", "--locked", MAKER[0], "--version", MAKER[1], "--root"]).arg(&root);
        output_of(cargo)?;
    }
    Ok(root.join("bin"))
}

/// What a package needs besides the C library: what every program of Rust's does, and what rpm asks of itself and the loader.
const COMMON: [&str; 3] = ["libgcc_s.so.", "rpmlib(", "rtld("];

/// Checks that a package needs the C library alone, such as `libc.so.6(GLIBC_2.34)(64bit)`.
fn check_needs(requires: &str) -> Result<()> {
    let is_known = |need: &&str| LIBC.iter().chain(&COMMON).any(|name| need.starts_with(name));
    let all: Vec<&str> = requires.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let others: Vec<&str> = all.iter().copied().filter(|need| !is_known(need)).collect();
    if !all.iter().any(|need| need.starts_with("libc.so.")) || !others.is_empty() {
        return Err(format!("the package needs {all:?}"));
    }
    println!("rpm: the tool needs the C library and libgcc_s alone");
    Ok(())
}

/// Checks that all files are root's, and that others may read them and run the tool, as rpm lists them.
fn check_modes(list: &str) -> Result<()> {
    let is_right = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mode = if words.last() == Some(&"/usr/bin/lastuse") { "-rwxr-xr-x" } else { "-rw-r--r--" };
        words.first() == Some(&mode) && words.get(2..4) == Some(&["root", "root"])
    };
    match list.lines().find(|line| !is_right(line)) {
        Some(line) => Err(format!("a file has another mode: {line}")),
        None if list.is_empty() => Err("the packages have no files".to_owned()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_needs_the_c_library_alone() {
        assert_eq!(check_needs("libc.so.6()(64bit)\nlibc.so.6(GLIBC_2.34)(64bit)\nrpmlib(x) <= 4-1\n"), Ok(()));
        for wrong in ["", "rpmlib(x) <= 4-1\n", "libc.so.6()(64bit)\n/bin/sh\n"] {
            assert!(check_needs(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_the_tool_may_be_run() {
        let line = |mode: &str, name: &str| format!("{mode}    1 root     root         5 Jan  1 00:00 {name}\n");
        let right = line("-rwxr-xr-x", "/usr/bin/lastuse") + &line("-rw-r--r--", "/usr/lib/lastuse/liblastuse.so");
        assert_eq!(check_modes(&right), Ok(()));
        for wrong in
            [line("-rw-r--r--", "/usr/bin/lastuse"), line("-rw-rw-r--", "/usr/include/lastuse.h"), String::new()]
        {
            assert!(check_modes(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_are_where_fedora_has_them() {
        let places = [
            ("bin/lastuse", Some("bin/lastuse")),
            ("lib/liblastuse.a", Some("lib64/liblastuse.a")),
            ("lib/liblastuse.so", Some("lib/lastuse/liblastuse.so")),
            ("lib/lastuse/liblastuse_guard.so", Some("lib/lastuse/liblastuse_guard.so")),
            ("share/doc/lastuse/LICENSE", None),
        ];
        for (name, wanted) in places {
            assert_eq!(place(name.to_owned()).as_deref(), wanted);
        }
    }
}
