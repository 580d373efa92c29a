//! Writes an accounting as JSON.

use crate::formats::json::JsonObject;
use crate::offload::accounting::{AccountedBuffer, AccountedDevice, AccountedGraph, AccountedTensor, Accounting, Sums};

use super::{FORMAT, VERSION};

/// Returns an accounting as one JSON object, without a line break.
pub fn accounting_json(accounting: &Accounting) -> String {
    let mut text = String::new();
    let mut file = JsonObject::begin(&mut text);
    file.text("format", FORMAT).value("version", VERSION);
    file.value("process", accounting.process).text("ggml", &accounting.ggml);
    file.objects("devices", &accounting.devices, write_device);
    file.objects("buffers", &accounting.buffers, |object, buffer| write_buffer(object, accounting, buffer));
    file.objects("graphs", &accounting.graphs, |object, graph| write_graph(object, accounting, graph));
    file.objects("unread", &accounting.unread, |object, tensor| write_tensor(object, accounting, tensor));
    file.end();
    text
}

fn write_device(object: &mut JsonObject<'_>, device: &AccountedDevice) {
    object.text("name", &device.name).text("description", &device.description).text("kind", &device.kind);
    object.maybe("free", device.memory.map(|memory| memory.free));
    object.maybe("memory", device.memory.map(|memory| memory.total));
    write_sums(object, &device.sums);
}

fn write_sums(object: &mut JsonObject<'_>, sums: &Sums) {
    object.number("weights", sums.weights).number("kv", sums.kv).number("compute", sums.compute);
    object.number("other", sums.other).number("rounding", sums.rounding).number("total", sums.total());
}

fn write_buffer(object: &mut JsonObject<'_>, accounting: &Accounting, buffer: &AccountedBuffer) {
    object.number("id", buffer.id).text("device", accounting.device_name(Some(buffer.device)).unwrap_or_default());
    object.text("buffer_type", &buffer.buffer_type).text("usage", buffer.usage.name());
    object.value("mapped", buffer.is_mapped).number("asked", buffer.asked).number("bytes", buffer.bytes);
    write_sums(object, &buffer.sums);
}

fn write_graph(object: &mut JsonObject<'_>, accounting: &Accounting, graph: &AccountedGraph) {
    object.maybe("allocator", graph.allocator).value("leafs", graph.leafs).value("nodes", graph.nodes);
    object.objects("tensors", &graph.tensors, |object, tensor| write_tensor(object, accounting, tensor));
}

fn write_tensor(object: &mut JsonObject<'_>, accounting: &Accounting, tensor: &AccountedTensor) {
    object.text("name", &tensor.name).text("op", &tensor.op).text("type", &tensor.element);
    object.numbers("ne", tensor.ne.map(|extent| u64::try_from(extent).unwrap_or(0)));
    object.text("class", tensor.class.name()).number("bytes", tensor.bytes);
    maybe_text(object, "view_of", tensor.view_of.as_deref());
    maybe_text(object, "resides", accounting.device_name(tensor.device));
    maybe_text(object, "buffer_type", tensor.buffer_type.as_deref());
    object.maybe("buffer", tensor.location.map(|location| location.buffer));
    object.maybe("offset", tensor.location.map(|location| location.offset));
    object.maybe("first_step", tensor.steps.map(|steps| steps.first.into()));
    object.maybe("last_step", tensor.steps.map(|steps| steps.last.into()));
    maybe_text(object, "executes", tensor.executes.as_deref());
}

fn maybe_text(object: &mut JsonObject<'_>, key: &str, text: Option<&str>) {
    match text {
        Some(text) => object.text(key, text),
        None => object.value(key, "null"),
    };
}
