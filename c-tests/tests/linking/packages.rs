//! Programs that find an installed lastuse. `cargo packages` tests what takes longer.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::OnceLock;

use crate::support::{self, expect};
use lastuse_c_tests::packages::{Prefix, Tool, check_added_folder, check_example, check_orders, pkg_config_file};
use lastuse_vendor::Package;

fn prefix() -> &'static Prefix {
    static PREFIX: OnceLock<Prefix> = OnceLock::new();
    PREFIX.get_or_init(|| {
        support::release();
        expect(Prefix::install(false))
    })
}

#[test]
fn examples_of_each_tool_find_it() {
    let ggml = support::ggml(Package::LlamaCpp);
    for tool in [Tool::Cmake, Tool::Make, Tool::Meson] {
        expect(check_example(tool, prefix(), &ggml));
    }
}

#[test]
fn it_serves_in_every_order_of_libraries() {
    let ggml = support::ggml(Package::LlamaCpp);
    assert_eq!(check_orders(prefix(), &ggml), Ok(36));
}

#[test]
fn it_can_be_a_folder_of_a_project() {
    prefix();
    assert_eq!(check_added_folder(&support::ggml(Package::LlamaCpp)), Ok(12));
}

/// Nix, for one, gives absolute folders, and another for each kind of file.
#[test]
fn pkg_config_file_has_the_folders_of_the_installation() {
    let lines = |settings: &[&str], names: &[&str]| -> Vec<String> {
        let text = expect(pkg_config_file(settings));
        let is_wanted = |line: &&str| names.iter().any(|name| line.starts_with(name));
        text.lines().filter(is_wanted).map(str::to_owned).collect()
    };
    let folders = ["prefix=", "libdir=", "includedir="];
    let relative = lines(&["CMAKE_INSTALL_LIBDIR=lib/x"], &folders);
    assert_eq!(relative, ["prefix=${pcfiledir}/../../../", "libdir=${prefix}/lib/x", "includedir=${prefix}/include"]);
    let absolute = ["CMAKE_INSTALL_LIBDIR=/a/lib", "CMAKE_INSTALL_INCLUDEDIR=/b/include", "CMAKE_INSTALL_PREFIX=/c"];
    assert_eq!(lines(&absolute, &folders), ["prefix=/c", "libdir=/a/lib", "includedir=/b/include"]);
    let mixed = lines(&absolute[..1], &folders[1..]);
    assert_eq!(mixed, ["libdir=/a/lib", "includedir=${prefix}/include"]);
    let is_static = lines(&["LASTUSE_SHARED=OFF"], &["Libs:"]);
    assert_eq!(is_static, ["Libs: -L${libdir} -Wl,-u,ggml_gallocr_new_n -llastuse -ldl -lm -lpthread"]);
}

/// Libraries of C that it is linked into would export Rust's own symbols otherwise.
#[test]
fn installed_static_library_shows_the_exports_alone() {
    let archive = prefix().path().join("lib/liblastuse.a");
    let output = Command::new("nm").args(["-g", "--defined-only"]).arg(&archive).output().expect("nm");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let visible: BTreeSet<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(visible, include_str!("../../exports.txt").lines().collect());
}
