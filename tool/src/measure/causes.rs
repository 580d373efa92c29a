//! What the bytes of a device are for: groups of tensors, by the reason for which they are there.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use lastuse::accounting::{AccountedTensor, Accounting, MemoryClass, Sums};
use lastuse::placement::Bytes;
use serde_json::{Value, json};

use crate::compare::{AtPeak, SplitCopies, at_peak};
use crate::report::group_name;

/// The most groups that are told of each class, and the least part of its bytes that each has; the rest is summed up.
const MOST: usize = 8;
const LEAST_PART: Bytes = 1000;

/// A reason for bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub class: MemoryClass,
    pub bytes: Bytes,
    /// What they are for.
    pub what: String,
}

impl Cause {
    /// Returns it as JSON.
    pub fn json(&self) -> Value {
        json!({ "class": self.class.name(), "bytes": self.bytes, "what": self.what })
    }
}

/// Returns what the bytes of a device are for, by class, the largest first: they add up to those of each class. Of compute buffers
/// it is what is live at the peak of the graph that needs most of each.
pub fn causes(accounting: &Accounting, device: &str) -> Vec<Cause> {
    let graphs = accounting.graphs.iter().map(|graph| &graph.tensors).chain([&accounting.unread]);
    let copies: Vec<Copies<'_>> = graphs.map(|tensors| Copies::of(tensors)).collect();
    let mut groups: BTreeMap<(MemoryClass, String), Bytes> = BTreeMap::new();
    let mut rest = Sums::default();
    for buffer in accounting.buffers.iter().filter(|buffer| buffer.device == device) {
        rest.add(&buffer.sums);
        for AtPeak { tensor, bytes, graph } in at_peak(accounting, buffer) {
            let what = if tensor.class == MemoryClass::Compute {
                copies[graph].reason(tensor)
            } else {
                group_name(&tensor.name, &tensor.op)
            };
            *groups.entry((tensor.class, what)).or_default() += bytes;
            let left = rest.part(tensor.class);
            *left = left.saturating_sub(bytes);
        }
    }
    for class in MemoryClass::ALL {
        let what = match class {
            MemoryClass::Compute => "for other graphs, and gaps between tensors",
            MemoryClass::Other => "where no tensor is known, as for results that a program keeps",
            _ => "where no tensor is known",
        };
        groups.insert((class, what.to_owned()), rest.of(class));
    }
    let all = groups.into_iter().filter(|(_, bytes)| *bytes > 0);
    let mut all: Vec<Cause> = all.map(|((class, what), bytes)| Cause { class, bytes, what }).collect();
    all.sort_by_key(|cause| (cause.class, Reverse(cause.bytes)));
    all.chunk_by(|one, other| one.class == other.class).flat_map(summed_up).collect()
}

/// Returns the largest groups of a class, and the sum of the others.
fn summed_up(of_class: &[Cause]) -> Vec<Cause> {
    let total: Bytes = of_class.iter().map(|cause| cause.bytes).sum();
    let large = of_class.iter().take(MOST).take_while(|cause| cause.bytes >= total / LEAST_PART).count();
    let (first, rest) = of_class.split_at(large);
    let mut all = first.to_vec();
    match rest {
        [] => {}
        [one] => all.push(one.clone()),
        [one, ..] => {
            let bytes = rest.iter().map(|cause| cause.bytes).sum();
            all.push(Cause { class: one.class, bytes, what: format!("{} other groups of tensors", rest.len()) });
        }
    }
    all
}

/// What a scheduler copies for a graph: what one device has and another one reads, and inputs, so that several batches are computed
/// at a time.
pub struct Copies<'a> {
    copies: SplitCopies<'a>,
    /// How many there are of each.
    number: u32,
    /// The inputs with copies on their own device: that, and their names.
    inputs: BTreeSet<(&'a str, &'a str)>,
    /// The names of weights.
    weights: BTreeSet<&'a str>,
}

impl<'a> Copies<'a> {
    /// Finds them in a graph with these tensors.
    pub fn of(tensors: &'a [AccountedTensor]) -> Self {
        fn on_device<'a>(tensor: &'a AccountedTensor, name: &'a str) -> (&'a str, &'a str) {
            (tensor.resides.as_deref().unwrap_or_default(), name)
        }
        let copies = SplitCopies::of(tensors);
        let copied: Vec<_> = tensors.iter().filter_map(|tensor| Some((tensor, copies.copied(tensor)?))).collect();
        let weights = tensors.iter().filter(|tensor| tensor.class == MemoryClass::Weights);
        let weights = weights.map(|tensor| &*tensor.name).collect();
        let originals: BTreeSet<_> = tensors.iter().map(|tensor| on_device(tensor, &tensor.name)).collect();
        let inputs = copied.iter().map(|&(tensor, (name, _))| on_device(tensor, name));
        Self {
            number: copied.iter().map(|(_, (_, number))| number + 1).max().unwrap_or(1),
            inputs: inputs.filter(|input| originals.contains(input)).collect(),
            weights,
            copies,
        }
    }

    /// Returns `true` if there are several, for a pipeline.
    pub fn are_several(&self) -> bool {
        self.number > 1
    }

    /// Returns why a tensor of a graph is there.
    pub fn reason(&self, tensor: &AccountedTensor) -> String {
        let copied = self.copies.copied(tensor);
        let name = copied.map_or(&*tensor.name, |(name, _)| name);
        let what = group_name(name, &tensor.op);
        let is_here = self.inputs.contains(&(tensor.resides.as_deref().unwrap_or_default(), name));
        let is_copy = copied.is_some() && !is_here;
        if is_copy && self.weights.contains(name) {
            return format!("weights of the host, copied for large batches: {what}");
        }
        let copies = match (is_copy || is_here, self.are_several()) {
            (true, true) => format!(", in {} copies for a pipeline", self.number),
            (true, false) if is_copy => ", copied".to_owned(),
            _ => String::new(),
        };
        if name.to_lowercase().contains("mask") {
            return format!("masks of attention{copies}: {what}");
        }
        if is_copy {
            return format!("what another device has{copies}: {what}");
        }
        let [columns, tokens, heads, _] = tensor.ne;
        if name.starts_with("result_output") {
            return format!("logits of {tokens} tokens, {columns} values each");
        }
        let is_router = name.starts_with("ffn_");
        if ["kq-", "kq_"].iter().any(|scores| name.starts_with(scores)) || (tensor.op == "SOFT_MAX" && !is_router) {
            return format!("scores of attention: {tokens} tokens x {columns} cells x {heads} heads");
        }
        if tensor.executes.is_none() {
            return format!("inputs{copies}: {what}");
        }
        format!("what a layer alone needs: {what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::tensor;

    fn no_op(name: &str, device: &str) -> AccountedTensor {
        AccountedTensor { op: "NONE".to_owned(), resides: Some(device.to_owned()), executes: None, ..tensor(name) }
    }

    /// Returns the reasons of tensors of a graph with these.
    fn reasons(tensors: &[AccountedTensor]) -> Vec<String> {
        let copies = Copies::of(tensors);
        tensors.iter().map(|tensor| copies.reason(tensor)).collect()
    }

    #[test]
    fn reasons_are_told_by_names_of_llama_cpp_and_its_scheduler() {
        let executes = Some("CPU".to_owned());
        for (name, expected) in [
            ("result_output", "logits of 512 tokens, 1000 values each"),
            ("kq_soft_max-3", "scores of attention: 512 tokens x 1000 cells x 8 heads"),
            ("KQ_mask (copy)", "masks of attention: "),
            ("ffn_up-3", "what a layer alone needs: ffn_up-*"),
            ("one#part#2", "what a layer alone needs: one#part#*"),
        ] {
            let tensor = AccountedTensor { ne: [1000, 512, 8, 1], executes: executes.clone(), ..tensor(name) };
            let found = &reasons(&[tensor])[0];
            assert!(found.starts_with(expected), "{name}: {found}");
        }
    }

    #[test]
    fn copies_are_those_of_the_graph_that_a_scheduler_has_made_them_for() {
        let weights = AccountedTensor { class: MemoryClass::Weights, ..no_op("blk.3.ffn_up.weight", "CPU") };
        let staged = no_op("GPU0#blk.3.ffn_up.weight#0", "GPU0");
        let found = reasons(&[weights, staged, tensor("l_out-7"), no_op("GPU0#l_out-7#0", "GPU0")]);
        assert_eq!(found[1], "weights of the host, copied for large batches: blk.*.ffn_up.weight");
        assert_eq!(found[3], "what another device has, copied: l_out-*");
        let found = reasons(&[no_op("KQ_mask", "CPU"), no_op("GPU0#KQ_mask#0", "GPU0")]);
        assert_eq!(found, ["masks of attention: KQ_mask", "masks of attention, copied: KQ_mask"]);
        // A program may give such a name, too.
        let found = reasons(&[tensor("l_out-7"), tensor("GPU0#l_out-7#0"), no_op("GPU0#other#0", "GPU0")]);
        assert_eq!(found[1..], ["inputs: GPU0#l_out-*#*", "inputs: GPU0#other#*"]);
    }

    #[test]
    fn copies_of_an_input_on_its_own_device_are_told_as_those_of_a_pipeline() {
        let all = [
            no_op("inp_pos", "CPU"),
            no_op("CPU#inp_pos#1", "CPU"),
            no_op("GPU0#inp_pos#3", "GPU0"),
            no_op("inp_out_ids", "CPU"),
        ];
        assert!(Copies::of(&all).are_several());
        let input = "inputs, in 4 copies for a pipeline: inp_pos";
        let copy = "what another device has, in 4 copies for a pipeline: inp_pos";
        assert_eq!(reasons(&all), [input, input, copy, "inputs: inp_out_ids"]);
    }
}
