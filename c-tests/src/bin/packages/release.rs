//! What a release contains, built for any Linux of a processor since glibc 2.17.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lastuse_c_tests::packages::{output_of, packages_folder};
use lastuse_c_tests::{Result, folder};

use crate::files::{files, write};
use crate::licences::licences;
use crate::target::Target;
use crate::zig::{GLIBC, Zig, hidden_folders};

/// Shell, and where its completions are, below `share`.
pub const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/lastuse"),
    ("fish", "fish/vendor_completions.d/lastuse.fish"),
    ("zsh", "zsh/site-functions/_lastuse"),
];

/// The packages of the tool, and of the libraries that it preloads to check memory, and for dry runs.
const PROGRAMS: [&str; 3] = ["lastuse-tool", "lastuse-guard", "lastuse-measure"];

/// Libraries of the C library, which a program may need.
pub const LIBC: [&str; 6] = ["libc.so.", "libdl.so.", "libm.so.", "libpthread.so.", "librt.so.", "ld-linux"];

/// The installed files of one system.
#[derive(Debug)]
pub struct Release<'a> {
    target: &'a Target,
    zig: &'a Zig,
}

impl<'a> Release<'a> {
    /// Those of this system.
    pub fn new(target: &'a Target, zig: &'a Zig) -> Self {
        Self { target, zig }
    }

    /// Builds all and installs it to a folder that is empty before: the tool with the guard, its pages and completions, and
    /// what CMake installs.
    ///
    /// # Errors
    /// The message of cargo or CMake.
    pub fn install(&self, to: &Path) -> Result<()> {
        let _ = fs::remove_dir_all(to);
        let triple = self.target.triple;
        eprintln!("[{triple}] building the tool, which takes minutes");
        let built = self.zig.build(self.target, &PROGRAMS)?;
        self.target.strip(&built.join("lastuse"), &to.join("bin/lastuse"))?;
        for library in ["liblastuse_guard.so", "liblastuse_measure.so"] {
            self.target.strip(&built.join(library), &to.join("lib/lastuse").join(library))?;
        }
        eprintln!("[{triple}] building the libraries, which takes minutes");
        self.install_libraries("archive", &["CMAKE_INSTALL_LIBDIR=lib"], None, to)?;
        self.write_manuals(to)?;
        let documents = to.join("share/doc/lastuse");
        let licence = folder().with_file_name("LICENSE");
        let text = fs::read(&licence).map_err(|error| format!("{}: {error}", licence.display()))?;
        write(&documents.join("LICENSE"), &text)?;
        write(&documents.join("LICENSES-OF-PARTS"), licences(&PROGRAMS, triple)?.as_bytes())
    }

    /// Builds the libraries and has CMake install them with these settings: to a prefix, or to the folder `root` that stands
    /// for the root of the file system. `name` is that of the build.
    ///
    /// # Errors
    /// The message of CMake.
    pub fn install_libraries(&self, name: &str, settings: &[&str], root: Option<&Path>, prefix: &Path) -> Result<()> {
        let build = packages_folder().join("zig-cmake").join(format!("{name}-{}", self.target.machine));
        let _ = fs::remove_file(build.join("CMakeCache.txt"));
        let mut configure = self.cmake();
        configure.arg("-S").arg(folder().with_file_name("")).arg("-B").arg(&build);
        let own = [
            "CMAKE_BUILD_TYPE=Release".to_owned(),
            format!("CMAKE_INSTALL_PREFIX={}", prefix.display()),
            format!("LASTUSE_CARGO={}", self.zig.cargo().display()),
            format!("LASTUSE_TARGET={}", Zig::target(self.target)),
            format!("LASTUSE_TARGET_DIR={}", Zig::target_folder().display()),
        ];
        let all = own.iter().cloned().chain(self.target.settings());
        configure.args(all.chain(settings.iter().map(|&setting| setting.to_owned())).map(|value| format!("-D{value}")));
        output_of(configure)?;
        let mut compile = self.cmake();
        compile.arg("--build").arg(&build);
        output_of(compile)?;
        let mut install = self.cmake();
        install.arg("--install").arg(&build);
        if let Some(root) = root {
            install.env("DESTDIR", root);
        }
        output_of(install).map(|_| ())
    }

    fn cmake(&self) -> Command {
        self.zig.command(Path::new("cmake"))
    }

    /// Has the tool write its pages and completions.
    fn write_manuals(&self, to: &Path) -> Result<()> {
        let pages = to.join("share/man/man1");
        self.tool(to, &["man", "-o", &pages.to_string_lossy()])?;
        for (shell, file) in COMPLETIONS {
            let text = self.tool(to, &["completions", shell])?;
            write(&to.join("share").join(file), text.as_bytes())?;
        }
        Ok(())
    }

    /// Runs the installed tool, and returns what it prints.
    ///
    /// # Errors
    /// The message of the tool.
    pub fn tool(&self, prefix: &Path, arguments: &[&str]) -> Result<String> {
        let words = self.target.run(&prefix.join("bin/lastuse"), None);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(arguments);
        output_of(command)
    }
}

/// The files of a release, relative to its folder and in order. `pages` are those of the tool.
pub fn expected(pages: &[String]) -> Vec<String> {
    let cmake = [
        "lastuse-config-version.cmake",
        "lastuse-config.cmake",
        "lastuse-in-ggml.o",
        "lastuse-inject.cmake",
        "lastuse-targets.cmake",
        "original-names.h",
    ];
    let fixed = [
        "bin/lastuse",
        "include/lastuse.h",
        "lib/lastuse/liblastuse_guard.so",
        "lib/lastuse/liblastuse_measure.so",
        "lib/liblastuse.a",
        "lib/liblastuse.so",
        "lib/pkgconfig/lastuse.pc",
        "share/doc/lastuse/LICENSE",
        "share/doc/lastuse/LICENSES-OF-PARTS",
    ];
    let mut all: Vec<String> = fixed.map(str::to_owned).to_vec();
    all.extend(cmake.map(|name| format!("lib/cmake/lastuse/{name}")));
    all.extend(COMPLETIONS.map(|(_, file)| format!("share/{file}")));
    all.extend(pages.iter().map(|page| format!("share/man/man1/{page}")));
    all.sort();
    all
}

/// Checks that no file names a folder of this machine.
///
/// # Errors
/// The file that does.
pub fn check_folders(release: &Path) -> Result<()> {
    let hidden = hidden_folders().map(|(folder, _)| folder.to_string_lossy().into_owned());
    for name in files(release)? {
        let file = release.join(&name);
        let bytes = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        for folder in &hidden {
            if bytes.windows(folder.len()).any(|window| window == folder.as_bytes()) {
                return Err(format!("{name} names {folder}"));
            }
        }
    }
    Ok(())
}

/// Checks that the programs and shared libraries of a release need the C library alone, and glibc 2.17 at most. Returns their
/// number and the greatest version of glibc that they need.
///
/// # Errors
/// The file that needs more.
pub fn check_needs(release: &Path) -> Result<(usize, String)> {
    let (mut count, mut greatest) = (0, Vec::new());
    for name in files(release)?.iter().filter(|name| name.starts_with("bin/") || name.ends_with(".so")) {
        let mut readelf = Command::new("readelf");
        readelf.args(["--wide", "--dynamic", "--version-info"]).arg(release.join(name));
        let text = output_of(readelf)?;
        let others: Vec<&str> =
            needed(&text).into_iter().filter(|name| !LIBC.iter().any(|known| name.starts_with(known))).collect();
        if !others.is_empty() {
            return Err(format!("{name} needs {}", others.join(", ")));
        }
        let version = glibc(&text).ok_or_else(|| format!("{name} needs no version of glibc"))?;
        if version > numbers(GLIBC) {
            return Err(format!("{name} needs glibc {}", dotted(&version)));
        }
        (count, greatest) = (count + 1, version.max(greatest));
    }
    Ok((count, dotted(&greatest)))
}

/// Returns the libraries that a file needs, as readelf lists them.
fn needed(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| line.contains("(NEEDED)"));
    lines.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0)).collect()
}

/// Returns the greatest version of glibc whose symbols a file needs, as readelf lists them.
fn glibc(text: &str) -> Option<Vec<u32>> {
    let versions = text.split_whitespace().filter_map(|word| word.strip_prefix("GLIBC_"));
    versions.filter(|version| version.starts_with(|first: char| first.is_ascii_digit())).map(numbers).max()
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|number| number.trim_end_matches(')').parse().ok()).collect()
}

fn dotted(version: &[u32]) -> String {
    version.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

/// The folder of a release for this system, before it is packed.
pub fn folder_of(target: &Target) -> PathBuf {
    let name = format!("lastuse-{}-{}", env!("CARGO_PKG_VERSION"), target.triple);
    packages_folder().join("release").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READELF: &str = "\
  0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
  0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
  004:   4 (GLIBC_2.14)    5 (GLIBC_2.2.5)     1 (*global*)
  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 6
  0x0020:   Name: GLIBC_PRIVATE  Flags: none  Version: 7
";

    #[test]
    fn what_a_file_needs_is_read() {
        assert_eq!(needed(READELF), ["libgcc_s.so.1", "libc.so.6"]);
        assert_eq!(glibc(READELF), Some(vec![2, 9]));
        assert_eq!(glibc("  0x0010:   Name: GLIBC_2.34  Flags: none"), Some(vec![2, 34]));
        assert!(numbers("2.34") > numbers(GLIBC) && numbers("2.9") < numbers(GLIBC) && glibc("none").is_none());
    }

    #[test]
    fn a_release_has_these_files() {
        let files = expected(&["lastuse.1".to_owned()]);
        assert!(files.is_sorted() && files.len() == 19);
        assert!(files.iter().any(|name| name == "share/man/man1/lastuse.1"));
    }
}
