//! The recipe for Arch Linux: made by makepkg, installed by pacman to a folder.

use std::fs;
use std::path::Path;

use lastuse_c_tests::Result;
use lastuse_c_tests::packages::output_of;

use crate::files::parent;
use crate::recipes::{Recipe, as_root, as_user};

/// Makes the package, as makepkg only does for a user that is not root, installs it and uses it.
///
/// # Errors
/// What does not hold, or the message of a build.
pub fn test() -> Result<()> {
    let recipe = Recipe::copied("aur")?;
    write_checksum(&recipe)?;
    let about = output_of(recipe.command(&as_user(&["makepkg", "--printsrcinfo"])))?;
    if !about.contains(concat!("\tpkgver = ", env!("CARGO_PKG_VERSION"), "\n")) {
        return Err(format!("the recipe is one of another version:\n{about}"));
    }
    eprintln!("[aur] building, which takes minutes");
    // pacman has no list of packages here.
    output_of(recipe.command(&as_user(&["makepkg", "--nodeps", "--noconfirm"])))?;
    let root = recipe.folder.join("root");
    install(&recipe, &root)?;
    let usr = root.join("usr");
    let place = |name: String| (!name.starts_with("share/doc/")).then_some(name);
    recipe.check_files(&usr, "lastuse.1.gz", place, &["share/licenses/lastuse/LICENSE"])?;
    recipe.check_installed(&usr, "lib", "lib/liblastuse.so")
}

/// Writes the checksum of the tarball where maintainers write that of a release.
fn write_checksum(recipe: &Recipe) -> Result<()> {
    let text = output_of(recipe.command(&["sha256sum", &recipe.tarball().to_string_lossy()]))?;
    let sum = text.split(' ').next().unwrap_or_default();
    let file = recipe.folder.join("PKGBUILD");
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let recipe = fs::read_to_string(&file).map_err(failed)?;
    let filled = recipe.replace("sha256sums=(SKIP)", &format!("sha256sums=({sum})"));
    if filled == recipe {
        return Err("the recipe has no place for the checksum".to_owned());
    }
    fs::write(&file, filled).map_err(failed)
}

/// Has pacman install the package to an empty folder, and verify it there.
fn install(recipe: &Recipe, root: &Path) -> Result<()> {
    let [data, cache, log] = ["var/lib/pacman", "var/cache", "var/pacman.log"].map(|name| root.join(name));
    fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
    let start = format!("lastuse-{}-1-{}.pkg.tar.", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let entries = fs::read_dir(parent(root)).map_err(|error| format!("{}: {error}", root.display()))?;
    let is_package =
        |path: &std::path::PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start));
    let package = entries.flatten().map(|entry| entry.path()).find(is_package);
    let package = package.ok_or_else(|| format!("makepkg made no {start}*"))?;
    let pacman = |arguments: &[&str]| {
        let mut command = recipe.command(&as_root(&["pacman", "--noconfirm"]));
        command.arg("--root").arg(root).arg("--dbpath").arg(&data).arg("--cachedir").arg(&cache);
        command.arg("--logfile").arg(&log).args(arguments);
        output_of(command)
    };
    pacman(&["-Udd", &package.to_string_lossy()])?;
    let verified = pacman(&["-Qkk", "lastuse"])?;
    println!("aur: {}", verified.trim());
    Ok(())
}
