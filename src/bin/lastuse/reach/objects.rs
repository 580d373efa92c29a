//! The program or library, and those that the dynamic linker loads with it, in the order of its search.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::elf::Elf;

/// Where the dynamic linker looks at last, for libraries of this machine.
const FOLDERS: [&str; 5] = ["/usr/local/lib", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// Files of one process.
pub struct Objects {
    /// Each with its tables; the given file is the first.
    pub files: Vec<(PathBuf, Elf)>,
    /// The names of libraries that were not found.
    pub missing: Vec<OsString>,
}

impl Objects {
    /// Opens a file and all libraries that it needs; `None` if the file is not a 64-bit ELF file.
    pub fn open(file: &Path) -> Option<Self> {
        let mut all = Self { files: vec![(file.to_owned(), Elf::open(file)?)], missing: Vec::new() };
        let mut waiting = VecDeque::from([0]);
        while let Some(at) = waiting.pop_front() {
            for library in all.needed_by(at) {
                match library {
                    Ok((path, elf)) if all.files.iter().all(|(known, _)| *known != path) => {
                        waiting.push_back(all.files.len());
                        all.files.push((path, elf));
                    }
                    Err(name) if !all.missing.contains(&name) => all.missing.push(name),
                    _ => {}
                }
            }
        }
        Some(all)
    }

    /// Returns the libraries that a file needs, or their names.
    fn needed_by(&self, at: usize) -> Vec<Result<(PathBuf, Elf), OsString>> {
        let (file, elf) = &self.files[at];
        let needs = elf.needs();
        let variable = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let listed = [&needs.before, &variable, &needs.after].map(|list| folders(list, file));
        let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
        let fixed = FOLDERS.iter().flat_map(|folder| [Path::new(folder).join(&machine), PathBuf::from(folder)]);
        let folders: Vec<PathBuf> = listed.into_iter().flatten().chain(fixed).collect();
        let find = |name: &OsString| {
            let mut places = folders.iter().map(|folder| folder.join(name));
            places.find_map(|path| Some((path.canonicalize().ok()?, Elf::open(&path)?)))
        };
        needs.libraries.into_iter().map(|name| find(&name).ok_or(name)).collect()
    }
}

/// Splits a list of folders, in which $ORIGIN is replaced by that of the file.
fn folders(list: &OsStr, file: &Path) -> Vec<PathBuf> {
    let origin = file.canonicalize().ok().and_then(|file| file.parent().map(Path::to_owned)).unwrap_or_default();
    let folder = |part: &[u8]| {
        let rest = [&b"$ORIGIN"[..], b"${ORIGIN}"].into_iter().find_map(|word| part.strip_prefix(word));
        rest.map_or_else(
            || PathBuf::from(OsStr::from_bytes(part)),
            |rest| origin.join(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest))),
        )
    };
    list.as_bytes().split(|&byte| byte == b':').filter(|part| !part.is_empty()).map(folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_is_the_folder_of_the_file() {
        let list = OsStr::new("$ORIGIN/../lib:${ORIGIN}::/opt/x");
        let origin = Path::new("/proc/self").canonicalize().expect("it is there");
        let expected = [origin.join("../lib"), origin.join(""), PathBuf::from("/opt/x")];
        assert_eq!(folders(list, Path::new("/proc/self/stat")), expected);
    }
}
