//! The assumptions and guarantees of lastuse on the devices of any backend of ggml.
//!
//! ```text
//!  build     the backend, and llama.cpp with it
//!  programs  what runs on the device
//!  kernels   operations computed in the memory of a source: the bits of their own memory?
//!  fusions   sequences that backends compute by one kernel: the bits of ggml-alloc's placement, and as many fused?
//!  whole     llama.cpp with all layers on the device: equal logits, compute buffers no larger?
//!  turns     contexts of llama.cpp there that take turns in an arena: equal logits, the compute buffers of one?
//!  tiles     llama.cpp with a budget for the device or for the CPU: equal logits, as many fusions?
//!  offload   what lastuse offload promises for it
//!  log       the log of kernels and barriers
//!  replayed  what lastuse replays of them for the addresses of its plans
//! ```

mod build;
mod fusions;
mod kernels;
mod log;
mod offload;
mod programs;
mod replayed;
mod tiles;
mod turns;
mod whole;

use std::fs;
use std::path::{Path, PathBuf};

use lastuse_c_tests::{Result, Variable};

pub use build::{build_backend, llama_on};
pub use offload::{FEW, MANY, places, promises};
pub use programs::DevicePrograms;
pub use whole::{Case, LARGE, SMALL};

/// A build of llama.cpp with a backend whose devices are tested.
pub struct DeviceTests<'a> {
    /// Prefix of lines of progress.
    pub host: &'a str,
    /// ggml's name of the backend.
    pub backend: &'a str,
    /// What runs there.
    pub programs: &'a DevicePrograms,
    /// Where graphs are captured.
    pub folder: PathBuf,
    /// The models that run there, and their arguments.
    pub models: &'a [Case],
    /// Operations that are not computed in place on these devices, though they are on others.
    pub unclaimed: &'a [&'a str],
    /// Variables of the runs whose log has kernels, fusions and barriers, as far as the backend can tell.
    pub logging: &'a [Variable],
    /// The log has fusions and barriers, to be compared with those that lastuse replays.
    pub logs_fusions: bool,
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
    /// Adds a table, and writes it to the standard output at once: a run may take minutes, and be stopped.
    pub fn add(&mut self, text: &str) {
        print!("{text}");
        self.text += text;
    }

    /// Writes all to `report.txt` in the folder of a host, and what is not yet there to the standard output: `more`, which
    /// has `wrong` mistakes, and a line for each mistake.
    ///
    /// # Errors
    /// How many mistakes there are, if any.
    pub fn report(&self, folder: &Path, more: &str, wrong: usize) -> Result<()> {
        let lines = self.wrong.iter().map(|wrong| format!("\ncheck failed: {wrong}\n"));
        let rest = format!("{more}{}", lines.collect::<String>());
        print!("{rest}");
        let file = folder.join("report.txt");
        fs::write(&file, format!("{}{rest}", self.text)).map_err(|error| format!("{}: {error}", file.display()))?;
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
    /// No device is found, or something cannot be run.
    pub fn run(&self) -> Result<Findings> {
        let DevicePrograms { kernels, fusions, .. } = self.programs;
        let mut findings = Findings::default();
        for device in self.devices()? {
            eprintln!("[{}] kernels of {device}", self.host);
            kernels::test(kernels, &device, self.unclaimed, &mut findings)?;
            eprintln!("[{}] fusions of {device}", self.host);
            fusions::test(fusions, &device, self, &mut findings)?;
            self.run_llama(&device, &mut findings)?;
        }
        Ok(findings)
    }

    /// Runs llama.cpp alone on each device of the backend.
    ///
    /// # Errors
    /// No device is found, or something cannot be run.
    pub fn run_llama_alone(&self, findings: &mut Findings) -> Result<()> {
        self.devices()?.iter().try_for_each(|device| self.run_llama(device, findings))
    }

    fn run_llama(&self, device: &str, findings: &mut Findings) -> Result<()> {
        eprintln!("[{}] llama.cpp on {device}", self.host);
        whole::test(self, device, findings)?;
        turns::test(&self.programs.placed, device, findings)?;
        tiles::test(self, device, findings)
    }

    fn devices(&self) -> Result<Vec<String>> {
        let devices = kernels::devices(&self.programs.kernels, self.backend)?;
        if devices.is_empty() {
            return Err(format!("ggml's {} backend finds no device", self.backend));
        }
        Ok(devices)
    }
}
