//! Which neurons are taken.

use super::super::{GRANULE_UNIT, Granule, Inactive, InvalidGranule, LayerNeurons, divide};
use super::{cost, counts, divide_counted, granule};

/// `count` neurons of each of these values, in turn: groups are sums of 32 equal ones.
fn values(of: &[f64], count: usize) -> Vec<f64> {
    of.iter().flat_map(|&value| vec![value; count]).collect()
}

#[test]
fn hottest_neurons_of_all_layers_are_taken() {
    let layers = [values(&[1.0, 9.0, 2.0], 32), values(&[8.0, 0.5, 3.0], 32)];
    let division = divide_counted(&layers, 100, Inactive::Fill);
    assert_eq!(counts(&division), [32, 64], "9, 8 and 3; a fourth group of 32 does not fit 100");
    assert_eq!(division.layers[0].bucket, (32..64).collect::<Vec<u32>>());
    assert_eq!(division.layers[1].bucket, (0..32).chain(64..96).collect::<Vec<u32>>());
    assert_eq!((division.neurons(), division.covered(), division.total()), (96, 640.0, 752.0));
    assert_eq!(division.bound, 640.0 + 2.0 * 4.0, "4 neurons of the next group");
}

#[test]
fn neurons_of_a_group_come_from_anywhere() {
    let hotness: Vec<f64> = (0..96u32).map(|id| f64::from(id * 37 % 96)).collect();
    let division = divide_counted(&[hotness], 32, Inactive::Fill);
    let bucket = &division.layers[0].bucket;
    let mut values: Vec<u32> = bucket.iter().map(|id| id * 37 % 96).collect();
    values.sort_unstable();
    assert_eq!(values, (64..96).collect::<Vec<u32>>());
    assert!(bucket.is_sorted_by(|a, b| a < b), "ascending: {bucket:?}");
}

#[test]
fn equal_neurons_are_taken_by_id_and_equal_groups_by_layer() {
    for value in [1.0, 0.0] {
        let layers = vec![vec![value; 96]; 3];
        let division = divide_counted(&layers, 128, Inactive::Fill);
        assert_eq!(counts(&division), [96, 32, 0]);
        assert_eq!(division.layers[1].bucket, (0..32).collect::<Vec<u32>>());
    }
    let mut signs = vec![-0.0; 32];
    signs.extend([0.0; 32]);
    assert_eq!(divide_counted(&[signs], 32, Inactive::Fill).layers[0].bucket, (0..32).collect::<Vec<u32>>());
}

#[test]
fn inactive_groups_fill_the_room_or_are_skipped() {
    let layers = [values(&[0.0, 0.0], 32), values(&[5.0, 0.0], 32)];
    assert_eq!(counts(&divide_counted(&layers, 96, Inactive::Fill)), [64, 32]);
    assert_eq!(counts(&divide_counted(&layers, 96, Inactive::Skip)), [0, 32]);
    let mut one = vec![0.0; 64];
    one[40] = 1.0;
    let division = divide_counted(&[one], 64, Inactive::Skip);
    assert_eq!(
        division.layers[0].bucket,
        [&(0..31).collect::<Vec<u32>>()[..], &[40]].concat(),
        "a group that has an active one"
    );
}

#[test]
fn last_group_has_what_is_left_and_counts_stay_multiples_of_32() {
    let hotness: Vec<f64> = (0..100u32).map(f64::from).collect();
    for neurons in 0..=120 {
        let division = divide_counted(std::slice::from_ref(&hotness), neurons, Inactive::Fill);
        let count = counts(&division)[0];
        assert!(count as u64 <= neurons && (count == 100 || count.is_multiple_of(GRANULE_UNIT as usize)), "{count}");
        assert_eq!(count, if neurons >= 100 { 100 } else { usize::try_from(neurons).expect("small") / 32 * 32 });
    }
}

#[test]
fn smaller_last_group_is_taken_where_a_whole_one_does_not_fit() {
    let layers = [vec![3.0; 64], vec![1.0; 40]];
    // 64 of the first, then 32 of the second; its last 8 fit the rest.
    assert_eq!(counts(&divide_counted(&layers, 104, Inactive::Fill)), [64, 40]);
    assert_eq!(counts(&divide_counted(&layers, 103, Inactive::Fill)), [64, 32]);
}

#[test]
fn cheaper_neurons_are_preferred_at_equal_hotness() {
    let hotness = vec![1.0; 64];
    let layers = [cost(10, 0), cost(5, 0)].map(|cost| LayerNeurons { hotness: &hotness, cost });
    let division = divide(&layers, 10 * 32 + 5 * 32, granule(32), Inactive::Fill).expect("valid");
    assert_eq!((counts(&division), division.bytes()), (vec![0, 64], 320));
}

/// A layer that is opened for one group pays its bytes for that group alone; the other layer pays them for four.
#[test]
fn bytes_of_a_layer_are_charged_once() {
    let (few, many) = (vec![1.1; 32], vec![1.0; 128]);
    let layers = [&few, &many].map(|hotness| LayerNeurons { hotness, cost: cost(1, 32) });
    let division = divide(&layers, 160, granule(32), Inactive::Fill).expect("valid");
    assert_eq!((counts(&division), division.bytes(), division.bound), (vec![0, 128], 160, 128.0));
}

#[test]
fn granules_are_multiples_of_32() {
    assert_eq!(
        [0, 1, 31, 33, 255, u32::MAX].map(|it| Granule::new(it).err()),
        [0, 1, 31, 33, 255, u32::MAX].map(|it| Some(InvalidGranule(it)))
    );
    assert_eq!([32, 64, 256].map(|it| Granule::new(it).map(Granule::get)), [32, 64, 256].map(Ok));
    assert_eq!(Granule::default().get(), 256);
    assert_eq!(InvalidGranule(33).to_string(), "33 is not a granule: give a multiple of 32, at least 32");
}
