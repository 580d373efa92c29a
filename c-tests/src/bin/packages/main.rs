//! `cargo packages`: ways to get lastuse, each tested against what is installed.

mod archive;
mod aur;
mod cargo_c;
mod conan;
mod deb;
mod debian;
mod debian_root;
mod files;
mod here;
mod inject;
mod licences;
mod macos;
mod nix;
mod node;
mod npm;
mod pack;
mod python;
mod recipes;
mod release;
mod rpm;
mod systems;
mod target;
mod wheel;
mod windows;
mod zig;

use std::process::ExitCode;

use lastuse_c_tests::Result;
use lastuse_c_tests::debian::{Has, Needed, check};
use lastuse_c_tests::packages::{Prefix, Tool, check_added_folder, check_example, check_orders};
use lastuse_vendor::{Package, ggml};

const HELP: &str = "\
Makes what is released or installed, and tests it by programs and projects that know nothing of this repository.
These tests build other projects, so most are not part of cargo test. All is kept in target/packages.

Usage: cargo packages [WAY] [--only WORD | --target TRIPLE]

  (nothing)        list the ways
  WAY              make what this way installs, and test it
  --only WORD      of inject: only projects with this word in their names, which end in -top or in -part and the kind of
                   libraries: ggml, unknown (a ggml of an unknown layout), llama, whisper, stable-diffusion; of wheel: only packages with
                   this word in their names: pywhispercpp, xllamacpp, and llama-cpp-python, which is tested if its whole
                   name is given, since it takes some 20 minutes to compile
  --target TRIPLE  of archive, deb, npm: x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu; this machine's by default

Nothing is installed outside of that folder: a message names the Debian packages that are missing. docs/packages.md has the
ways.
Exit codes: 0 all checks pass, 1 a check or a step failed, 2 wrong usage.";

/// A way to use lastuse.
struct Way {
    name: &'static str,
    about: &'static str,
    needed: &'static [Needed],
    /// The option that it takes, whose value its test gets.
    option: Option<&'static str>,
    test: fn(value: &str) -> Result<()>,
}

const CMAKE: Needed = Needed { package: "cmake", has: Has::Program("cmake") };
const PKG_CONFIG: Needed = Needed { package: "pkg-config", has: Has::Program("pkg-config") };
const MAKE: Needed = Needed { package: "make", has: Has::Program("make") };
const MESON: Needed = Needed { package: "meson", has: Has::Program("meson") };
const PYTHON: Needed = Needed { package: "python3-venv", has: Has::Program("python3") };
const LINTIAN: Needed = Needed { package: "lintian", has: Has::Program("lintian") };
const NODE: Needed = Needed { package: "nodejs", has: Has::Program("node") };
const NPM: Needed = Needed { package: "npm", has: Has::Program("npm") };
const MAKEPKG: Needed = Needed { package: "makepkg", has: Has::Program("makepkg") };
const PACMAN: Needed = Needed { package: "pacman-package-manager", has: Has::Program("pacman") };
const RPM: Needed = Needed { package: "rpm", has: Has::Program("rpm") };
const NIX: Needed = Needed { package: "nix-bin", has: Has::Program("nix-instantiate") };
const MINGW: Needed =
    Needed { package: "g++-mingw-w64-x86-64-posix", has: Has::Program("x86_64-w64-mingw32-g++-posix") };
const WINE: Needed = Needed { package: "wine64", has: Has::File(&[windows::WINE]) };
const XZ: Needed = Needed { package: "xz-utils", has: Has::Program("xz") };

const WAYS: &[Way] = &[
    Way {
        name: "inject",
        about: "ggml, llama.cpp, whisper.cpp and stable-diffusion.cpp with lastuse put into the ggml that they build",
        needed: &[CMAKE],
        option: Some("--only"),
        test: |only| inject::test(&installed("inject", true)?, only),
    },
    Way {
        name: "cmake",
        about: "find_package and add_subdirectory, in every order of the libraries of a program",
        needed: &[CMAKE],
        option: None,
        test: |_| test_cmake(&installed("cmake", false)?),
    },
    Way {
        name: "pkg-config",
        about: "the examples of Make and Meson",
        needed: &[CMAKE, PKG_CONFIG, MAKE, MESON],
        option: None,
        test: |_| test_pkg_config(&installed("pkg-config", false)?),
    },
    Way {
        name: "archive",
        about: "the archive of a release, which needs glibc 2.17 alone",
        needed: &[CMAKE, PKG_CONFIG, MAKE, PYTHON, XZ],
        option: Some("--target"),
        test: archive::test,
    },
    Way {
        name: "deb",
        about: "two Debian packages: the tool with its libraries, and what programs are built with",
        needed: &[CMAKE, PKG_CONFIG, MAKE, PYTHON, LINTIAN],
        option: Some("--target"),
        test: deb::test,
    },
    Way {
        name: "npm",
        about: "the package for Node, with node-llama-cpp and others on ggml",
        needed: &[PYTHON, NODE, NPM],
        option: Some("--target"),
        test: npm::test,
    },
    Way {
        name: "debian",
        about: "llama.cpp as the unstable Debian packages it, in a chroot, with lastuse preloaded",
        needed: &[],
        option: None,
        test: |_| debian::test(),
    },
    Way {
        name: "cargo-c",
        about: "what cargo cinstall installs: a shared library with a version, pkg-config, and programs on it",
        needed: &[PKG_CONFIG, MAKE, MESON],
        option: None,
        test: |_| cargo_c::test(),
    },
    Way {
        name: "aarch64",
        about: "programs for 64-bit Arm, preloaded and linked statically, by qemu",
        needed: &[CMAKE],
        option: None,
        test: |_| systems::test_aarch64(),
    },
    Way {
        name: "musl",
        about: "a program and the tool on musl, without shared libraries",
        needed: &[CMAKE, PYTHON],
        option: None,
        test: |_| systems::test_musl(),
    },
    Way {
        name: "wheel",
        about: "a wheel for Python, with packages on ggml that import it first",
        needed: &[PYTHON],
        option: Some("--only"),
        test: wheel::test,
    },
    Way {
        name: "windows",
        about: "lastuse linked into programs for Windows, and inside a ggml-base.dll, run by Wine",
        needed: &[MINGW, WINE],
        option: None,
        test: |_| windows::test(),
    },
    Way {
        name: "macos",
        about: "the libraries for macOS, built by zig; nothing of it runs here",
        needed: &[PYTHON],
        option: None,
        test: |_| macos::test(),
    },
    Way {
        name: "aur",
        about: "the recipe for Arch Linux, by makepkg and pacman",
        needed: &[CMAKE, PKG_CONFIG, MAKE, MAKEPKG, PACMAN],
        option: None,
        test: |_| aur::test(),
    },
    Way {
        name: "rpm",
        about: "the recipe for RPM, by cargo-generate-rpm and rpm",
        needed: &[CMAKE, PKG_CONFIG, MAKE, RPM],
        option: None,
        test: |_| rpm::test(),
    },
    Way {
        name: "conan",
        about: "the recipe for Conan, by conan create, with programs in every order of their libraries",
        needed: &[CMAKE, PYTHON],
        option: None,
        test: |_| conan::test(),
    },
    Way {
        name: "nix",
        about: "the overlay for Nix, parsed and evaluated",
        needed: &[CMAKE, NIX],
        option: None,
        test: |_| nix::test(),
    },
];

fn installed(way: &str, with_inject: bool) -> Result<Prefix> {
    eprintln!("[{way}] installing lastuse");
    let prefix = Prefix::install(with_inject)?;
    eprintln!("[{way}] lastuse is in {}", prefix.path().display());
    Ok(prefix)
}

fn test_cmake(prefix: &Prefix) -> Result<()> {
    let ggml = ggml(Package::LlamaCpp)?;
    print!("cmake: the example\n{}", check_example(Tool::Cmake, prefix, &ggml)?);
    println!("cmake: {} programs with find_package, all served", check_orders(prefix, &ggml)?);
    println!("cmake: {} programs with add_subdirectory, all served", check_added_folder(&ggml)?);
    Ok(())
}

fn test_pkg_config(prefix: &Prefix) -> Result<()> {
    let ggml = ggml(Package::LlamaCpp)?;
    for tool in [Tool::Make, Tool::Meson] {
        print!("pkg-config: the example of {tool:?}\n{}", check_example(tool, prefix, &ggml)?);
    }
    Ok(())
}

enum Wanted {
    Help,
    List,
    Run { way: &'static Way, value: String },
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match parse(&arguments) {
        Ok(Wanted::Help) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Ok(Wanted::List) => {
            WAYS.iter().for_each(|way| println!("{:12}  {}", way.name, way.about));
            return ExitCode::SUCCESS;
        }
        Ok(Wanted::Run { way, value }) => check(way.name, way.needed).and_then(|()| (way.test)(&value)),
        Err(message) => {
            eprintln!("packages: {message}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("packages: {message}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Wanted> {
    let (mut way, mut option) = (None, None);
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument {
            "--help" | "-h" | "help" => return Ok(Wanted::Help),
            "--only" | "--target" => {
                let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
                option = Some((argument, value.to_owned()));
            }
            name => {
                let names: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
                let found = WAYS.iter().find(|way| way.name == name);
                let found = found.ok_or_else(|| format!("{name:?} is not a way: there is {}", names.join(", ")))?;
                if way.replace(found).is_some() {
                    return Err("give one way at a time".to_owned());
                }
            }
        }
    }
    match (way, option) {
        (Some(way), Some((name, _))) if way.option != Some(name) => Err(format!("{} does not have {name}", way.name)),
        (Some(way), option) => Ok(Wanted::Run { way, value: option.map(|(_, value)| value).unwrap_or_default() }),
        (None, Some((name, _))) => Err(format!("{name} needs a way")),
        (None, None) => Ok(Wanted::List),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Wanted> {
        parse(&arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn ways_are_named_and_unknown_ones_refused() {
        assert!(matches!(parsed(&[]), Ok(Wanted::List)));
        assert!(matches!(parsed(&["inject", "--help"]), Ok(Wanted::Help)));
        assert!(matches!(parsed(&["cmake"]), Ok(Wanted::Run { way: Way { name: "cmake", .. }, .. })));
        assert!(matches!(parsed(&["--only", "llama", "inject"]), Ok(Wanted::Run { value, .. }) if value == "llama"));
        for (arguments, why) in [
            (["snap"].as_slice(), "\"snap\" is not a way: there is inject, cmake, "),
            (&["cmake", "inject"], "one way"),
            (&["cmake", "--only", "llama"], "does not have --only"),
            (&["archive", "--only", "llama"], "does not have --only"),
            (&["--only", "llama"], "needs a way"),
            (&["inject", "--only"], "needs a value"),
        ] {
            assert!(parsed(arguments).is_err_and(|message| message.contains(why)), "{arguments:?}");
        }
    }
}
