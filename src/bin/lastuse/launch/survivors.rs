//! Processes of a program that outlive it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

/// Returns the numbers of the processes that have this variable in their environment: those that the program has started, and
/// that still run. None where the system does not list processes.
pub fn survivors(name: &str, value: &OsStr) -> Vec<u32> {
    let variable = [name.as_bytes(), b"=", value.as_bytes()].concat();
    let has_variable = |process: &u32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry == variable)
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(has_variable).collect()
}
