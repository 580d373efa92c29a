//! Files that a program would write: results, of which a dry run has none.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf, absolute};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::compute::graphs;
use crate::end::{End, end, folder};
use crate::is_active;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Read,
    /// To be changed, or to be added to.
    Change,
    /// To be replaced.
    Replace,
}

/// Files that a program has opened to be replaced, renamed or removed, before it has computed anything.
#[derive(Debug, Default)]
struct Written {
    /// Those that were there, with the files in their place; the last one of a name counts.
    replaced: Vec<Replaced>,
    /// Those that were not there.
    created: Vec<PathBuf>,
}

/// A name that stands for another file, or for none.
#[derive(Debug)]
struct Replaced {
    name: PathBuf,
    /// The path of the file; it stays for as long as the program runs.
    instead: CString,
    /// Whether the file is one of the dry run.
    is_own: bool,
}

static WRITTEN: Mutex<Written> = Mutex::new(Written { replaced: Vec::new(), created: Vec::new() });

fn written() -> MutexGuard<'static, Written> {
    WRITTEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Folders of caches and captures, which are no results: variables that name them, and names of folders.
const CACHES: [&CStr; 4] = [c"XDG_CACHE_HOME", c"HF_HOME", c"LLAMA_CACHE", c"LASTUSE_CAPTURE"];
const CACHE_NAMES: [&str; 2] = [".cache", "__pycache__"];

/// Returns whether files in a folder are no results of a program.
fn is_exempt(path: &Path) -> bool {
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
    [Path::new("/dev"), Path::new("/proc"), own].iter().any(|folder| path.starts_with(folder))
        || path.iter().any(|name| CACHE_NAMES.iter().any(|cache| name == *cache))
        || CACHES.iter().any(is_in)
}

/// Returns the absolute path that a program names.
///
/// # Safety
/// `path` is a string that ends in NUL.
unsafe fn absolute_path(path: *const c_char) -> PathBuf {
    // SAFETY: a string that ends in NUL: see "# Safety".
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the path that is opened in place of another one. A file that a program would replace before it has computed anything
/// stays as it is, and another one is written; afterwards a file that it would write has results, and the dry run ends.
///
/// # Safety
/// `path` is a string that ends in NUL, or null.
pub unsafe fn opened(path: *const c_char, how: Use) -> *const c_char {
    if !is_active() || path.is_null() || (how == Use::Read && written().replaced.is_empty()) {
        return path;
    }
    // SAFETY: a string that ends in NUL: see "# Safety".
    let name = unsafe { absolute_path(path) };
    let replaced = written().find(&name).map(|it| (it.instead.as_ptr(), it.is_own));
    match (replaced, how) {
        (Some((instead, true)), _) | (Some((instead, false)), Use::Read) => return instead,
        (Some((_, false)), Use::Replace) => return written().replace(name),
        (Some((_, false)), Use::Change) => {
            end(End::Unknown, &format!("it changes {}, which it has renamed", name.display()));
        }
        (None, _) => {}
    }
    if how == Use::Read || is_exempt(&name) {
        return path;
    }
    end_after_graphs("write", &name);
    match (how, name.exists()) {
        (Use::Replace, true) => written().replace(name),
        (_, true) => path,
        (_, false) => {
            written().created.push(name);
            path
        }
    }
}

/// Returns the path to remove in place of another one. A file that was there before the program started stays, and is not there for
/// the program: `None`.
///
/// # Safety
/// `path` is a string that ends in NUL, or null.
pub unsafe fn removed(path: *const c_char) -> Option<*const c_char> {
    if !is_active() || path.is_null() {
        return Some(path);
    }
    // SAFETY: a string that ends in NUL: see "# Safety".
    let name = unsafe { absolute_path(path) };
    let replaced = written().find(&name).map(|it| (it.instead.as_ptr(), it.is_own));
    match replaced {
        Some((instead, true)) => return Some(instead),
        None if !is_file(&name) || is_exempt(&name) || written().created.contains(&name) => return Some(path),
        _ => {}
    }
    end_after_graphs("remove", &name);
    written().replace(name);
    None
}

/// Returns `true` if the files of two names stay as they are where a program renames one: it then finds the first by the second name.
/// One that the dry run has made is renamed, unless that would replace another.
///
/// # Safety
/// `from` and `to` are strings that end in NUL, or null.
pub unsafe fn renamed(from: *const c_char, to: *const c_char) -> bool {
    if !is_active() || from.is_null() || to.is_null() {
        return false;
    }
    // SAFETY: a string that ends in NUL: see "# Safety".
    let from = unsafe { absolute_path(from) };
    // SAFETY: as above.
    let to = unsafe { absolute_path(to) };
    if is_exempt(&from) || is_exempt(&to) {
        return false;
    }
    end_after_graphs("write", &to);
    let mut written = written();
    let is_created = written.created.contains(&from);
    let source = match written.find(&from) {
        Some(Replaced { instead, is_own, .. }) => (instead.clone(), *is_own),
        None if !is_file(&from) => return false,
        None => (c_path(from.clone()), is_created),
    };
    if is_created && written.find(&to).is_none() && !to.exists() {
        written.created.retain(|created| *created != from);
        written.created.push(to);
        return false;
    }
    let (instead, is_own) = source;
    written.replaced.push(Replaced { name: to, instead, is_own });
    written.replace(from);
    true
}

fn is_file(name: &Path) -> bool {
    name.symlink_metadata().is_ok_and(|it| !it.is_dir())
}

/// Ends the dry run if a graph was left out, since what the program does with a file has results.
fn end_after_graphs(what: &str, name: &Path) {
    if graphs() > 0 {
        end(End::Complete, &format!("it was about to {what} {}, without a result", name.display()));
    }
}

fn c_path(path: PathBuf) -> CString {
    CString::new(path.into_os_string().into_encoded_bytes()).unwrap_or_default()
}

impl Written {
    /// Returns what stands for a name.
    fn find(&self, name: &Path) -> Option<&Replaced> {
        self.replaced.iter().rev().find(|replaced| replaced.name == name)
    }

    /// Returns the path of a new file in the folder of the dry run, in place of another one.
    fn replace(&mut self, name: PathBuf) -> *const c_char {
        let instead = c_path(folder().join(format!("{}-{}.written", std::process::id(), self.replaced.len())));
        let path = instead.as_ptr();
        self.replaced.push(Replaced { name, instead, is_own: true });
        path
    }
}

/// Removes the files that were not there before.
pub fn remove_created() {
    let created = std::mem::take(&mut written().created);
    for file in created {
        let path = c_path(file);
        // Not the function, which this library wraps. The program may have removed it.
        // SAFETY: a string that ends in NUL.
        unsafe { libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, path.as_ptr(), 0) };
    }
}
