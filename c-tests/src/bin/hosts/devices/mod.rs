//! The assumptions and guarantees of lastuse on the devices of any backend of ggml.
//!
//! ```text
//!  build     the backend, and llama.cpp with it
//!  kernels   operations computed in the memory of a source: the bits of their own memory?
//!  fusions   sequences that backends compute by one kernel: the bits of ggml-alloc's placement, and as many fused?
//!  whole     llama.cpp with all layers on the device: equal logits, compute buffers no larger?
//!  turns     contexts of llama.cpp there that take turns in an arena: equal logits, the compute buffers of one?
//!  log       what the Vulkan backend logs of kernels and barriers
//!  replayed  what lastuse replays of them for the addresses of its plans
//! ```

mod build;
mod fusions;
mod kernels;
mod log;
mod replayed;
mod whole;
mod turns;

use std::fs;
use std::path::{Path, PathBuf};

use lastuse_c_tests::{HostProgram, PlacedProgram, Result, Variable};
use lastuse_vendor::Llama;

pub use build::{build_backend, llama_on};

/// A build of llama.cpp with a backend whose devices are tested.
pub struct DeviceTests<'a> {
    /// Prefix of lines of progress.
    pub host: &'a str,
    /// ggml's name of the backend.
    pub backend: &'a str,
    /// The build.
    pub llama: &'a Llama,
    /// Where models are written.
    pub folder: PathBuf,
    /// Variables of each run.
    pub variables: Vec<Variable>,
    /// Operations that are not computed in place on these devices, though they are on others.
    pub unclaimed: &'a [&'a str],
    /// Variables of the runs that log fusions and barriers; none: the backend has no such log.
    pub logging: &'a [Variable],
    /// Sequences that these devices do not fuse as a whole, though the backend can: lastuse does not know that.
    pub not_fused: &'a [&'a str],
    /// Variables of runs without any fusion.
    pub unfused: &'a [Variable],
}

/// Tables, and failed checks.
#[derive(Default)]
pub struct Findings {
    /// The tables.
    pub text: String,
    /// One line for each mistake.
    pub wrong: Vec<String>,
}

impl Findings {
    /// Writes the tables, and a line for each mistake, to the standard output and to `report.txt` in the folder of a
    /// host. `more` follows them, and has `wrong` mistakes.
    ///
    /// # Errors
    /// How many mistakes there are, if any.
    pub fn report(&self, folder: &Path, more: &str, wrong: usize) -> Result<()> {
        let lines = self.wrong.iter().map(|wrong| format!("\ncheck failed: {wrong}\n"));
        let text = format!("{}{}{more}", self.text, lines.collect::<String>());
        print!("{text}");
        let file = folder.join("report.txt");
        fs::write(&file, &text).map_err(|error| format!("{}: {error}", file.display()))?;
        match self.wrong.len() + wrong {
            0 => Ok(()),
            count => Err(format!("{count} checks failed, see above")),
        }
    }
}

impl DeviceTests<'_> {
    /// Runs all tests on each device of the backend.
    ///
    /// # Errors
    /// When there is no device, or something cannot be run.
    pub fn run(&self) -> Result<Findings> {
        let kernels = self.program("kernels")?;
        let devices = kernels::devices(&kernels, self.backend)?;
        if devices.is_empty() {
            return Err(format!("there is no such device: ggml's {} backend finds none", self.backend));
        }
        let fusions = self.program("fusions")?;
        let placed = format!("placed-on-{}", self.host);
        let placed = PlacedProgram::build(&placed, self.llama, self.folder.clone(), self.variables.clone())?;
        let mut findings = Findings::default();
        for device in &devices {
            eprintln!("[{}] kernels of {device}", self.host);
            kernels::test(&kernels, device, self.unclaimed, &mut findings)?;
            eprintln!("[{}] fusions of {device}", self.host);
            fusions::test(&fusions, device, self, &mut findings)?;
            eprintln!("[{}] llama.cpp on {device}", self.host);
            whole::test(&placed, device, self.logging, &mut findings)?;
            turns::test(&placed, device, &mut findings)?;
        }
        Ok(findings)
    }

    fn program(&self, name: &str) -> Result<HostProgram> {
        let source = format!("hosts/devices/{name}.c");
        HostProgram::build(&format!("{name}-on-{}", self.host), &source, self.llama, self.variables.clone())
    }
}
