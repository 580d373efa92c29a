//! What a device holds of each class over time, as the tool samples it, drawn as SVG: the classes on top of each other.

use std::fmt::Write;

use lastuse::accounting::{AccountedDevice, Accounting, SumsAt};
use lastuse::placement::Bytes;

use super::coloured;
use crate::report::sizes::{as_float, fixed};
use crate::report::xml::escaped;

/// The size of the drawing, in pixels.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 140.0;

/// Draws the samples of each device; nothing for devices without any.
pub fn samples(accounting: &Accounting) -> String {
    accounting.devices.iter().filter(|device| !device.samples.is_empty()).map(of_device).collect()
}

fn of_device(device: &AccountedDevice) -> String {
    let all = &device.samples;
    let (begin, end) = (all[0].ms, all[all.len() - 1].ms);
    let most = all.iter().map(|at| at.sums.total().max(at.resident.unwrap_or(0))).max().unwrap_or(0).max(1);
    let scale = Scale { begin, end: end.max(begin + 1), most };
    let mut areas = String::new();
    let classes = coloured(&all[0].sums).count();
    // The sum of all classes first: each next one is drawn over it.
    for count in (1..=classes).rev() {
        let below = |at: &SumsAt| coloured(&at.sums).take(count).map(|(_, _, bytes)| bytes).sum();
        let (name, colour, _) = coloured(&all[0].sums).nth(count - 1).unwrap_or_default();
        let path = scale.steps(all, below);
        let _ = write!(
            areas,
            "<path class=\"{name}\" fill=\"{colour}\" d=\"M0 {HEIGHT}{path}V{HEIGHT}z\"><title>{name}</title></path>"
        );
    }
    let last = all[all.len() - 1];
    let mut caption = format!(
        "{}, {:.1} s to {:.1} s: <span class=\"reserved\">{} reserved</span>",
        escaped(&device.name),
        as_float(begin) / 1000.0,
        as_float(end) / 1000.0,
        fixed(last.sums.total())
    );
    if let Some(resident) = last.resident {
        let path = scale.steps(all, |at| at.resident.unwrap_or(0));
        let _ = write!(areas, "<path class=\"resident\" d=\"M0 {HEIGHT}{path}\"/>");
        let _ = write!(caption, ", <span class=\"resident\">{} of them resident</span>", fixed(resident));
    }
    format!(
        "<figure class=\"samples\"><figcaption>{caption}; at most {}</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">{areas}</svg></figure>\n",
        fixed(most)
    )
}

/// The times and bytes that fill the drawing.
struct Scale {
    begin: u64,
    end: u64,
    most: Bytes,
}

impl Scale {
    /// Returns a path that has the bytes of each sample until the next one.
    fn steps(&self, all: &[SumsAt], bytes: impl Fn(&SumsAt) -> Bytes) -> String {
        let mut path = String::new();
        for at in all {
            let x = as_float(at.ms - self.begin) / as_float(self.end - self.begin) * WIDTH;
            let y = HEIGHT - as_float(bytes(at)) / as_float(self.most) * HEIGHT;
            let _ = write!(path, "H{x:.1}V{y:.1}");
        }
        path + &format!("H{WIDTH}")
    }
}
