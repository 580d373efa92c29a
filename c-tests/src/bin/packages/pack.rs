//! Archives that are the same for the same files, and lists of checksums.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lastuse_c_tests::packages::output_of;
use lastuse_c_tests::{Result, folder};

use crate::files::parent;

/// The list of checksums, in an archive and next to archives.
pub const CHECKSUMS: &str = "SHA256SUMS";

/// The seconds since 1970 that all files of a release have as their time: `SOURCE_DATE_EPOCH`, or else that of the last
/// commit.
///
/// # Errors
/// The message of git, where there is no commit.
pub fn source_date() -> Result<String> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(given);
    }
    let mut git = Command::new("git");
    git.arg("-C").arg(folder()).args(["log", "-1", "--format=%ct"]);
    let text = output_of(git).map_err(|why| format!("{why}\nset SOURCE_DATE_EPOCH where there is no git"))?;
    Ok(text.trim().to_owned())
}

/// Packs a folder to `to`, which ends in `.tar.xz`: names in order, all of them owned by root and of this time.
///
/// # Errors
/// The message of tar or xz.
pub fn pack(folder: &Path, to: &Path, seconds: &str) -> Result<()> {
    let plain = to.with_extension("");
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=ustar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--mode=u=rwX,go=rX", &format!("--mtime=@{seconds}"), "--file"]).arg(&plain);
    tar.arg("--directory").arg(parent(folder)).arg(folder.file_name().unwrap_or_default());
    output_of(tar)?;
    let mut xz = Command::new("xz");
    // More threads would cut it into blocks.
    xz.args(["-9", "--threads=1", "--force"]).arg(&plain);
    output_of(xz).map(|_| ())
}

/// Unpacks an archive to an empty folder, and returns the one folder that is in it.
///
/// # Errors
/// The message of tar, and that there is more than one folder.
pub fn unpack(archive: &Path, to: &Path) -> Result<PathBuf> {
    let _ = fs::remove_dir_all(to);
    let failed = |error: std::io::Error| format!("{}: {error}", to.display());
    fs::create_dir_all(to).map_err(failed)?;
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--file").arg(archive).arg("--directory").arg(to);
    output_of(tar)?;
    let entries: Vec<PathBuf> = fs::read_dir(to).map_err(failed)?.flatten().map(|entry| entry.path()).collect();
    let [only] = entries.as_slice() else {
        return Err(format!("{} has {} files instead of one folder", archive.display(), entries.len()));
    };
    Ok(only.clone())
}

/// Writes the checksums of these files of a folder.
///
/// # Errors
/// The message of sha256sum.
pub fn write_checksums(folder: &Path, files: &[String]) -> Result<()> {
    let mut command = Command::new("sha256sum");
    command.current_dir(folder).args(files);
    let text = output_of(command)?;
    let file = folder.join(CHECKSUMS);
    fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
}

/// Checks the checksums of a folder.
///
/// # Errors
/// The files that are others or missing.
pub fn check_checksums(folder: &Path) -> Result<()> {
    let mut command = Command::new("sha256sum");
    command.current_dir(folder).args(["--check", "--strict", "--quiet", CHECKSUMS]);
    output_of(command).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::files::files;

    fn write(file: &Path, text: &str, age: u64) {
        fs::create_dir_all(parent(file)).and_then(|()| fs::write(file, text)).expect("it can be written");
        let time = SystemTime::now() - Duration::from_secs(age);
        fs::File::options().write(true).open(file).and_then(|file| file.set_modified(time)).expect("it has a time");
    }

    #[test]
    fn the_same_files_make_the_same_archive() {
        let root = std::env::temp_dir().join(format!("lastuse-pack-{}", std::process::id()));
        let archives = [("one", ["b/y", "a"]), ("two", ["a", "b/y"])].map(|(name, order)| {
            let content = root.join(name).join("release");
            order.iter().zip(1..).for_each(|(file, age)| write(&content.join(file), file, 1000 * age));
            write_checksums(&content, &files(&content).expect("it is read")).expect("it has checksums");
            let archive = root.join(name).join("release.tar.xz");
            pack(&content, &archive, "1700000000").expect("it is packed");
            archive
        });
        let [one, two] = archives.each_ref().map(|archive| fs::read(archive).expect("it is there"));
        assert!(!one.is_empty() && one == two);
        let unpacked = unpack(&archives[0], &root.join("three")).expect("it is unpacked");
        assert_eq!(files(&unpacked), Ok(["SHA256SUMS", "a", "b/y"].map(str::to_owned).to_vec()));
        assert_eq!(check_checksums(&unpacked), Ok(()));
        fs::write(unpacked.join("a"), "another").expect("it can be written");
        assert!(check_checksums(&unpacked).is_err_and(|message| message.contains("a: FAILED")));
        fs::remove_dir_all(&root).expect("it can be removed");
    }
}
