//! Items of `lastuse_offload_*`: the weights and caches that are placed.

use std::ffi::{c_char, c_int};
use std::ptr::NonNull;

use crate::ggml::{LiveItem, ggml_tensor};
use crate::offload::item::{ItemClass, ItemKind, Rows};
use crate::placement::Bytes;

use super::c_types::{OffloadClassNumber, OffloadKindNumber, enum_value, sized_struct};
use super::call::{Call, call, number};
use super::offload::lastuse_offload;
use super::offload_device::NOT_PLACED;

/// Which buffers a tensor is in.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum lastuse_offload_kind {
    /// A weight: read only. Its buffer has the usage GGML_BACKEND_BUFFER_USAGE_WEIGHTS.
    LASTUSE_OFFLOAD_WEIGHT = 0,
    /// A cache of keys, values or states: written by graphs and kept between runs.
    LASTUSE_OFFLOAD_KV = 1,
}

/// What a tensor is for, by which LASTUSE_OFFLOAD_BY_CLASS orders.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum lastuse_offload_class {
    /// What its name says, if it is one of llama.cpp's names.
    LASTUSE_OFFLOAD_CLASS_BY_NAME = 0,
    /// Weights of attention, with their norm.
    LASTUSE_OFFLOAD_CLASS_ATTENTION = 1,
    /// Weights that predict which neurons are active.
    LASTUSE_OFFLOAD_CLASS_PREDICTOR = 2,
    /// The norm before an FFN.
    LASTUSE_OFFLOAD_CLASS_FFN_NORM = 3,
    /// The output head, with its norm.
    LASTUSE_OFFLOAD_CLASS_OUTPUT = 4,
    /// The cache of values.
    LASTUSE_OFFLOAD_CLASS_VALUE_CACHE = 5,
    /// The cache of keys.
    LASTUSE_OFFLOAD_CLASS_KEY_CACHE = 6,
    /// Weights of an FFN.
    LASTUSE_OFFLOAD_CLASS_FFN = 7,
    /// A tensor of which runs read some rows only, such as the embedding of tokens.
    LASTUSE_OFFLOAD_CLASS_EMBEDDING = 8,
    /// Anything else.
    LASTUSE_OFFLOAD_CLASS_OTHER = 9,
}

/// A weight or a cache: lastuse_offload_add_item.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lastuse_offload_item {
    /// sizeof(struct lastuse_offload_item).
    pub struct_size: usize,
    /// The tensor, not a view, with or without memory; NULL if there is none, with bytes instead.
    pub tensor: *mut ggml_tensor,
    /// What messages call it. NULL: the name of tensor.
    pub name: *const c_char,
    /// Bytes that buffer types require for it, before padding. 0: the most that those of the devices require.
    pub bytes: usize,
    /// Which buffers it is in.
    pub kind: OffloadKindNumber,
    /// What it is for.
    pub tensor_class: OffloadClassNumber,
    /// The layer of the model, if has_layer is set; otherwise by its name, if it is one of llama.cpp's names.
    pub layer: u32,
    /// Whether layer is set.
    pub has_layer: bool,
    /// Whether it must be on device.
    pub is_pinned: bool,
    /// The number of that device.
    pub device: c_int,
    /// What is gained if it is not on the host. 0: the bytes of it that a run of each graph reads.
    pub benefit: f64,
    /// Rows that can be on a device one by one, while the whole tensor stays on the host: those of an FFN whose neurons
    /// are split. 0 if there are none.
    pub n_rows: u64,
    /// How many rows are placed together; 0 counts as 256. The last group may have fewer.
    pub row_granule: u64,
    /// Bytes of a row on the device, with what says which row it is.
    pub row_bytes: usize,
    /// What each group of rows gains, from the most to the least: n_rows / row_granule numbers, rounded up. Copied.
    pub row_benefits: *const f64,
}

sized_struct!(lastuse_offload_item);

/// The rows that are placed together, unless the program says otherwise: PowerInfer's granule.
const ROW_GRANULE: u64 = 256;

/// Adds a weight or a cache and returns its number, from 0. On a device, weights and caches lie in buffers apart, in
/// this order. The tensor lives until lastuse_offload_free; one that two parts of a model share is one item. Returns
/// -1 if there is neither a tensor nor a name with bytes, if a tensor was added before, if kind, tensor_class or device
/// has no valid value, or if n_rows is set without row_bytes. With n_rows, row_benefits must not be NULL.
///
/// # Safety
/// `offload` comes from lastuse_offload_new, and no other thread uses it; `item` points to struct_size bytes; its
/// tensor is NULL or live until lastuse_offload_free; its name is NULL or ends in NUL; its benefits are NULL,
/// or have a number for each row_granule of n_rows rows, rounded up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_offload_add_item(
    offload: *mut lastuse_offload,
    item: *const lastuse_offload_item,
) -> c_int {
    call("lastuse_offload_add_item", |call| {
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        let planner = &mut unsafe { call.change(offload) }?.planner;
        // SAFETY: NULL or of its stated size: see "# Safety".
        let item = unsafe { call.params("item", item) };
        // SAFETY: what it names is NULL or live: see "# Safety".
        let live = call.done(unsafe { live_item(call, &item) })?;
        if live.tensor.is_some_and(|tensor| planner.has_item(tensor)) {
            return Err(call.refuse(&"this tensor was added before; tensors that are shared are one item"));
        }
        Ok(number(planner.add_item(live)))
    })
}

/// # Errors
/// A message: which field is wrong.
///
/// # Safety
/// What `item` names is NULL or live, and its lists are long enough.
unsafe fn live_item(call: Call, item: &lastuse_offload_item) -> Result<LiveItem, String> {
    // SAFETY: NULL or a string: see "# Safety".
    let name = unsafe { call.text_if_any(item.name) }.map(|name| name.to_string_lossy().into_owned());
    if item.tensor.is_null() && (name.is_none() || item.bytes == 0) {
        return Err("the item has no tensor; set tensor, or name and bytes".to_owned());
    }
    let pinned = item.is_pinned.then(|| usize::try_from(item.device)).transpose();
    Ok(LiveItem {
        tensor: NonNull::new(item.tensor),
        name,
        bytes: (item.bytes > 0).then_some(item.bytes as Bytes),
        kind: kind_of(item.kind)?,
        class: class_of(item.tensor_class)?,
        layer: item.has_layer.then_some(item.layer),
        benefit: (item.benefit != 0.0).then_some(item.benefit),
        pinned: pinned.map_err(|_| format!("device is {}; devices count from 0", item.device))?,
        // SAFETY: a list that is long enough: see "# Safety".
        rows: unsafe { rows(call, item) }?,
    })
}

fn kind_of(number: OffloadKindNumber) -> Result<ItemKind, String> {
    let known = [
        (lastuse_offload_kind::LASTUSE_OFFLOAD_WEIGHT as u32, ItemKind::Weight),
        (lastuse_offload_kind::LASTUSE_OFFLOAD_KV as u32, ItemKind::Cache),
    ];
    enum_value("kind", number, "lastuse_offload_kind", &known)
}

/// Returns `None` for the class that follows from the name.
fn class_of(number: OffloadClassNumber) -> Result<Option<ItemClass>, String> {
    let known = [
        (lastuse_offload_class::LASTUSE_OFFLOAD_CLASS_BY_NAME as u32, None),
        (lastuse_offload_class::LASTUSE_OFFLOAD_CLASS_ATTENTION as u32, Some(ItemClass::Attention)),
        (lastuse_offload_class::LASTUSE_OFFLOAD_CLASS_PREDICTOR as u32, Some(ItemClass::Predictor)),
        (lastuse_offload_class::LASTUSE_OFFLOAD_CLASS_FFN_NORM as u32, Some(ItemClass::FfnNorm)),
        (lastuse_offload_class::LASTUSE_OFFLOAD_CLASS_OUTPUT as u32, Some(ItemClass::Output)),
        (lastuse_offload_class::LASTUSE_OFFLOAD_CLASS_VALUE_CACHE as u32, Some(ItemClass::ValueCache)),
        (lastuse_offload_class::LASTUSE_OFFLOAD_CLASS_KEY_CACHE as u32, Some(ItemClass::KeyCache)),
        (lastuse_offload_class::LASTUSE_OFFLOAD_CLASS_FFN as u32, Some(ItemClass::Ffn)),
        (lastuse_offload_class::LASTUSE_OFFLOAD_CLASS_EMBEDDING as u32, Some(ItemClass::Embedding)),
        (lastuse_offload_class::LASTUSE_OFFLOAD_CLASS_OTHER as u32, Some(ItemClass::Other)),
    ];
    enum_value("tensor_class", number, "lastuse_offload_class", &known)
}

/// # Errors
/// A message: which field is wrong.
///
/// # Safety
/// `item.row_benefits` has a number for each group, or is NULL.
unsafe fn rows(call: Call, item: &lastuse_offload_item) -> Result<Option<Rows>, String> {
    let lastuse_offload_item { n_rows: count, row_granule, row_bytes, row_benefits, .. } = *item;
    if count == 0 {
        return Ok(None);
    }
    if row_bytes == 0 {
        return Err(format!("the item has {count} rows that can be split; set row_bytes too"));
    }
    let granule = if row_granule == 0 { ROW_GRANULE } else { row_granule };
    let groups = usize::try_from(count.div_ceil(granule)).map_err(|_| "n_rows is too large".to_owned())?;
    // SAFETY: NULL, or a number for each group: see "# Safety".
    let benefits = unsafe { call.list("item->row_benefits", row_benefits, groups) }.to_vec();
    Ok(Some(Rows { count, granule, bytes: row_bytes as Bytes, benefits }))
}

/// Where an item is placed: lastuse_offload_item_report.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lastuse_offload_place {
    /// sizeof(struct lastuse_offload_place).
    pub struct_size: usize,
    /// The number of the device that it is on, whole.
    pub device: c_int,
    /// The number of the device that some rows of an item on the host are on too; -1 if there is none.
    pub rows_device: c_int,
    /// How many rows: those that gain most; 0 if there are none.
    pub n_rows: u64,
}

sized_struct!(lastuse_offload_place);

/// Fills in where an item is placed. Returns false if there is no such item or lastuse_offload_solve has not placed it.
///
/// # Safety
/// `offload` comes from lastuse_offload_new, and no other thread uses it; `report` points to struct_size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_offload_item_report(
    offload: *const lastuse_offload,
    item: c_int,
    report: *mut lastuse_offload_place,
) -> bool {
    call("lastuse_offload_item_report", |call| {
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        let planner = &unsafe { call.look_at(offload) }?.planner;
        // SAFETY: NULL or of its stated size: see "# Safety".
        let report = unsafe { call.report(report) };
        let place = planner.place_of(call.index("item", item, planner.item_count())?);
        let place = place.ok_or_else(|| call.refuse_silently(&NOT_PLACED))?;
        let (rows_device, n_rows) = place.rows.map_or((-1, 0), |(device, count)| (number(device), count));
        report.write(&lastuse_offload_place { struct_size: 0, device: number(place.device), rows_device, n_rows });
        Ok(true)
    })
}
