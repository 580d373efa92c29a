//! Two servers of ggml's RPC backend on this machine.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use lastuse_c_tests::{Program, Result};

/// How many servers there are.
pub const SERVERS: usize = 2;

/// How long a server may take to listen.
const START: Duration = Duration::from_secs(30);

/// Running servers, which end when this is dropped.
#[derive(Debug)]
pub struct Servers {
    children: Vec<Child>,
    logs: Vec<PathBuf>,
}

/// Returns addresses with ports that nothing listens on.
///
/// # Errors
/// When there are none.
pub fn free_endpoints() -> Result<Vec<String>> {
    let listeners: std::io::Result<Vec<TcpListener>> = (0..SERVERS).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
    let listeners = listeners.map_err(|error| format!("no free port on 127.0.0.1: {error}"))?;
    let addresses = listeners.iter().map(|listener| listener.local_addr().map(|address| address.to_string()));
    addresses.collect::<std::io::Result<_>>().map_err(|error| format!("no port: {error}"))
}

impl Servers {
    /// Starts a server for each endpoint, and waits until all listen. Their output goes to `folder`.
    ///
    /// # Errors
    /// When one does not start.
    pub fn start(program: &Program, libraries: &Path, endpoints: &[String], folder: &Path) -> Result<Self> {
        let mut servers = Self { children: Vec::new(), logs: Vec::new() };
        for (number, endpoint) in endpoints.iter().enumerate() {
            let log = folder.join(format!("server-{number}.log"));
            let failed = |error: std::io::Error| format!("{}: {error}", log.display());
            let file = File::create(&log).map_err(failed)?;
            // ggml prints each command that a server gets.
            let variables = [("LD_LIBRARY_PATH", libraries.as_os_str()), ("GGML_RPC_DEBUG", "1".as_ref())];
            let mut command = program.command(&[endpoint], &variables);
            command.stdout(file.try_clone().map_err(failed)?).stderr(file);
            servers.children.push(command.spawn().map_err(|error| format!("cannot start a server: {error}"))?);
            servers.logs.push(log);
        }
        endpoints.iter().try_for_each(|endpoint| wait_for(endpoint))?;
        Ok(servers)
    }

    /// Returns how many commands with this name all servers got.
    ///
    /// # Errors
    /// When their output cannot be read.
    pub fn count(&self, command: &str) -> Result<usize> {
        let start = format!("[{command}]");
        let counts = self.logs.iter().map(|log| {
            let text = fs::read(log).map_err(|error| format!("{}: {error}", log.display()))?;
            Ok(String::from_utf8_lossy(&text).lines().filter(|line| line.starts_with(&start)).count())
        });
        counts.sum()
    }

    /// Kills the last server.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn kill_last(&mut self) -> Result<()> {
        let mut last = self.children.pop().ok_or("there is no server")?;
        last.kill().and_then(|()| last.wait()).map(|_| ()).map_err(|error| format!("cannot kill a server: {error}"))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn wait_for(endpoint: &str) -> Result<()> {
    let start = Instant::now();
    while TcpStream::connect(endpoint).is_err() {
        if start.elapsed() > START {
            return Err(format!("a server does not listen on {endpoint} after {} s", START.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
