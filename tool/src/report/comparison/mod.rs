//! What grew or shrank between two versions: on each device or in each buffer, by class, and by the tensors at the peak.

mod names;
mod text;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use lastuse::accounting::{MemoryClass, Sums};
use lastuse::placement::Bytes;
use serde::Serialize;

use crate::report::accounting::{PARTS, parts};

pub use names::{group_name, without_numbers};
pub use text::comparison_text;

/// What a device or a compute buffer held at its peak.
#[derive(Clone, Debug, Default)]
pub struct Holder {
    /// The name of the device, or that of the buffer's type.
    pub name: String,
    /// Its bytes by class.
    pub sums: Sums,
    /// The tensors at the peak; `None` if they are not known.
    pub tensors: Option<Vec<PeakTensor>>,
    /// The plan, for a buffer of a capture.
    pub plan: Option<PlanOfBuffer>,
}

/// A tensor at a peak.
#[derive(Clone, Debug)]
pub struct PeakTensor {
    /// The name that it shares with those of other layers, see [`group_name`].
    pub group: String,
    /// The use of its bytes.
    pub class: MemoryClass,
    /// Its bytes.
    pub bytes: Bytes,
    /// Its element type and its extents.
    pub shape: String,
}

/// The largest plan of a buffer in a capture.
#[derive(Clone, Debug, Serialize)]
pub struct PlanOfBuffer {
    /// The file of its graph.
    pub graph: String,
    /// The label of its graph.
    pub label: String,
    /// The nodes of its graph.
    pub nodes: usize,
    /// Bytes that are live at the peak.
    pub lower_bound: Bytes,
    /// The step of the peak, and its node; `None` if the buffer is empty.
    pub peak: Option<String>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compared {
    /// Devices, of accountings or reports.
    Devices,
    /// Compute buffers, of captures.
    Buffers,
}

/// The differences between two versions.
#[derive(Debug, Serialize)]
pub struct Comparison {
    format: &'static str,
    version: u64,
    /// The file or folder of each version.
    old: String,
    new: String,
    compared: Compared,
    /// By device or buffer, the one with the largest difference first.
    changes: Vec<Change>,
}

/// The difference of a device or a buffer.
#[derive(Debug, Serialize)]
struct Change {
    name: String,
    old: Option<Side>,
    new: Option<Side>,
    /// New bytes less old ones.
    change: i128,
    /// What explains it, the largest first. The bytes add up to the totals. `None` if the tensors of a version are not known.
    causes: Option<Vec<Cause>>,
}

/// One of the two versions of a device or a buffer.
#[derive(Debug, Serialize)]
struct Side {
    #[serde(flatten)]
    sums: BTreeMap<&'static str, Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanOfBuffer>,
}

/// Tensors with one name whose bytes differ, or other memory.
#[derive(Debug, Default, Serialize)]
struct Cause {
    name: String,
    class: &'static str,
    old: Bytes,
    new: Bytes,
    change: i128,
    /// How many tensors they were, and are; 0 for memory without a tensor.
    tensors: [usize; 2],
    /// The shape of the largest of them in each version.
    shapes: [Option<String>; 2],
}

impl Comparison {
    /// Compares what was held in two versions, each with the name of its file or folder.
    pub fn new(compared: Compared, old: (String, &[Holder]), new: (String, &[Holder])) -> Self {
        let added = new.1.iter().filter(|holder| named(old.1, &holder.name).is_none());
        let change =
            |holder: &Holder| Change::new(named(old.1, &holder.name), named(new.1, &holder.name), &holder.name);
        let mut changes: Vec<Change> = old.1.iter().chain(added).map(change).collect();
        changes.sort_by_key(|change| Reverse(change.change.abs()));
        Self { format: "lastuse-comparison", version: 1, old: old.0, new: new.0, compared, changes }
    }

    /// Serializes the comparison as one line of JSON, format "lastuse-comparison", version 1; sizes in bytes.
    ///
    /// # Errors
    /// None is known: the data is plain.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

fn named<'a>(all: &'a [Holder], name: &str) -> Option<&'a Holder> {
    all.iter().find(|holder| holder.name == name)
}

impl Change {
    fn new(old: Option<&Holder>, new: Option<&Holder>, name: &str) -> Self {
        let side = |holder: &Holder| Side {
            sums: PARTS.into_iter().zip(parts(&holder.sums)).collect(),
            plan: holder.plan.clone(),
        };
        let total = |holder: Option<&Holder>| holder.map_or(0, |holder| holder.sums.total());
        let change = difference(total(old), total(new));
        Self {
            name: name.to_owned(),
            old: old.map(side),
            new: new.map(side),
            change,
            causes: causes([old, new], change),
        }
    }
}

/// Returns what explains the difference of a device: its tensors by name, padding, and memory without a tensor.
fn causes(sides: [Option<&Holder>; 2], change: i128) -> Option<Vec<Cause>> {
    let mut all: HashMap<(&str, &'static str), Cause> = HashMap::new();
    let mut largest: HashMap<(&str, &'static str, usize), Bytes> = HashMap::new();
    for (side, holder) in sides.into_iter().enumerate() {
        let Some(holder) = holder else { continue };
        let mut rest = holder.sums;
        for tensor in holder.tensors.as_ref()? {
            let cause = all.entry((&tensor.group, tensor.class.name())).or_default();
            cause.add(side, tensor.bytes);
            cause.tensors[side] += 1;
            let most = largest.entry((&tensor.group, tensor.class.name(), side)).or_default();
            if cause.shapes[side].is_none() || tensor.bytes > *most {
                (cause.shapes[side], *most) = (Some(tensor.shape.clone()), tensor.bytes);
            }
            let left = rest.part(tensor.class);
            *left = left.saturating_sub(tensor.bytes);
        }
        let others = MemoryClass::ALL.map(|class| (untaken(class), class.name(), rest.of(class)));
        for (name, class, bytes) in others.into_iter().chain([("padding", "rounding", rest.rounding)]) {
            all.entry((name, class)).or_default().add(side, bytes);
        }
    }
    let named = |((name, class), cause): ((&str, _), Cause)| {
        let change = difference(cause.old, cause.new);
        Cause { name: name.to_owned(), class, change, ..cause }
    };
    let mut causes: Vec<Cause> = all.into_iter().map(named).filter(|cause| cause.change != 0).collect();
    // What has the direction of the whole first.
    let rank = |cause: &Cause| if change < 0 { cause.change } else { -cause.change };
    causes.sort_by(|one, other| (rank(one), &one.name, one.class).cmp(&(rank(other), &other.name, other.class)));
    Some(causes)
}

impl Cause {
    fn add(&mut self, side: usize, bytes: Bytes) {
        let sum = if side == 0 { &mut self.old } else { &mut self.new };
        *sum = sum.saturating_add(bytes);
    }
}

/// Names the bytes of a class that no tensor takes. A compute buffer has them where tensors are live at other steps.
fn untaken(class: MemoryClass) -> &'static str {
    if class == MemoryClass::Compute { "memory free at the peak step" } else { "memory without a known tensor" }
}

fn difference(old: Bytes, new: Bytes) -> i128 {
    i128::from(new) - i128::from(old)
}
