//! One C or C++ program: compiled with warnings as errors, linked in one of several ways, run.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use lastuse_vendor::{Ggml, Language, compiler};

use crate::making::Making;
use crate::objects;
use crate::sources::all_sources;
use crate::{Lastuse, Result, folder};

/// Which libraries a program is linked with, in which order.
#[derive(Clone, Copy, Debug)]
pub enum Linked<'a> {
    /// Static ggml and nothing else.
    Ggml,
    /// `liblastuse.a` before the static ggml.
    LastuseArchive(&'a Lastuse),
    /// `liblastuse.so` before the shared ggml, and upstream's allocator under other names. Most programs are linked in this
    /// way, which takes a fifth of the time and a hundredth of the disk of a static link.
    Both(&'a Lastuse),
    /// `liblastuse.a` before the static ggml, and upstream's allocator under other names.
    BothArchives(&'a Lastuse),
    /// Shared ggml and nothing else.
    SharedGgml,
    /// `liblastuse.so` before the shared ggml.
    LastuseShared(&'a Lastuse),
    /// `liblastuse.so` behind the shared ggml: the wrong order.
    LastuseBehind(&'a Lastuse),
}

/// Removes the variables that a program must not inherit: those of lastuse, and those of the dynamic linker, which cargo
/// points at folders with other builds of lastuse.
pub fn clear_variables(command: &mut Command) {
    let is_cleared = |name: &str| name.starts_with("LASTUSE") || name.starts_with("LD_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_cleared)) {
        command.env_remove(name);
    }
    // Keeps ggml_abort from starting a debugger to print the stack.
    command.env("GGML_NO_BACKTRACE", "1");
}

/// A compiled program.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
}

/// How a program ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its exit status; `None` after a signal.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Outcome {
    /// Returns exit code, signal and output, for the message of a failed test.
    pub fn describe(&self) -> String {
        let Self { code, signal, stdout, stderr } = self;
        format!("exit code {code:?}, signal {signal:?}\n{stdout}{stderr}")
    }

    /// Returns the value after `key=` in the output.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.stdout.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
    }
}

impl Program {
    /// Compiles and links a program. `sources` are relative to the folder of the C programs; files of `support/` that
    /// they include are compiled with them. `flags` are passed for every file and to the linker.
    ///
    /// # Errors
    /// The message of the compiler or the linker.
    pub fn build(name: &str, sources: &[&str], ggml: &Ggml, linked: Linked<'_>, flags: &[&str]) -> Result<Self> {
        let making = Making::new(name)?;
        let mut objects = compile_all(&making, sources, ggml, flags)?;
        if let Linked::Both(_) | Linked::BothArchives(_) = linked {
            let object = making.object("upstream");
            compile_upstream(&object, ggml, flags)?;
            objects.push(object);
        }
        let mut command = compiler(Language::Cpp)?;
        command.args(&objects).args(flags).arg("-o").arg(making.program());
        link_arguments(&mut command, ggml, linked);
        lastuse_vendor::run(&mut command)?;
        Ok(Self { path: making.finish()? })
    }

    /// Compiles a program for a ggml that was built elsewhere, and links it as `link` says. `flags` are passed for every
    /// file.
    ///
    /// # Errors
    /// The message of the compiler or the linker.
    pub fn build_linked(name: &str, sources: &[&str], ggml: &Ggml, flags: &[&str], link: &[String]) -> Result<Self> {
        let making = Making::new(name)?;
        let objects = compile_all(&making, sources, ggml, flags)?;
        let mut command = compiler(Language::Cpp)?;
        command.args(&objects).arg("-o").arg(making.program()).args(link).args(["-lm", "-lpthread", "-ldl"]);
        lastuse_vendor::run(&mut command)?;
        Ok(Self { path: making.finish()? })
    }

    /// Compiles a program and links it with the base library of ggml alone: the static one behind a static lastuse if
    /// `lastuse` is given, otherwise the shared one.
    ///
    /// # Errors
    /// The message of the compiler or the linker.
    pub fn build_on_base(name: &str, sources: &[&str], ggml: &Ggml, lastuse: Option<&Lastuse>) -> Result<Self> {
        let making = Making::new(name)?;
        let objects = compile_all(&making, sources, ggml, &[])?;
        let mut command = compiler(Language::Cpp)?;
        command.args(&objects).arg("-o").arg(making.program());
        if let Some(lastuse) = lastuse {
            link_archive(&mut command, lastuse);
        }
        let base = if lastuse.is_some() { "libggml-base.a" } else { "libggml-base.so" };
        command.arg(ggml.libraries.join(base)).arg(format!("-Wl,-rpath,{}", ggml.libraries.display()));
        command.args(["-lm", "-lpthread", "-ldl"]);
        lastuse_vendor::run(&mut command)?;
        Ok(Self { path: making.finish()? })
    }

    /// Builds a shared library, to be preloaded or loaded, and returns its path.
    ///
    /// # Errors
    /// The message of the compiler or the linker.
    pub fn build_shared(name: &str, sources: &[&str], ggml: &Ggml, flags: &[&str]) -> Result<PathBuf> {
        let making = Making::new(name)?;
        let objects = compile_all(&making, sources, ggml, flags)?;
        let needs: Vec<String> = flags.iter().chain(&["-ldl", "-lpthread"]).map(|&flag| flag.to_owned()).collect();
        lastuse_vendor::link_shared(&making.program(), &objects, &needs)?;
        making.finish()
    }

    /// Compiles one source to an object, to be linked where the order matters, and returns its path.
    ///
    /// # Errors
    /// The message of the compiler.
    pub fn build_object(name: &str, source: &str, ggml: &Ggml) -> Result<PathBuf> {
        let making = Making::new(name)?;
        compile(&folder().join(source), &making.program(), ggml, &[])?;
        making.finish()
    }

    /// A program that is already there: a path, or a name to be found in `PATH`.
    pub fn existing(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path of the executable.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, arguments: &[&str]) -> Result<Outcome> {
        self.run_with(arguments, &[] as &[(&str, &OsStr)])
    }

    /// Runs it to its end with additional environment variables.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run_with(&self, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Result<Outcome> {
        self.finish(self.command(arguments, variables))
    }

    /// Runs it to its end in a working directory, with additional environment variables.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run_in(&self, folder: &Path, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Result<Outcome> {
        let mut command = self.command(arguments, variables);
        command.current_dir(folder);
        self.finish(command)
    }

    fn finish(&self, mut command: Command) -> Result<Outcome> {
        let output = command.output().map_err(|error| format!("cannot run {}: {error}", self.path.display()))?;
        Ok(Outcome {
            code: output.status.code(),
            signal: output.status.signal(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Returns the command that runs it with additional environment variables, without lastuse's variables of this
    /// process.
    pub fn command(&self, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Command {
        let mut command = Command::new(&self.path);
        clear_variables(&mut command);
        command.args(arguments).envs(variables.iter().copied());
        command
    }
}

/// Compiles `sources` and the files of `support/` that they include, and returns the objects.
fn compile_all(making: &Making, sources: &[&str], ggml: &Ggml, flags: &[&str]) -> Result<Vec<PathBuf>> {
    let compile_one = |(number, source): (usize, PathBuf)| {
        let object = making.object(&number.to_string());
        compile(&source, &object, ggml, flags)?;
        Ok(object)
    };
    all_sources(sources)?.into_iter().enumerate().map(compile_one).collect()
}

/// Compiles a file of our own: warnings are errors.
fn compile(source: &Path, object: &Path, ggml: &Ggml, flags: &[&str]) -> Result<()> {
    let is_c = source.extension().is_some_and(|extension| extension == "c");
    let mut command = compiler(if is_c { Language::C } else { Language::Cpp })?;
    command.args(["-O1", "-g", "-fPIC", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-pthread"]);
    // ggml's headers are not ours to warn about.
    for flag in ggml.include_flags() {
        command.arg(flag.replacen("-I", "-isystem", 1));
    }
    command.arg(format!("-I{}", folder().join("support").display()));
    command.arg(format!("-I{}", folder().with_file_name("include").display()));
    command.args(flags).arg("-c").arg(source);
    objects::compile(command, object)
}

/// Compiles ggml's own allocator under other names, so that both can be in one program.
fn compile_upstream(object: &Path, ggml: &Ggml, flags: &[&str]) -> Result<()> {
    let mut command = compiler(Language::C)?;
    command.arg("-include").arg(folder().join("support/upstream_names.h"));
    command.args(ggml.flags("-O3")).args(flags).arg("-c").arg(ggml.allocator_source());
    objects::compile(command, object)
}

fn link_arguments(command: &mut Command, ggml: &Ggml, linked: Linked<'_>) {
    let libraries = ggml.libraries.display();
    match linked {
        Linked::LastuseArchive(lastuse) | Linked::BothArchives(lastuse) => {
            link_archive(command, lastuse);
        }
        Linked::LastuseShared(lastuse) | Linked::Both(lastuse) => link_shared_lastuse(command, lastuse),
        Linked::Ggml | Linked::SharedGgml | Linked::LastuseBehind(_) => {}
    }
    match linked {
        Linked::Ggml | Linked::LastuseArchive(_) | Linked::BothArchives(_) => {
            command.arg(format!("{libraries}/libggml-cpu.a")).arg(format!("{libraries}/libggml-base.a"));
        }
        Linked::SharedGgml | Linked::LastuseShared(_) | Linked::Both(_) | Linked::LastuseBehind(_) => {
            command.arg(format!("-L{libraries}")).args(["-lggml-cpu", "-lggml-base"]);
            command.arg(format!("-Wl,-rpath,{libraries}"));
        }
    }
    if let Linked::LastuseBehind(lastuse) = linked {
        link_shared_lastuse(command, lastuse);
    }
    command.args(["-lm", "-lpthread", "-ldl"]);
}

/// Asks for functions of the archive, so that none is taken from ggml: where it is one object, one brings all of them.
fn link_archive(command: &mut Command, lastuse: &Lastuse) {
    let all = include_str!("../exports.txt");
    let asked = if lastuse.is_one_object { "ggml_gallocr_new_n" } else { all };
    command.args(asked.lines().map(|name| format!("-Wl,-u,{name}"))).arg(&lastuse.archive);
}

fn link_shared_lastuse(command: &mut Command, lastuse: &Lastuse) {
    let folder = lastuse.shared.parent().unwrap_or(Path::new("."));
    command.arg(&lastuse.shared).arg(format!("-Wl,-rpath,{}", folder.display()));
}
