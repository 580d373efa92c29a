//! `cargo hosts`: programs that use ggml, built by their own build files, and what lastuse promises about them.

mod cmake;
mod packages;
mod vulkan;

use std::process::ExitCode;

use lastuse_c_tests::Result;

const HELP: &str = "\
Builds a program that uses ggml by its own build files, and runs the tests that need it with lastuse in its place.
These builds take minutes, so they are no part of cargo test. They are kept in target/hosts.

Usage: cargo hosts [HOST] [--build]

  (nothing)   list the hosts
  HOST        build this host, unless nothing has changed, and run its tests
  --build     build it only

Nothing is installed: a message names the Debian packages that are missing. docs/hosts.md says what is measured.
Exit codes: 0 all is as promised, 1 something is not or failed, 2 wrong usage.";

/// A program that is built and tested.
struct Host {
    name: &'static str,
    about: &'static str,
    build: fn() -> Result<()>,
    test: fn() -> Result<()>,
}

const HOSTS: &[Host] = &[Host {
    name: "vulkan",
    about: "llama.cpp on ggml's Vulkan backend, on a device of the CPU: what lastuse place promises, to the byte",
    build: vulkan::build,
    test: vulkan::test,
}];

enum Wanted {
    Help,
    List,
    Run { host: &'static Host, is_build_only: bool },
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match parse(&arguments) {
        Ok(Wanted::Help) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Ok(Wanted::List) => {
            HOSTS.iter().for_each(|host| println!("{:10}  {}", host.name, host.about));
            return ExitCode::SUCCESS;
        }
        Ok(Wanted::Run { host, is_build_only: true }) => (host.build)(),
        Ok(Wanted::Run { host, is_build_only: false }) => (host.build)().and_then(|()| (host.test)()),
        Err(message) => {
            eprintln!("hosts: {message}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("hosts: {message}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Wanted> {
    let (mut host, mut is_build_only) = (None, false);
    for argument in arguments {
        match argument.as_str() {
            "--help" | "-h" | "help" => return Ok(Wanted::Help),
            "--build" => is_build_only = true,
            name => {
                let found = HOSTS.iter().find(|host| host.name == name);
                let names: Vec<&str> = HOSTS.iter().map(|host| host.name).collect();
                let found = found.ok_or_else(|| format!("{name:?} is no host: there is {}", names.join(", ")))?;
                if host.replace(found).is_some() {
                    return Err("give one host at a time".to_owned());
                }
            }
        }
    }
    match host {
        Some(host) => Ok(Wanted::Run { host, is_build_only }),
        None if is_build_only => Err("--build needs a host".to_owned()),
        None => Ok(Wanted::List),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Wanted> {
        parse(&arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn hosts_are_named_and_unknown_ones_refused() {
        assert!(matches!(parsed(&[]), Ok(Wanted::List)));
        assert!(matches!(parsed(&["vulkan", "--help"]), Ok(Wanted::Help)));
        let run = parsed(&["vulkan"]);
        assert!(matches!(run, Ok(Wanted::Run { host: Host { name: "vulkan", .. }, is_build_only: false })));
        assert!(matches!(parsed(&["--build", "vulkan"]), Ok(Wanted::Run { is_build_only: true, .. })));
        assert!(parsed(&["metal"]).is_err_and(|why| why == "\"metal\" is no host: there is vulkan"));
        assert!(parsed(&["vulkan", "vulkan"]).is_err_and(|why| why.contains("one host")));
        assert!(parsed(&["--build"]).is_err_and(|why| why.contains("needs a host")));
    }
}
