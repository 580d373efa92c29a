//! The file that an accounting is written to.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::ggml::observe::file_names::split_around;
use crate::ggml::observe::whole_file::{NotWritten, write_whole};
use crate::ggml::platform::check_writable_folder;

/// The placeholder for the process id in the name of a file.
const PROCESS: &str = "%p";

/// Names of files that the process has open, also where they are redirected to ordinary files.
const STREAMS: [&str; 2] = ["/dev/stdout", "/dev/stderr"];
const FOLDERS_OF_STREAMS: [&str; 2] = ["/dev/fd", "/proc/self/fd"];

/// A file for an accounting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountingFile {
    /// The absolute path, in which "%p" is replaced by the process id.
    path: PathBuf,
}

impl AccountingFile {
    /// Returns the file with this name, and checks that it can be written: that its folder is writable and it does not
    /// exist. Devices such as "/dev/stderr" may exist. The path becomes absolute, since the program may change its
    /// working directory.
    ///
    /// # Errors
    /// [`NotWritten`].
    pub fn new(path: &Path) -> Result<Self, NotWritten> {
        let refused = |error| NotWritten::to_file(path, &error);
        let file = Self { path: std::path::absolute(path).map_err(refused)? };
        file.check_new()?;
        if !file.is_device() {
            // A file that can be created here now can be created at the end.
            let folder = file.path.parent().unwrap_or(Path::new("/"));
            check_writable_folder(folder).map_err(refused)?;
        }
        Ok(file)
    }

    /// Returns the path for this process.
    fn of_process(&self) -> PathBuf {
        let Some((before, after)) = split_around(self.path.as_os_str(), PROCESS) else { return self.path.clone() };
        let mut whole = before.to_owned();
        whole.push(std::process::id().to_string());
        whole.push(after);
        PathBuf::from(whole)
    }

    /// Returns `true` for files that are appended to: a device, a pipe, or a file that the process has open.
    fn is_device(&self) -> bool {
        let path = self.of_process();
        let is_open = STREAMS.iter().any(|stream| path == Path::new(stream))
            || path.parent().is_some_and(|folder| FOLDERS_OF_STREAMS.iter().any(|known| folder == Path::new(known)));
        fs::metadata(&path).is_ok_and(|data| !data.is_dir() && (is_open || !data.is_file()))
    }

    fn check_new(&self) -> Result<(), NotWritten> {
        let path = self.of_process();
        // A link to nowhere exists, too.
        if fs::symlink_metadata(&path).is_ok() && !self.is_device() {
            return Err(NotWritten(format!(
                "{} exists: name another file, or remove it; \"%p\" is replaced by the process id",
                path.display()
            )));
        }
        Ok(())
    }

    /// Writes a text: completely, or not at all.
    ///
    /// # Errors
    /// [`NotWritten`]; also if the file exists by now.
    pub fn write(&self, text: &str) -> Result<(), NotWritten> {
        self.check_new()?;
        self.replace(text)
    }

    /// Writes a text, completely or not at all, in place of what the file has.
    ///
    /// # Errors
    /// [`NotWritten`].
    pub fn replace(&self, text: &str) -> Result<(), NotWritten> {
        let path = self.of_process();
        let written = match path.to_str() {
            // Opened again, an ordinary file that they are redirected to would have another position.
            Some("/dev/stderr") => io::stderr().write_all(text.as_bytes()),
            Some("/dev/stdout") => io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()),
            _ if self.is_device() => {
                OpenOptions::new().append(true).open(&path).and_then(|mut file| file.write_all(text.as_bytes()))
            }
            _ => write_whole(&path, |mut file| file.write_all(text.as_bytes())),
        };
        written.map_err(|error| NotWritten::to_file(&path, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("lastuse-{}-accounting-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("it can be created");
        path
    }

    #[test]
    fn files_are_written_once_and_never_over_others() {
        let folder = folder("once");
        for name in ["a.json", "b"] {
            let file = AccountingFile::new(&folder.join(name)).expect("it is new");
            file.write("{}\n").expect("it can be written");
            assert_eq!(fs::read_to_string(folder.join(name)).expect("it is there"), "{}\n");
            let again = file.write("{}\n").expect_err("it exists").to_string();
            assert!(again.contains(" exists: name another file"), "{again}");
            assert!(AccountingFile::new(&folder.join(name)).is_err());
        }
        fs::remove_dir_all(&folder).expect("it exists");
    }

    #[test]
    fn each_process_can_have_a_file() {
        let folder = folder("process");
        let file = AccountingFile::new(&folder.join("of-%p.json")).expect("it is new");
        file.write("{}\n").expect("it can be written");
        assert!(folder.join(format!("of-{}.json", std::process::id())).is_file());
        fs::remove_dir_all(&folder).expect("it exists");
    }

    #[test]
    fn wrong_files_are_errors_that_name_them() {
        let of = |path: &str| AccountingFile::new(Path::new(path)).map(|_| ()).expect_err(path).to_string();
        assert!(of("/dev/null/x.json").starts_with("cannot write to /dev/null/x.json: "));
        assert!(of("/no/such/folder/x.json").starts_with("cannot write to /no/such/folder/x.json: "));
        assert!(of("/tmp").contains("/tmp exists: "));
        for device in ["/dev/null", "/dev/stderr"] {
            AccountingFile::new(Path::new(device)).expect(device).write("").expect(device);
        }
    }
}
