//! The table of a host.

use std::fmt::Write;

use lastuse_c_tests::aligned_table;

use crate::compare::Compared;
use crate::speed::{SpeedRatio, median};

/// Returns the table, failed checks, and jobs that are too slow.
pub fn report(all: &[Compared]) -> String {
    let heading = [
        "host",
        "version",
        "model",
        "job",
        "lastuse is",
        "bytes before",
        "after",
        "ratio",
        "a second",
        "after",
        "ratio",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(all.iter().map(cells));
    let mut text = aligned_table(&rows, 5);
    let results: usize = all.iter().map(|compared| compared.results).sum();
    let wrong: Vec<String> = wrong(all);
    let _ = write!(text, "\n{} jobs, {results} bytes of results compared: ", all.len());
    match wrong.len() {
        0 => text.push_str("all the same, no buffer is larger.\n"),
        count => {
            let _ = writeln!(text, "{count} mistakes.");
            wrong.iter().for_each(|wrong| _ = writeln!(text, "- {wrong}"));
        }
    }
    let speed = median(all.iter().map(|compared| compared.speed.median).filter(|ratio| ratio.is_finite()));
    let _ = writeln!(text, "Speed: {speed:.3} of ggml-alloc's, the median of all jobs.");
    for Compared { job, speed, .. } in all.iter().filter(|compared| compared.speed.seems_slow()) {
        let SpeedRatio { median, from, to } = speed;
        let _ = writeln!(text, "Too slow: {} ({median:.3}, {from:.3} to {to:.3}).", job.label());
    }
    text
}

/// Returns all failed checks, each preceded by its job.
pub fn wrong(all: &[Compared]) -> Vec<String> {
    let of_job = |compared: &Compared| -> Vec<String> {
        compared.wrong.iter().map(|wrong| format!("{}: {wrong}", compared.job.label())).collect()
    };
    all.iter().flat_map(of_job).collect()
}

fn cells(compared: &Compared) -> Vec<String> {
    let Compared { job, sides: [before, after], speed: ratio_of_speed, .. } = compared;
    let bytes = [before, after].map(|side| side.counted.most);
    #[allow(clippy::cast_precision_loss, reason = "a ratio of three digits is shown")]
    let ratio = bytes[1] as f64 / bytes[0] as f64;
    // Four digits, of images too, which take seconds.
    let speed = |units: f64| {
        if units < 100.0 { format!("{units:.3} {}", job.unit) } else { format!("{units:.1} {}", job.unit) }
    };
    vec![
        job.host.to_owned(),
        job.version.clone(),
        job.model.clone(),
        job.name.clone(),
        job.way.word().to_owned(),
        bytes[0].to_string(),
        bytes[1].to_string(),
        format!("{ratio:.3}"),
        speed(before.units_per_second),
        speed(after.units_per_second),
        format!("{:.3}", ratio_of_speed.median),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Side;
    use crate::counted::Counted;
    use crate::job::{Job, Launch, Threads, Way};

    fn job() -> Job {
        let launch = Launch::plain("program".as_ref());
        Job {
            host: "host",
            version: "package 1.0".to_owned(),
            model: "model".to_owned(),
            name: "job".to_owned(),
            way: Way::Linked,
            arguments: Vec::new(),
            unit: "tokens",
            threads: Threads::One,
            most_resident: None,
            may_reallocate: false,
            without: launch.clone(),
            with: launch,
        }
    }

    fn side(bytes: u64, units_per_second: f64) -> Side {
        Side { counted: Counted { most: bytes, ..Counted::default() }, units_per_second }
    }

    #[test]
    fn mistakes_and_slow_jobs_are_named() {
        let job = job();
        let compared = |wrong: Vec<String>, [median, to]: [f64; 2]| Compared {
            job: &job,
            sides: [side(200, 10.0), side(150, 9.0)],
            speeds: Vec::new(),
            speed: SpeedRatio { median, from: 0.9, to },
            results: 8,
            wrong,
        };
        let good = report(&[compared(Vec::new(), [0.995, 1.0])]);
        assert!(
            good.contains("| linked     |          200 |   150 | 0.750 | 10.000 tokens | 9.000 tokens | 0.995 |"),
            "{good}"
        );
        assert!(good.contains("1 jobs, 8 bytes of results compared: all the same"), "{good}");
        assert!(good.contains("Speed: 0.995 of ggml-alloc's") && !good.contains("Too slow"), "{good}");
        let bad = report(&[compared(vec!["it is wrong".to_owned()], [0.98, 0.985])]);
        assert!(bad.contains("1 mistakes.\n- host (package 1.0), model, job, linked: it is wrong"), "{bad}");
        assert!(bad.contains("Too slow: host (package 1.0), model, job, linked (0.980, 0.900 to 0.985)."), "{bad}");
    }
}
