//! Packages of a release of Debian, unpacked to a folder that programs can be run in. Nothing is installed on this machine.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use lastuse_c_tests::Result;
use lastuse_c_tests::packages::output_of;

use crate::files::{files, write};

/// Downloads packages of this release with all that they need, unpacks them to the folder `root` of `folder`, and returns it.
/// apt asks the servers that this machine's apt has for Debian, checks signatures by the same keys, and keeps all in `folder`.
///
/// # Errors
/// The message of apt or dpkg; and that this needs root, for chroot.
pub fn unpack_packages(folder: &Path, release: &str, packages: &[&str]) -> Result<PathBuf> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root {
        return Err("programs of another Debian are run in a chroot, which needs root".to_owned());
    }
    let configuration = configure(folder, release)?;
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("APT_CONFIG", &configuration).args(arguments);
        output_of(command)
    };
    apt(&["update", "--quiet"])?;
    // Others than of the last time.
    apt(&["clean"])?;
    apt(&[&["install", "--quiet", "--yes", "--download-only", "--no-install-recommends"], packages].concat())?;
    let root = folder.join("root");
    let _ = fs::remove_dir_all(&root);
    make_folders(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    let archives = folder.join("archives");
    for name in files(&archives)?.iter().filter(|name| name.ends_with(".deb")) {
        let mut extract = Command::new("dpkg-deb");
        extract.arg("--extract").arg(archives.join(name)).arg(&root);
        output_of(extract)?;
    }
    Ok(root)
}

/// Writes what keeps apt in a folder, and returns the file.
fn configure(folder: &Path, release: &str) -> Result<PathBuf> {
    let at = |name: &str| folder.join(name);
    for name in ["lists/partial", "archives/partial"] {
        fs::create_dir_all(at(name)).map_err(|error| format!("{}: {error}", at(name).display()))?;
    }
    write(&at("status"), b"")?;
    let server = server()?;
    write(&at("sources.list"), format!("deb {server} {release} main\n").as_bytes())?;
    let folders = [
        ("Dir::State", at("")),
        ("Dir::State::status", at("status")),
        ("Dir::State::lists", at("lists")),
        ("Dir::Cache", at("")),
        ("Dir::Cache::archives", at("archives")),
        ("Dir::Etc::sourcelist", at("sources.list")),
        ("Dir::Etc::sourceparts", PathBuf::from("/dev/null")),
        ("Dir::Etc::preferences", PathBuf::from("/dev/null")),
        ("Dir::Etc::preferencesparts", PathBuf::from("/dev/null")),
    ];
    let mut text: String = folders.iter().map(|(name, path)| format!("{name} \"{}\";\n", path.display())).collect();
    // A mirror, or a clock, may be weeks late. Signatures are checked all the same.
    text.push_str("Acquire::Check-Valid-Until \"false\";\nAPT::Sandbox::User \"root\";\n");
    let file = at("apt.conf");
    write(&file, text.as_bytes())?;
    Ok(file)
}

/// Returns the address from which this machine's apt has Debian's packages.
fn server() -> Result<String> {
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(ORIGIN) $(REPO_URI)"]);
    let text = output_of(targets)?;
    let address = text.lines().find_map(|line| line.strip_prefix("Debian "));
    let address = address.ok_or("this machine's apt has no list of Debian's packages: apt-get update")?;
    Ok(address.to_owned())
}

/// Makes the folders and links that Debian's package of basic files has.
fn make_folders(root: &Path) -> std::io::Result<()> {
    for name in ["tmp", "dev", "proc"] {
        fs::create_dir_all(root.join(name))?;
    }
    for name in ["bin", "lib", "lib64", "sbin"] {
        fs::create_dir_all(root.join("usr").join(name))?;
        symlink(Path::new("usr").join(name), root.join(name))?;
    }
    Ok(())
}
