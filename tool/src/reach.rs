//! `lastuse reach`: whether a program uses ggml, and whether lastuse is called in place of its ggml-alloc.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lastuse::report::reach::{ALLOCATOR, Binding, SCHEDULER};

use crate::elf::{Elf, Uses};
use crate::foreign::Foreign;
use crate::launch::library::VERSION;
use crate::output::print;
use crate::usage::Failure;

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

Exit codes: 0 linked or reached, 1 the file cannot be read, 2 wrong usage, 3 otherwise.")]
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
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
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

/// Returns why lastuse may not reach the ggml of a program, in a sentence; `None` if it does. In the root of another system, it may be
/// for another machine, and its libraries are not found.
pub fn unreached(program: &Path, is_this_system: bool) -> Option<String> {
    let file = program.display();
    let Some(objects) = Objects::open(program) else {
        let why = || format!("{file}: {}, so it is not known whether lastuse reaches its ggml", not_elf(program));
        return is_this_system.then(why);
    };
    let why = match find(&objects) {
        Some((_, Reach::Linked | Reach::Reached)) => return None,
        Some((object, reach)) => reach.describe(&object),
        None if is_this_system || objects.files[0].1.is_static_program() => none(&objects),
        None => return None,
    };
    Some(format!("lastuse may have no effect on {file}: {}; \"lastuse reach {file}\" tells more", why.trim_end()))
}

fn not_elf(file: &Path) -> String {
    match Foreign::of_file(file) {
        Some(foreign) if foreign.is_script() => {
            "this is a script: give the program or the library that it loads".to_owned()
        }
        Some(foreign) if foreign.is_program() => "a binary for another kind of machine".to_owned(),
        Some(foreign) => format!("this is {}, not a program or a library", foreign.name),
        None if file.is_dir() => "is a directory: give the program, or the library that it loads".to_owned(),
        None if file.exists() => "not a program or a library (ELF)".to_owned(),
        None => "no such file".to_owned(),
    }
}

/// Finds the file with the allocator among those of a process: the first whose functions others find, otherwise one that
/// keeps them to itself.
fn find(objects: &Objects) -> Option<(PathBuf, Reach)> {
    let position = |defines: &dyn Fn(&Elf) -> bool| objects.files.iter().position(|(_, elf)| defines(elf));
    let has_lastuse = |elf: &Elf| elf.uses([VERSION])[0].defines;
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
                "  preload: {preload}\n  load early: load liblastuse.so with RTLD_GLOBAL before it; in Python\n    \
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
    let is_static = objects.files.first().is_some_and(|(_, elf)| elf.is_static_program());
    let hint = if is_static {
        "the program is linked statically".to_owned()
    } else if missing.is_empty() {
        "it may load one later: give that library".to_owned()
    } else {
        format!("these libraries were not found: {}", missing.join(", "))
    };
    format!("none: neither the file nor the libraries that it needs contain ggml; {hint}\n")
}

/// Where the dynamic linker looks at last, for libraries of this machine.
const FOLDERS: [&str; 5] = ["/usr/local/lib", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// Files of one process.
pub struct Objects {
    /// Each with its tables; the given file is the first.
    pub files: Vec<(PathBuf, Elf)>,
    /// The names of libraries that were not found.
    pub missing: Vec<OsString>,
}

impl Objects {
    /// Opens a file and all libraries that it needs; `None` if the file is not a 64-bit ELF file.
    pub fn open(file: &Path) -> Option<Self> {
        let mut all = Self { files: vec![(file.to_owned(), Elf::open(file)?)], missing: Vec::new() };
        let mut waiting = VecDeque::from([0]);
        while let Some(at) = waiting.pop_front() {
            for library in all.needed_by(at) {
                match library {
                    Ok((path, elf)) if all.files.iter().all(|(known, _)| *known != path) => {
                        waiting.push_back(all.files.len());
                        all.files.push((path, elf));
                    }
                    Err(name) if !all.missing.contains(&name) => all.missing.push(name),
                    _ => {}
                }
            }
        }
        Some(all)
    }

    /// Returns the libraries that a file needs, or their names.
    fn needed_by(&self, at: usize) -> Vec<Result<(PathBuf, Elf), OsString>> {
        let (file, elf) = &self.files[at];
        let needs = elf.needs();
        let variable = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let listed = [&needs.before, &variable, &needs.after].map(|list| folders(list, file));
        let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
        let fixed = FOLDERS.iter().flat_map(|folder| [Path::new(folder).join(&machine), PathBuf::from(folder)]);
        let folders: Vec<PathBuf> = listed.into_iter().flatten().chain(fixed).collect();
        let find = |name: &OsString| {
            let mut places = folders.iter().map(|folder| folder.join(name));
            places.find_map(|path| Some((path.canonicalize().ok()?, Elf::open(&path)?)))
        };
        needs.libraries.into_iter().map(|name| find(&name).ok_or(name)).collect()
    }
}

/// Splits a list of folders, in which $ORIGIN is replaced by that of the file.
fn folders(list: &OsStr, file: &Path) -> Vec<PathBuf> {
    let origin = file.canonicalize().ok().and_then(|file| file.parent().map(Path::to_owned)).unwrap_or_default();
    let folder = |part: &[u8]| {
        let rest = [&b"$ORIGIN"[..], b"${ORIGIN}"].into_iter().find_map(|word| part.strip_prefix(word));
        rest.map_or_else(
            || PathBuf::from(OsStr::from_bytes(part)),
            |rest| origin.join(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest))),
        )
    };
    list.as_bytes().split(|&byte| byte == b':').filter(|part| !part.is_empty()).map(folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_is_the_folder_of_the_file() {
        let list = OsStr::new("$ORIGIN/../lib:${ORIGIN}::/opt/x");
        let origin = Path::new("/proc/self").canonicalize().expect("it is there");
        let expected = [origin.join("../lib"), origin.join(""), PathBuf::from("/opt/x")];
        assert_eq!(folders(list, Path::new("/proc/self/stat")), expected);
    }
}
