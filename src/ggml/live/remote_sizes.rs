//! Sizes that a server was asked for.
//!
//! Buffers of ggml's RPC backend are in the memory of a server, which some versions of ggml ask for the size of each
//! tensor, over the network, however often it had the same shape. A size depends on the operation with its parameters and
//! on types, extents and strides of the tensor and its sources, all of which are compared.

use std::collections::BTreeMap;

use crate::placement::Bytes;

use super::lock::Lock;
use super::tensor::TensorRef;

/// How ggml names the buffer types of servers, followed by their address.
const REMOTE: &[u8] = b"RPC";

/// More sizes than this are not kept: a program whose shapes never repeat would fill the memory.
const MOST: usize = 8192;

/// The values that a size depends on, with the address of the buffer type, which ggml never frees.
type Key = Box<[u64]>;

static SIZES: Lock<BTreeMap<Key, Bytes>> = Lock::new(BTreeMap::new());

/// Returns `true` for the name of a buffer type of a server.
pub fn is_remote(name: &[u8]) -> bool {
    name.starts_with(REMOTE)
}

/// Returns the bytes that a tensor takes in a buffer of the type at this address; `ask` asks the server.
pub fn remote_size(buffer_type: usize, tensor: TensorRef<'_>, ask: impl FnOnce() -> Bytes) -> Bytes {
    let key = key(buffer_type, tensor);
    let known = SIZES.lock().get(key.as_slice()).copied();
    // The server is asked without the lock: other threads wait for other servers.
    known.unwrap_or_else(|| {
        let size = ask();
        let mut sizes = SIZES.lock();
        if sizes.len() >= MOST {
            sizes.clear();
        }
        sizes.insert(key.into_boxed_slice(), size);
        size
    })
}

fn key(buffer_type: usize, tensor: TensorRef<'_>) -> Vec<u64> {
    let mut key = vec![buffer_type as u64];
    key.extend(tensor.parameters().map(|word| u64::from(word.cast_unsigned())));
    for tensor in [tensor].into_iter().chain(tensor.sources()) {
        let is_view = u64::from(tensor.view_source().is_some());
        key.extend([u64::from(tensor.element()) << 1 | is_view, u64::from(tensor.op())]);
        key.extend(tensor.ne().map(i64::cast_unsigned));
        key.extend(tensor.nb().map(|stride| stride as u64));
    }
    key
}
