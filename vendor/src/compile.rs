//! Compiles many files, on all cores, each once.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Result;

/// A language that files are compiled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// C11.
    C,
    /// C++17.
    Cpp,
}

impl Language {
    pub(crate) fn of(source: &Path) -> Self {
        if source.extension().is_some_and(|extension| extension == "c") { Self::C } else { Self::Cpp }
    }

    pub(crate) fn standard(self) -> &'static str {
        match self {
            Self::C => "-std=c11",
            Self::Cpp => "-std=c++17",
        }
    }
}

/// Returns the system's compiler, as the `cc` crate finds it (it reads `CC`, `CXX` and so on).
///
/// # Errors
/// When there is none.
pub fn compiler(language: Language) -> Result<Command> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = cc::Build::new();
    build.cpp(language == Language::Cpp).target(&triple).host(&triple).opt_level(0).cargo_metadata(false);
    // Not `warnings(false)`, which adds -w: nothing would warn even where -Wall and -Werror follow.
    build.no_default_flags(true).warnings(true);
    let tool = build.try_get_compiler().map_err(|error| format!("no C compiler was found: {error}"))?;
    let mut command = tool.to_command();
    command.arg(language.standard());
    Ok(command)
}

/// Settings to compile several files with.
#[derive(Debug)]
pub struct Objects<'a> {
    /// Prefix of every line of progress.
    pub label: &'a str,
    /// Where the objects go.
    pub folder: &'a Path,
    /// The flags of all files.
    pub flags: &'a [String],
    /// Returns the compiler: [`compiler`] is that of this system.
    pub compiler: fn(Language) -> Result<Command>,
}

impl Objects<'_> {
    /// Compiles `sources` and returns the objects in their order. Existing objects are not compiled again: the sources
    /// of a pinned package never change, and the name of an object depends on its flags.
    ///
    /// # Errors
    /// The message of the compiler for the first file that fails.
    pub fn compile(&self, sources: &[PathBuf]) -> Result<Vec<PathBuf>> {
        std::fs::create_dir_all(self.folder).map_err(|error| format!("{}: {error}", self.folder.display()))?;
        let objects: Vec<PathBuf> = sources.iter().map(|source| self.object(source)).collect();
        let mut missing: Vec<usize> = (0..sources.len()).filter(|&i| !objects[i].exists()).collect();
        let bytes = |i: &usize| std::fs::metadata(&sources[*i]).map_or(0, |file| file.len());
        missing.sort_by_key(|i| std::cmp::Reverse(bytes(i)));
        let (next, done, failure) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(None));
        let work = || {
            while let Some(&i) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = self.compile_one(&sources[i], &objects[i]) {
                    next.store(missing.len(), Ordering::Relaxed);
                    failure.lock().expect("no thread panics with the lock").get_or_insert(error);
                }
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                eprintln!("[{}] {done}/{} {}", self.label, missing.len(), short_name(&sources[i]));
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
        match failure.into_inner().expect("no thread panics with the lock") {
            None => Ok(objects),
            Some(error) => Err(error),
        }
    }

    fn object(&self, source: &Path) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        (source, self.flags).hash(&mut hasher);
        self.folder.join(format!("{}-{:016x}.o", short_name(source), hasher.finish()))
    }

    /// Compiles into a file of another name first, so that an interrupted run leaves no half object.
    fn compile_one(&self, source: &Path, object: &Path) -> Result<()> {
        let partial = object.with_extension("partial");
        let mut command = (self.compiler)(Language::of(source))?;
        command.args(self.flags).arg("-c").arg(source).arg("-o").arg(&partial);
        run(&mut command)?;
        std::fs::rename(&partial, object).map_err(|error| format!("{}: {error}", object.display()))
    }
}

/// Links objects into a shared library whose SONAME is its file name.
///
/// # Errors
/// The message of the linker.
pub fn link_shared(library: &Path, objects: &[PathBuf], arguments: &[String]) -> Result<()> {
    let partial = library.with_extension("partial");
    let mut command = compiler(Language::Cpp)?;
    command.arg("-shared").arg("-o").arg(&partial).args(objects);
    command.arg(format!("-Wl,-soname,{}", short_name(library))).args(arguments);
    run(&mut command)?;
    std::fs::rename(&partial, library).map_err(|error| format!("{}: {error}", library.display()))
}

/// Collects objects in a static library.
///
/// # Errors
/// The message of the archiver.
pub fn link_static(library: &Path, objects: &[PathBuf]) -> Result<()> {
    let partial = library.with_extension("partial");
    let _ = std::fs::remove_file(&partial);
    run(Command::new("ar").arg("rcs").arg(&partial).args(objects))?;
    std::fs::rename(&partial, library).map_err(|error| format!("{}: {error}", library.display()))
}

/// Runs a compiler, a linker or the like.
///
/// # Errors
/// The command line and the error output of the program.
pub fn run(command: &mut Command) -> Result<()> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let output = command.output().map_err(|error| format!("cannot run {line}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{line} failed:\n{}", String::from_utf8_lossy(&output.stderr)))
}

fn short_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
