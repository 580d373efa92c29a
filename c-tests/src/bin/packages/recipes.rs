//! Recipes by which others make lastuse: from a tarball of the sources, in a folder of their own.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use lastuse_c_tests::packages::{Form, Prefix, check_ggml, check_served, output_of, packages_folder};
use lastuse_c_tests::{Linked, Program, Result, copy_folder, folder};
use lastuse_vendor::{Package, ggml};

use crate::files::{files, parent};
use crate::here::check_here;
use crate::release::expected;

/// A recipe, in a folder that has nothing else but the tarball.
#[derive(Debug)]
pub struct Recipe {
    /// The way that tests it.
    pub way: &'static str,
    /// Its folder.
    pub folder: PathBuf,
    /// The unpacked sources.
    pub sources: PathBuf,
}

impl Recipe {
    /// Copies the recipe of this name from the sources of the last commit, and the tarball of these.
    ///
    /// # Errors
    /// The message of git or tar, and the error of the system.
    pub fn copied(way: &'static str) -> Result<Self> {
        let sources = sources()?;
        let folder = root().join(way);
        let _ = fs::remove_dir_all(&folder);
        copy_folder(&sources.join("packaging").join(way), &folder)?;
        let recipe = Self { way, folder, sources };
        let (from, to) = (tarball_of(&recipe.sources), recipe.tarball());
        fs::copy(&from, &to).map_err(|error| format!("{}: {error}", to.display()))?;
        Ok(recipe)
    }

    /// The tarball.
    pub fn tarball(&self) -> PathBuf {
        self.folder.join(tarball_of(&self.sources).file_name().unwrap_or_default())
    }

    /// A command in the folder, where cargo builds what recipes share.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(&self.folder).env("CARGO_TARGET_DIR", root().join("cargo"));
        command
    }

    /// Checks that a folder has the files of a release and nothing else. `place` has the name of each in the folder, or `None`,
    /// and `more` are further ones.
    ///
    /// # Errors
    /// The files that are there.
    pub fn check_files(
        &self,
        usr: &Path,
        page: &str,
        place: impl Fn(String) -> Option<String>,
        more: &[&str],
    ) -> Result<()> {
        let pages = files(&usr.join("share/man/man1"))?;
        if !pages.iter().any(|name| name == page) {
            return Err(format!("there is no {page} among the pages: {pages:?}"));
        }
        let mut wanted: Vec<String> = expected(&pages).into_iter().filter_map(place).collect();
        wanted.extend(more.iter().map(|&name| name.to_owned()));
        wanted.sort();
        let found = files(usr)?;
        if found != wanted {
            return Err(format!("the files are {found:?} instead of {wanted:?}"));
        }
        println!("{}: {} files are installed, as expected", self.way, found.len());
        Ok(())
    }

    /// Uses what is installed below `usr`: the tool, the examples, the shared library when it is preloaded, and what is put into
    /// a ggml that is built.
    ///
    /// # Errors
    /// What does not hold, or the message of a build.
    pub fn check_installed(&self, usr: &Path, libraries: &str, shared: &str) -> Result<()> {
        let prefix = Prefix::unpacked(usr, libraries)?;
        check_here(self.way, &usr.join("bin/lastuse"), &prefix)?;
        let (ggml, library) = (ggml(Package::LlamaCpp)?, usr.join(shared));
        for name in ["plain_allocator", "plain_scheduler"] {
            let source = format!("tests/support/{name}.c");
            let program = Program::build(&format!("packages-{name}"), &[&source], &ggml, Linked::SharedGgml, &[])?;
            let [with, without] = check_served(program.path(), &[], &[("LD_PRELOAD", library.as_os_str())])?;
            println!("{}: {name}, lastuse preloaded: {with} bytes, {without} with LASTUSE=off", self.way);
        }
        for [with, without] in check_ggml(&prefix, Form::PartShared)? {
            println!("{}: a ggml with lastuse inside: {with} bytes, {without} with LASTUSE=off", self.way);
        }
        Ok(())
    }
}

/// Words that start a program as a user that is not root, who has the same files as this one.
pub fn as_user(words: &[&'static str]) -> Vec<&'static str> {
    let other = ["unshare", "--user", "--map-user=1000", "--map-group=1000"];
    if is_root() { [&other, words].concat() } else { words.to_vec() }
}

/// Words that start a program as root, for what needs a root of its own (chroot); others keep their rights.
pub fn as_root(words: &[&'static str]) -> Vec<&'static str> {
    if is_root() { words.to_vec() } else { [&["unshare", "--user", "--map-root-user"], words].concat() }
}

fn is_root() -> bool {
    // The owner of these files is the user that the process runs as.
    fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0)
}

fn root() -> PathBuf {
    packages_folder().join("recipes")
}

/// The tarball of unpacked sources.
fn tarball_of(sources: &Path) -> PathBuf {
    let mut name = sources.as_os_str().to_owned();
    name.push(".tar.gz");
    name.into()
}

/// Returns the unpacked sources of the last commit, next to their tarball.
fn sources() -> Result<PathBuf> {
    let repository = folder().with_file_name("");
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(&repository).args(arguments);
        output_of(command)
    };
    if !git(&["status", "--porcelain"])?.is_empty() {
        eprintln!("[recipes] changes that are not committed are not in the sources");
    }
    let name = format!("lastuse-{}", env!("CARGO_PKG_VERSION"));
    let sources = root().join("sources").join(&name);
    let (all, stamp) = (parent(&sources), sources.with_file_name("commit"));
    let commit = git(&["rev-parse", "HEAD"])?;
    if fs::read_to_string(&stamp).is_ok_and(|found| found == commit) {
        return Ok(sources);
    }
    let _ = fs::remove_dir_all(all);
    fs::create_dir_all(all).map_err(|error| format!("{}: {error}", all.display()))?;
    let archive = all.join("sources.tar");
    git(&["archive", &format!("--prefix={name}/"), "--output", &archive.to_string_lossy(), "HEAD"])?;
    let tar = |arguments: &[&str], file: &Path| {
        let mut command = Command::new("tar");
        command.arg("-C").arg(all).args(arguments).arg("-f").arg(file);
        output_of(command)
    };
    // Files have the time of now: cargo takes what it built of another commit for that of this one, if they are older.
    tar(&["-xm"], &archive)?;
    tar(&["-cz", &name], &tarball_of(&sources))?;
    fs::remove_file(&archive).map_err(|error| format!("{}: {error}", archive.display()))?;
    fs::write(&stamp, commit).map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(sources)
}
