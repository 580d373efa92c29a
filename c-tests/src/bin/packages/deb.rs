//! Debian packages: made by dpkg-deb, checked by lintian, and used from where they are unpacked.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lastuse_c_tests::packages::{Prefix, output_of, packages_folder};
use lastuse_c_tests::{Result, copy_folder, folder};

use crate::archive::bytes;
use crate::files::{files, parent, write};
use crate::here::check_here;
use crate::pack::source_date;
use crate::release::{COMPLETIONS, Release, check_folders, check_needs, folder_of};
use crate::target::Target;
use crate::zig::Zig;

/// Where zsh finds completions of Debian packages, below `share`.
const ZSH: &str = "zsh/vendor-completions/_lastuse";

/// A line that every file of licences has where it names this one.
const COMMON: &str =
    "The Apache License, version 2.0, is in /usr/share/common-licenses/Apache-2.0 on Debian systems.\n";

/// Makes both packages for this system, has lintian check them, unpacks them to one folder, and uses what is there.
///
/// # Errors
/// What does not hold, or the message of a build.
pub fn test(triple: &str) -> Result<()> {
    let target = Target::of(triple)?;
    let zig = Zig::install()?;
    let release = Release::new(target, &zig);
    let built = folder_of(target);
    release.install(&built)?;
    let root = packages_folder().join("deb").join(target.debian);
    let _ = fs::remove_dir_all(&root);
    let tool = Deb { name: "lastuse", target, content: root.join("lastuse") };
    let library = Deb { name: "lastuse-dev", target, content: root.join("lastuse-dev") };
    add_tool(&built, &tool.content)?;
    let triplet = format!("lib/{}-linux-gnu", target.machine);
    let settings = [format!("CMAKE_INSTALL_LIBDIR={triplet}"), "LASTUSE_SHARED=OFF".to_owned()];
    let settings = settings.each_ref().map(String::as_str);
    release.install_libraries("deb", &settings, Some(&library.content), Path::new("/usr"))?;
    let (_, glibc) = check_needs(&tool.content.join("usr"))?;
    let unpacked = root.join("unpacked");
    for package in [&tool, &library] {
        let file = package.make(&built, &glibc)?;
        check_folders(&package.content)?;
        lintian(&file)?;
        println!("deb: {} has {} bytes, and lintian finds nothing", file.display(), bytes(&file)?);
        let mut extract = Command::new("dpkg-deb");
        extract.arg("--extract").arg(&file).arg(&unpacked);
        output_of(extract)?;
    }
    let usr = unpacked.join("usr");
    let version = release.tool(&usr, &["--version"])?;
    println!("deb: the tool is {}", version.trim());
    let prefix = Prefix::unpacked(&usr, &triplet)?;
    if target.is_native() { check_here("deb", &usr.join("bin/lastuse"), &prefix) } else { Ok(()) }
}

/// A package, and the folder of what it installs.
struct Deb<'a> {
    name: &'static str,
    target: &'a Target,
    content: PathBuf,
}

impl Deb<'_> {
    /// Adds what Debian asks of every package, and makes the file of the package.
    fn make(&self, built: &Path, glibc: &str) -> Result<PathBuf> {
        let seconds = source_date()?;
        let documents = self.content.join("usr/share/doc").join(self.name);
        let licence = read(&built.join("share/doc/lastuse/LICENSE"))?;
        let parts = read(&built.join("share/doc/lastuse/LICENSES-OF-PARTS"))?;
        write(&documents.join("copyright"), format!("lastuse\n\n{licence}\n{COMMON}\n{parts}").as_bytes())?;
        let changes = template("changelog")?.replace("@DATE@", &date(&seconds)?);
        write_compressed(&documents.join("changelog.gz"), &self.filled(&changes, "", 0))?;
        let names = files(&self.content)?;
        let sizes = names.iter().map(|name| bytes(&self.content.join(name)));
        let total: u64 = sizes.sum::<Result<u64>>()?;
        let control = self.filled(&template(&format!("{}.control", self.name))?, glibc, total.div_ceil(1024));
        write(&self.content.join("DEBIAN/control"), control.as_bytes())?;
        let mut sums = Command::new("md5sum");
        sums.current_dir(&self.content).args(&names);
        write(&self.content.join("DEBIAN/md5sums"), output_of(sums)?.as_bytes())?;
        set_modes(&self.content)?;
        let file = packages_folder().join("release");
        let file = file.join(format!("{}_{}_{}.deb", self.name, env!("CARGO_PKG_VERSION"), self.target.debian));
        let mut build = Command::new("dpkg-deb");
        build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&self.content).arg(&file);
        build.env("SOURCE_DATE_EPOCH", seconds);
        output_of(build)?;
        Ok(file)
    }

    fn filled(&self, text: &str, glibc: &str, kilobytes: u64) -> String {
        let values = [
            ("@VERSION@", env!("CARGO_PKG_VERSION")),
            ("@ARCHITECTURE@", self.target.debian),
            ("@GLIBC@", glibc),
            ("@KILOBYTES@", &kilobytes.to_string()),
        ];
        values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }
}

/// Copies the tool, its libraries, its pages and its completions to where Debian has them.
fn add_tool(built: &Path, content: &Path) -> Result<()> {
    let usr = content.join("usr");
    let libraries = usr.join("lib/lastuse");
    copy(&built.join("bin/lastuse"), &usr.join("bin/lastuse"))?;
    fs::create_dir_all(parent(&libraries)).map_err(|error| format!("{}: {error}", libraries.display()))?;
    copy_folder(&built.join("lib/lastuse"), &libraries)?;
    copy(&built.join("lib/liblastuse.so"), &libraries.join("liblastuse.so"))?;
    let pages = built.join("share/man/man1");
    for name in files(&pages)? {
        write_compressed(&usr.join("share/man/man1").join(format!("{name}.gz")), &read(&pages.join(name))?)?;
    }
    for (shell, file) in COMPLETIONS {
        let place = if shell == "zsh" { ZSH } else { file };
        copy(&built.join("share").join(file), &usr.join("share").join(place))?;
    }
    Ok(())
}

/// Has lintian check a package, which must have no error and no warning.
fn lintian(package: &Path) -> Result<()> {
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]).arg(package);
    output_of(lintian).map(|_| ())
}

fn template(name: &str) -> Result<String> {
    read(&folder().with_file_name("packaging").join("debian").join(name))
}

/// Programs and folders may be read by all, and changed by their owner alone.
fn set_modes(content: &Path) -> Result<()> {
    let mut chmod = Command::new("chmod");
    chmod.args(["--recursive", "u=rwX,go=rX"]).arg(content);
    output_of(chmod)?;
    for name in files(content)?.iter().filter(|name| name.ends_with(".so")) {
        // They are not programs.
        let mut chmod = Command::new("chmod");
        chmod.arg("0644").arg(content.join(name));
        output_of(chmod)?;
    }
    Ok(())
}

/// The date of a changelog.
fn date(seconds: &str) -> Result<String> {
    let mut command = Command::new("date");
    command.args(["--utc", "--rfc-email", &format!("--date=@{seconds}")]);
    output_of(command).map(|text| text.trim().to_owned())
}

fn copy(file: &Path, to: &Path) -> Result<()> {
    let copied = fs::create_dir_all(parent(to)).and_then(|()| fs::copy(file, to));
    copied.map(|_| ()).map_err(|error| format!("cannot copy {} to {}: {error}", file.display(), to.display()))
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

/// Writes a text, compressed by gzip without a name or a time.
fn write_compressed(file: &Path, text: &str) -> Result<()> {
    write(file, &[])?;
    let failed = |error: std::io::Error| format!("gzip, for {}: {error}", file.display());
    let out = fs::File::create(file).map_err(failed)?;
    let mut child = Command::new("gzip").arg("-9n").stdin(Stdio::piped()).stdout(out).spawn().map_err(failed)?;
    child.stdin.take().map_or(Ok(()), |mut input| input.write_all(text.as_bytes())).map_err(failed)?;
    let status = child.wait().map_err(failed)?;
    status.success().then_some(()).ok_or_else(|| format!("gzip, for {}: {status}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_mails() {
        assert_eq!(date("0").as_deref(), Ok("Thu, 01 Jan 1970 00:00:00 +0000"));
    }

    #[test]
    fn templates_have_no_place_that_is_not_filled() {
        let target = Target::of("").expect("this machine has one");
        for name in ["lastuse", "lastuse-dev"] {
            let package = Deb { name, target, content: PathBuf::new() };
            let control = package.filled(&template(&format!("{name}.control")).expect("it is there"), "2.17", 7);
            let is_filled = !control.contains("@V") && !control.contains("@A") && !control.contains("@K");
            assert!(
                control.contains(&format!("Package: {name}\n")) && is_filled && !control.contains("@G"),
                "{control}"
            );
        }
    }
}
