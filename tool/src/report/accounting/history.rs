//! The memory of a device, and the turns of allocators that share memory, over the time that a program runs, drawn as SVG.

use std::fmt::Write;

use lastuse::accounting::{AccountedDevice, Accounting, AllocatorTurn, BytesAt};
use lastuse::placement::Bytes;

use crate::report::sizes::{as_float, fixed};
use crate::report::xml::escaped;

/// The size of the drawing, in pixels.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 140.0;

/// Draws what each device held over time; with the host's, the resident memory of the process. Nothing for devices that have
/// held one thing all the time, unless resident memory is known.
pub fn histories(accounting: &Accounting) -> String {
    let of_device = |device: &AccountedDevice| {
        let resident = if device.kind == "cpu" { &accounting.resident[..] } else { &[] };
        // Samples have the classes, too.
        let is_drawn = device.samples.is_empty() && (device.history.len() > 1 || !resident.is_empty());
        is_drawn.then(|| history(&device.name, &device.history, resident))
    };
    accounting.devices.iter().filter_map(of_device).collect()
}

fn history(name: &str, held: &[BytesAt], resident: &[BytesAt]) -> String {
    let all = || held.iter().chain(resident);
    let last = all().map(|at| at.ms).max().unwrap_or(0).max(1);
    let most = all().map(|at| at.bytes).max().unwrap_or(0).max(1);
    let steps = |times: &[BytesAt]| steps(times, last, most);
    let (area, line) = (steps(held), steps(resident));
    let mut svg = format!(
        "<figure><figcaption>{}, over {} s: <span class=\"held\">held</span>",
        escaped(name),
        as_float(last) / 1000.0
    );
    if !resident.is_empty() {
        svg += ", <span class=\"resident\">resident memory of the process</span>";
    }
    let _ = write!(
        svg,
        "; at most {}</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         role=\"img\"><path class=\"held\" d=\"M0 {HEIGHT}{area}V{HEIGHT}z\"/>",
        fixed(most)
    );
    if !resident.is_empty() {
        let _ = write!(svg, "<path class=\"resident\" d=\"M0 {HEIGHT}{line}\"/>");
    }
    svg + "</svg></figure>\n"
}

/// The height of the turns of one allocator, and the space between two.
const LANE: f64 = 28.0;
const GAP: f64 = 6.0;

/// Draws when each allocator that shares memory had its turn, as high as what its graph needed of the most; nothing if none does.
pub fn turns(accounting: &Accounting) -> String {
    let all = &accounting.turns;
    let Some(last) = all.last() else { return String::new() };
    let held = accounting.devices.iter().flat_map(|device| &device.history);
    let end = held.map(|at| at.ms).fold(last.ms, u64::max).max(1);
    let most = all.iter().map(|turn| turn.bytes).max().unwrap_or(0).max(1);
    let mut allocators: Vec<u64> = all.iter().map(|turn| turn.allocator).collect();
    allocators.sort_unstable();
    allocators.dedup();
    let x = |ms: u64| as_float(ms) / as_float(end) * WIDTH;
    let (mut height, mut drawn) = (0.0, String::new());
    for allocator in allocators {
        let floor = height + LANE;
        let mut path = String::new();
        for (at, turn) in all.iter().enumerate().filter(|(_, turn)| turn.allocator == allocator) {
            let until = all.get(at + 1).map_or(end, |next: &AllocatorTurn| next.ms);
            let top = floor - as_float(turn.bytes) / as_float(most) * LANE;
            let _ = write!(path, "M{:.1} {floor}V{top:.1}H{:.1}V{floor}z", x(turn.ms), x(until).max(x(turn.ms) + 0.5));
        }
        let _ = write!(
            drawn,
            "<path class=\"held\" d=\"{path}\"><title>allocator {allocator}</title></path><text x=\"4\" y=\"{:.1}\">{allocator}</text>",
            floor - 4.0
        );
        height = floor + GAP;
    }
    let most = fixed(most);
    format!(
        "<figure><figcaption>Allocators that share memory, in turns over {} s: a graph needs at most {most}</figcaption>\n<svg \
         viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">{drawn}</svg></figure>\n",
        as_float(end) / 1000.0
    )
}

/// Returns a path that has the bytes of each time until the next one, and those of the last to the end.
fn steps(times: &[BytesAt], last: u64, most: Bytes) -> String {
    let mut path = String::new();
    for at in times {
        let x = as_float(at.ms) / as_float(last) * WIDTH;
        let y = HEIGHT - as_float(at.bytes) / as_float(most) * HEIGHT;
        let _ = write!(path, "H{x:.1}V{y:.1}");
    }
    path + &format!("H{WIDTH}")
}
