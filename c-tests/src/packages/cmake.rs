//! Programs that CMake links with lastuse and ggml, in every order.

use std::path::Path;

use lastuse_vendor::Ggml;

use super::prefix::{Libraries, Prefix, installed_ggml, root};
use super::project::Project;
use super::served::check_served;
use crate::{Result, folder};

/// Programs that know nothing of lastuse: one with its own allocator, one that has only ggml's scheduler.
const PROGRAMS: [&str; 2] = ["plain_allocator", "plain_scheduler"];

/// First, last, and between the libraries of ggml.
const ORDERS: [&str; 5] = [
    "lastuse,ggml",
    "ggml,lastuse",
    "ggml-base,lastuse,ggml-cpu,ggml",
    "ggml-base,ggml,ggml-cpu,lastuse",
    "ggml-cpu,ggml,ggml-base,lastuse",
];

/// A static lastuse with either ggml. A shared one has no way to the functions of a ggml that is a part of the program.
const FORMS: [(&str, Libraries); 3] = [
    ("lastuse::lastuse", Libraries::Static),
    ("lastuse::lastuse", Libraries::Shared),
    ("lastuse::shared", Libraries::Shared),
];

/// Builds programs with `find_package(lastuse)`, in every order of their libraries, and checks that lastuse serves each, and
/// that `LASTUSE=off` does where ggml's own allocator is there. Returns their number.
///
/// # Errors
/// What does not hold, or the message of CMake.
pub fn check_orders(prefix: &Prefix, ggml: &Ggml) -> Result<usize> {
    let forms = FORMS.iter().map(|&(target, libraries)| {
        let found = Found { way: &target.replace("::", "-"), folder: Some(prefix.path()), target };
        check(&found, &[], ggml, libraries)
    });
    forms.sum()
}

/// As [`check_orders`], with the files that Conan writes to a folder for a program. `way` is a name for the folder of the builds.
///
/// # Errors
/// What does not hold, or the message of CMake.
pub fn check_conan_orders(way: &str, folder: &Path, ggml: &Ggml, libraries: Libraries) -> Result<usize> {
    // They have what there is for one type of build, which is Conan's usual one.
    let settings = ["CMAKE_BUILD_TYPE=Release".to_owned()];
    check(&Found { way, folder: Some(folder), target: "lastuse::lastuse" }, &settings, ggml, libraries)
}

/// As [`check_orders`], with `add_subdirectory` of the folder of lastuse, whose libraries cargo builds in `built`.
///
/// # Errors
/// What does not hold, or the message of CMake.
pub fn check_added_folder(ggml: &Ggml) -> Result<usize> {
    let settings = [
        format!("LASTUSE_SOURCES={}", folder().with_file_name("").display()),
        format!("LASTUSE_TARGET_DIR={}", root().with_file_name("libraries").display()),
    ];
    check(&Found { way: "folder", folder: None, target: "lastuse::lastuse" }, &settings, ggml, Libraries::Static)
}

/// How programs find lastuse.
struct Found<'a> {
    /// The name of the builds.
    way: &'a str,
    /// The folder that CMake finds it in, unless it is a part of the project.
    folder: Option<&'a Path>,
    target: &'a str,
}

fn check(lastuse: &Found<'_>, settings: &[String], ggml: &Ggml, libraries: Libraries) -> Result<usize> {
    let [found, _] = installed_ggml(ggml, libraries)?;
    let prefixes = lastuse.folder.into_iter().chain([found.as_path()]);
    let prefixes: Vec<String> = prefixes.map(|path| path.to_string_lossy().into_owned()).collect();
    let sources = PROGRAMS.map(|name| folder().join(format!("tests/support/{name}.c")).display().to_string());
    let mut all = settings.to_vec();
    all.push(format!("CMAKE_PREFIX_PATH={}", prefixes.join(";")));
    all.push(format!("PROGRAMS={}", sources.join(";")));
    all.push(format!("ORDERS={}", ORDERS.join(";")));
    all.push(format!("LASTUSE={}", lastuse.target));
    let build = root().join(format!("orders/{}-{libraries:?}", lastuse.way).to_lowercase());
    let project = Project { sources: &folder().join("packages/orders"), folder: &build, generator: None };
    project.configure(&all)?;
    project.build("all")?;
    let mut count = 0;
    for name in PROGRAMS {
        let orders = ORDERS.map(|order| format!("{name}-{}", order.replace(',', "-")));
        for program in orders.iter().chain([&format!("{name}-in-library")]) {
            check_program(&project.file(program), libraries)
                .map_err(|why| format!("{}, {libraries:?} ggml: {why}", lastuse.way))?;
            count += 1;
        }
    }
    Ok(count)
}

/// In a program with a static ggml, ggml's own allocator is not there: the linker takes each function once.
fn check_program(program: &Path, libraries: Libraries) -> Result<()> {
    match libraries {
        Libraries::Shared => check_served(program, &[], &[]).map(|_| ()),
        Libraries::Static => {
            let served = super::served(program, &[], &[])?;
            let is_right = served.server == "lastuse" && served.bytes > 0;
            is_right.then_some(()).ok_or_else(|| format!("{}: lastuse does not serve it", program.display()))
        }
    }
}
