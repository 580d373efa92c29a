//! `lastuse plan --reorder`: another order of the nodes first.

use lastuse::graph::BufferSpec;
use lastuse::graph::order::{self, Reordering};
use lastuse::graph::snapshot::Snapshot;

/// What may be said about the order.
#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Plan the nodes in another order, in which fewer bytes are alive at the worst step, where one is found.
    ///
    /// Whatever reads or writes the same memory keeps its order, so the graph computes the same. The order stays as it is
    /// when no better one is found. The table then has the lower bound of the given order too, and the JSON the ids of the
    /// nodes in the order to run them in.
    #[arg(long)]
    reorder: bool,

    /// How long --reorder searches, counted in nodes looked at: a million takes some hundredths of a second.
    #[arg(long, value_name = "NODES", requires = "reorder", default_value_t = order::Effort::default().0)]
    reorder_effort: u64,
}

impl Arguments {
    /// Reorders the graph when that is wanted; `buffers` are for each plan.
    pub fn apply(&self, snapshot: &mut Snapshot, buffers: &[BufferSpec]) -> Result<Option<Reordering>, String> {
        let wanted = self.reorder.then(|| snapshot.reorder(buffers, order::Effort(self.reorder_effort)));
        wanted.transpose().map_err(|error| error.to_string())
    }
}
