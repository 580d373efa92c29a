//! A program on a host: on its shared libraries, and linked statically without lastuse and with it.

use std::path::{Path, PathBuf};

use lastuse_c_tests::{Build, Lastuse, Program, Result, lastuse};
use lastuse_vendor::{Ggml, Package};

use crate::instrumentation::{COUNTER_IS_LINKED, INSTRUMENTATION, preloaded_instrumentation, static_link};
use crate::job::{Launch, Way};

/// The sources of a program.
pub struct Driver<'a> {
    /// Its name begins the names of the programs.
    pub host: &'a str,
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
        let shared = self.build_shared(&ggml)?;
        Ok(Programs { shared, libraries: self.libraries.clone(), instrumentation, lastuse: lastuse.shared, linked })
    }

    fn name(&self, form: &str) -> String {
        format!("hosts-{}-{form}", self.host)
    }

    fn build_shared(&self, ggml: &Ggml) -> Result<PathBuf> {
        let mut link = vec!["-Wl,--no-as-needed".to_owned(), format!("-L{}", self.libraries.display())];
        link.extend(self.shared.iter().chain(&["ggml", "ggml-cpu", "ggml-base"]).map(|name| format!("-l{name}")));
        let program = Program::build_linked(&self.name("shared"), &[self.source], ggml, self.flags, &link)?;
        Ok(program.path().to_owned())
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
