//! Differences add up, and the largest cause comes first.

use super::*;
use crate::report::sizes::SizeUnit;

const MIB: Bytes = 1 << 20;

fn tensor(group: &str, class: MemoryClass, mib: Bytes, shape: &str) -> PeakTensor {
    PeakTensor { group: group.to_owned(), class, bytes: mib * MIB, shape: shape.to_owned() }
}

fn holder(sums: [Bytes; 4], tensors: Option<Vec<PeakTensor>>) -> Holder {
    let [weights, kv, compute, rounding] = sums.map(|mib| mib * MIB);
    Holder { name: "Vulkan0".to_owned(), sums: Sums { weights, kv, compute, other: 0, rounding }, tensors, plan: None }
}

fn compared(old: &[Holder], new: &[Holder]) -> Comparison {
    Comparison::new(Compared::Devices, ("old.json".to_owned(), old), ("new.json".to_owned(), new))
}

fn versions() -> [Holder; 2] {
    use MemoryClass::{Cache, Compute, Weights};
    let old = vec![
        tensor("blk.*.ffn_up.weight", Weights, 50, "q4_0 [64]"),
        tensor("blk.*.ffn_up.weight", Weights, 50, "q4_0 [64]"),
        tensor("cache_k_l*", Cache, 8, "f16 [32]"),
        tensor("ADD node_*", Compute, 5, "f32 [8]"),
    ];
    let new = vec![
        tensor("blk.*.ffn_up.weight", Weights, 50, "q4_0 [64]"),
        tensor("blk.*.ffn_up.weight", Weights, 50, "q4_0 [64]"),
        tensor("cache_k_l*", Cache, 32, "f16 [128]"),
        tensor("kq\u{1b}-*", Compute, 300, "f32 [512]"),
    ];
    [holder([100, 8, 10, 1], Some(old)), holder([100, 32, 309, 1], Some(new))]
}

#[test]
fn largest_cause_comes_first_and_closes() {
    let [old, new] = versions();
    let text = comparison_text(&compared(&[old], &[new]), SizeUnit::Mib, 20);
    let plain = text.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
    assert_eq!(
        plain,
        "old: old.json\nnew: new.json\n\n\
         device, MiB   weights      kv  compute  other  rounding    total\n\
         Vulkan0, old   100.00    8.00    10.00   0.00      1.00   119.00\n\
         \x20 new          100.00   32.00   309.00   0.00      1.00   442.00\n\
         \x20 change         0.00  +24.00  +299.00   0.00      0.00  +323.00\n\n\
         on Vulkan0, MiB   old     new  class              what                          tensors  shape of the largest\n\
         \x20       +300.00     -  300.00  compute  appeared  kq\u{fffd}-*                         1        f32 [512]\n\
         \x20        +24.00  8.00   32.00  kv       grew      cache_k_l*                    1        f16 [32] -> f16 [128]\n\
         \x20         +4.00  5.00    9.00  compute  grew      memory free at the peak step  -        -\n\
         \x20         -5.00  5.00       -  compute  vanished  ADD node_*                    1        f32 [8]\n\n\
         Vulkan0: +323.00 MiB, of which +300.00 MiB are kq\u{fffd}-* (compute)\n"
    );
}

#[test]
fn largest_decrease_comes_first_where_a_device_holds_less() {
    let [old, new] = versions();
    let text = comparison_text(&compared(&[new], &[old]), SizeUnit::Bytes, 1);
    assert!(
        text.ends_with("Vulkan0: -338690048 bytes, of which -314572800 bytes are kq\u{fffd}-* (compute)\n"),
        "{text}"
    );
    assert!(text.contains("and 3 more, -24117248 bytes together: see --top\n"), "{text}");
}

#[test]
fn causes_add_up_to_the_difference() {
    let [old, new] = versions();
    let [old, new] = [[old], [new]];
    for (old, new) in [(&old[..], &new[..]), (&[], &new), (&old, &[])] {
        let changes = compared(old, new).changes;
        let causes = changes[0].causes.as_ref().expect("tensors are known");
        assert_eq!(causes.iter().map(|cause| cause.change).sum::<i128>(), changes[0].change);
    }
}

#[test]
fn equal_versions_have_no_cause() {
    let [old, _] = versions();
    let all = compared(std::slice::from_ref(&old), std::slice::from_ref(&old));
    assert!(comparison_text(&all, SizeUnit::Mib, 20).ends_with("\n\nVulkan0: the same\n"));
}

#[test]
fn classes_are_the_causes_where_tensors_are_not_known() {
    let text = comparison_text(
        &compared(&[holder([100, 8, 10, 1], None)], &[holder([100, 4, 20, 1], None)]),
        SizeUnit::Mib,
        20,
    );
    let end = "Vulkan0: +6.00 MiB: +10.00 MiB are compute, and -4.00 MiB all else\n\
        to see which tensors, compare two accountings (\"lastuse run --accounting=FILE.json\") or measurements with --why\n";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn json_has_every_cause_in_bytes() {
    let [old, new] = versions();
    let json = compared(&[old], &[new]).json().expect("plain data");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (&json["format"], &json["version"], &json["compared"]),
        (&"lastuse-comparison".into(), &1.into(), &"devices".into())
    );
    let change = &json["changes"][0];
    assert_eq!((&change["old"]["kv"], &change["new"]["total"]), (&(8 * MIB).into(), &(442 * MIB).into()));
    assert_eq!((&change["change"], &change["causes"][0]["change"]), (&(323 * MIB).into(), &(300 * MIB).into()));
    assert_eq!(change["causes"].as_array().map(Vec::len), Some(4));
}
