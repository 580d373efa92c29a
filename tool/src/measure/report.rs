//! What a dry run has found, as a table and as JSON.

use std::fmt::Write;

use lastuse::accounting::{AccountedDevice, Accounting, MemoryClass, Sums};
use lastuse::placement::Bytes;
use serde_json::{Value, json};

use super::causes::{Cause, causes};
use super::dry_run::{DryRun, Process};
use super::levers::Tried;
use crate::output::{counted, titled};
use crate::report::SizeUnit;
use crate::report::accounting::{MeasuredDevice, measured_devices, with_ggml_alloc};

/// The buffers of the CPU whose caches take memory as they are filled have at least these bytes.
const ON_DEMAND: Bytes = 32 << 20;

/// What devices take beside the buffers that programs allocate, by the beginning of their names.
const NOT_COUNTED: [(&str, &str); 5] = [
    ("CPU", "code and tables of the process, work buffers of operators"),
    ("CUDA", "the context of the driver, pools that grow while graphs are computed, work space of cuBLAS"),
    ("ROCm", "the context of the driver, pools that grow while graphs are computed, work space of hipBLAS"),
    ("Vulkan", "pipelines and descriptors of the driver, staging and work buffers that grow while graphs are computed"),
    ("", "what its driver and its backend take for themselves"),
];

/// The name of the format in JSON, and its only version so far.
pub const MEASUREMENT: (&str, u64) = ("lastuse-measurement", 1);

/// What a program would hold.
pub struct Report<'a> {
    pub program: &'a str,
    pub dry_run: &'a DryRun,
    /// Whether causes are told.
    pub explains: bool,
    /// The options that lower it.
    pub tried: &'a [Tried],
    /// Whether caches take memory as they are filled.
    pub defers_caches: bool,
}

/// A device of a process, with all that is told of it.
struct Found<'a> {
    accounting: &'a Accounting,
    device: &'a AccountedDevice,
    ggml_alloc: Option<Sums>,
    on_demand: Option<Sums>,
    largest: Bytes,
    /// What all processes would hold there.
    of_all: Bytes,
}

impl<'a> Found<'a> {
    fn all(process: &'a Process, Report { dry_run, defers_caches, .. }: &Report<'_>) -> Vec<Self> {
        let (accounting, rows) = (&process.written.accounting, dry_run.events.rows());
        let of_all = |name: &str| {
            let devices = dry_run.accountings().flat_map(|accounting| &accounting.devices);
            devices.filter(|device| device.name == name).map(|device| device.sums.total()).sum()
        };
        let of_device = |device: &'a AccountedDevice| {
            let buffers = accounting.buffers.iter().filter(|buffer| buffer.device == device.name);
            let caches = buffers.clone().filter(|buffer| buffer.buffer_type == "CPU" && buffer.asked >= ON_DEMAND);
            let kv = caches.map(|buffer| buffer.sums.kv).sum();
            let on_demand = Some(Sums { kv, ..Sums::default() }).filter(|sums| *defers_caches && sums.kv > 0);
            Self {
                accounting,
                device,
                ggml_alloc: with_ggml_alloc(accounting, device, &rows),
                on_demand,
                largest: buffers.map(|buffer| buffer.asked).max().unwrap_or(0),
                of_all: of_all(&device.name),
            }
        };
        accounting.devices.iter().map(of_device).collect()
    }

    /// Returns the bytes by which the device has too few free ones for all processes, or what stays free.
    fn fits(&self) -> Option<Result<Bytes, Bytes>> {
        let (free, total) = (self.device.free?, self.of_all);
        Some(free.checked_sub(total).ok_or(total.saturating_sub(free)))
    }

    fn not_counted(&self) -> &'static str {
        NOT_COUNTED.iter().find(|(name, _)| self.device.name.starts_with(name)).map_or("", |(_, what)| what)
    }
}

impl Report<'_> {
    /// Formats it as a table, whose titles are bold, and lines.
    pub fn text(&self, in_bytes: bool) -> String {
        let unit = if in_bytes { SizeUnit::Bytes } else { SizeUnit::Mib };
        let size = |bytes: Bytes| format!("{} {}", unit.text(bytes), unit.name());
        let mut text = String::new();
        let processes = &self.dry_run.processes;
        for process in processes {
            if processes.len() > 1 {
                let _ = writeln!(text, "process {}", process.written.accounting.process);
            }
            let found = Found::all(process, self);
            let rows: Vec<MeasuredDevice<'_>> = found
                .iter()
                .map(|it| MeasuredDevice {
                    device: it.device,
                    ggml_alloc: it.ggml_alloc,
                    on_demand: it.on_demand,
                    largest: it.largest,
                })
                .collect();
            text += &titled(&measured_devices(unit, &rows));
            for it in &found {
                let name = &it.device.name;
                let _ = match it.fits() {
                    Some(Ok(rest)) => writeln!(text, "{name}: fits; {} stay free", size(rest)),
                    Some(Err(missing)) => writeln!(text, "{name}: does not fit: {} are missing", size(missing)),
                    None => writeln!(text, "{name}: reports no free memory"),
                };
            }
            for it in &found {
                let _ = writeln!(text, "not counted on {}: {}", it.device.name, it.not_counted());
            }
            process.end.notes.iter().for_each(|note| text += &format!("{note}\n"));
            let graphs = counted(process.end.graphs, "graph");
            let _ = writeln!(text, "{graphs} not computed; {}", process.end.why);
            if self.explains {
                text += &causes_text(&found, unit);
            }
        }
        if self.explains {
            text += &self.tried_text(unit);
        }
        text
    }

    fn tried_text(&self, unit: SizeUnit) -> String {
        if self.tried.is_empty() {
            return "\nno option that was tried lowers it\n".to_owned();
        }
        let mut text = "\nwhat lowers it, each alone, by another dry run\n".to_owned();
        let width = self.tried.iter().map(|tried| tried.option.len()).max().unwrap_or(0);
        for tried in self.tried {
            let saved: Vec<String> = tried.saved.iter().map(|it| it.text(unit)).collect();
            let _ = writeln!(text, "  {:<width$}  {}", tried.option, saved.join(", "));
        }
        text
    }

    /// Formats it as JSON, in a line.
    pub fn json(&self) -> String {
        let of_process = |process: &Process| {
            let found = Found::all(process, self);
            let end = &process.end;
            json!({
                "process": process.written.accounting.process,
                "ggml": process.written.accounting.ggml,
                "complete": end.is_complete,
                "graphs_not_computed": end.graphs,
                "end": end.why,
                "notes": end.notes,
                "devices": found.iter().map(|found| self.device_json(found)).collect::<Vec<_>>(),
            })
        };
        let processes: Vec<Value> = self.dry_run.processes.iter().map(of_process).collect();
        let tried: Vec<Value> = self.tried.iter().map(Tried::json).collect();
        let accountings = self.dry_run.processes.iter().filter_map(|process| process.written.value());
        let (format, version) = MEASUREMENT;
        let json = json!({
            "format": format, "version": version, "program": self.program, "processes": processes,
            "peak_resident_bytes": self.dry_run.peak_bytes, "options": self.explains.then_some(tried),
            "accounting": self.explains.then(|| accountings.collect::<Vec<_>>()),
        });
        format!("{json}\n")
    }

    fn device_json(&self, found: &Found<'_>) -> Value {
        let Sums { weights, kv, compute, other, rounding } = found.device.sums;
        let causes = self.explains.then(|| causes(found.accounting, &found.device.name));
        json!({
            "name": found.device.name, "description": found.device.description, "kind": found.device.kind,
            "weights": weights, "kv": kv, "compute": compute, "other": other, "rounding": rounding,
            "total": found.device.sums.total(), "largest_buffer": found.largest,
            "ggml_alloc": found.ggml_alloc.map(|it| json!({ "compute": it.compute, "total": it.total() })),
            "on_demand": found.on_demand.map_or(0, |sums| sums.total()),
            "free": found.device.free, "memory": found.device.memory,
            "fits": found.fits().map(|fits| fits.is_ok()),
            "not_counted": found.not_counted(),
            "causes": causes.map(|causes| causes.iter().map(Cause::json).collect::<Vec<_>>()),
        })
    }
}

/// Formats what the bytes of devices are for.
fn causes_text(found: &[Found<'_>], unit: SizeUnit) -> String {
    let mut text = String::new();
    for it in found {
        let causes = causes(it.accounting, &it.device.name);
        for class in MemoryClass::ALL {
            let of_class: Vec<&Cause> = causes.iter().filter(|cause| cause.class == class).collect();
            let bytes = it.device.sums.of(class);
            if bytes == 0 || of_class.is_empty() {
                continue;
            }
            let _ = writeln!(text, "\n{}, {}: {} {}", it.device.name, class.name(), unit.text(bytes), unit.name());
            for cause in of_class {
                let _ = writeln!(text, "  {:>10}  {}", unit.text(cause.bytes), cause.what);
            }
        }
    }
    text
}
