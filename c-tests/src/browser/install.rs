//! Which Chromium to run.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

use lastuse_vendor::{FolderLock, target_folder};

use crate::Result;

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// The Chromium that `LASTUSE_CHROMIUM` names, else the first on the PATH; where there is none, the one that apt-get
/// installs.
pub fn chromium() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("LASTUSE_CHROMIUM") {
        return Ok(PathBuf::from(path));
    }
    installed().map_or_else(install, Ok)
}

/// Returns whether this process runs as root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|file| file.is_file())
}

fn install() -> Result<PathBuf> {
    let instruction =
        "this test needs Chromium: install it (Debian: apt-get install chromium), or name it in LASTUSE_CHROMIUM";
    if !is_root() {
        return Err(instruction.to_owned());
    }
    let failed = |error: std::io::Error| format!("{instruction}: {error}");
    // Another test may install it at the same time.
    let _lock = FolderLock::wait(&target_folder().join("chromium"))?;
    if let Some(path) = installed() {
        return Ok(path);
    }
    for arguments in [["update", "-q"].as_slice(), &["install", "-q", "-y", "--no-install-recommends", "chromium"]] {
        let output = Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").output();
        let output = output.map_err(failed)?;
        if !output.status.success() {
            return Err(format!("{instruction}; the output of apt-get:\n{}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    installed().ok_or_else(|| instruction.to_owned())
}
