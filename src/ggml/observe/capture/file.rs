//! Writes the files of captures, compressed if requested.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use super::destination::Destination;
use super::gzip::{self, ZlibUnavailable};
use crate::ggml::observe::whole_file::write_whole;

/// The result of writing a graph.
#[derive(Debug)]
pub enum Written {
    /// The file was written.
    New,
    /// The file was written without the requested compression.
    Uncompressed(ZlibUnavailable),
    /// The file existed before.
    Exists,
}

/// Writes `text`, whose hash is `content`, to its file.
///
/// # Errors
/// If the file cannot be written; it then does not exist.
pub fn write(destination: &Destination, content: u64, text: &[u8]) -> io::Result<Written> {
    if !destination.is_compressed() {
        return write_as(&destination.file(content), text, write_plain);
    }
    match gzip::compressor() {
        Ok(gzip) => write_as(&destination.file(content), text, |file, text| gzip.write(file, text)),
        Err(reason) => match write_as(&destination.uncompressed().file(content), text, write_plain)? {
            Written::New => Ok(Written::Uncompressed(reason)),
            other => Ok(other),
        },
    }
}

fn write_as(path: &Path, text: &[u8], fill: impl Fn(File, &[u8]) -> io::Result<()>) -> io::Result<Written> {
    if path.exists() {
        return Ok(Written::Exists);
    }
    write_whole(path, |file| fill(file, text))?;
    Ok(Written::New)
}

fn write_plain(mut file: File, text: &[u8]) -> io::Result<()> {
    file.write_all(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// A temporary folder, removed when dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("lastuse-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).expect("the folder for temporary files can be written");
            Self(path)
        }

        fn destination(&self, name: &str) -> Destination {
            Destination::new(self.0.join(name).as_os_str()).expect("a destination")
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).expect("the folder exists").flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn file_is_written_once() {
        let folder = Folder::new("once");
        let destination = folder.destination("%s.txt");
        assert!(matches!(write(&destination, 1, b"text"), Ok(Written::New)));
        assert!(matches!(write(&destination, 1, b"other"), Ok(Written::Exists)));
        assert_eq!(folder.names(), ["0000000000000001.txt"]);
        assert_eq!(fs::read(destination.file(1)).expect("it was written"), b"text");
    }

    #[test]
    fn failure_leaves_no_file() {
        let folder = Folder::new("failure");
        let file = folder.0.join("file");
        let full = |_, _: &[u8]| Err(io::Error::from(io::ErrorKind::StorageFull));
        assert!(write_as(&file, b"text", full).is_err_and(|error| error.kind() == io::ErrorKind::StorageFull));
        assert_eq!(folder.names(), [""; 0]);
    }

    #[test]
    fn removed_folder_is_an_error() {
        let destination = {
            let folder = Folder::new("gone");
            folder.destination("%s.txt")
        };
        assert!(write(&destination, 1, b"text").is_err_and(|error| error.kind() == io::ErrorKind::NotFound));
    }

    #[test]
    fn compression_keeps_the_text() {
        use std::io::Read;

        let folder = Folder::new("compressed");
        let destination = folder.destination("%s.gz");
        let text: Vec<u8> = b"many words ".iter().copied().cycle().take(3_000_000).collect();
        match write(&destination, 1, &text).expect("it can be written") {
            Written::New => {
                let mut read = Vec::new();
                let file = File::open(destination.file(1)).expect("it was written");
                flate2::read::GzDecoder::new(file).read_to_end(&mut read).expect("it is compressed");
                assert!(read == text);
                assert_eq!(folder.names(), ["0000000000000001.gz"]);
            }
            Written::Uncompressed(_) => assert_eq!(folder.names(), ["0000000000000001"]),
            Written::Exists => panic!("the file is new"),
        }
    }
}
