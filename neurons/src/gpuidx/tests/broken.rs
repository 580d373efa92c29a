//! A file for each way to break a rule.

use super::handmade::{Handmade, string};
use super::{GpuIndex, IndexRule, rules};

/// Expects that a changed file breaks exactly these rules.
fn assert_breaks(change: impl Fn(&mut Handmade), expected: &[(IndexRule, Option<&str>)]) {
    for mut file in [Handmade::default(), Handmade::gguf()] {
        change(&mut file);
        let malformed = GpuIndex::read(&file.bytes()).expect_err("it breaks a rule");
        assert_eq!(rules(&malformed), expected, "{malformed}");
    }
}

fn assert_header(change: impl Fn(&mut Handmade), words: &str) {
    assert_breaks(&change, &[(IndexRule::Header, None)]);
    let mut file = Handmade::default();
    change(&mut file);
    let told = GpuIndex::read(&file.bytes()).expect_err("it breaks a rule").to_string();
    assert!(told.contains(words), "{words:?} in {told}");
}

#[test]
fn headers_are_checked() {
    assert_header(|file| file.magic = *b"GGML", "the file starts with \"GGML\"; PWRI or GGUF is expected");
    assert_header(|file| file.magic = *b"\0\xff\n\"", "starts with \"\\x00\\xff\\n\\\"\"");
    for version in [0, 1, 2, 4, 3 << 24] {
        assert_header(|file| file.version = version, &format!("version {version} is not supported; 3 is"));
    }
    for count in [200, u64::MAX] {
        assert_header(|file| file.tensor_count = count, "tensor");
        assert_header(|file| file.key_count = count, "key");
    }
    assert_header(|file| file.keys[0].1 = 13, "key \"general.architecture\" has the unknown type 13");
    assert_header(|file| file.keys[0].2[..8].fill(0xff), "has 18446744073709551615 bytes");
    assert_header(|file| file.keys[2].0 = "general.architecture", "is there twice");
    assert_header(|file| file.tensors[2].name = "blk.0.gpu_idx", "tensor \"blk.0.gpu_idx\" is there twice");
    assert_header(
        |file| file.tensors[2].dimensions = vec![1; 5],
        "tensor \"blk.1.gpu_idx\" has 5 dimensions; at most 4",
    );
}

#[test]
fn keys_are_checked() {
    let (architecture, count, capacity) =
        (Some("general.architecture"), Some("generic.gpu_index.block_count"), Some("split.vram_capacity"));
    assert_breaks(|file| file.keys[0].2 = string("llama"), &[(IndexRule::Architecture, architecture)]);
    assert_breaks(|file| file.keys[1].2[0] = 3, &[(IndexRule::BlockCount, count)]);
    assert_breaks(
        |file| file.keys[1] = (file.keys[1].0, 10, vec![2, 0, 0, 0, 0, 0, 0, 0]),
        &[(IndexRule::Keys, count)],
    );
    assert_breaks(|file| file.keys[2].1 = 11, &[(IndexRule::Keys, capacity)]);
    assert_breaks(|file| file.keys[2] = (file.keys[2].0, 4, vec![1, 0, 0, 0]), &[(IndexRule::Keys, capacity)]);
    assert_breaks(|file| file.keys[2].0 = "split.capacity", &[(IndexRule::Keys, capacity)]);
    assert_breaks(|file| file.keys.swap(0, 1), &[(IndexRule::Keys, architecture), (IndexRule::Keys, count)]);
    let without = |file: &mut Handmade| {
        file.keys.pop();
        file.key_count = 2;
    };
    assert_breaks(without, &[(IndexRule::Keys, None), (IndexRule::Keys, capacity)]);
    let more = |file: &mut Handmade| {
        file.keys.push(("general.name", 8, string("more")));
        file.key_count = 4;
    };
    assert_breaks(more, &[(IndexRule::Keys, None)]);
}

#[test]
fn entries_of_tensors_are_checked() {
    let (first, second) = (Some("blk.0.gpu_idx"), Some("blk.1.gpu_idx"));
    assert_breaks(|file| file.tensors[2].type_id = 0, &[(IndexRule::Type, second)]);
    assert_breaks(|file| file.tensors[0].dimensions = vec![40, 1], &[(IndexRule::Dimensions, first)]);
    assert_breaks(|file| file.tensors[2].name = "blk.2.gpu_idx", &[(IndexRule::TensorName, Some("blk.2.gpu_idx"))]);
    let swapped = |file: &mut Handmade| {
        (file.tensors[0].name, file.tensors[1].name) = (file.tensors[1].name, file.tensors[0].name);
    };
    assert_breaks(swapped, &[(IndexRule::TensorName, Some("blk.0.gpu_bucket")), (IndexRule::TensorName, first)]);
    let odd = |file: &mut Handmade| {
        file.tensors.pop();
        file.tensor_count = 3;
    };
    assert_breaks(
        odd,
        &[(IndexRule::TensorCount, None), (IndexRule::BlockCount, Some("generic.gpu_index.block_count"))],
    );
    let none = |file: &mut Handmade| {
        file.tensors.clear();
        file.tensor_count = 0;
        file.keys[1].2[0] = 0;
    };
    assert_breaks(none, &[(IndexRule::TensorCount, None)]);
    // The rest is expected after the wrong tensor, too.
    let expected = [(IndexRule::Offset, second), (IndexRule::Offset, Some("blk.1.gpu_bucket"))];
    for offset in [161, 192, 0, u64::MAX, u64::MAX - 160] {
        assert_breaks(|file| file.tensors[2].offset = offset, &expected);
    }
}

#[test]
fn types_of_the_other_dialect_are_refused() {
    let mut file = Handmade { magic: *b"GGUF", ..Handmade::default() };
    let told = GpuIndex::read(&file.bytes()).expect_err("type 18 is IQ3_XXS there").to_string();
    assert!(told.contains("blk.0.gpu_idx: the type is 18; 26 is expected in a GGUF file (rule type)"), "{told}");
    file = Handmade { magic: *b"PWRI", ..Handmade::gguf() };
    let told = GpuIndex::read(&file.bytes()).expect_err("there are 18 types").to_string();
    assert!(told.contains("blk.0.gpu_idx: the type is 26; 18 is expected in a PWRI file (rule type)"), "{told}");
}

#[test]
fn numbers_of_neurons_are_checked() {
    let second = Some("blk.1.gpu_idx");
    let last = Some("blk.1.gpu_bucket");
    assert_breaks(|file| file.tensors[2].dimensions = vec![39], &[(IndexRule::Neurons, second)]);
    for huge in [1 << 31, u64::MAX / 4, u64::MAX] {
        assert_breaks(
            |file| file.tensors[2].dimensions = vec![huge],
            &[(IndexRule::Offset, last), (IndexRule::Neurons, second)],
        );
    }
    assert_breaks(
        |file| file.tensors[2].dimensions = vec![0],
        &[(IndexRule::Offset, last), (IndexRule::Neurons, second), (IndexRule::BucketLength, last)],
    );
    for huge in [41, u64::MAX] {
        assert_breaks(|file| file.tensors[3].dimensions = vec![huge], &[(IndexRule::BucketLength, last)]);
    }
}

#[test]
fn lengths_of_files_are_checked() {
    assert_breaks(|file| file.data[3].1.push(0), &[(IndexRule::Length, None)]);
    assert_breaks(|file| file.data[3].1.truncate(23), &[(IndexRule::Length, None)]);
    assert_breaks(|file| file.data.clear(), &[(IndexRule::Length, None)]);
    let whole = Handmade::default().bytes();
    for length in 0..whole.len() {
        let malformed = GpuIndex::read(&whole[..length]).expect_err("it is cut off");
        let rule = malformed.defects[0].rule;
        assert!(matches!(rule, IndexRule::Header | IndexRule::Length), "{length}: {malformed}");
    }
}

#[test]
fn bytes_between_are_zero() {
    assert_breaks(|file| file.data[3].1[23] = 1, &[(IndexRule::Padding, Some("blk.1.gpu_bucket"))]);
    let mut file = Handmade::default();
    let gap = header_gap(&file);
    assert!(gap > 0, "the header does not end at a multiple of 32");
    file.gap = Some([vec![0; gap - 1], vec![7]].concat());
    let malformed = GpuIndex::read(&file.bytes()).expect_err("a byte is not zero");
    assert_eq!(rules(&malformed), [(IndexRule::Padding, None)]);
}

fn header_gap(file: &Handmade) -> usize {
    let without = Handmade { gap: Some(Vec::new()), data: Vec::new(), ..file.clone() }.bytes().len();
    without.next_multiple_of(32) - without
}

#[test]
fn indices_and_buckets_are_checked() {
    let (index, bucket) = (Some("blk.1.gpu_idx"), Some("blk.1.gpu_bucket"));
    for value in [2, -1, i32::MIN, i32::MAX] {
        assert_breaks(|file| file.data[2].0[39] = value, &[(IndexRule::IndexValues, index)]);
    }
    for ids in [[7, 1], [7, 7]] {
        assert_breaks(|file| file.data[3].0 = ids.to_vec(), &[(IndexRule::BucketOrder, bucket)]);
    }
    for ids in [[1, 40], [-1, 7], [i32::MIN, i32::MAX]] {
        assert_breaks(|file| file.data[3].0 = ids.to_vec(), &[(IndexRule::BucketRange, bucket)]);
    }
    assert_breaks(|file| file.data[3].0 = vec![1, 8], &[(IndexRule::BucketAgrees, bucket)]);
    assert_breaks(|file| file.data[2].0[30] = 1, &[(IndexRule::BucketAgrees, bucket)]);
    assert_breaks(|file| file.data[0].0[0] = 1, &[(IndexRule::BucketAgrees, Some("blk.0.gpu_bucket"))]);
}

#[test]
fn all_defects_of_the_data_are_told() {
    let both = |file: &mut Handmade| {
        file.data[0].0[5] = 3;
        file.data[0].0[6] = 4;
        file.data[3].0 = vec![7, 1];
    };
    assert_breaks(
        both,
        &[(IndexRule::IndexValues, Some("blk.0.gpu_idx")), (IndexRule::BucketOrder, Some("blk.1.gpu_bucket"))],
    );
    let mut file = Handmade::default();
    both(&mut file);
    assert_eq!(
        GpuIndex::read(&file.bytes()).expect_err("two rules").to_string(),
        "blk.0.gpu_idx: neuron 5 has 3; 0 or 1 is expected (rule index-values)\n\
         blk.1.gpu_bucket: id 1 at position 1 follows 7; ids must ascend strictly (rule bucket-order)"
    );
}
