//! A program on a host: on its shared libraries, and linked statically without lastuse and with it.

use std::path::{Path, PathBuf};

use lastuse_c_tests::{Build, Lastuse, Program, Result, lastuse};
use lastuse_vendor::{Ggml, Package};

use crate::instrumentation::{COUNTER_IS_LINKED, INSTRUMENTATION, preloaded_instrumentation, static_link};
use crate::job::{Job, Launch, Threads, Way};

/// The sources of a program.
pub struct Driver<'a> {
    /// Its name begins the names of the programs.
    pub host: &'a str,
    /// The name of the host in tables.
    pub title: &'static str,
    /// What it counts.
    pub unit: &'static str,
    /// The package of the host.
    pub package: Package,
    /// The program, relative to the folder of the C programs.
    pub source: &'a str,
    /// Flags of the compiler.
    pub flags: &'a [&'a str],
    /// The folder of the shared libraries.
    pub libraries: PathBuf,
    /// The names of the shared libraries of the host, before those of ggml.
    pub shared: &'a [&'a str],
    /// The static libraries, in the order of the linker.
    pub archives: Vec<PathBuf>,
}

/// A program on a host, in each form.
pub struct Programs {
    title: &'static str,
    unit: &'static str,
    /// The package of the host and its version.
    pub version: String,
    shared: PathBuf,
    libraries: PathBuf,
    instrumentation: PathBuf,
    lastuse: PathBuf,
    /// Without lastuse, and with.
    linked: [PathBuf; 2],
}

impl Driver<'_> {
    /// Builds all forms.
    ///
    /// # Errors
    /// The error of the compiler or the linker.
    pub fn build(&self) -> Result<Programs> {
        let lastuse = lastuse(Build::Release)?;
        let ggml = Ggml::built(self.package, self.libraries.clone())?;
        let instrumentation = preloaded_instrumentation(self.host, &ggml)?;
        let linked = [self.build_linked(&ggml, None)?, self.build_linked(&ggml, Some(&lastuse))?];
        Ok(Programs {
            title: self.title,
            unit: self.unit,
            version: format!("{} {}", self.package.name(), self.package.version()?),
            shared: self.build_shared("shared", self.source)?.path().to_owned(),
            libraries: self.libraries.clone(),
            instrumentation,
            lastuse: lastuse.shared,
            linked,
        })
    }

    fn name(&self, form: &str) -> String {
        format!("hosts-{}-{form}", self.host)
    }

    /// Builds a program on the shared libraries.
    ///
    /// # Errors
    /// The error of the compiler or the linker.
    pub fn build_shared(&self, form: &str, source: &str) -> Result<Program> {
        let ggml = Ggml::built(self.package, self.libraries.clone())?;
        let mut link = vec!["-Wl,--no-as-needed".to_owned(), format!("-L{}", self.libraries.display())];
        link.extend(self.shared.iter().chain(&["ggml", "ggml-cpu", "ggml-base"]).map(|name| format!("-l{name}")));
        Program::build_linked(&self.name(form), &[source], &ggml, self.flags, &link)
    }

    fn build_linked(&self, ggml: &Ggml, lastuse: Option<&Lastuse>) -> Result<PathBuf> {
        let mut link = static_link(ggml, lastuse)?;
        link.extend(self.archives.iter().map(|archive| archive.to_string_lossy().into_owned()));
        let flags = [self.flags, &[COUNTER_IS_LINKED]].concat();
        let form = if lastuse.is_some() { "static-lastuse" } else { "static" };
        let sources = [&[self.source], &INSTRUMENTATION[..]].concat();
        let program = Program::build_linked(&self.name(form), &sources, ggml, &flags, &link)?;
        Ok(program.path().to_owned())
    }
}

impl Programs {
    /// Returns a job of one thread: the kind of model, the use of it, and the arguments of the program.
    pub fn job(&self, way: Way, [model, name]: [&str; 2], arguments: Vec<String>) -> Job {
        Job {
            host: self.title,
            version: self.version.clone(),
            model: model.to_owned(),
            name: name.to_owned(),
            way,
            arguments,
            unit: self.unit,
            threads: Threads::One,
            most_resident: None,
            may_reallocate: false,
            without: self.launch(way, false),
            with: self.launch(way, true),
        }
    }

    /// The folder of the shared libraries.
    pub fn libraries(&self) -> &Path {
        &self.libraries
    }

    /// Returns how the program is started, with lastuse or without.
    pub fn launch(&self, way: Way, with_lastuse: bool) -> Launch {
        let libraries: [&Path; 2] = [&self.instrumentation, &self.lastuse];
        match way {
            Way::Preloaded => {
                Launch::preloaded(&self.shared, &self.libraries, &libraries[..1 + usize::from(with_lastuse)])
            }
            Way::Linked => Launch::plain(&self.linked[usize::from(with_lastuse)]),
        }
    }
}
