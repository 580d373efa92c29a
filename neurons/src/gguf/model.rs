//! The tensors of a model in one file, or in several ("model-00001-of-00003.gguf").

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use crate::malformed::Unreadable;

use super::header::{GgufHeader, GgufTensor};
use super::types::TensorType;

/// The most files of a model: their numbers have five digits.
const MAX_FILES: u64 = 99_999;

/// A tensor of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelTensor {
    /// Its name.
    pub name: String,
    /// The bytes of its elements.
    pub bytes: u64,
}

/// Reads which tensors a model has; for a model in several files, `file` is any of them. Only headers are read.
///
/// # Errors
/// [`Unreadable`]: a file cannot be read, is malformed, or is cut off; or the files are not of one model.
pub fn read_model(file: &Path) -> Result<Vec<ModelTensor>, Unreadable> {
    let first = Part::read(file)?;
    let Some(parts) = first.files()? else { return first.tensors() };
    let mut tensors = Vec::new();
    for (number, file) in (0..).zip(parts) {
        let part = Part::read(&file)?;
        if part.number("split.no") != Some(number) || part.number("split.count") != first.number("split.count") {
            return Err(part.unreadable("the keys split.no and split.count are not those that its name says"));
        }
        tensors.extend(part.tensors()?);
    }
    let total = first.number("split.tensors.count");
    if total.is_some_and(|total| total != tensors.len() as u64) {
        let total = total.unwrap_or_default();
        let reason = format!("split.tensors.count is {total}, but the files have {} tensors", tensors.len());
        return Err(first.unreadable(reason));
    }
    Ok(tensors)
}

/// A file of a model.
struct Part {
    file: PathBuf,
    length: u64,
    header: GgufHeader,
}

impl Part {
    fn read(file: &Path) -> Result<Self, Unreadable> {
        let opened = File::open(file).map_err(|error| Unreadable::of_io(file, &error))?;
        let length = opened.metadata().map_err(|error| Unreadable::of_io(file, &error))?.len();
        let header = GgufHeader::read(BufReader::new(opened), length, &[*b"GGUF"]);
        let header = header.map_err(|malformed| Unreadable::new(file, malformed.to_string()))?;
        Ok(Self { file: file.to_owned(), length, header })
    }

    fn unreadable(&self, reason: impl Into<String>) -> Unreadable {
        Unreadable::new(&self.file, reason)
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.header.value(key)?.as_u64()
    }

    /// Returns all files of the model; `None` if it is this one alone.
    fn files(&self) -> Result<Option<Vec<PathBuf>>, Unreadable> {
        let Some(count) = self.number("split.count").filter(|&count| count > 1) else { return Ok(None) };
        let name = self.file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let own = self.number("split.no").unwrap_or(0).saturating_add(1);
        let stem = name.strip_suffix(&format!("-{own:05}-of-{count:05}.gguf"));
        let Some(stem) = stem.filter(|_| count <= MAX_FILES) else {
            let expected =
                format!("it is file {own} of {count}, and its name must end in -{own:05}-of-{count:05}.gguf");
            return Err(self.unreadable(expected));
        };
        let file = |number: u64| self.file.with_file_name(format!("{stem}-{number:05}-of-{count:05}.gguf"));
        Ok(Some((1..=count).map(file).collect()))
    }

    fn tensors(&self) -> Result<Vec<ModelTensor>, Unreadable> {
        self.header.tensors.iter().map(|tensor| self.tensor(tensor)).collect()
    }

    fn tensor(&self, tensor: &GgufTensor) -> Result<ModelTensor, Unreadable> {
        let GgufTensor { name, dimensions, type_id, offset } = tensor;
        let Some(element) = TensorType::of(*type_id) else {
            return Err(self.unreadable(format!("the tensor {name:?} has the unknown type {type_id}")));
        };
        let (row, rows) = dimensions.split_first().map_or((1, &[][..]), |(row, rows)| (*row, rows));
        let bytes = rows.iter().try_fold(element.row_bytes(row), |sum, &extent| Some(sum?.checked_mul(extent)));
        let Some(bytes) = bytes.flatten() else {
            let reason = format!("the tensor {name:?} has no whole blocks of {}, or too many", element.name);
            return Err(self.unreadable(reason));
        };
        let end = self.header.data_start.checked_add(*offset).and_then(|start| start.checked_add(bytes));
        if end.is_none_or(|end| end > self.length) {
            let reason = format!("the tensor {name:?} reaches beyond the end of the file: it is cut off");
            return Err(self.unreadable(reason));
        }
        Ok(ModelTensor { name: name.clone(), bytes })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::gguf::{GgufValue, ValueType};

    /// Tensors of F16, one after the other.
    fn tensors(extents: &[(&str, u64)]) -> Vec<GgufTensor> {
        let mut offset = 0;
        let place = |&(name, extent): &(&str, u64)| {
            let tensor = GgufTensor { name: name.to_owned(), dimensions: vec![extent, 32], type_id: 1, offset };
            offset += extent * 32 * 2;
            tensor
        };
        extents.iter().map(place).collect()
    }

    /// Writes a file whose data is not on disk.
    fn write(file: &Path, keys: &[(&str, u64)], tensors: &[GgufTensor]) {
        let keys: Vec<(String, GgufValue)> =
            keys.iter().map(|&(name, number)| (name.to_owned(), GgufValue::Unsigned(ValueType::U16, number))).collect();
        let header = GgufHeader::bytes(*b"GGUF", &keys, tensors);
        let data: u64 = tensors.iter().map(|tensor| tensor.dimensions.iter().product::<u64>() * 2).sum();
        let mut out = File::create(file).expect("a new file");
        out.write_all(&header).expect("written");
        out.set_len(header.len() as u64 + data).expect("sparse");
    }

    fn reason(file: &Path) -> String {
        read_model(file).expect_err("unreadable").to_string()
    }

    #[test]
    fn models_of_many_gigabytes_are_read_by_their_headers() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("model.gguf");
        write(&file, &[], &tensors(&[("large", 1 << 31), ("small", 32)]));
        let expected = [("large", 1 << 37), ("small", 2048)];
        let expected = expected.map(|(name, bytes)| ModelTensor { name: name.to_owned(), bytes });
        assert_eq!(read_model(&file).expect("valid"), expected);
    }

    #[test]
    fn all_files_of_a_model_are_read_by_any_of_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |number: u64| folder.path().join(format!("m-{number:05}-of-00003.gguf"));
        let keys = |number: u64| [("split.no", number - 1), ("split.count", 3), ("split.tensors.count", 4)];
        write(&file(1), &keys(1), &[]);
        write(&file(2), &keys(2), &tensors(&[("a", 32), ("b", 64)]));
        write(&file(3), &keys(3), &tensors(&[("c", 32), ("d", 64)]));
        for number in 1..=3 {
            let names: Vec<String> = read_model(&file(number)).expect("valid").into_iter().map(|it| it.name).collect();
            assert_eq!(names, ["a", "b", "c", "d"]);
        }
        write(&file(3), &keys(3), &tensors(&[("c", 32)]));
        assert!(reason(&file(1)).contains("split.tensors.count is 4, but the files have 3 tensors"));
        write(&file(3), &keys(2), &[]);
        assert!(reason(&file(1)).contains("m-00003-of-00003.gguf: the keys split.no"));
        std::fs::remove_file(file(3)).expect("removed");
        assert!(reason(&file(2)).contains("m-00003-of-00003.gguf: no such file"));
        std::fs::rename(file(1), folder.path().join("m.gguf")).expect("renamed");
        assert!(reason(&folder.path().join("m.gguf")).contains("its name must end in -00001-of-00003.gguf"));
    }

    #[test]
    fn damaged_models_are_refused_by_file_and_tensor() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("model.gguf");
        write(&file, &[], &tensors(&[("a", 32), ("b", 64)]));
        let length = file.metadata().expect("it is there").len();
        File::options().write(true).open(&file).expect("it is there").set_len(length - 1).expect("cut off");
        assert!(reason(&file).contains("model.gguf: the tensor \"b\" reaches beyond the end of the file"));
        let with = |change: fn(&mut GgufTensor)| {
            let mut one = tensors(&[("a", 32)]);
            change(&mut one[0]);
            std::fs::write(&file, GgufHeader::bytes(*b"GGUF", &[], &one)).expect("written");
            reason(&file)
        };
        assert!(with(|tensor| tensor.type_id = 4).contains("\"a\" has the unknown type 4"));
        assert!(with(|tensor| (tensor.type_id, tensor.dimensions) = (2, vec![33])).contains("no whole blocks of q4_0"));
        assert!(
            with(|tensor| tensor.dimensions = vec![1 << 40, 1 << 40]).contains("no whole blocks of f16, or too many")
        );
        assert!(with(|tensor| tensor.offset = u64::MAX).contains("beyond the end"));
        std::fs::write(&file, b"GGML").expect("written");
        assert!(reason(&file).contains("the file starts with \"GGML\""));
    }
}
