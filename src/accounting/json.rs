//! Writes an accounting as JSON, "lastuse-accounting".

use crate::formats::json::JsonObject;

use super::account::{AccountedBuffer, AccountedDevice, AccountedGraph, AccountedTensor, Accounting};
use super::sums::Sums;

/// The name of the format in each file.
pub const FORMAT: &str = "lastuse-accounting";

/// The version that is written and read.
pub const VERSION: u32 = 1;

impl Accounting {
    /// Returns one JSON object, without a line break.
    pub fn json(&self) -> String {
        let mut text = String::new();
        let mut file = JsonObject::begin(&mut text);
        file.text("format", FORMAT).value("version", VERSION);
        file.value("process", self.process).text("ggml", &self.ggml);
        file.objects("devices", &self.devices, write_device);
        file.objects("buffers", &self.buffers, write_buffer);
        file.objects("graphs", &self.graphs, write_graph);
        file.objects("unread", &self.unread, write_tensor);
        file.objects("turns", &self.turns, |object, turn| {
            object.number("ms", turn.ms).number("allocator", turn.allocator).number("bytes", turn.bytes);
        });
        file.end();
        text
    }
}

fn write_device(object: &mut JsonObject<'_>, device: &AccountedDevice) {
    object.text("name", &device.name).text("description", &device.description).text("kind", &device.kind);
    object.maybe("free", device.free).maybe("memory", device.memory);
    write_sums(object, &device.sums);
    object.objects("history", &device.history, |object, at| {
        object.number("ms", at.ms).number("bytes", at.bytes);
    });
}

fn write_sums(object: &mut JsonObject<'_>, sums: &Sums) {
    object.number("weights", sums.weights).number("kv", sums.kv).number("compute", sums.compute);
    object.number("other", sums.other).number("rounding", sums.rounding).number("total", sums.total());
}

fn write_buffer(object: &mut JsonObject<'_>, buffer: &AccountedBuffer) {
    object.number("id", buffer.id).text("device", &buffer.device).text("buffer_type", &buffer.buffer_type);
    object.text("usage", buffer.usage.name()).value("mapped", buffer.mapped);
    object.number("asked", buffer.asked).number("bytes", buffer.bytes).maybe("resident", buffer.resident);
    write_sums(object, &buffer.sums);
}

fn write_graph(object: &mut JsonObject<'_>, graph: &AccountedGraph) {
    object.number("allocator", graph.allocator).value("leafs", graph.leafs).value("nodes", graph.nodes);
    object.objects("tensors", &graph.tensors, write_tensor);
}

fn write_tensor(object: &mut JsonObject<'_>, tensor: &AccountedTensor) {
    object.text("name", &tensor.name).text("op", &tensor.op).text("type", &tensor.element);
    object.numbers("ne", tensor.ne.map(|extent| u64::try_from(extent).unwrap_or(0)));
    object.text("class", tensor.class.name()).number("bytes", tensor.bytes);
    write_text(object, "view_of", tensor.view_of.as_deref());
    write_text(object, "resides", tensor.resides.as_deref());
    write_text(object, "buffer_type", tensor.buffer_type.as_deref());
    object.maybe("buffer", tensor.location.map(|location| location.buffer));
    object.maybe("offset", tensor.location.map(|location| location.offset));
    object.maybe("first_step", tensor.steps.map(|steps| steps.first.into()));
    object.maybe("last_step", tensor.steps.map(|steps| steps.last.into()));
    write_text(object, "executes", tensor.executes.as_deref());
}

fn write_text(object: &mut JsonObject<'_>, key: &str, text: Option<&str>) {
    match text {
        Some(text) => object.text(key, text),
        None => object.value(key, "null"),
    };
}
