//! The weights and caches of captured graphs.

use std::collections::HashMap;
use std::fmt;

use crate::graph::TensorId;
use crate::graph::snapshot::Snapshot;
use crate::offload::item::{Item, ItemClass, ItemKind};
use crate::placement::Bytes;

use super::identity::{Identities, class, is_unnamed, layer};
use super::reads::Reads;
use super::tied::EMBEDDING;

/// The weights and caches that graphs read, each once.
#[derive(Clone, Debug)]
pub struct CapturedItems {
    /// In the order in which the graphs list them. The benefit of each is the number of its bytes read per run of each
    /// graph.
    pub items: Vec<Item>,
    /// By graph, by tensor: the item that it is.
    pub of_tensors: Vec<Vec<Option<usize>>>,
}

/// Why graphs are not of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemsError {
    /// The name of a tensor.
    pub tensor: String,
    /// Its bytes in the first graph that has it, and in another.
    pub bytes: [Bytes; 2],
    /// The labels of these graphs.
    pub graphs: [String; 2],
}

impl fmt::Display for ItemsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tensor, bytes: [first, other], graphs: [of_first, of_other] } = self;
        write!(
            f,
            "{tensor:?} has {first} bytes in {of_first:?} and {other} in {of_other:?}: give graphs of one program with one \
             setting; a folder may have those of an earlier run"
        )
    }
}

impl CapturedItems {
    /// Finds the weights and caches: tensors that are in memory before a graph runs. Those that a node writes to are
    /// caches. Tensors of several graphs with one name are one item, where their program has named them; several in one
    /// graph are one item each.
    ///
    /// # Errors
    /// [`ItemsError`] if a tensor has other bytes in another graph.
    pub fn of(snapshots: &[Snapshot]) -> Result<Self, ItemsError> {
        let mut found = Self { items: Vec::new(), of_tensors: Vec::new() };
        let all_reads: Vec<Reads> = snapshots.iter().map(Reads::of).collect();
        let identities = Identities::of(snapshots, &all_reads);
        let mut known = HashMap::new();
        for (index, (snapshot, reads)) in snapshots.iter().zip(&all_reads).enumerate() {
            let mut of_tensors = vec![None; snapshot.tensors.len()];
            for (id, identity) in identities.in_graph(index) {
                let info = &snapshot.tensors[id as usize];
                let &mut (item, first) = known.entry(identity).or_insert_with(|| {
                    found.add(snapshot, id, reads);
                    (found.items.len() - 1, index)
                });
                let known = &mut found.items[item];
                if known.bytes != info.size {
                    return Err(ItemsError {
                        tensor: info.name.clone(),
                        bytes: [known.bytes, info.size],
                        graphs: [snapshots[first].label.clone(), snapshot.label.clone()],
                    });
                }
                known.benefit += reads.bytes[id as usize];
                if known.class == ItemClass::Embedding && !reads.only_rows[id as usize] {
                    known.class = read_class(&info.name);
                }
                if reads.is_written[id as usize] {
                    (known.kind, known.class) = (ItemKind::Cache, class(&info.name, true));
                }
                of_tensors[id as usize] = Some(item);
            }
            found.of_tensors.push(of_tensors);
        }
        let has_embedding = found.items.iter().any(|item| item.class == ItemClass::Embedding && item.name == EMBEDDING);
        let heads = found.items.iter_mut().filter(|item| item.class == ItemClass::Output && item.name == EMBEDDING);
        heads.for_each(|head| head.is_on_host = has_embedding);
        Ok(found)
    }
}

impl CapturedItems {
    /// Adds an item for a tensor. Its name gets the label of its graph if another item has it.
    fn add(&mut self, snapshot: &Snapshot, id: TensorId, reads: &Reads) {
        let mut new = item(snapshot, id, reads);
        if is_unnamed(&new.name) && self.items.iter().any(|item| item.name == new.name) {
            new.name = format!("{} of {}", new.name, snapshot.label);
        }
        self.items.push(new);
    }
}

/// Bytes that a buffer type may require beyond the elements of a tensor.
const MOST_PADDING: Bytes = 4096;

impl CapturedItems {
    /// Adds the weights of a model that no graph reads; `model` is what messages call it.
    ///
    /// # Errors
    /// [`ItemsError`] if a graph reads a tensor of this name that has other bytes.
    pub fn add_unread(
        &mut self,
        model: &str,
        tensors: impl IntoIterator<Item = (String, Bytes)>,
    ) -> Result<(), ItemsError> {
        let known: HashMap<String, Bytes> = self.items.iter().map(|item| (item.name.clone(), item.bytes)).collect();
        for (name, bytes) in tensors {
            match known.get(&name) {
                Some(&captured) if captured.checked_sub(bytes).is_none_or(|padding| padding > MOST_PADDING) => {
                    let graphs = ["the graphs".to_owned(), model.to_owned()];
                    return Err(ItemsError { tensor: name, bytes: [captured, bytes], graphs });
                }
                Some(_) => {}
                None => self.items.push(named_weight(name, bytes)),
            }
        }
        Ok(())
    }
}

/// Returns the class of a weight of which more is read than some rows: an embedding is the output head then.
fn read_class(name: &str) -> ItemClass {
    if name == EMBEDDING { ItemClass::Output } else { class(name, false) }
}

fn named_weight(name: String, bytes: Bytes) -> Item {
    let (class, layer) = (class(&name, false), layer(&name));
    Item {
        name,
        kind: ItemKind::Weight,
        class,
        bytes,
        layer,
        benefit: 0.0,
        pinned: None,
        rows: None,
        is_on_host: false,
    }
}

fn item(snapshot: &Snapshot, id: TensorId, reads: &Reads) -> Item {
    let info = &snapshot.tensors[id as usize];
    let is_cache = reads.is_written[id as usize];
    let is_embedding = reads.only_rows[id as usize] && !is_cache;
    Item {
        kind: if is_cache { ItemKind::Cache } else { ItemKind::Weight },
        class: match (is_cache, is_embedding) {
            (true, _) => class(&info.name, true),
            (false, true) => ItemClass::Embedding,
            (false, false) => read_class(&info.name),
        },
        ..named_weight(info.name.clone(), info.size)
    }
}
