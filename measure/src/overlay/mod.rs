//! The files that a program sees in a dry run: those of the system, and over them what it has written itself. No file of the system
//! is changed.
//!
//! The folder of the dry run has the two parts of an overlay file system: `new/PATH` is the upper layer, with what the program has
//! written to a path, and `gone/PATH` is a whiteout, for what the program has removed. All processes of a dry run share them. Folders
//! are not merged: the list of a folder's files is that of the system.

mod paths;

use std::cell::Cell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use self::paths::{
    Seen, c_path, end_after_graphs, is_exempt, is_writable, make_folder, mark_gone, refused, resolved, seen, with,
    within,
};
use crate::end::{End, end, folder};
use crate::is_active;

/// What a wrapper does.
#[derive(Debug)]
pub enum Instead {
    /// Forwards the call.
    AsAsked,
    /// Forwards the call with this path, of a file in the overlay.
    With(CString),
    /// Returns 0: the overlay has been changed.
    Done,
    /// Fails with this error number.
    Fails(c_int),
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Access {
    pub writes: bool,
    /// `O_TRUNC`.
    pub empties: bool,
    /// `O_CREAT`.
    pub makes: bool,
    /// `O_CREAT | O_EXCL`.
    pub is_new: bool,
}

impl Access {
    pub const READ: Self = Self { writes: false, empties: false, makes: false, is_new: false };
    pub const CHANGE: Self = Self { writes: true, ..Self::READ };
}

/// The most bytes of a file that is changed, and so copied.
const MOST_COPIED: u64 = 1 << 30;

thread_local! {
    /// Whether this thread looks at files for this library.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Decides about a call of the program, and not about those that this library makes to decide.
fn decide(decision: impl FnOnce() -> Result<Instead, io::Error>) -> Instead {
    if !is_active() || IS_INSIDE.replace(true) {
        return Instead::AsAsked;
    }
    let decided = decision();
    IS_INSIDE.set(false);
    decided.unwrap_or_else(|error| Instead::Fails(error.raw_os_error().unwrap_or(libc::EIO)))
}

impl Instead {
    /// Forwards a call that takes a folder and a path by `function`, or does what was decided in its place.
    pub fn call(self, at: c_int, path: *const c_char, function: impl FnOnce(c_int, *const c_char) -> c_int) -> c_int {
        match self {
            Self::AsAsked => function(at, path),
            Self::With(path) => function(libc::AT_FDCWD, path.as_ptr()),
            Self::Done => 0,
            Self::Fails(error) => {
                set_error(error);
                -1
            }
        }
    }
}

/// Sets the error number of this thread.
pub fn set_error(error: c_int) {
    // SAFETY: takes nothing.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the address of this thread's error number.
    unsafe { place.write(error) };
}

/// Returns the error number of this thread.
pub fn error() -> c_int {
    // SAFETY: takes nothing.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the address of this thread's error number.
    unsafe { place.read() }
}

/// The paths of both trees.
static TREES: OnceLock<[CString; 2]> = OnceLock::new();

/// Notes where the trees are.
pub fn begin() {
    let trees = ["new", "gone"].map(|tree| c_path(&folder().join(tree)).unwrap_or_default());
    let _ = TREES.set(trees);
}

/// Returns `true` if the program has changed no file yet. It allocates no memory: allocators ask for files as they start.
fn is_unchanged() -> bool {
    let is_there = |tree: &CString| {
        // SAFETY: a string that ends in NUL.
        unsafe { libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, tree.as_ptr(), libc::F_OK, 0) == 0 }
    };
    !TREES.get().is_some_and(|trees| trees.iter().any(is_there))
}

/// Decides how a file is opened, or asked for. One that the program would write is another one, and after a graph the dry run ends.
///
/// # Safety
/// `path` is a string that ends in NUL, or null.
pub unsafe fn opened(at: c_int, path: *const c_char, access: Access) -> Instead {
    decide(|| {
        let asks = !access.writes && !access.makes;
        if asks && is_unchanged() {
            return Ok(Instead::AsAsked);
        }
        // SAFETY: as the caller guarantees.
        let Some(path) = (unsafe { resolved(at, path, true) }) else { return Ok(Instead::AsAsked) };
        let new = within("new", &path);
        match seen(&path) {
            Seen::New(_) if access.is_new => return Ok(Instead::Fails(libc::EEXIST)),
            Seen::New(_) => {
                let is_link = fs::symlink_metadata(&new)?.is_symlink();
                if access.writes && is_link {
                    let target = fs::canonicalize(&new)?;
                    fs::remove_file(&new)?;
                    take_over(&target, &new, access)?;
                }
                return with(&new);
            }
            Seen::Gone if !access.makes => return Ok(Instead::Fails(libc::ENOENT)),
            Seen::Gone => {}
            Seen::System if asks || is_exempt(&path) => return Ok(Instead::AsAsked),
            Seen::System => match fs::metadata(&path) {
                Ok(found) => {
                    let cannot = access.is_new || !found.is_file() || !is_writable(&path);
                    if cannot || !access.writes {
                        return Ok(Instead::AsAsked);
                    }
                    end_after_graphs("write", &path);
                    make_folder(&new)?;
                    take_over(&path, &new, access)?;
                    return with(&new);
                }
                Err(_) if !access.makes => return Ok(Instead::AsAsked),
                Err(_) => {}
            },
        }
        if let Some(refused) = refused(&path) {
            return Ok(refused);
        }
        end_after_graphs("write", &path);
        make_folder(&new)?;
        with(&new)
    })
}

/// Makes a new file in place of one of the system.
fn take_over(system: &Path, new: &Path, access: Access) -> io::Result<()> {
    let found = fs::metadata(system)?;
    if access.empties {
        fs::write(new, [])?;
    } else if found.len() > MOST_COPIED {
        end(End::Unknown, &format!("it changes {}, which is too large to be copied for a dry run", system.display()));
    } else {
        fs::copy(system, new)?;
    }
    fs::set_permissions(new, Permissions::from_mode(found.permissions().mode() | 0o600))
}

/// Decides how a file or an empty folder is removed.
///
/// # Safety
/// `path` is a string that ends in NUL, or null.
pub unsafe fn removed(at: c_int, path: *const c_char, is_folder: bool) -> Instead {
    decide(|| {
        // SAFETY: as the caller guarantees.
        let Some(path) = (unsafe { resolved(at, path, false) }) else { return Ok(Instead::AsAsked) };
        match seen(&path) {
            Seen::Gone => return Ok(Instead::Fails(libc::ENOENT)),
            Seen::New(new) => {
                mark_gone(&path)?;
                return with(&new);
            }
            Seen::System => {}
        }
        let Ok(found) = fs::symlink_metadata(&path) else { return Ok(Instead::AsAsked) };
        // The forwarded call fails with ENOTDIR, EISDIR or ENOTEMPTY.
        let cannot = found.is_dir() != is_folder || (is_folder && !is_empty(&path)?);
        // A socket or a pipe has nothing that could be lost.
        let has_content = found.is_file() || found.is_dir() || found.is_symlink();
        if cannot || !has_content || is_exempt(&path) {
            return Ok(Instead::AsAsked);
        }
        if let Some(refused) = refused(&path) {
            return Ok(refused);
        }
        end_after_graphs("remove", &path);
        if is_folder {
            let _ = fs::remove_dir(within("new", &path));
        }
        mark_gone(&path)?;
        Ok(Instead::Done)
    })
}

/// Returns whether a folder has no files for the program.
fn is_empty(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        if !matches!(seen(&entry?.path()), Seen::Gone) {
            return Ok(false);
        }
    }
    Ok(fs::read_dir(within("new", path)).map_or(true, |mut entries| entries.next().is_none()))
}

/// Decides how a file is renamed: what the system has stays, and the program finds it by the other name.
///
/// # Safety
/// `from` and `to` are strings that end in NUL, or null.
pub unsafe fn renamed(from: (c_int, *const c_char), to: (c_int, *const c_char), flags: u32) -> Instead {
    decide(|| {
        // SAFETY: as the caller guarantees.
        let Some(from) = (unsafe { resolved(from.0, from.1, false) }) else { return Ok(Instead::AsAsked) };
        // SAFETY: as above.
        let Some(to) = (unsafe { resolved(to.0, to.1, false) }) else { return Ok(Instead::AsAsked) };
        if is_exempt(&from) && is_exempt(&to) {
            return Ok(Instead::AsAsked);
        }
        let there = match seen(&from) {
            Seen::Gone => return Ok(Instead::Fails(libc::ENOENT)),
            Seen::New(new) => new,
            Seen::System => from.clone(),
        };
        let Ok(found) = fs::symlink_metadata(&there) else { return Ok(Instead::AsAsked) };
        let target = seen(&to);
        let is_target_there =
            matches!(target, Seen::New(_)) || (matches!(target, Seen::System) && fs::symlink_metadata(&to).is_ok());
        if flags & libc::RENAME_EXCHANGE != 0 || (found.is_dir() && there == from) {
            end(End::Unknown, &format!("it renames {} to {}", from.display(), to.display()));
        }
        if from == to {
            return Ok(Instead::Done);
        }
        if is_target_there && flags & libc::RENAME_NOREPLACE != 0 {
            return Ok(Instead::Fails(libc::EEXIST));
        }
        if let Some(refused) = refused(&to) {
            return Ok(refused);
        }
        end_after_graphs("write", &to);
        let new = within("new", &to);
        make_folder(&new)?;
        if there == from {
            let _ = fs::remove_file(&new);
            symlink(&from, &new)?;
        } else {
            fs::rename(&there, &new)?;
        }
        mark_gone(&from)?;
        Ok(Instead::Done)
    })
}

/// Decides how a folder is made.
///
/// # Safety
/// `path` is a string that ends in NUL, or null.
pub unsafe fn made(at: c_int, path: *const c_char) -> Instead {
    decide(|| {
        // SAFETY: as the caller guarantees.
        let Some(path) = (unsafe { resolved(at, path, false) }) else { return Ok(Instead::AsAsked) };
        match new_place(&path)? {
            Ok(new) => with(&new),
            Err(instead) => Ok(instead),
        }
    })
}

/// Decides how a link to a file is made: what the system has gets a symbolic one.
///
/// # Safety
/// `target` and `path` are strings that end in NUL, or null.
pub unsafe fn linked(target: (c_int, *const c_char), (at, path): (c_int, *const c_char), is_symbolic: bool) -> Instead {
    decide(|| {
        // SAFETY: as the caller guarantees.
        let Some(path) = (unsafe { resolved(at, path, false) }) else { return Ok(Instead::AsAsked) };
        let new = match new_place(&path)? {
            Ok(new) => new,
            Err(instead) => return Ok(instead),
        };
        let target = if is_symbolic {
            // SAFETY: a string that ends in NUL, as the caller guarantees.
            let target = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(target.1) }.to_bytes()));
            path.parent().unwrap_or(&path).join(target)
        } else {
            // SAFETY: as the caller guarantees.
            let Some(target) = (unsafe { resolved(target.0, target.1, true) }) else { return Ok(Instead::AsAsked) };
            target
        };
        match seen(&target) {
            // It stays if the other name is removed.
            Seen::New(target) if !is_symbolic => fs::hard_link(target, new)?,
            Seen::New(target) => symlink(target, new)?,
            _ => symlink(target, new)?,
        }
        Ok(Instead::Done)
    })
}

/// Returns where something new is at a path where nothing is, and whose folder is made; otherwise what happens instead.
fn new_place(path: &Path) -> io::Result<Result<PathBuf, Instead>> {
    let is_there = match seen(path) {
        Seen::New(_) => true,
        Seen::Gone => false,
        Seen::System => fs::symlink_metadata(path).is_ok(),
    };
    if is_there {
        return Ok(Err(Instead::Fails(libc::EEXIST)));
    }
    if is_exempt(path) {
        return Ok(Err(Instead::AsAsked));
    }
    if let Some(refused) = refused(path) {
        return Ok(Err(refused));
    }
    let new = within("new", path);
    make_folder(&new)?;
    Ok(Ok(new))
}

/// Decides how the properties of a file are changed: those of the system's stay.
///
/// # Safety
/// `path` is a string that ends in NUL, or null.
pub unsafe fn adjusted(at: c_int, path: *const c_char) -> Instead {
    decide(|| {
        // SAFETY: as the caller guarantees.
        let Some(path) = (unsafe { resolved(at, path, true) }) else { return Ok(Instead::AsAsked) };
        match seen(&path) {
            Seen::New(new) => with(&new),
            Seen::Gone => Ok(Instead::Fails(libc::ENOENT)),
            Seen::System if is_exempt(&path) || !path.exists() => Ok(Instead::AsAsked),
            Seen::System => Ok(Instead::Done),
        }
    })
}
