//! The search: offload plans are measured, and the sizes that are assumed of compute buffers corrected.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::offload::device::Device;
use crate::placement::Bytes;

use super::check::Invalid;
use super::fill::fill;
use super::request::{Assignment, Request, Usage};

/// Measures compute buffers.
pub trait Measure {
    /// Returns the bytes of the compute buffer of each device, if items are placed like this: the largest of all graphs.
    ///
    /// # Errors
    /// Why it cannot be measured; the search ends with that.
    fn measure(&mut self, assignment: &Assignment) -> Result<Vec<Bytes>, String>;
}

impl<F: FnMut(&Assignment) -> Result<Vec<Bytes>, String>> Measure for F {
    fn measure(&mut self, assignment: &Assignment) -> Result<Vec<Bytes>, String> {
        self(assignment)
    }
}

/// A offload that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct OffloadPlan {
    /// Where each item is.
    pub assignment: Assignment,
    /// The bytes taken on each device, within its budget.
    pub usage: Vec<Usage>,
    /// The benefit.
    pub benefit: f64,
    /// How many offload plans were measured.
    pub measurements: u32,
}

/// A device whose budget is too small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Its name.
    pub device: String,
    /// The bytes that it has.
    pub budget: Bytes,
    /// The least bytes that it needs in the measured offload plans, with the other devices as they are or as said of them.
    pub needed: Bytes,
}

/// Why nothing is placed.
#[derive(Clone, Debug, PartialEq)]
pub enum NotPlaced {
    /// The request is invalid.
    Invalid(Invalid),
    /// No offload was found that is within all budgets; with these budgets there is one.
    Infeasible(Vec<Shortage>),
    /// Items do not fit in any buffer of the devices that are left for them, or sizes overflow.
    Unplaceable,
    /// A offload could not be measured.
    Measure(String),
}

impl fmt::Display for NotPlaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => why.fmt(f),
            Self::Infeasible(shortages) => {
                write!(f, "no offload was found that is within all budgets:")?;
                shortages.iter().enumerate().try_for_each(|(position, shortage)| {
                    let Shortage { device, budget, needed } = shortage;
                    let comma = if position == 0 { "" } else { "," };
                    let short = needed - budget;
                    write!(f, "{comma} {device} needs {needed} bytes, {short} more than its budget of {budget}")
                })
            }
            Self::Unplaceable => write!(f, "a tensor is larger than a buffer of any device, or sizes overflow"),
            Self::Measure(why) => write!(f, "a compute buffer could not be measured: {why}"),
        }
    }
}

impl From<Invalid> for NotPlaced {
    fn from(why: Invalid) -> Self {
        Self::Invalid(why)
    }
}

/// How often assumed sizes are corrected.
const CORRECTIONS: u32 = 16;

pub fn computes(usage: &[Usage]) -> Vec<Bytes> {
    usage.iter().map(|usage| usage.compute).collect()
}

/// Offloads that were measured, and the best of them.
pub struct Search<'a> {
    pub request: &'a Request<'a>,
    measure: &'a mut dyn Measure,
    known: HashMap<Assignment, Vec<Usage>>,
    pub best: Option<OffloadPlan>,
    /// The one that exceeds budgets by the fewest bytes.
    nearest: Option<(Bytes, Vec<Usage>)>,
    /// By device: the smallest compute buffer that was measured.
    pub least_compute: Vec<Bytes>,
    measurements: u32,
}

impl<'a> Search<'a> {
    pub fn new(request: &'a Request<'a>, measure: &'a mut dyn Measure) -> Self {
        let least_compute = vec![Bytes::MAX; request.devices.len()];
        Self { request, measure, known: HashMap::new(), best: None, nearest: None, least_compute, measurements: 0 }
    }

    /// Returns whether no more offload plans may be measured.
    pub fn is_spent(&self) -> bool {
        self.measurements >= self.request.measurements.max(1)
    }

    /// Measures an offload plan, and keeps it if it is the best. `None` if the devices cannot have the items, or no more may
    /// be measured.
    pub fn measured(&mut self, assignment: &Assignment) -> Result<Option<Vec<Usage>>, NotPlaced> {
        if let Some(known) = self.known.get(assignment) {
            return Ok(Some(known.clone()));
        }
        let devices = 0..self.request.devices.len();
        let items: Option<Vec<Usage>> = devices.map(|at| Usage::of_items(self.request, assignment, at)).collect();
        let Some(mut usage) = items.filter(|_| !self.is_spent()) else { return Ok(None) };
        self.measurements += 1;
        let compute = self.measure.measure(assignment).map_err(NotPlaced::Measure)?;
        if compute.len() != usage.len() {
            let why = format!("{} sizes were measured for {} devices", compute.len(), usage.len());
            return Err(NotPlaced::Measure(why));
        }
        let devices = self.request.devices.iter();
        for (((usage, device), compute), least) in
            usage.iter_mut().zip(devices).zip(compute).zip(&mut self.least_compute)
        {
            usage.compute = device.taken(compute).unwrap_or(Bytes::MAX);
            *least = usage.compute.min(*least);
        }
        self.note(assignment, &usage);
        self.known.insert(assignment.clone(), usage.clone());
        Ok(Some(usage))
    }

    /// Returns the compute buffers of the measured offload that differs in the fewest bytes.
    pub fn compute_of_nearest(&self, assignment: &Assignment) -> Vec<Bytes> {
        let differing = |other: &Assignment| {
            let both = self.request.items.iter().zip(assignment.0.iter().zip(&other.0));
            both.filter(|(_, (place, other))| place != other).map(|(item, _)| item.bytes).fold(0, Bytes::saturating_add)
        };
        let nearest = self.known.iter().min_by_key(|(assignment, usage)| (differing(assignment), computes(usage)));
        nearest.map_or_else(|| self.least_compute.clone(), |(_, usage)| computes(usage))
    }

    fn note(&mut self, assignment: &Assignment, usage: &[Usage]) {
        let over = usage.iter().zip(self.request.devices).map(|(usage, device)| excess(usage, device));
        let over = over.fold(0, Bytes::saturating_add);
        if over > 0 {
            if self.nearest.as_ref().is_none_or(|(least, _)| over < *least) {
                self.nearest = Some((over, usage.to_vec()));
            }
            return;
        }
        let benefit = assignment.benefit(self.request);
        let on_devices = |usage: &[Usage]| {
            usage[..self.request.host()].iter().fold(0, |sum: Bytes, usage| sum.saturating_add(usage.total()))
        };
        let is_better = |best: &OffloadPlan| {
            benefit > best.benefit || (benefit == best.benefit && on_devices(usage) < on_devices(&best.usage))
        };
        if self.best.as_ref().is_none_or(is_better) {
            let (assignment, usage) = (assignment.clone(), usage.to_vec());
            self.best = Some(OffloadPlan { assignment, usage, benefit, measurements: self.measurements });
        }
    }

    /// Fills the devices for the assumed compute buffers, measures, and corrects what is assumed, until that gives no
    /// offload that is new.
    pub fn correct(&mut self, assumed: &[Bytes], most_bytes: bool) -> Result<(), NotPlaced> {
        let mut assumed = assumed.to_vec();
        let mut seen: HashSet<Assignment> = HashSet::new();
        for _ in 0..CORRECTIONS {
            let filled = fill(self.request, &assumed, most_bytes);
            let is_new = seen.insert(filled.clone());
            let Some(usage) = self.measured(&filled)? else { return Ok(()) };
            let mut fits = true;
            for ((assumed, usage), device) in assumed.iter_mut().zip(&usage).zip(self.request.devices) {
                let over = excess(usage, device);
                fits &= over == 0;
                *assumed = if over > 0 { assumed.saturating_add(over).max(usage.compute) } else { usage.compute };
            }
            if fits && !is_new {
                return Ok(());
            }
        }
        Ok(())
    }

    pub fn end(self) -> Result<OffloadPlan, NotPlaced> {
        let measurements = self.measurements;
        if let Some(best) = self.best {
            return Ok(OffloadPlan { measurements, ..best });
        }
        let Some((_, usage)) = self.nearest else { return Err(NotPlaced::Unplaceable) };
        let shortage = |(usage, device): (&Usage, &Device)| {
            let budget = device.budget.filter(|_| !usage.fits(device))?;
            Some(Shortage { device: device.name.clone(), budget, needed: usage.total() })
        };
        Err(NotPlaced::Infeasible(usage.iter().zip(self.request.devices).filter_map(shortage).collect()))
    }
}

/// Returns by how many bytes a budget is exceeded.
fn excess(usage: &Usage, device: &Device) -> Bytes {
    device.budget.map_or(0, |budget| usage.total().saturating_sub(budget))
}
