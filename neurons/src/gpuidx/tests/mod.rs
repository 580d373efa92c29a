//! Files that are written and read again, and files that break a rule each.

mod broken;
mod handmade;

use super::{Dialect, GpuIndex, IndexRule, KnownModel, LayerIndex, MalformedIndex};
use handmade::Handmade;

fn index(buckets: &[&[u32]]) -> GpuIndex {
    let layer = |bucket: &&[u32]| LayerIndex { neurons: 40, bucket: bucket.to_vec() };
    GpuIndex { layers: buckets.iter().map(layer).collect(), vram_capacity: u64::MAX - 1 }
}

/// The rules that do not hold, each with its place.
fn rules(malformed: &MalformedIndex) -> Vec<(IndexRule, Option<&str>)> {
    malformed.defects.iter().map(|defect| (defect.rule, defect.place.as_deref())).collect()
}

#[test]
fn what_is_written_can_be_read() {
    let all: Vec<u32> = (0..40).collect();
    for dialect in Dialect::ALL {
        for buckets in [&[&[][..]][..], &[&all, &[], &[0]], &[&[39], &[1, 2, 3, 38], &[]], &[&[][..]; 12]] {
            let index = index(buckets);
            let file = index.write(dialect).expect("it follows the rules");
            assert_eq!(GpuIndex::read(&file), Ok((index, dialect)));
        }
    }
}

#[test]
fn bytes_are_those_of_the_documentation() {
    for (dialect, handmade) in [(Dialect::PowerInfer, Handmade::default()), (Dialect::Gguf, Handmade::gguf())] {
        let file = index(&[&[], &[1, 7]]).write(dialect).expect("it follows the rules");
        assert_eq!(file, handmade.bytes());
    }
}

#[test]
fn empty_tensors_share_their_offset_with_the_next() {
    let file = index(&[&[], &[1, 7]]).write(Dialect::PowerInfer).expect("it follows the rules");
    let header = crate::gguf::GgufHeader::read(&file[..], file.len() as u64, &[*b"PWRI"]).expect("a header");
    let offsets: Vec<u64> = header.tensors.iter().map(|tensor| tensor.offset).collect();
    assert_eq!(offsets, [0, 160, 160, 320]);
    assert_eq!(file.len() as u64, header.data_start + 352);
}

#[test]
fn what_breaks_a_rule_is_not_written() {
    let refused = |index: GpuIndex| index.write(Dialect::Gguf).expect_err("it breaks a rule");
    assert_eq!(rules(&refused(index(&[]))), [(IndexRule::TensorCount, None)]);
    assert_eq!(rules(&refused(index(&[&[], &[40]]))), [(IndexRule::BucketRange, Some("blk.1.gpu_bucket"))]);
    assert_eq!(rules(&refused(index(&[&[2, 2]]))), [(IndexRule::BucketOrder, Some("blk.0.gpu_bucket"))]);
    let mut uneven = index(&[&[], &[]]);
    uneven.layers[1].neurons = 41;
    assert_eq!(rules(&refused(uneven)), [(IndexRule::Neurons, Some("blk.1.gpu_idx"))]);
    let mut none = index(&[&[]]);
    none.layers[0].neurons = 0;
    assert_eq!(rules(&refused(none)), [(IndexRule::Neurons, Some("blk.0.gpu_idx"))]);
}

#[test]
fn differences_to_the_model_are_defects() {
    let index = index(&[&[], &[]]);
    let model = |layers, neurons, vram_left| KnownModel { layers, neurons, vram_left };
    let left = index.vram_capacity;
    assert_eq!(index.compare_with_model(&KnownModel::default()), []);
    assert_eq!(index.compare_with_model(&model(Some(2), Some(40), Some(left))), []);
    let defects = index.compare_with_model(&model(Some(3), Some(41), Some(left - 1)));
    let told: Vec<String> = defects.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "there are 2 layers; the model has 3 (rule model)".to_owned(),
            "there are 40 neurons in a layer; the model has 41 (rule model)".to_owned(),
            format!("{left} bytes are allowed for neurons; {} are left for them (rule model)", left - 1),
        ]
    );
}
