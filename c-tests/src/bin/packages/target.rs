//! Systems that archives are made for.

use std::fs;
use std::path::Path;
use std::process::Command;

use lastuse_c_tests::Result;
use lastuse_c_tests::debian::{Has, Needed};
use lastuse_c_tests::packages::output_of;

use crate::files::parent;

/// A system, and the programs that build for it and run its programs where this machine is another one.
#[derive(Debug)]
pub struct Target {
    /// Its name in Rust.
    pub triple: &'static str,
    /// Its processor, as CMake and readelf name it.
    pub machine: &'static str,
    /// Debian's name of its processor.
    pub debian: &'static str,
    /// What the names of its compilers and of the GNU binutils begin with.
    prefix: &'static str,
    /// Runs its programs, with the options for the folder of its libraries.
    emulator: [&'static str; 3],
    needed: &'static [Needed],
}

const TARGETS: [Target; 2] = [
    Target {
        triple: "x86_64-unknown-linux-gnu",
        machine: "x86_64",
        debian: "amd64",
        prefix: "x86_64-linux-gnu-",
        emulator: ["qemu-x86_64", "-L", "/usr/x86_64-linux-gnu"],
        needed: &[
            Needed { package: "g++-x86-64-linux-gnu", has: Has::Program("x86_64-linux-gnu-g++") },
            Needed { package: "qemu-user", has: Has::Program("qemu-x86_64") },
        ],
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        machine: "aarch64",
        debian: "arm64",
        prefix: "aarch64-linux-gnu-",
        emulator: ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
        needed: &[
            Needed { package: "g++-aarch64-linux-gnu", has: Has::Program("aarch64-linux-gnu-g++") },
            Needed { package: "qemu-user", has: Has::Program("qemu-aarch64") },
        ],
    },
];

impl Target {
    /// The system of this name, or that of this machine if the name is empty.
    ///
    /// # Errors
    /// There is none of this name, or its compiler or emulator is missing.
    pub fn of(triple: &str) -> Result<&'static Self> {
        let is_wanted = |target: &&Self| if triple.is_empty() { target.is_native() } else { target.triple == triple };
        let names = TARGETS.each_ref().map(|target| target.triple).join(", ");
        let found = TARGETS.iter().find(is_wanted).ok_or_else(|| format!("{triple:?}: archives are for {names}"))?;
        if !found.is_native() {
            lastuse_c_tests::debian::check(found.triple, found.needed)?;
        }
        Ok(found)
    }

    /// This machine runs its programs.
    pub fn is_native(&self) -> bool {
        self.machine == std::env::consts::ARCH
    }

    /// The name of a program of the compiler or of the GNU binutils, such as `strip`.
    pub fn tool(&self, name: &str) -> String {
        if self.is_native() { name.to_owned() } else { format!("{}{name}", self.prefix) }
    }

    /// Copies a program or library of the system to a file, without symbols.
    ///
    /// # Errors
    /// The message of strip, or the error of the system.
    pub fn strip(&self, file: &Path, to: &Path) -> Result<()> {
        fs::create_dir_all(parent(to)).map_err(|error| format!("{}: {error}", to.display()))?;
        let mut command = Command::new(self.tool("strip"));
        command.arg("--strip-unneeded").arg("-o").arg(to).arg(file);
        output_of(command).map(|_| ())
    }

    /// The words that run a program of the system, without its arguments. `preload` is a library to preload, by the dynamic
    /// linker of the system.
    pub fn run(&self, program: &Path, preload: Option<&Path>) -> Vec<String> {
        let program = program.display().to_string();
        let preload = preload.map(|library| format!("LD_PRELOAD={}", library.display()));
        let set = if self.is_native() { "env" } else { "-E" };
        let emulator: &[&str] = if self.is_native() { &[] } else { &self.emulator };
        let words = emulator.iter().map(|&word| word.to_owned());
        let preload = preload.into_iter().flat_map(|value| [set.to_owned(), value]);
        words.chain(preload).chain([program]).collect()
    }

    /// Settings of CMake that build for the system.
    pub fn settings(&self) -> Vec<String> {
        if self.is_native() {
            return Vec::new();
        }
        vec![
            "CMAKE_SYSTEM_NAME=Linux".to_owned(),
            format!("CMAKE_SYSTEM_PROCESSOR={}", self.machine),
            format!("CMAKE_C_COMPILER={}", self.tool("gcc")),
            format!("CMAKE_CXX_COMPILER={}", self.tool("g++")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_other_systems_are_run_by_an_emulator() {
        let [native, other] = [true, false].map(|is_native| {
            TARGETS.iter().find(|target| target.is_native() == is_native).expect("archives are for this machine")
        });
        let (program, library) = (Path::new("/p"), Some(Path::new("/l.so")));
        assert_eq!(native.run(program, library), ["env", "LD_PRELOAD=/l.so", "/p"]);
        assert_eq!(native.run(program, None), ["/p"]);
        let words = other.run(program, library);
        assert!(
            words[0].starts_with("qemu-")
                && words.ends_with(&["-E".to_owned(), "LD_PRELOAD=/l.so".to_owned(), "/p".to_owned()]),
            "{words:?}"
        );
        assert!(other.tool("strip").ends_with("-gnu-strip") && native.tool("strip") == "strip");
    }

    #[test]
    fn unknown_systems_are_refused() {
        assert!(
            Target::of("sparc").is_err_and(|message| message.contains("archives are for x86_64-unknown-linux-gnu"))
        );
        assert!(Target::of("").is_ok_and(Target::is_native));
    }
}
