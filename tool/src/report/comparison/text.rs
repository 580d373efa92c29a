//! A comparison as tables, and a closing line for each device or buffer.

use std::fmt::Write;

use lastuse::placement::Bytes;

use super::{Cause, Change, Compared, Comparison, Side, difference};
use crate::output::titled;
use crate::report::accounting::PARTS;
use crate::report::sizes::SizeUnit;
use crate::report::table::{Table, printable};

/// Formats a comparison with at most `top` causes of each device, in tables with bold titles.
pub fn comparison_text(comparison: &Comparison, unit: SizeUnit, top: usize) -> String {
    let mut text = format!("old: {}\nnew: {}\n\n", printable(&comparison.old), printable(&comparison.new));
    text += &titled(&sums(comparison, unit));
    for change in &comparison.changes {
        let causes = change.causes.as_deref().unwrap_or_default();
        text += &causes_text(&change.name, causes, unit, top);
    }
    text.push('\n');
    if comparison.changes.is_empty() {
        text += "neither holds memory\n";
    }
    comparison.changes.iter().for_each(|change| text += &closing_line(change, unit));
    if comparison.changes.iter().any(|change| change.causes.is_none() && !by_class(change).is_empty()) {
        text += "to see which tensors, compare two accountings (\"lastuse run --accounting=FILE.json\") or measurements with --why\n";
    }
    text
}

/// A line of the table of sums: a version, or the difference.
struct Line<'a> {
    name: String,
    numbers: Vec<String>,
    /// Of captures: the step of the peak, and the graph.
    peak: &'a str,
    graph: &'a str,
}

fn sums(comparison: &Comparison, unit: SizeUnit) -> String {
    let (what, numbers): (_, &[&str]) = match comparison.compared {
        Compared::Devices => ("device", &PARTS),
        Compared::Buffers => ("buffer", &["planned", "lower bound"]),
    };
    let lines: Vec<Line<'_>> =
        comparison.changes.iter().flat_map(|change| lines(change, comparison.compared, unit)).collect();
    let title = format!("{what}, {}", unit.name());
    let mut table = Table::<Line<'_>>::new().texts(&title, 0, |line| line.name.clone());
    for (column, title) in numbers.iter().enumerate() {
        table = table.numbers(title, 0, move |line| line.numbers[column].clone());
    }
    if comparison.compared == Compared::Buffers {
        table = table.texts("peak", 0, |line| printable(line.peak)).texts("graph", 0, |line| printable(line.graph));
    }
    table.text(&lines)
}

/// Returns the lines of the old version, the new one, and the difference.
fn lines(change: &Change, compared: Compared, unit: SizeUnit) -> [Line<'_>; 3] {
    let numbers = |side: &Option<Side>| side.as_ref().map(|side| side.numbers(compared));
    let (old, new) = (numbers(&change.old), numbers(&change.new));
    let columns = old.as_ref().or(new.as_ref()).map_or(0, Vec::len);
    let at = |side: &Option<Vec<Bytes>>, column: usize| side.as_ref().map(|numbers| numbers[column]);
    let version = |side| {
        let cell = |column| at(side, column).map_or("-".to_owned(), |bytes| unit.text(bytes));
        (0..columns).map(cell).collect()
    };
    let changed = |column| signed(unit, difference(at(&old, column).unwrap_or(0), at(&new, column).unwrap_or(0)));
    let of_version = |name, side, numbers| {
        let plan = Option::as_ref(side).and_then(|side: &Side| side.plan.as_ref());
        let peak = plan.and_then(|plan| plan.peak.as_deref()).unwrap_or_default();
        Line { name, numbers: version(numbers), peak, graph: plan.map_or("", |plan| &plan.label) }
    };
    [
        of_version(format!("{}, old", printable(&change.name)), &change.old, &old),
        of_version("  new".to_owned(), &change.new, &new),
        Line { name: "  change".to_owned(), numbers: (0..columns).map(changed).collect(), peak: "", graph: "" },
    ]
}

impl Side {
    fn numbers(&self, compared: Compared) -> Vec<Bytes> {
        let of = |part| self.sums.get(part).copied().unwrap_or(0);
        match compared {
            Compared::Devices => PARTS.into_iter().map(of).collect(),
            Compared::Buffers => vec![of("total"), self.plan.as_ref().map_or(0, |plan| plan.lower_bound)],
        }
    }
}

/// Formats the causes of a device, the largest first; empty without any. What is beyond `top` is summed up, what is too small
/// to be seen in the unit is counted.
fn causes_text(name: &str, causes: &[Cause], unit: SizeUnit, top: usize) -> String {
    let zero = unit.text(0);
    let (seen, small): (Vec<&Cause>, Vec<&Cause>) =
        causes.iter().partition(|cause| signed(unit, cause.change).trim_start_matches(['+', '-']) != zero);
    let (listed, rest) = seen.split_at(seen.len().min(top));
    let mut text = String::new();
    if !listed.is_empty() {
        let _ = write!(text, "\n{}", titled(&table(name, listed, unit)));
    }
    if !rest.is_empty() {
        let sum = signed(unit, rest.iter().map(|cause| cause.change).sum());
        let _ = writeln!(text, "and {} more, {sum} {} together: see --top", rest.len(), unit.name());
    }
    if !small.is_empty() {
        let _ = writeln!(text, "and {} too small to show: see --bytes", small.len());
    }
    text
}

fn table(name: &str, causes: &[&Cause], unit: SizeUnit) -> String {
    let title = format!("on {}, {}", printable(name), unit.name());
    let or_dash = |bytes, count| if bytes == 0 && count == 0 { "-".to_owned() } else { unit.text(bytes) };
    let table = Table::<&Cause>::new()
        .numbers(&title, 0, |cause| signed(unit, cause.change))
        .numbers("old", 0, |cause| or_dash(cause.old, cause.tensors[0]))
        .numbers("new", 0, |cause| or_dash(cause.new, cause.tensors[1]))
        .texts("class", 0, |cause| cause.class.to_owned())
        .texts("", 0, |cause| how(cause).to_owned())
        .texts("what", 0, |cause| printable(&cause.name))
        .texts("tensors", 0, |cause| both(&cause.tensors.map(|count| (count > 0).then(|| count.to_string()))))
        .texts("shape of the largest", 0, |cause| printable(&both(&cause.shapes)));
    table.text(causes)
}

/// Says how a group of tensors, or other memory, has changed.
fn how(cause: &Cause) -> &'static str {
    match cause {
        Cause { old: 0, .. } => "appeared",
        Cause { new: 0, .. } => "vanished",
        Cause { change: ..0, .. } => "shrank",
        _ => "grew",
    }
}

/// Formats a fact of both versions, once if it is the same.
fn both(sides: &[Option<String>; 2]) -> String {
    match sides {
        [Some(old), Some(new)] if old != new => format!("{old} -> {new}"),
        [Some(one), _] | [None, Some(one)] => one.clone(),
        [None, None] => "-".to_owned(),
    }
}

/// How many causes a closing line names at most.
const MOST_NAMED: usize = 3;

/// The percentage of the difference from which on no further cause is named.
const ENOUGH: i128 = 90;

/// Formats the difference of a device or a buffer, and the largest causes of it.
fn closing_line(change: &Change, unit: SizeUnit) -> String {
    let (name, all) = (printable(&change.name), change.change);
    let named = |cause: &Cause| (format!("{} ({})", printable(&cause.name), cause.class), cause.change);
    let parts: Vec<(String, i128)> = match &change.causes {
        Some(causes) => causes.iter().map(named).collect(),
        None => by_class(change),
    };
    let size = |bytes| format!("{} {}", signed(unit, bytes), unit.name());
    let Some((largest, bytes)) = parts.first() else { return format!("{name}: the same\n") };
    if all == 0 {
        return format!("{name}: the same in all; {} are {largest}, and {} all else\n", size(*bytes), size(-bytes));
    }
    if *bytes == all {
        return format!("{name}: {}, all of it {largest}\n", size(all));
    }
    if bytes.abs() > all.abs() {
        return format!("{name}: {}: {} are {largest}, and {} all else\n", size(all), size(*bytes), size(all - bytes));
    }
    let (mut sum, mut causes) = (0, Vec::new());
    for (part, bytes) in parts.iter().take(MOST_NAMED).take_while(|(_, bytes)| bytes.signum() == all.signum()) {
        if sum * 100 / all < ENOUGH {
            causes.push(format!("{} {}{part}", size(*bytes), if sum == 0 { "are " } else { "" }));
            sum += bytes;
        }
    }
    let last = causes.pop().unwrap_or_default();
    let before = if causes.is_empty() { String::new() } else { causes.join(", ") + " and " };
    format!("{name}: {}, of which {before}{last}\n", size(all))
}

/// Returns the classes that differ, the largest difference in the direction of the whole first.
fn by_class(change: &Change) -> Vec<(String, i128)> {
    let of = |side: &Option<Side>, class: &'static str| {
        side.as_ref().and_then(|side| side.sums.get(class).copied()).unwrap_or(0)
    };
    let changed = |class: &'static str| (class.to_owned(), difference(of(&change.old, class), of(&change.new, class)));
    let classes = PARTS.into_iter().filter(|class| *class != "total");
    let mut parts: Vec<_> = classes.map(changed).filter(|(_, bytes)| *bytes != 0).collect();
    parts.sort_by_key(|(_, bytes)| if change.change < 0 { *bytes } else { -bytes });
    parts
}

/// Formats a difference with its sign, without the unit.
fn signed(unit: SizeUnit, bytes: i128) -> String {
    let size = unit.text(Bytes::try_from(bytes.unsigned_abs()).unwrap_or(Bytes::MAX));
    match bytes {
        0 => size,
        1.. => format!("+{size}"),
        _ => format!("-{size}"),
    }
}
