//! The recipe for Conan: made and tested by `conan create`, and used by programs in every order of their libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lastuse_c_tests::Result;
use lastuse_c_tests::packages::{Libraries, check_conan_orders, installed_ggml, output_of, packages_folder};
use lastuse_vendor::{Package, ggml};

use crate::files::files;
use crate::python::Environment;
use crate::recipes::Recipe;

const CONAN: &str = "conan==2.34.0";

/// Makes the static and the shared library, each of which serves the programs of the recipe and others.
///
/// # Errors
/// What does not hold, or the message of a build.
pub fn test() -> Result<()> {
    let environment = Environment::with(packages_folder().join("tools/conan"), &[CONAN])?;
    let recipe = Recipe::copied("conan")?;
    let conan = Conan { program: environment.program("conan"), recipe: &recipe };
    output_of(conan.command(&["profile", "detect"]))?;
    let ggml = ggml(Package::LlamaCpp)?;
    let [found, _] = installed_ggml(&ggml, Libraries::Shared)?;
    for (is_shared, forms) in [(false, [Libraries::Static, Libraries::Shared].as_slice()), (true, &[Libraries::Shared])]
    {
        let name = if is_shared { "shared" } else { "static" };
        eprintln!("[conan] building the {name} library, which takes minutes");
        let shared = format!("lastuse/*:shared={}", if is_shared { "True" } else { "False" });
        let before = conan.packages()?;
        let mut create = conan.command(&["create", ".", "--options", &shared]);
        create.env("CMAKE_PREFIX_PATH", &found);
        output_of(create)?;
        let made: Vec<PathBuf> = conan.packages()?.into_iter().filter(|folder| !before.contains(folder)).collect();
        let [package] = made.as_slice() else { return Err(format!("conan made {made:?}")) };
        check_files(package, if is_shared { "lib/liblastuse.so" } else { "lib/liblastuse.a" })?;
        println!("conan: the {name} library serves the programs of conan create");
        let reference = concat!("--requires=lastuse/", env!("CARGO_PKG_VERSION"));
        let generated = recipe.folder.join(format!("generated-{name}"));
        let mut install = conan.command(&["install", reference, "--generator", "CMakeDeps", "--options", &shared]);
        install.arg("--output-folder").arg(&generated);
        output_of(install)?;
        for &libraries in forms {
            let count = check_conan_orders(&format!("conan-{name}"), &generated, &ggml, libraries)?;
            println!("conan: the {name} library, {libraries:?} ggml: {count} programs in all orders, all served");
        }
    }
    Ok(())
}

/// Conan with a home that is the test's own.
struct Conan<'a> {
    program: PathBuf,
    recipe: &'a Recipe,
}

impl Conan<'_> {
    fn home(&self) -> PathBuf {
        self.recipe.folder.join("home")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.recipe.command(&[&*self.program.to_string_lossy()]);
        command.args(arguments).env("CONAN_HOME", self.home());
        command
    }

    /// Returns the folders of the packages that it has made.
    fn packages(&self) -> Result<Vec<PathBuf>> {
        let folder = self.home().join("p/b");
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(failed)?;
        let entries = fs::read_dir(&folder).map_err(failed)?.flatten().map(|entry| entry.path().join("p"));
        Ok(entries.filter(|folder| folder.is_dir()).collect())
    }
}

fn check_files(package: &Path, library: &str) -> Result<()> {
    let found = files(package)?;
    let wanted = ["conaninfo.txt", "conanmanifest.txt", "include/lastuse.h", library, "licenses/LICENSE"];
    if found != wanted {
        return Err(format!("the files of the package are {found:?} instead of {wanted:?}"));
    }
    Ok(())
}
