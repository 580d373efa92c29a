//! A live graph as plain data: the tensors that are placed count as memory that is there already.

use std::collections::HashMap;
use std::ptr::NonNull;

use crate::graph::TensorId;
use crate::graph::snapshot::{Snapshot, TensorInfo};
use crate::offload::device::DeviceIndex;

use crate::ggml::bindings::ggml_cgraph;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::read::{Requested, read};

use super::request::OffloadFailure;
use super::request::{LiveDevice, LiveItem};

/// Where a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In a compute buffer, or nowhere.
    Planned,
    /// Where this item is placed.
    Item(usize),
    /// In a buffer of this device.
    Device(DeviceIndex),
}

/// A graph that was read.
#[derive(Debug)]
pub struct LiveGraph<'g> {
    /// The graph with names and sizes.
    pub snapshot: Snapshot,
    /// By id.
    pub tensors: Vec<TensorRef<'g>>,
    /// By id.
    pub homes: Vec<Home>,
}

impl<'g> LiveGraph<'g> {
    /// Reads a graph.
    ///
    /// # Errors
    /// [`OffloadFailure::UnknownMemory`], [`OffloadFailure::ItemIsView`].
    ///
    /// # Safety
    /// The graph, its tensors and those of `items` are live for `'g`, and no other thread changes them.
    pub unsafe fn read(
        runtime: &'static Runtime,
        graph: NonNull<ggml_cgraph>,
        devices: &[LiveDevice],
        items: &[LiveItem],
    ) -> Result<Self, OffloadFailure> {
        // SAFETY: a live graph, as the caller guarantees.
        let live = unsafe { GraphRef::new(graph) };
        let reading = read(runtime, &[], live, &Requested::default());
        let (mut graph, tensors) = (reading.graph, reading.tensors);
        let of_item: HashMap<usize, usize> =
            items.iter().enumerate().filter_map(|(at, item)| Some((item.tensor?.addr().get(), at))).collect();
        let mut homes = vec![Home::Planned; tensors.len()];
        for (id, tensor) in (0..).zip(&tensors) {
            let item = of_item.get(&tensor.address()).copied();
            let root = graph.root(id);
            if let Some(item) = item {
                if root != id {
                    let [item, root] = [tensor.name(), tensors[root as usize].name()];
                    return Err(OffloadFailure::ItemIsView { item, root });
                }
                graph.set_external(id, true);
                homes[id as usize] = Home::Item(item);
            } else if root == id && graph.tensor(id).external {
                homes[id as usize] = Home::Device(device_of(runtime, *tensor, devices)?);
            }
        }
        for id in (0..).take(tensors.len()) {
            // A view that was made before its root had memory has no memory itself.
            if graph.tensor(id).external && graph.root(id) != id {
                homes[id as usize] = homes[graph.root(id) as usize];
            }
        }
        let infos = (0..).zip(&tensors).map(|(id, tensor)| info(runtime, id, *tensor)).collect();
        let snapshot = Snapshot { label: String::new(), buffers: Vec::new(), graph: *graph, tensors: infos };
        Ok(Self { snapshot, tensors, homes })
    }
}

/// Returns the device whose memory a tensor is in. Memory without a buffer is the program's own.
fn device_of(
    runtime: &'static Runtime,
    tensor: TensorRef<'_>,
    devices: &[LiveDevice],
) -> Result<DeviceIndex, OffloadFailure> {
    let host = devices.len() - 1;
    let Some(buffer_type) = runtime.buffer_type_of(tensor) else { return Ok(host) };
    let known = devices.iter().position(|device| device.buffer_type == Some(buffer_type));
    let unknown = || OffloadFailure::UnknownMemory { tensor: tensor.name(), buffer_type: buffer_type.name() };
    known.or_else(|| buffer_type.is_host().then_some(host)).ok_or_else(unknown)
}

fn info(runtime: &Runtime, id: TensorId, tensor: TensorRef<'_>) -> TensorInfo {
    let nbytes = runtime.nbytes(tensor);
    TensorInfo {
        id: u64::from(id),
        name: tensor.name(),
        op: runtime.operations.name(tensor.op()).to_string_lossy().into(),
        desc: runtime.description(tensor).into(),
        element: runtime.element_name(tensor).into(),
        nbytes,
        size: nbytes,
        buffer: 0,
        elsewhere: Vec::new(),
    }
}
