//! Files made byte by byte, so that each part can be wrong.

/// A file of two layers with 40 neurons. Neurons 1 and 7 of the second are on the GPU.
#[derive(Clone)]
pub struct Handmade {
    pub magic: [u8; 4],
    pub version: u32,
    /// The counts that the header states.
    pub tensor_count: u64,
    pub key_count: u64,
    /// Names, numbers of types, and bytes of values.
    pub keys: Vec<(&'static str, u32, Vec<u8>)>,
    pub tensors: Vec<Entry>,
    /// Bytes between header and data.
    pub gap: Option<Vec<u8>>,
    /// The elements of each tensor, and the bytes behind them.
    pub data: Vec<(Vec<i32>, Vec<u8>)>,
}

#[derive(Clone)]
pub struct Entry {
    pub name: &'static str,
    pub dimensions: Vec<u64>,
    pub type_id: u32,
    pub offset: u64,
}

pub fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

impl Default for Handmade {
    fn default() -> Self {
        let entry = |name, elements, offset| Entry { name, dimensions: vec![elements], type_id: 18, offset };
        let mut second = vec![0; 40];
        second[1] = 1;
        second[7] = 1;
        Self {
            magic: *b"PWRI",
            version: 3,
            tensor_count: 4,
            key_count: 3,
            keys: vec![
                ("general.architecture", 8, string("generic.gpu_index")),
                ("generic.gpu_index.block_count", 4, 2u32.to_le_bytes().to_vec()),
                ("split.vram_capacity", 10, (u64::MAX - 1).to_le_bytes().to_vec()),
            ],
            tensors: vec![
                entry("blk.0.gpu_idx", 40, 0),
                entry("blk.0.gpu_bucket", 0, 160),
                entry("blk.1.gpu_idx", 40, 160),
                entry("blk.1.gpu_bucket", 2, 320),
            ],
            gap: None,
            data: vec![(vec![0; 40], vec![]), (vec![], vec![]), (second, vec![]), (vec![1, 7], vec![0; 24])],
        }
    }
}

impl Handmade {
    /// The file in the dialect of today's ggml.
    pub fn gguf() -> Self {
        let mut file = Self { magic: *b"GGUF", ..Self::default() };
        file.tensors.iter_mut().for_each(|tensor| tensor.type_id = 26);
        file
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.to_le_bytes());
        out.extend(self.key_count.to_le_bytes());
        for (name, value_type, value) in &self.keys {
            out.extend(string(name));
            out.extend(value_type.to_le_bytes());
            out.extend(value);
        }
        for Entry { name, dimensions, type_id, offset } in &self.tensors {
            out.extend(string(name));
            out.extend(u32::try_from(dimensions.len()).expect("few").to_le_bytes());
            out.extend(dimensions.iter().flat_map(|extent| extent.to_le_bytes()));
            out.extend(type_id.to_le_bytes());
            out.extend(offset.to_le_bytes());
        }
        let gap = out.len().next_multiple_of(32) - out.len();
        out.extend(self.gap.clone().unwrap_or(vec![0; gap]));
        for (elements, behind) in &self.data {
            out.extend(elements.iter().flat_map(|element| element.to_le_bytes()));
            out.extend(behind);
        }
        out
    }
}
