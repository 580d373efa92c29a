//! The archive of a release: made, and tested as one finds it.

use std::fs;
use std::path::{Path, PathBuf};

use lastuse_c_tests::packages::{Form, InjectedBuild, Prefix, check_served, packages_folder};
use lastuse_c_tests::{Result, folder};
use lastuse_vendor::Package;

use crate::files::{files, parent};
use crate::here::check_here;
use crate::pack::{CHECKSUMS, check_checksums, pack, source_date, unpack, write_checksums};
use crate::release::{Release, check_folders, check_needs, expected, folder_of};
use crate::target::Target;
use crate::zig::Zig;

/// Makes the archive for this system, unpacks it elsewhere and tests what is there.
///
/// # Errors
/// What does not hold, or the message of a build.
pub fn test(triple: &str) -> Result<()> {
    let target = Target::of(triple)?;
    let zig = Zig::install()?;
    let release = Release::new(target, &zig);
    let archive = make(&release, target)?;
    let unpacked = unpack(&archive, &packages_folder().join("unpacked").join(target.machine))?;
    check_files(&unpacked)?;
    let version = release.tool(&unpacked, &["--version"])?;
    if version.trim() != format!("lastuse {}", env!("CARGO_PKG_VERSION")) {
        return Err(format!("lastuse --version prints {version:?}"));
    }
    println!("archive: the tool is {}", version.trim());
    let prefix = Prefix::unpacked(&unpacked, "lib")?;
    check_programs(target, &prefix)?;
    if target.is_native() { check_here("archive", &unpacked.join("bin/lastuse"), &prefix) } else { Ok(()) }
}

/// Builds and packs it, next to the list of checksums of all archives that are there.
fn make(release: &Release<'_>, target: &Target) -> Result<PathBuf> {
    let content = folder_of(target);
    release.install(&content)?;
    write_checksums(&content, &files(&content)?)?;
    let name = format!("{}.tar.xz", content.file_name().unwrap_or_default().to_string_lossy());
    let archive = content.with_file_name(name);
    pack(&content, &archive, &source_date()?)?;
    let all = parent(&archive);
    let mut archives: Vec<String> = fs::read_dir(all)
        .map_err(|error| format!("{}: {error}", all.display()))?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".tar.xz"))
        .collect();
    archives.sort();
    write_checksums(all, &archives)?;
    println!("archive: {} has {} bytes", archive.display(), bytes(&archive)?);
    Ok(archive)
}

/// Checks names, checksums, and what the files need.
fn check_files(unpacked: &Path) -> Result<()> {
    check_checksums(unpacked)?;
    let pages: Vec<String> = files(&unpacked.join("share/man/man1"))?;
    if !["lastuse.1", "lastuse-run.1"].iter().all(|page| pages.iter().any(|found| found == page)) {
        return Err(format!("the pages of the tool are {pages:?}"));
    }
    let mut wanted = expected(&pages);
    wanted.insert(0, CHECKSUMS.to_owned());
    let found = files(unpacked)?;
    if found != wanted {
        return Err(format!("the files are {found:?} instead of {wanted:?}"));
    }
    for name in &["bin/lastuse", "lib/liblastuse.so", "lib/liblastuse.a", "lib/cmake/lastuse/lastuse-in-ggml.o"] {
        println!("archive: {name} has {} bytes", bytes(&unpacked.join(name))?);
    }
    check_folders(unpacked)?;
    let (count, version) = check_needs(unpacked)?;
    println!("archive: {} files with the right checksums; {count} programs need glibc {version}", found.len());
    Ok(())
}

/// Builds a ggml for the system with lastuse inside, as the archive brings it, and one without, under which the shared library
/// is preloaded; programs compute the same with `LASTUSE=off`.
fn check_programs(target: &Target, prefix: &Prefix) -> Result<()> {
    let names = ["plain_allocator", "plain_scheduler"];
    let programs = names.map(|name| folder().join(format!("tests/support/{name}.c")));
    let (sources, settings) = (Package::LlamaCpp.sources()?.join("ggml"), target.settings());
    // ggml would ask this machine's processor.
    let settings: Vec<&str> = settings.iter().map(String::as_str).chain(["GGML_NATIVE=OFF"]).collect();
    let build = InjectedBuild {
        name: &format!("archive-{}", target.machine),
        sources: &sources,
        form: Form::PartShared,
        settings: &settings,
        optimize: "-O1",
        target: "ggml",
        programs: &programs,
    };
    build.build(prefix)?;
    build.build_plain()?;
    let plain = build.plain_library()?;
    let library = prefix.path().join("lib/liblastuse.so");
    for name in names {
        let words = target.run(&build.program(name), None);
        let [with, without] = check(&words, &[])?;
        println!("archive: {name}, lastuse in its ggml: {with} bytes, {without} with LASTUSE=off");
        let words = target.run(&build.program(name), Some(&library));
        let [with, without] = check(&words, &[("LD_LIBRARY_PATH", parent(&plain).as_os_str())])?;
        println!("archive: {name}, lastuse preloaded: {with} bytes, {without} with LASTUSE=off");
    }
    Ok(())
}

fn check(words: &[String], variables: &[(&str, &std::ffi::OsStr)]) -> Result<[u64; 2]> {
    let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    check_served(Path::new(&words[0]), &arguments, variables)
}

/// The bytes of a file.
///
/// # Errors
/// The error of the system.
pub fn bytes(file: &Path) -> Result<u64> {
    fs::metadata(file).map(|data| data.len()).map_err(|error| format!("{}: {error}", file.display()))
}
