//! Files made byte by byte.

use rawzip::crc32;

/// A tensor to be saved.
#[derive(Clone)]
pub struct Saved {
    pub storage: &'static str,
    pub elements: Vec<u8>,
    pub count: i32,
    pub offset: i32,
    pub size: i32,
    pub stride: i32,
}

impl Default for Saved {
    fn default() -> Self {
        Self { storage: "FloatStorage", elements: Vec::new(), count: 0, offset: 0, size: 0, stride: 1 }
    }
}

pub fn text(text: &str) -> Vec<u8> {
    [b"X", &u32::try_from(text.len()).expect("short").to_le_bytes()[..], text.as_bytes()].concat()
}

fn number(number: i32) -> Vec<u8> {
    [b"J", &number.to_le_bytes()[..]].concat()
}

impl Saved {
    pub fn floats(values: &[f32]) -> Self {
        let count = i32::try_from(values.len()).expect("few");
        let elements = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { elements, count, size: count, ..Self::default() }
    }

    /// The pickle of the tensor; `view` is the part of the older format after the count.
    pub fn pickle(&self, view: &[u8]) -> Vec<u8> {
        let storage = format!("ctorch\n{}\n", self.storage);
        let size = [number(self.size), b"\x85".to_vec()].concat();
        let stride = [number(self.stride), b"\x85".to_vec()].concat();
        [
            b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00((".to_vec(),
            text("storage"),
            b"q\x01".to_vec(),
            storage.into_bytes(),
            text("0"),
            text("cpu"),
            number(self.count),
            view.to_vec(),
            b"tq\x05Q".to_vec(),
            number(self.offset),
            size,
            stride,
            b"\x89ccollections\nOrderedDict\nq\x06)Rq\x07tq\x08Rq\x09.".to_vec(),
        ]
        .concat()
    }

    /// The file in today's format.
    pub fn archive(&self) -> Vec<u8> {
        archive(&[
            ("a/data.pkl", &self.pickle(b"")),
            ("a/byteorder", b"little"),
            ("a/data/0", &self.elements),
            ("a/version", b"3\n"),
        ])
    }

    /// The file in the older format.
    pub fn pickles(&self) -> Vec<u8> {
        let storages = [&b"\x80\x02]q\x00"[..], &text("0"), b"a."].concat();
        let count = u64::try_from(self.count).expect("not negative").to_le_bytes();
        [start_of_pickles(true), self.pickle(b"N"), storages, count.to_vec(), self.elements.clone()].concat()
    }
}

/// The first three pickles of the older format.
pub fn start_of_pickles(little_endian: bool) -> Vec<u8> {
    let endian = if little_endian { b"\x88" } else { b"\x89" };
    [
        b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x00(".to_vec(),
        [&text("protocol_version")[..], b"M\xe9\x03"].concat(),
        [&text("little_endian")[..], endian].concat(),
        [&text("type_sizes")[..], b"}q\x01(", &text("int"), b"K\x04uu."].concat(),
    ]
    .concat()
}

/// A zip archive as torch writes it: sizes behind the data, data at multiples of 64, end records of both kinds.
pub fn archive(records: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in records {
        let (start, length) = (file.len(), u16::try_from(name.len()).expect("short"));
        let (size, sum) = (u32::try_from(data.len()).expect("short").to_le_bytes(), crc32(data).to_le_bytes());
        let padding = 64 - (start + 30 + name.len() + 4) % 64;
        let extra = u16::try_from(padding + 4).expect("short").to_le_bytes();
        file.extend(b"PK\x03\x04\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        file.extend([&length.to_le_bytes()[..], &extra, name.as_bytes(), b"FB"].concat());
        file.extend(u16::try_from(padding).expect("short").to_le_bytes());
        file.extend(vec![b'Z'; padding]);
        file.extend(*data);
        file.extend([b"PK\x07\x08", &sum[..], &size, &size].concat());
        directory.extend(b"PK\x01\x02\0\0\0\0\x08\x08\0\0\0\0\0\0");
        directory.extend([&sum[..], &size, &size, &length.to_le_bytes(), &[0; 12]].concat());
        directory.extend([&u32::try_from(start).expect("short").to_le_bytes()[..], name.as_bytes()].concat());
    }
    let (start, size, count) = (file.len() as u64, directory.len() as u64, records.len() as u64);
    let end = start + size;
    file.extend(directory);
    let numbers = [count, count, size, start].map(u64::to_le_bytes).concat();
    file.extend([&b"PK\x06\x06\x2c\0\0\0\0\0\0\0\x1e\x03\x2d\0\0\0\0\0\0\0\0\0"[..], &numbers].concat());
    file.extend([&b"PK\x06\x07\0\0\0\0"[..], &end.to_le_bytes(), &1u32.to_le_bytes()].concat());
    let count = u16::try_from(count).expect("few").to_le_bytes();
    let [size, start] = [size, start].map(|number| u32::try_from(number).expect("short").to_le_bytes());
    file.extend([&b"PK\x05\x06\0\0\0\0"[..], &count, &count, &size, &start, &[0; 2]].concat());
    file
}
