//! The folder that lastuse is installed to.

use std::fs;
use std::path::{Path, PathBuf};

use lastuse_vendor::{FolderLock, Ggml, target_folder};

use super::project::Project;
use crate::{Result, folder};

/// An installed lastuse. While it is there, no other process installs to that folder.
#[derive(Debug)]
pub struct Prefix {
    folder: PathBuf,
    /// The folder of its libraries.
    libraries: PathBuf,
    _lock: FolderLock,
}

/// Where packages are installed and tested.
pub fn root() -> PathBuf {
    let target = target_folder().join("packages");
    std::path::absolute(&target).unwrap_or(target)
}

impl Prefix {
    /// Installs lastuse by CMake to a folder that is empty before, and moves it: without what is put into other projects'
    /// ggml, which is one more build of lastuse, unless `with_inject`.
    ///
    /// # Errors
    /// The message of cargo or CMake; and a path of the repository in an installed file.
    pub fn install(with_inject: bool) -> Result<Self> {
        let lock = FolderLock::wait(&root())?;
        let (sources, first, last) = (folder().with_file_name(""), root().join("installed"), root().join("prefix"));
        let project = Project { sources: &sources, folder: &root().join("lastuse"), generator: None };
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        project.configure(&[
            format!("LASTUSE_CARGO={cargo}"),
            // Where tests have it, too.
            format!("LASTUSE_TARGET_DIR={}", root().with_file_name("libraries").display()),
            format!("LASTUSE_INJECT={}", if with_inject { "ON" } else { "OFF" }),
        ])?;
        project.build("all")?;
        for folder in [&first, &last] {
            let _ = fs::remove_dir_all(folder);
        }
        project.install(&first)?;
        fs::rename(&first, &last).map_err(|error| format!("{}: {error}", last.display()))?;
        let prefix = Self { libraries: last.join("lib"), folder: last, _lock: lock };
        prefix.check_paths(&sources)?;
        Ok(prefix)
    }

    /// What was installed to a folder in another way, with its libraries in this folder below. Its files may name the folder.
    ///
    /// # Errors
    /// The lock of the folder of packages cannot be had.
    pub fn at(folder: &Path, libraries: &str) -> Result<Self> {
        let lock = FolderLock::wait(&root())?;
        Ok(Self { libraries: folder.join(libraries), folder: folder.to_owned(), _lock: lock })
    }

    /// As [`Self::at`], for a relocatable installation, such as an unpacked archive.
    ///
    /// # Errors
    /// Likewise; and a path of the repository in an installed file.
    pub fn unpacked(folder: &Path, libraries: &str) -> Result<Self> {
        let prefix = Self::at(folder, libraries)?;
        prefix.check_paths(&crate::folder().with_file_name(""))?;
        Ok(prefix)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The folder of its libraries.
    pub fn libraries(&self) -> &Path {
        &self.libraries
    }

    /// The file for `CMAKE_PROJECT_INCLUDE`.
    pub fn inject(&self) -> PathBuf {
        self.libraries.join("cmake/lastuse/lastuse-inject.cmake")
    }

    /// Files whose content programs depend on.
    pub fn files(&self) -> Vec<PathBuf> {
        vec![self.inject(), self.libraries.join("cmake/lastuse/lastuse-in-ggml.o")]
    }

    /// Checks that files that tools read name neither the repository nor the folder that was moved.
    fn check_paths(&self, repository: &Path) -> Result<()> {
        for folder in ["cmake/lastuse", "pkgconfig"].map(|folder| self.libraries.join(folder)) {
            let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
            for entry in fs::read_dir(&folder).map_err(failed)? {
                let path = entry.map_err(failed)?.path();
                let text = String::from_utf8_lossy(&fs::read(&path).map_err(failed)?).into_owned();
                if text.contains(&*repository.to_string_lossy()) {
                    return Err(format!("{} names {}", path.display(), repository.display()));
                }
            }
        }
        Ok(())
    }
}

/// Configures lastuse by CMake, with these settings (`NAME=VALUE`), and returns the text of `lastuse.pc`. Nothing is built.
///
/// # Errors
/// The message of CMake.
pub fn pkg_config_file(settings: &[&str]) -> Result<String> {
    let build = root().join("configured");
    let project = Project { sources: &folder().with_file_name(""), folder: &build, generator: None };
    project.configure(&settings.iter().map(|&setting| setting.to_owned()).collect::<Vec<_>>())?;
    let file = project.file("lastuse.pc");
    fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
}

/// How the libraries of an installed ggml are linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Libraries {
    /// Shared ones.
    Shared,
    /// Static ones.
    Static,
}

/// Writes files by which CMake and pkg-config find a ggml that is built, and returns their folders.
///
/// # Errors
/// The error of the system.
pub fn installed_ggml(ggml: &Ggml, libraries: Libraries) -> Result<[PathBuf; 2]> {
    let folder = root().join(format!("ggml-{}-{libraries:?}", ggml.version).to_lowercase());
    let (lib, include) = (absolute(&ggml.libraries), absolute(&ggml.sources.join("include")));
    let (ending, kind) = if libraries == Libraries::Shared { ("so", "SHARED") } else { ("a", "STATIC") };
    let target = |name: &str, needs: &str| {
        format!(
            "add_library(ggml::{name} {kind} IMPORTED)\nset_target_properties(ggml::{name} PROPERTIES\n    \
             IMPORTED_LOCATION {lib}/lib{name}.{ending}\n    INTERFACE_INCLUDE_DIRECTORIES {include}\n    \
             INTERFACE_LINK_LIBRARIES \"{needs}\")\n"
        )
    };
    let config = [
        target("ggml-base", "m;pthread"),
        target("ggml-cpu", "ggml::ggml-base"),
        target("ggml", "ggml::ggml-cpu;ggml::ggml-base;dl"),
    ];
    let pc = format!(
        "libdir={lib}\n\nName: ggml\nDescription: ggml\nVersion: {}\nCflags: -I{include}\nLibs: -L${{libdir}} \
         -Wl,-rpath,${{libdir}} -lggml -lggml-cpu -lggml-base -lm\n",
        ggml.version
    );
    write(&folder.join("lib/cmake/ggml/ggml-config.cmake"), &config.concat())?;
    write(&folder.join("lib/pkgconfig/ggml.pc"), &pc)?;
    Ok([folder.clone(), folder.join("lib/pkgconfig")])
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

fn write(path: &Path, text: &str) -> Result<()> {
    let written = fs::create_dir_all(path.parent().unwrap_or(path)).and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}
