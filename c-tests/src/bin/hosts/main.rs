//! `cargo hosts`: programs that use ggml, built by their own build files, and what lastuse promises about them.

mod changed;
mod compare;
mod counted;
mod cuda;
mod devices;
mod faults;
mod instrumentation;
mod job;
mod jobs;
mod llama;
mod measured;
mod programs;
mod report;
mod rpc;
mod run;
mod speed;
mod stable_diffusion;
mod vulkan;
mod whisper;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lastuse_c_tests::Result;
use lastuse_vendor::{FolderLock, target_folder};

use crate::jobs::Options;

const HELP: &str = "\
Builds a program that uses ggml by its own build files, and runs the tests that need it with lastuse in its place.
These builds take minutes, so they are not part of cargo test. They are kept in target/hosts.

Usage: cargo hosts [HOST] [--build | --faults | --measured] [--rounds N] [--only WORDS]
       cargo hosts cuda --device-script

  (nothing)      list the hosts
  HOST           build this host, unless nothing has changed, and run its tests
  --build        build it only
  --faults       refuse each compute buffer instead, in a separate run, and later ones that are not smaller: the
                 program must go on, or end with its error; not of vulkan, cuda
  --measured     measure each job by a dry run instead, and run it once: each device must hold what \"lastuse measure\" says,
                 in all classes; not of vulkan, cuda
  --rounds N     run each job N times, on both allocators side by side (default 5); not of rpc, vulkan, cuda
  --only WORDS   run only the jobs with all of these words in their labels, and write no report; not of
                 rpc without --faults or --measured, vulkan, cuda
  --device-script
                 of cuda: write a folder instead, to be copied to a machine with a card, CUDA's compiler and CMake, but
                 without Rust and without a network; the script \"run\" in it builds llama.cpp there and runs all checks
  --prepared FOLDER
                 of cuda: what that script calls when llama.cpp is built

Nothing is installed: a message names the Debian packages that are missing. docs/internals/hosts.md says what is measured.
Exit codes: 0 all checks pass, 1 a check or a step failed, 2 wrong usage.";

/// The options of a host besides `--build`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// All.
    All,
    /// `--faults` and `--measured`, and then `--only`.
    OtherRuns,
    Nothing,
}

impl Takes {
    fn all_of(self, options: &Options) -> bool {
        match self {
            Self::All => true,
            Self::OtherRuns => {
                options.rounds == Options::default().rounds
                    && (options.faults || options.measured || options.only.is_empty())
            }
            Self::Nothing => *options == Options::default(),
        }
    }
}

/// A program that is built and tested.
struct Host {
    name: &'static str,
    about: &'static str,
    takes: Takes,
    build: fn() -> Result<()>,
    test: fn(&Options) -> Result<()>,
    elsewhere: Option<Elsewhere>,
}

/// What a host does on another machine.
struct Elsewhere {
    /// Writes the folder that is copied there.
    write: fn() -> Result<()>,
    /// Tests what is built in it.
    test: fn(&Path) -> Result<()>,
}

const HOSTS: &[Host] = &[
    Host {
        name: "llama",
        about: "llama.cpp, models of many architectures: results, compute buffers, speed",
        takes: Takes::All,
        build: || llama::LLAMA.build(),
        test: |options| llama::LLAMA.test(options),
        elsewhere: None,
    },
    Host {
        name: "llama-4",
        about: "a later llama.cpp, with another ggml",
        takes: Takes::All,
        build: || llama::LLAMA_4.build(),
        test: |options| llama::LLAMA_4.test(options),
        elsewhere: None,
    },
    Host {
        name: "llama-older",
        about: "an older llama.cpp, with another ggml",
        takes: Takes::All,
        build: || llama::LLAMA_OLDER.build(),
        test: |options| llama::LLAMA_OLDER.test(options),
        elsewhere: None,
    },
    Host {
        name: "rpc",
        about: "llama.cpp on two servers of ggml's RPC backend: results, buffers, round trips, a server that goes away",
        takes: Takes::OtherRuns,
        build: rpc::build,
        test: rpc::test,
        elsewhere: None,
    },
    Host {
        name: "whisper",
        about: "whisper.cpp: results, compute buffers, speed",
        takes: Takes::All,
        build: whisper::build,
        test: whisper::test,
        elsewhere: None,
    },
    Host {
        name: "stable-diffusion",
        about: "stable-diffusion.cpp, an upscaler, a UNet and two autoencoders: images, compute buffers, speed",
        takes: Takes::All,
        build: stable_diffusion::build,
        test: stable_diffusion::test,
        elsewhere: None,
    },
    Host {
        name: "vulkan",
        about: "llama.cpp on ggml's Vulkan backend, on a device of the CPU: bits, bytes, and what lastuse offload promises",
        takes: Takes::Nothing,
        build: vulkan::build,
        test: |_| vulkan::test(),
        elsewhere: None,
    },
    Host {
        name: "cuda",
        about: "llama.cpp on ggml's CUDA backend, where there is a device: bits and bytes, with the rule cuda:rows",
        takes: Takes::Nothing,
        build: cuda::build,
        test: |_| cuda::test(),
        elsewhere: Some(Elsewhere { write: cuda::write_device_script, test: cuda::test_prepared }),
    },
];

enum Wanted {
    Help,
    List,
    Run { host: &'static Host, is_build_only: bool, options: Options },
    WriteScript(&'static Elsewhere),
    Prepared { host: &'static Elsewhere, folder: PathBuf },
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match parse(&arguments) {
        Ok(Wanted::Help) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Ok(Wanted::List) => {
            HOSTS.iter().for_each(|host| println!("{:16}  {}", host.name, host.about));
            return ExitCode::SUCCESS;
        }
        Ok(Wanted::Run { host, is_build_only, options }) => run(host, is_build_only, &options),
        Ok(Wanted::WriteScript(host)) => (host.write)(),
        Ok(Wanted::Prepared { host, folder }) => (host.test)(&folder),
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

fn run(host: &Host, is_build_only: bool, options: &Options) -> Result<()> {
    let folder = target_folder().join("hosts").join(host.name);
    // Another process that builds or runs the host would change its programs and models.
    let _lock = FolderLock::wait(&folder)?;
    (host.build)()?;
    if is_build_only { Ok(()) } else { (host.test)(options) }
}

fn parse(arguments: &[String]) -> Result<Wanted> {
    let (mut host, mut is_build_only, mut options) = (None, false, Options::default());
    let (mut is_script, mut prepared) = (false, None);
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument {
            "--help" | "-h" | "help" => return Ok(Wanted::Help),
            "--build" => is_build_only = true,
            "--faults" => options.faults = true,
            "--measured" => options.measured = true,
            "--device-script" => is_script = true,
            "--prepared" => prepared = Some(PathBuf::from(arguments.next().ok_or("--prepared needs a folder")?)),
            "--rounds" => options.rounds = rounds(arguments.next())?,
            "--only" => {
                let words = arguments.next().ok_or("--only needs words")?;
                options.only = words.split_whitespace().map(str::to_owned).collect();
            }
            name => {
                let found = HOSTS.iter().find(|host| host.name == name);
                let names: Vec<&str> = HOSTS.iter().map(|host| host.name).collect();
                let found = found.ok_or_else(|| format!("{name:?} is not a host: there is {}", names.join(", ")))?;
                if host.replace(found).is_some() {
                    return Err("give one host at a time".to_owned());
                }
            }
        }
    }
    if is_script || prepared.is_some() {
        let is_alone = !is_build_only && options == Options::default() && !(is_script && prepared.is_some());
        let host = host.and_then(|host: &Host| host.elsewhere.as_ref()).filter(|_| is_alone);
        let host = host.ok_or("--device-script and --prepared are of cuda, without other options")?;
        return Ok(prepared.map_or(Wanted::WriteScript(host), |folder| Wanted::Prepared { host, folder }));
    }
    match host {
        Some(host) if !host.takes.all_of(&options) => Err(format!("{} does not have all of these options", host.name)),
        Some(host) => Ok(Wanted::Run { host, is_build_only, options }),
        None if is_build_only || options != Options::default() => Err("options need a host".to_owned()),
        None => Ok(Wanted::List),
    }
}

fn rounds(value: Option<&str>) -> Result<usize> {
    let number = value.and_then(|value| value.parse().ok()).filter(|&number| number > 0);
    number.ok_or_else(|| "--rounds needs a number above 0".to_owned())
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
        assert!(matches!(run, Ok(Wanted::Run { host: Host { name: "vulkan", .. }, is_build_only: false, .. })));
        assert!(matches!(parsed(&["--build", "vulkan"]), Ok(Wanted::Run { is_build_only: true, .. })));
        assert!(
            parsed(&["metal"]).is_err_and(|why| why.starts_with("\"metal\" is not a host: there is llama, llama-4, "))
        );
        assert!(parsed(&["vulkan", "vulkan"]).is_err_and(|why| why.contains("one host")));
        assert!(parsed(&["--build"]).is_err_and(|why| why.contains("need a host")));
        let options =
            Options { rounds: 3, only: vec!["llama".to_owned(), "flash".to_owned()], faults: false, measured: false };
        let run = parsed(&["llama", "--rounds", "3", "--only", "llama flash"]);
        assert!(matches!(run, Ok(Wanted::Run { options: found, .. }) if found == options));
        let run = parsed(&["llama", "--faults"]);
        assert!(matches!(run, Ok(Wanted::Run { options: Options { faults: true, .. }, .. })));
        assert!(matches!(parsed(&["rpc", "--faults", "--only", "llama"]), Ok(Wanted::Run { .. })));
        for refused in [["vulkan", "--faults"].as_slice(), &["rpc", "--rounds", "3"], &["rpc", "--only", "llama"]] {
            assert!(parsed(refused).is_err_and(|why| why.contains("does not have all of these options")));
        }
        assert!(parsed(&["llama", "--rounds", "0"]).is_err_and(|why| why.contains("above 0")));
    }

    #[test]
    fn only_cuda_runs_elsewhere() {
        assert!(matches!(parsed(&["cuda", "--device-script"]), Ok(Wanted::WriteScript(_))));
        let prepared = parsed(&["cuda", "--prepared", "there"]);
        assert!(matches!(prepared, Ok(Wanted::Prepared { folder, .. }) if folder == Path::new("there")));
        for refused in [["vulkan", "--device-script"].as_slice(), &["cuda", "--device-script", "--build"]] {
            assert!(parsed(refused).is_err_and(|why| why.contains("of cuda, without other options")));
        }
    }
}
