//! Capabilities of backends: real ones are queried, others get typical values.

use crate::graph::TensorId;
use crate::offload::rules::{BackendIndex, BufferTypeIndex, Capabilities, KeptUntil, TypicalBackends};

use crate::ggml::bindings;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;

use super::request::LiveDevice;

/// Answers for the backends of devices.
#[derive(Debug)]
pub struct LiveBackends<'a, 'g> {
    typical: TypicalBackends<'a>,
    functions: Option<BackendFunctions>,
    devices: &'a [LiveDevice],
    /// By buffer type, the first device that has it.
    device_of_type: &'a [usize],
    tensors: &'a [TensorRef<'g>],
}

#[derive(Clone, Copy, Debug)]
struct BackendFunctions {
    supports_op: bindings::ggml_backend_supports_op,
    supports_buft: bindings::ggml_backend_supports_buft,
    offload_op: bindings::ggml_backend_offload_op,
}

impl BackendFunctions {
    fn of(runtime: &Runtime) -> Option<Self> {
        let functions = &runtime.functions;
        Some(Self {
            supports_op: functions.ggml_backend_supports_op?,
            supports_buft: functions.ggml_backend_supports_buft?,
            offload_op: functions.ggml_backend_offload_op?,
        })
    }
}

impl<'a, 'g> LiveBackends<'a, 'g> {
    /// For a graph with these live tensors, by id.
    pub fn new(
        runtime: &Runtime,
        typical: TypicalBackends<'a>,
        devices: &'a [LiveDevice],
        device_of_type: &'a [usize],
        tensors: &'a [TensorRef<'g>],
    ) -> Self {
        Self { typical, functions: BackendFunctions::of(runtime), devices, device_of_type, tensors }
    }

    fn asked(&self, backend: BackendIndex) -> Option<(BackendFunctions, *mut bindings::ggml_backend)> {
        let live = self.devices[backend as usize].backend?;
        Some((self.functions?, live.as_ptr()))
    }

    fn tensor(&self, tensor: TensorId) -> *mut bindings::ggml_tensor {
        self.tensors[tensor as usize].as_ptr()
    }
}

impl Capabilities for LiveBackends<'_, '_> {
    fn supports_op(&self, backend: BackendIndex, tensor: TensorId) -> bool {
        let Some((functions, live)) = self.asked(backend) else { return self.typical.supports_op(backend, tensor) };
        // SAFETY: a live backend and a live tensor of its ggml.
        unsafe { (functions.supports_op)(live, self.tensor(tensor)) }
    }

    fn supports_buffer_type(&self, backend: BackendIndex, buffer_type: BufferTypeIndex) -> bool {
        let known = self.devices[self.device_of_type[buffer_type as usize]].buffer_type;
        match (self.asked(backend), known) {
            // SAFETY: a live backend and a buffer type of its ggml.
            (Some((functions, live)), Some(known)) => unsafe { (functions.supports_buft)(live, known.as_ptr()) },
            _ => self.typical.supports_buffer_type(backend, buffer_type),
        }
    }

    fn offloads_op(&self, backend: BackendIndex, node: TensorId) -> bool {
        let Some((functions, live)) = self.asked(backend) else { return self.typical.offloads_op(backend, node) };
        // SAFETY: a live backend and a live tensor of its ggml.
        unsafe { (functions.offload_op)(live, self.tensor(node)) }
    }

    /// ggml has no function by which a program asks for an order.
    fn optimize(
        &self,
        backend: BackendIndex,
        nodes: &mut [TensorId],
        is_copied: &dyn Fn(TensorId) -> bool,
    ) -> Vec<KeptUntil> {
        self.typical.optimize(backend, nodes, is_copied)
    }
}
