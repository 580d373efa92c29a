//! `lastuse plan --reorder`: plans the nodes in another order.

use lastuse::graph::BufferSpec;
use lastuse::graph::order::{self, Reordering};
use lastuse::graph::snapshot::Snapshot;

/// Options for the order of the nodes.
#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Plan the nodes in an order with a lower peak, if one is found.
    ///
    /// Nodes that read or write the same memory keep their order, so the results stay the same. The table then has the
    /// lower bound of the given order too, and the JSON the ids of the nodes in the order in which to run them.
    #[arg(long)]
    reorder: bool,

    /// The work limit of --reorder, in nodes inspected: a million takes some hundredths of a second.
    #[arg(long, value_name = "NODES", requires = "reorder", default_value_t = order::ReorderEffort::default().0)]
    reorder_effort: u64,
}

impl Arguments {
    /// Reorders the graph if the option is set; `buffers` are used for each plan.
    pub fn apply(&self, snapshot: &mut Snapshot, buffers: &[BufferSpec]) -> Result<Option<Reordering>, String> {
        let reordering = self.reorder.then(|| snapshot.reorder(buffers, order::ReorderEffort(self.reorder_effort)));
        reordering.transpose().map_err(|error| error.to_string())
    }
}
