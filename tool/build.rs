//! Builds the shared libraries that release builds of the tool contain.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(embedded, embedded_guard, embedded_measure)");
    if std::env::var_os("CARGO_FEATURE_EMBED").is_some() && std::env::var("PROFILE").as_deref() == Ok("release") {
        embed();
    }
}

/// Builds the shared libraries that release builds of the tool contain, and passes their paths to rustc. Other
/// builds of the tool find them next to it. Cargo is run again for this: a package cannot depend on its own library
/// as a file.
fn embed() {
    println!("cargo:rerun-if-changed=../src");
    println!("cargo:rerun-if-changed=../Cargo.toml");
    println!("cargo:rerun-if-env-changed=LASTUSE_LIBRARIES");
    let folder = library("lastuse");
    println!("cargo:rustc-cfg=embedded");
    println!("cargo:rustc-env=LASTUSE_EMBEDDED={}", path(&folder.join("liblastuse.so")));
    // The published package does not contain the others.
    for (name, part) in [("guard", "GUARD"), ("measure", "MEASURE")] {
        println!("cargo:rerun-if-changed=../{name}/src");
        if Path::new("..").join(name).join("Cargo.toml").exists() {
            let folder = library(&format!("lastuse-{name}"));
            println!("cargo:rustc-cfg=embedded_{name}");
            let file = folder.join(format!("liblastuse_{name}.so"));
            println!("cargo:rustc-env=LASTUSE_EMBEDDED_{part}={}", path(&file));
        }
    }
}

/// Builds the library of a package. Returns the folder that it is in: below the target folder that
/// `LASTUSE_LIBRARIES` names, where tests share it, or below one of the tool alone.
fn library(package: &str) -> PathBuf {
    let mut command = Command::new(std::env::var_os("CARGO").expect("cargo sets CARGO"));
    command.args(["build", "--quiet", "--locked", "--offline", "--release", "--lib", "--package", package]);
    command.env_remove("CARGO_TARGET_DIR");
    let libraries = if let Some(shared) = std::env::var_os("LASTUSE_LIBRARIES") {
        command.arg("--target-dir").arg(&shared);
        PathBuf::from(shared)
    } else {
        let own = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("library");
        let target = std::env::var("TARGET").expect("cargo sets TARGET");
        command.args(["--target", &target, "--target-dir"]).arg(&own);
        own.join(target)
    };
    let status = command.status().expect("cargo runs");
    assert!(status.success(), "the library inside the tool does not build");
    libraries.join("release")
}

fn path(file: &Path) -> &str {
    file.to_str().expect("the build folder has a name in UTF-8")
}
