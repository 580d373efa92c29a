//! `lastuse reach`: whether lastuse can replace the ggml-alloc of a program or a library, and how.

mod objects;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lastuse::report::reach::{ALLOCATOR, Binding, SCHEDULER};

use super::foreign::Foreign;
use super::launch::program::LASTUSE;
use super::print::print;
use crate::elf::{Elf, Uses};
use objects::Objects;

/// Tell whether lastuse reaches the ggml of a program or a library.
///
/// FILE is an executable, a shared library, or an add-on of an interpreter; the libraries that it needs are looked at too.
/// What counts is not how many libraries there are, but whether the calls of ggml's allocator go through the dynamic linker:
/// only those can be replaced from outside.
///
/// The first word of the output is one of: "linked", lastuse is linked in already; "reached", it can be preloaded; "part",
/// the compiler has inlined some of the functions, and lastuse leaves the whole allocator to ggml; "bound", the calls go to
/// ggml's own functions; "hidden", ggml is inside and its functions are not exported; "none", no ggml was found. Lines
/// follow with the ways to get lastuse in.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse reach ./llama-cli
  lastuse reach build/bin/libggml-base.so
  lastuse reach node_modules/x/build/index.node

Exit codes: 0 linked or reached, 1 the file cannot be read, 2 wrong usage, 3 all else.")]
pub struct Arguments {
    /// The executable, library or add-on.
    file: PathBuf,
}

/// The exit code for a file whose allocator cannot be replaced from outside.
const NOT_REACHED: u8 = 3;

/// The source that the code of ggml's allocator names in its messages.
const SOURCE: &[u8] = b"ggml-alloc.c";

/// How lastuse can get at the allocator in a file.
enum Reach {
    Linked,
    Reached,
    /// Except for these functions.
    Part(Vec<&'static str>),
    Bound(&'static str),
    Hidden,
}

/// Prints how lastuse reaches the file.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let Arguments { file } = arguments;
    let objects = Objects::open(file).ok_or_else(|| format!("{}: {}", file.display(), not_elf(file)))?;
    let found = find(&objects);
    let text = match &found {
        Some((object, reach)) => format!("{}{}", reach.describe(object), reach.ways(file, &objects)),
        None => none(&objects),
    };
    print(text.as_bytes())?;
    let is_reached = found.is_some_and(|(_, reach)| matches!(reach, Reach::Linked | Reach::Reached));
    Ok(if is_reached { ExitCode::SUCCESS } else { ExitCode::from(NOT_REACHED) })
}

fn not_elf(file: &Path) -> String {
    match Foreign::of_file(file) {
        Some(Foreign::Script) => "this is a script: give the program or the library that it loads".to_owned(),
        Some(Foreign::Binary) => "a binary for another kind of machine".to_owned(),
        Some(foreign) => format!("this is {}, not a program or a library", foreign.name()),
        None if file.exists() => "not a program or a library (ELF)".to_owned(),
        None => "no such file".to_owned(),
    }
}

/// Finds the file with the allocator among those of a process: the first whose functions others find, otherwise one that
/// keeps them to itself.
fn find(objects: &Objects) -> Option<(PathBuf, Reach)> {
    let position = |defines: &dyn Fn(&Elf) -> bool| objects.files.iter().position(|(_, elf)| defines(elf));
    let has_lastuse = |elf: &Elf| elf.uses([LASTUSE])[0].defines;
    let lastuse = position(&has_lastuse);
    let has_ggml = |elf: &Elf| !has_lastuse(elf) && elf.uses([ALLOCATOR[0]])[0].defines;
    let has_code = |elf: &Elf| !has_lastuse(elf) && elf.has_text(SOURCE);
    let ggml = position(&has_ggml).or_else(|| position(&has_code));
    let file = |at: usize| objects.files[at].0.clone();
    let Some(at) = ggml else { return lastuse.map(|at| (file(at), Reach::Linked)) };
    let reach = match (lastuse, Reach::of(&objects.files[at].1)) {
        (Some(lastuse), _) if lastuse > at => Reach::Bound("it comes before liblastuse in the search for functions"),
        (Some(_), Reach::Reached) => Reach::Linked,
        (_, reach) => reach,
    };
    Some((file(at), reach))
}

impl Reach {
    /// Classifies a file that has the allocator, and not lastuse.
    fn of(elf: &Elf) -> Self {
        let scheduler = SCHEDULER.to_str().unwrap_or_default();
        let [has_scheduler] = elf.uses([scheduler]).map(|uses| uses.defines);
        let uses: [Uses; ALLOCATOR.len()] = elf.uses(ALLOCATOR);
        let is_bound = |name: &'static str| {
            let at = ALLOCATOR.iter().position(|known| *known == name)?;
            uses[at].binds.then_some(true)
        };
        match Binding::new(is_bound, has_scheduler) {
            Binding::Whole => Self::Reached,
            Binding::InPart(functions) => Self::Part(functions),
            Binding::Not if elf.has_loader() && uses[0].defines => Self::Bound("ggml is linked into the program"),
            Binding::Not if uses[0].exports => {
                Self::Bound("its calls do not go through the dynamic linker, as after linking with -Bsymbolic")
            }
            Binding::Not => Self::Hidden,
        }
    }

    /// Returns the line with the kind, and with the file that it is about.
    fn describe(&self, object: &Path) -> String {
        let file = object.display();
        match self {
            Self::Linked => format!("linked: calls of the allocator reach lastuse from {file}\n"),
            Self::Reached => format!("reached: {file} calls its allocator through the dynamic linker\n"),
            Self::Part(functions) => {
                format!("part: {file} has inlined {}: lastuse leaves its allocator to ggml\n", functions.join(", "))
            }
            Self::Bound(why) => format!("bound: {file} calls its own allocator: {why}\n"),
            Self::Hidden => format!("hidden: {file} contains ggml, and does not export its functions\n"),
        }
    }

    /// Returns a line for each way to get lastuse in.
    fn ways(&self, file: &Path, objects: &Objects) -> String {
        let is_program = objects.files[0].1.has_loader();
        let preload =
            if is_program { format!("lastuse run {}", file.display()) } else { "lastuse run PROGRAM".to_owned() };
        match self {
            Self::Linked => "  nothing else is needed\n".to_owned(),
            Self::Reached if is_program => {
                format!("  preload: {preload}\n  link: liblastuse.so before libggml-base on the link line\n")
            }
            Self::Reached => format!(
                "  preload: {preload}\n  early import: load liblastuse.so with RTLD_GLOBAL before it; in Python\n    \
                 ctypes.CDLL(\"/path/to/liblastuse.so\", ctypes.RTLD_GLOBAL)\n"
            ),
            Self::Bound(_) | Self::Hidden if is_program => {
                "  link: liblastuse.a before libggml-base.a on its link line, or build it with a shared ggml\n"
                    .to_owned()
            }
            Self::Part(_) | Self::Bound(_) | Self::Hidden => {
                "  inject: build it again with lastuse linked in\n".to_owned()
            }
        }
    }
}

/// Says that there is no ggml, and which libraries it may be in.
fn none(objects: &Objects) -> String {
    let missing: Vec<_> = objects.missing.iter().map(|name| name.to_string_lossy()).collect();
    let hint = if missing.is_empty() {
        "it may load one later: give that library".to_owned()
    } else {
        format!("these libraries were not found: {}", missing.join(", "))
    };
    format!("none: neither the file nor the libraries that it needs contain ggml; {hint}\n")
}
