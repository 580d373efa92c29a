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

/// Files that a program has opened to be replaced, before it has computed anything.
#[derive(Debug, Default)]
struct Written {
    /// Those that were there, with the files that are written in their place.
    replaced: Vec<(PathBuf, CString)>,
    /// Those that were not there.
    created: Vec<PathBuf>,
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

/// Returns the path that is opened in place of another one. A file that a program would replace before it has computed anything
/// stays as it is, and another one is written; afterwards a file that it would write has results, and the dry run ends.
///
/// # Safety
/// `path` is a string that ends in NUL, or null.
pub unsafe fn opened(path: *const c_char, how: Use) -> *const c_char {
    if !is_active() || path.is_null() {
        return path;
    }
    // SAFETY: a string that ends in NUL: see "# Safety".
    let name = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    if how == Use::Read && written().replaced.is_empty() {
        return path;
    }
    let name = absolute(name).unwrap_or_else(|_| name.to_owned());
    if let Some((_, instead)) = written().replaced.iter().find(|(replaced, _)| *replaced == name) {
        // It stays for as long as the program runs.
        return instead.as_ptr();
    }
    if how == Use::Read || is_exempt(&name) {
        return path;
    }
    if graphs() > 0 {
        end(End::Complete, &format!("it was about to write {}, without a result", name.display()));
    }
    match (how, name.exists()) {
        (Use::Replace, true) => instead_of(name),
        (_, true) => path,
        (_, false) => {
            written().created.push(name);
            path
        }
    }
}

/// Returns the path of a new file in the folder of the dry run.
fn instead_of(name: PathBuf) -> *const c_char {
    let mut written = written();
    let path = folder().join(format!("{}-{}.written", std::process::id(), written.replaced.len()));
    let path = CString::new(path.into_os_string().into_encoded_bytes()).unwrap_or_default();
    let address = path.as_ptr();
    written.replaced.push((name, path));
    address
}

/// Removes the files that were not there before.
pub fn remove_created() {
    let created = std::mem::take(&mut written().created);
    for file in created {
        // The program may have removed it.
        let _ = std::fs::remove_file(file);
    }
}
