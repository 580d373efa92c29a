//! The programs that run on a device.

use std::path::PathBuf;

use lastuse_c_tests::{HostProgram, PLACED, PlacedProgram, Prepared, Result, Variable};
use lastuse_vendor::Llama;

/// Compiled for a llama.cpp with the backend of the device.
pub struct DevicePrograms {
    /// Operations in the memory of a source.
    pub kernels: HostProgram,
    /// Sequences that are fused.
    pub fusions: HostProgram,
    /// llama.cpp itself.
    pub placed: PlacedProgram,
}

const KERNELS: &str = "hosts/devices/kernels.c";
const FUSIONS: &str = "hosts/devices/fusions.c";

impl DevicePrograms {
    /// Compiles them for this llama.cpp, each with `more` sources. Models go to `folder`; `variables` are set in each run.
    ///
    /// # Errors
    /// When something cannot be compiled.
    pub fn build(host: &str, llama: &Llama, folder: PathBuf, variables: &[Variable], more: &[&str]) -> Result<Self> {
        let program = |name: &str, source| {
            HostProgram::build(&named(name, host), &[&[source], more].concat(), llama, variables.to_vec())
        };
        Ok(Self {
            kernels: program("kernels", KERNELS)?,
            fusions: program("fusions", FUSIONS)?,
            placed: PlacedProgram::of(program("placed", PLACED)?, folder)?,
        })
    }

    /// Those of a prepared folder.
    pub fn prepared(host: &str, prepared: &Prepared, variables: &[Variable]) -> Self {
        let program = |name: &str| HostProgram::prepared(&named(name, host), prepared, variables.to_vec());
        Self {
            kernels: program("kernels"),
            fusions: program("fusions"),
            placed: PlacedProgram::prepared(&named("placed", host), prepared, variables.to_vec()),
        }
    }

    /// Returns the paths of all.
    pub fn paths(&self) -> [PathBuf; 3] {
        [self.kernels.path(), self.fusions.path(), self.placed.path()].map(std::path::Path::to_owned)
    }
}

fn named(program: &str, host: &str) -> String {
    format!("{program}-on-{host}")
}
