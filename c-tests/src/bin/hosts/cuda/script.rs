//! The folder for a machine that has a card and CUDA's compiler, but no Rust and no network.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use lastuse_c_tests::{
    Build, Linked, Prepared, Program, Result, WRITER, copy_folder, guard_library, lastuse, measure_library, tool,
};
use lastuse_vendor::{Package, llama, target_folder};

use super::COUNTER;
use crate::devices::DevicePrograms;
use crate::llama::SETTINGS;

/// What is built there: of the backends, those in [`BACKENDS`] alone.
const SOURCES: [&str; 5] = ["cmake", "ggml", "include", "src", "vendor"];
const BACKENDS: [&str; 2] = ["ggml-cpu", "ggml-cuda"];

/// The most bytes that the folder may have.
const MOST: u64 = 60 << 20;

const RUN: &str = include_str!("run");

/// Writes the folder, and says where it is.
///
/// # Errors
/// When something cannot be compiled or copied, or the folder is larger than it may be.
pub fn write_device_script() -> Result<()> {
    let prepared = Prepared::new(target_folder().join("hosts/cuda/device"));
    let folder = prepared.folder();
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    write_sources(&prepared)?;
    write_programs(&prepared)?;
    let run = folder.join("run");
    let settings: Vec<String> = SETTINGS.iter().map(|setting| format!("-D{setting}")).collect();
    let text = RUN.replace("SETTINGS", &settings.join(" "));
    let written = fs::write(&run, text).and_then(|()| fs::set_permissions(&run, fs::Permissions::from_mode(0o755)));
    written.map_err(|error| format!("{}: {error}", run.display()))?;
    let bytes = size(folder)?;
    if bytes > MOST {
        return Err(format!("{} has {bytes} bytes, more than {MOST}", folder.display()));
    }
    println!("{} has {:.1} MiB. On a machine with a card, in a copy of it:\n\n    ./run", folder.display(), mib(bytes));
    Ok(())
}

fn write_sources(prepared: &Prepared) -> Result<()> {
    let (from, to) = (Package::LlamaCpp.sources()?, prepared.llama_sources());
    make(&to)?;
    for part in SOURCES {
        copy_folder(&from.join(part), &to.join(part))?;
    }
    for file in ["CMakeLists.txt", "LICENSE"] {
        copy(&from.join(file), &to.join(file))?;
    }
    for entry in entries(&to.join("ggml/src"))? {
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if entry.is_dir() && !BACKENDS.contains(&&*name) {
            fs::remove_dir_all(&entry).map_err(|error| format!("{}: {error}", entry.display()))?;
        }
    }
    Ok(())
}

fn write_programs(prepared: &Prepared) -> Result<()> {
    let llama = llama()?;
    make(&prepared.folder().join("bin"))?;
    make(&prepared.folder().join("lib"))?;
    let built = DevicePrograms::build("cuda", &llama, target_folder().join("hosts/cuda"), &[], &[COUNTER])?;
    // With the libraries that are built there, for the instructions of that machine.
    let there = ["-Wl,-rpath,$ORIGIN/../build/bin"];
    let writer = Program::build("write-gguf-on-cuda", &[WRITER], &llama.ggml, Linked::SharedGgml, &there)?;
    let hosts = std::env::current_exe().map_err(|error| format!("where this program is, is not known: {error}"))?;
    for program in built.paths().into_iter().chain([hosts, tool()?]) {
        strip(&program, &prepared.program(&program.file_name().unwrap_or_default().to_string_lossy()))?;
    }
    strip(writer.path(), &prepared.program("write-gguf"))?;
    for library in [lastuse(Build::Release)?.shared, guard_library()?, measure_library()?] {
        strip(&library, &prepared.folder().join("lib").join(library.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

fn strip(file: &Path, to: &Path) -> Result<()> {
    lastuse_vendor::run(Command::new("strip").arg("--strip-unneeded").arg("-o").arg(to).arg(file))
}

fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).map(|_| ()).map_err(|error| format!("{}: {error}", from.display()))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

/// Returns the bytes of all files in a folder.
fn size(folder: &Path) -> Result<u64> {
    let of = |entry: PathBuf| match entry.is_dir() {
        true => size(&entry),
        false => entry.metadata().map(|file| file.len()).map_err(|error| format!("{}: {error}", entry.display())),
    };
    entries(folder)?.into_iter().map(of).sum()
}

#[allow(clippy::cast_precision_loss, reason = "a digit is shown")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one_and_names_what_is_missing() {
        assert_eq!(RUN.matches("SETTINGS").count(), 1);
        let shell = |arguments: &[&str]| {
            let mut command = Command::new("/bin/sh");
            command.args(arguments).env("PATH", "/usr/bin:/bin").env_remove("CUDA_PATH");
            command.output().expect("a shell")
        };
        let folder = std::env::temp_dir().join(format!("device-script-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("run");
        fs::write(&file, RUN).expect("a script");
        let path = file.to_string_lossy();
        let usage = shell(&[&path, "--help"]);
        let text = String::from_utf8_lossy(&usage.stderr).into_owned();
        assert!(usage.status.code() == Some(2) && text.contains("usage: ./run [build"), "{text}");
        if !Path::new("/usr/local/cuda/bin/nvcc").exists() && !Path::new("/usr/bin/nvcc").exists() {
            let missing = shell(&[&path, "build"]);
            let text = String::from_utf8_lossy(&missing.stderr).into_owned();
            assert!(missing.status.code() == Some(1) && text.contains("nvcc is not in PATH"), "{text}");
        }
        let _ = fs::remove_dir_all(&folder);
    }
}
