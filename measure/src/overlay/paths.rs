//! Paths of the system, and where what is written to them is in a dry run.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf, absolute};

use super::Instead;
use crate::compute::graphs;
use crate::end::{End, end, folder};

/// What is at a path, as the program sees it.
pub enum Seen {
    /// What the system has there, if anything.
    System,
    /// What the program has written.
    New(PathBuf),
    /// Nothing: the program has removed it.
    Gone,
}

/// Returns the path of a file that is `path` from the folder `at`, without links and ".." in its folder, and also without a link at its
/// end if `follows`. `None` for the empty one.
///
/// # Safety
/// `path` is a string that ends in NUL, or null.
pub unsafe fn resolved(at: c_int, path: *const c_char, follows: bool) -> Option<PathBuf> {
    if path.is_null() {
        return None;
    }
    // SAFETY: a string that ends in NUL: see "# Safety".
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    if path.as_os_str().is_empty() {
        return None;
    }
    let whole = match at {
        libc::AT_FDCWD => absolute(path).ok()?,
        _ if path.is_absolute() => path.to_owned(),
        at => fs::read_link(format!("/proc/self/fd/{at}")).ok()?.join(path),
    };
    if follows && let Ok(target) = fs::canonicalize(&whole) {
        return Some(target);
    }
    // One that ends in ".." is a folder.
    let (Some(parent), Some(name)) = (whole.parent(), whole.file_name()) else { return Some(whole) };
    let parent = fs::canonicalize(parent).unwrap_or_else(|_| parent.to_owned());
    match fs::read_link(&whole) {
        Ok(target) if follows => Some(parent.join(target)),
        _ => Some(parent.join(name)),
    }
}

/// Returns where a path is in one of the two trees.
pub fn within(tree: &str, path: &Path) -> PathBuf {
    folder().join(tree).join(path.strip_prefix("/").unwrap_or(path))
}

/// Returns whether the program has removed what the system has at a path, or its folder.
pub fn is_gone(path: &Path) -> bool {
    match fs::symlink_metadata(within("gone", path)) {
        Ok(mark) => !mark.is_dir(),
        Err(error) => error.raw_os_error() == Some(libc::ENOTDIR),
    }
}

pub fn seen(path: &Path) -> Seen {
    let (new, is_gone) = (within("new", path), is_gone(path));
    match fs::symlink_metadata(&new) {
        // Folders of new files are there for these.
        Ok(it) if !it.is_dir() || is_gone || fs::symlink_metadata(path).is_err() => Seen::New(new),
        _ if is_gone => Seen::Gone,
        _ => Seen::System,
    }
}

/// Folders whose files are not results, but caches and captures: variables with their paths, and names.
const CACHES: [&CStr; 4] = [c"XDG_CACHE_HOME", c"HF_HOME", c"LLAMA_CACHE", c"LASTUSE_CAPTURE"];
const CACHE_NAMES: [&str; 2] = [".cache", "__pycache__"];

/// Returns whether files of a path are written as ever.
pub fn is_exempt(path: &Path) -> bool {
    let is_in = |variable: &&CStr| {
        // SAFETY: the name ends in NUL.
        let folder = unsafe { libc::getenv(variable.as_ptr()) };
        if folder.is_null() {
            return false;
        }
        // SAFETY: not null: a string of the environment.
        let folder = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(folder) }.to_bytes()));
        // An empty one is as if it was not set.
        folder.is_absolute() && path.starts_with(folder)
    };
    // What lastuse itself writes for the tool is beside the folder of the dry run.
    let own = folder().parent().unwrap_or(folder());
    [Path::new("/proc"), own].iter().any(|folder| path.starts_with(folder))
        || path.iter().any(|name| CACHE_NAMES.iter().any(|cache| name == *cache))
        || CACHES.iter().any(is_in)
}

/// Ends the dry run if a graph was left out, since what the program does with a file has results.
pub fn end_after_graphs(what: &str, path: &Path) {
    if graphs() > 0 {
        end(End::Complete, &format!("it was about to {what} {}, without a result", path.display()));
    }
}

pub fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

pub fn with(path: &Path) -> io::Result<Instead> {
    c_path(path).map(Instead::With)
}

/// Returns whether the program may write to a file or folder of the system.
pub fn is_writable(path: &Path) -> bool {
    let Ok(path) = c_path(path) else { return false };
    // SAFETY: a string that ends in NUL.
    unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK, libc::AT_EACCESS) == 0 }
}

/// Returns how it fails to make something at a path, if its folder does not allow it.
pub fn refused(path: &Path) -> Option<Instead> {
    let parent = path.parent()?;
    match seen(parent) {
        Seen::System if parent.is_dir() && is_writable(parent) => None,
        // The system says why.
        Seen::System => Some(Instead::AsAsked),
        Seen::New(folder) if folder.is_dir() => None,
        Seen::New(_) => Some(Instead::Fails(libc::ENOTDIR)),
        Seen::Gone => Some(Instead::Fails(libc::ENOENT)),
    }
}

/// Makes the folder of a new file.
pub fn make_folder(new: &Path) -> io::Result<()> {
    new.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Notes that a path is not there any more, if the system has it.
pub fn mark_gone(path: &Path) -> io::Result<()> {
    if is_gone(path) || fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    let gone = within("gone", path);
    make_folder(&gone)?;
    // A folder has marks of the files that were removed before.
    if gone.is_dir() {
        fs::remove_dir_all(&gone)?;
    }
    fs::write(gone, [])
}
