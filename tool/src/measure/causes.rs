//! What the bytes of a device are for: groups of tensors, by the reason for which they are there.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use lastuse::accounting::{AccountedGraph, AccountedTensor, Accounting, BufferUsage, MemoryClass, Step};
use lastuse::placement::Bytes;
use serde_json::{Value, json};

/// The most groups that are told of each class; the rest is summed up.
const MOST: usize = 8;

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

/// Returns what the bytes of a device are for, by class, the largest first. Of compute buffers it is what is live at the peak of the
/// graph that needs most of each, and what is not live then.
pub fn causes(accounting: &Accounting, device: &str) -> Vec<Cause> {
    let mut groups: BTreeMap<(usize, String), Bytes> = BTreeMap::new();
    let mut add = |class: MemoryClass, what: String, bytes: Bytes| {
        let class = MemoryClass::ALL.iter().position(|&it| it == class).unwrap_or(0);
        *groups.entry((class, what)).or_default() += bytes;
    };
    let own = accounting.buffers.iter().filter(|buffer| buffer.device == device);
    for buffer in own {
        if buffer.usage == BufferUsage::Compute {
            let live = accounting.graphs.iter().map(|graph| peak(graph, buffer.id)).max_by_key(|(bytes, _)| *bytes);
            let (bytes, live) = live.unwrap_or_default();
            for (tensor, bytes) in live {
                add(MemoryClass::Compute, reason(tensor), bytes);
            }
            let rest = buffer.sums.compute.saturating_sub(bytes);
            add(MemoryClass::Compute, "for other graphs, and gaps between tensors".to_owned(), rest);
        } else {
            for (class, what, bytes) in kept(accounting, buffer.id) {
                add(class, what, bytes);
            }
        }
    }
    let mut all: Vec<Cause> = groups
        .into_iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|((class, what), bytes)| Cause { class: MemoryClass::ALL[class], bytes, what })
        .collect();
    all.sort_by_key(|cause| (cause.class, Reverse(cause.bytes)));
    all.chunk_by(|one, other| one.class == other.class).flat_map(summed_up).collect()
}

/// Returns the largest groups of a class, and the sum of the others.
fn summed_up(of_class: &[Cause]) -> Vec<Cause> {
    let (first, rest) = of_class.split_at(of_class.len().min(MOST));
    let mut all = first.to_vec();
    if let [one, ..] = rest {
        let bytes = rest.iter().map(|cause| cause.bytes).sum();
        all.push(Cause { class: one.class, bytes, what: format!("{} other groups of tensors", rest.len()) });
    }
    all
}

/// Returns the tensors of a buffer that stay, each once.
fn kept(accounting: &Accounting, buffer: u64) -> Vec<(MemoryClass, String, Bytes)> {
    let all = accounting.graphs.iter().flat_map(|graph| &graph.tensors).chain(&accounting.unread);
    let mut seen = BTreeSet::new();
    let own = all.filter(|tensor| tensor.view_of.is_none()).filter_map(|tensor| {
        let at = tensor.location.filter(|at| at.buffer == buffer)?;
        seen.insert(at.offset).then(|| (tensor.class, collapsed(&tensor.name), tensor.bytes))
    });
    own.collect()
}

/// Returns the bytes of a buffer that are live at the step with most of them, and the tensors with the bytes that each adds.
fn peak(graph: &AccountedGraph, buffer: u64) -> (Bytes, Vec<(&AccountedTensor, Bytes)>) {
    let mut own: Vec<(&AccountedTensor, [Bytes; 2], [Step; 2])> = Vec::new();
    for tensor in graph.tensors.iter().filter(|tensor| tensor.view_of.is_none() && tensor.bytes > 0) {
        if let (Some(at), Some(steps)) = (tensor.location.filter(|at| at.buffer == buffer), tensor.steps) {
            // Inputs are there before the first node runs.
            let first = if tensor.executes.is_none() { 0 } else { steps.first };
            own.push((tensor, [at.offset, at.offset + tensor.bytes], [first, steps.last]));
        }
    }
    // Memory that one tensor takes over from another has the larger one's name.
    own.sort_by_key(|(tensor, ..)| Reverse(tensor.bytes));
    let live_at = |step: Step| {
        let mut taken: Vec<[Bytes; 2]> = Vec::new();
        let mut live = Vec::new();
        for (tensor, bytes, _) in own.iter().filter(|(_, _, [first, last])| (*first..=*last).contains(&step)) {
            let added = uncovered(*bytes, &taken);
            taken.push(*bytes);
            live.push((*tensor, added));
        }
        (live.iter().map(|(_, bytes)| bytes).sum::<Bytes>(), live)
    };
    let steps: BTreeSet<Step> = own.iter().map(|(_, _, [first, _])| *first).collect();
    steps.into_iter().map(live_at).max_by_key(|(bytes, _)| *bytes).unwrap_or_default()
}

/// Returns the bytes of a range that none of the others has.
fn uncovered([start, end]: [Bytes; 2], others: &[[Bytes; 2]]) -> Bytes {
    let mut inside: Vec<[Bytes; 2]> =
        others.iter().map(|&[from, to]| [from.max(start), to.min(end)]).filter(|[from, to]| from < to).collect();
    inside.sort_unstable();
    let (mut covered, mut reached) = (0, start);
    for [from, to] in inside {
        covered += to.saturating_sub(from.max(reached));
        reached = reached.max(to);
    }
    end - start - covered
}

/// Returns why a tensor of a graph is there.
pub fn reason(tensor: &AccountedTensor) -> String {
    let name = &*tensor.name;
    if let Some(copied) = name.split('#').nth(1).filter(|_| name.matches('#').count() == 2) {
        return if copied.ends_with(".weight") {
            format!("weights of the host, copied for large batches: {}", collapsed(copied))
        } else {
            format!(
                "copies of what other devices have, {} of each input in pipelines: {}",
                "one or more",
                collapsed(copied)
            )
        };
    }
    let tokens = tensor.ne[1];
    if name.starts_with("result_output") {
        return format!("logits of {tokens} tokens, {} values each", tensor.ne[0]);
    }
    if name.to_lowercase().contains("mask") {
        return format!("masks of attention: {}", collapsed(name));
    }
    if ["kq-", "kq_"].iter().any(|scores| name.starts_with(scores)) || tensor.op == "SOFT_MAX" {
        let [cells, tokens, heads, _] = tensor.ne;
        return format!("scores of attention: {tokens} tokens x {cells} cells x {heads} heads");
    }
    if tensor.executes.is_none() {
        return format!("inputs: {}", collapsed(name));
    }
    format!("what a layer alone needs: {}", collapsed(if name.is_empty() { &tensor.op } else { name }))
}

/// Returns a name in which numbers of layers and nodes are "*".
fn collapsed(name: &str) -> String {
    let mut text = String::new();
    let mut is_number = false;
    let mut before = ' ';
    for letter in name.chars() {
        let begins = letter.is_ascii_digit() && !before.is_alphanumeric();
        let begins = begins || (letter.is_ascii_digit() && text.ends_with("_l"));
        if letter.is_ascii_digit() && (begins || is_number) {
            if !is_number {
                text.push('*');
            }
            is_number = true;
        } else {
            is_number = false;
            text.push(letter);
        }
        before = letter;
    }
    text
}
