//! The peak of a growing profile, against a list of steps.

use crate::graph::steps::profile::GrowingProfile;
use crate::placement::Bytes;

#[test]
fn the_peak_is_that_of_the_ranges_added() {
    for steps in [1, 2, 5, 8, 33] {
        let mut profile = GrowingProfile::new(steps);
        for round in 0..2 {
            profile.clear();
            assert_eq!(profile.peak(), 0);
            let mut live: Vec<Bytes> = vec![0; steps];
            for at in 0..40 {
                let start = (at * 7 + round) % steps;
                let end = (start + at % 5).min(steps);
                let size = Bytes::try_from(at * at % 11).expect("a small number");
                profile.add(start..end, size);
                live[start..end].iter_mut().for_each(|bytes| *bytes += size);
                assert_eq!(Some(&profile.peak()), live.iter().max(), "{steps} steps, range {at}");
            }
        }
    }
}

#[test]
fn sums_stop_at_the_largest_number() {
    let mut profile = GrowingProfile::new(3);
    profile.add(0..3, Bytes::MAX);
    profile.add(1..2, 5);
    assert_eq!(profile.peak(), Bytes::MAX);
}
