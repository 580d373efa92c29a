//! Writes what devices hold now to a file, again and again, for a reader that shows it while the process runs.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Once;
use std::thread::{Builder, sleep};
use std::time::Duration;

use crate::accounting::Moment;
use crate::ggml::live::lock::Lock;
use crate::ggml::observe::whole_file::NotWritten;
use crate::ggml::platform;
use crate::ggml::version::SIGNATURE;

use super::destination::AccountingFile;
use super::recorder::recorder;

/// The time between two looks at what devices hold.
const INTERVAL: Duration = Duration::from_millis(250);

/// The file that is written now.
static FILE: Lock<Option<AccountingFile>> = Lock::new(None);

/// Writes what devices hold to the file at this path from now on, whenever it has changed; what was there is replaced by the
/// whole of what is new. Records from now on, if nothing is recorded yet. `None` ends that.
///
/// # Errors
/// [`NotWritten`], also if the file exists; nothing is changed then.
pub fn set_live_file(path: Option<&OsStr>) -> Result<(), NotWritten> {
    static WRITER: Once = Once::new();
    let file = path.map(|path| AccountingFile::new(Path::new(path))).transpose()?;
    let is_set = file.is_some();
    *FILE.lock() = file;
    if is_set {
        if !recorder().is_recording() {
            recorder().set(Some(OsStr::new("on")))?;
        }
        WRITER.call_once(start);
    }
    Ok(())
}

/// Starts the thread that writes.
fn start() {
    let start = || Builder::new().name("lastuse-live".to_owned()).spawn(write_on);
    if let Err(error) = platform::without_signals(start) {
        eprintln!("{SIGNATURE}nothing is written while the program runs: {error}");
    }
}

/// Writes what has changed, to the end of the process. What cannot be written is told once for each reason.
fn write_on() {
    let (mut last, mut told) = (String::new(), String::new());
    loop {
        let file = FILE.lock().clone();
        // Nothing is recorded any more if a call has ended that.
        let text = file.as_ref().and_then(|_| recorder().json(Moment::Now).ok());
        if let (Some(file), Some(text)) = (file, text.filter(|text| *text != last)) {
            match file.replace(&format!("{text}\n")) {
                Ok(()) => last = text,
                Err(error) if error.0 == told => {}
                Err(NotWritten(why)) => {
                    eprintln!("{SIGNATURE}{why}");
                    told = why;
                }
            }
        }
        sleep(INTERVAL);
    }
}
