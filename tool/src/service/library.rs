//! The library that a service preloads: one that it may read.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::unit::Manager;
use crate::foreign::unreadable;
use crate::launch::library::{self, GUARD, check_content, check_name};
use crate::settings::{NEED_GUARD, USE_GUARD};

/// Where packages and `cmake --install` have it.
const INSTALLED: [&str; 3] =
    ["/usr/local/lib/liblastuse.so", "/usr/lib/lastuse/liblastuse.so", "/usr/lib/liblastuse.so"];

/// Folders that units hide from their programs, or that go with a user.
const HIDDEN: [&str; 6] = ["/home", "/root", "/run", "/tmp", "/var/tmp", "/dev"];

/// The variables that a drop-in sets, with their values.
type Variables<'a> = &'a [(&'a str, String)];

/// Finds the library as the programs of a manager see it: the file given, or that of this tool, or an installed one.
///
/// # Errors
/// Names the command that installs it where it can be read, with the guard if one of the variables needs that.
pub fn find(given: Option<&Path>, variables: Variables<'_>, manager: &Manager) -> Result<PathBuf, String> {
    if let Some(given) = given {
        let file = if manager.is_this_system() { std::path::absolute(given) } else { Ok(given.to_owned()) };
        let file = file.map_err(|error| format!("{}: {error}", given.display()))?;
        let there = manager.in_root(&file);
        return usable(&file, manager).map_err(|why| format!("the library {} cannot be used: {why}", there.display()));
    }
    let of_tool = library::find(None).map_err(|missing| missing.message);
    let nearest = of_tool.as_deref().ok().filter(|_| manager.is_this_system());
    let places = nearest.into_iter().chain(INSTALLED.map(Path::new));
    if let Some(file) = places.into_iter().find_map(|place| usable(place, manager).ok()) {
        return Ok(file);
    }
    let why = nearest.and_then(|file| Some(format!("{}: {}", file.display(), usable(file, manager).err()?)));
    // One that is there, and cannot be used, says more than those that are missing.
    let is_there = |file: &&str| manager.in_root(Path::new(file)).symlink_metadata().is_ok();
    let unusable = INSTALLED.iter().find(|file| is_there(file));
    let unusable = unusable.and_then(|file| Some((shown(file, manager), usable(Path::new(file), manager).err()?)));
    let why = why.or_else(|| unusable.map(|(file, why)| format!("{file}: {why}")));
    let why = why.unwrap_or_else(|| format!("there is no {}", INSTALLED.map(|file| shown(file, manager)).join(", ")));
    let (library, to) = (of_tool?, manager.in_root(Path::new(INSTALLED[0])));
    let install = match set_by(variables, &NEED_GUARD) {
        Some(_) => installs_both(&library, &guard_of_tool()?, &to, manager),
        None => installs(&library, &to, manager),
    };
    Err(format!("found no library that services can read ({why}); {install}"))
}

/// Returns the end of a message: the command that installs a file.
fn installs(file: &Path, to: &Path, manager: &Manager) -> String {
    format!("this installs it: {} {} {}", install(manager), file.display(), to.display())
}

/// Returns the end of a message: the command that installs the library to a file, and the guard beside that.
fn installs_both(library: &Path, guard: &Path, to: &Path, manager: &Manager) -> String {
    let folder = to.parent().unwrap_or(Path::new("/"));
    let files = format!("{} {}", library.display(), guard.display());
    format!("this installs it: {} -t {} {files}", install(manager), folder.display())
}

/// Returns the start of the command: users install for themselves.
fn install(manager: &Manager) -> &'static str {
    if manager.is_user { "install -Dm644" } else { "sudo install -Dm644" }
}

fn guard_of_tool() -> Result<PathBuf, String> {
    GUARD.find().map_err(|missing| missing.message)
}

/// Finds the guard in the folder of the library, if one of the variables needs it, or uses it and it is there.
///
/// # Errors
/// Names the command that installs it where it is needed.
pub fn guard_for(variables: Variables<'_>, library: &Path, manager: &Manager) -> Result<Option<PathBuf>, String> {
    let (guard, need) = (library.with_file_name("liblastuse_guard.so"), set_by(variables, &NEED_GUARD));
    if need.is_none() && set_by(variables, &USE_GUARD).is_none() {
        return Ok(None);
    }
    let there = manager.in_root(&guard);
    match need {
        _ if there.is_file() => Ok(Some(guard)),
        None => Ok(None),
        Some(setting) => {
            let of_tool = guard_of_tool()?;
            // The tool may have unpacked it there just now.
            if of_tool == there {
                return Ok(Some(guard));
            }
            let install = installs(&of_tool, &there, manager);
            Err(format!("{setting} needs liblastuse_guard.so beside the library; {install}"))
        }
    }
}

/// Returns the first of the variables that is one of those known.
fn set_by<'a>(variables: Variables<'a>, known: &[&str]) -> Option<&'a str> {
    variables.iter().map(|(name, _)| *name).find(|name| known.contains(name))
}

fn shown(file: &str, manager: &Manager) -> String {
    manager.in_root(Path::new(file)).display().to_string()
}

/// Checks that programs of the manager may read a file; a user's may read all that the user may.
fn usable(file: &Path, manager: &Manager) -> Result<PathBuf, String> {
    let file = check_name(file.to_owned()).map_err(|refused| refused.message)?;
    if !file.is_absolute() {
        return Err("its path is not absolute".to_owned());
    }
    let there = manager.in_root(&file);
    there.symlink_metadata().map_err(|error| unreadable(&there, &error))?;
    check_content(&there)?;
    if manager.is_user {
        return Ok(file);
    }
    if let Some(hidden) = HIDDEN.iter().find(|hidden| file.starts_with(hidden)) {
        return Err(format!("services may not see {hidden}"));
    }
    let parts: Vec<&Path> = file.ancestors().collect();
    for part in &parts {
        let needed = if *part == file { 0o4 } else { 0o1 };
        let data = manager.in_root(part).metadata();
        // The root itself may be that of an image, which is private where it is made.
        if *part != Path::new("/") && data.is_ok_and(|data| data.mode() & needed == 0) {
            return Err(format!("not all users may read {}", part.display()));
        }
    }
    Ok(file)
}
