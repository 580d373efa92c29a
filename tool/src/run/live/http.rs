//! One request for a page of this machine: only GET, and only for the names of the loopback interface, so that no site that a
//! browser has open can read the answers under a name of its own.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Requests with longer heads are refused.
const MOST_BYTES: usize = 16 << 10;

/// A client that sends or takes nothing for so long is left.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a page may do: run its own script, and ask where it comes from.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
                      img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: &'static str,
    /// Its media type.
    pub kind: &'static str,
    pub body: String,
}

impl Answer {
    /// A page.
    pub fn html(body: String) -> Self {
        Self { status: "200 OK", kind: "text/html", body }
    }

    /// Data.
    pub fn json(body: String) -> Self {
        Self { status: "200 OK", kind: "application/json", body }
    }

    /// A refusal or a failure, with the reason.
    pub fn error(status: &'static str, why: &str) -> Self {
        Self { status, kind: "text/plain", body: format!("{why}\n") }
    }
}

/// Answers one request by what `answer` has for its path.
pub fn serve(mut stream: TcpStream, port: u16, answer: impl FnOnce(&str) -> Answer) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = head(&mut stream)?;
    if head.is_empty() {
        // Browsers connect in advance.
        return Ok(());
    }
    let Answer { status, kind, body } = match path(&head, port) {
        Ok(path) => answer(path),
        Err(refused) => refused,
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\
         Allow: GET\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nContent-Security-Policy: {POLICY}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Reads up to the empty line after the head, or to the end of what the client sends.
fn head(stream: &mut impl Read) -> io::Result<String> {
    let (mut head, mut part) = (Vec::new(), [0; 1024]);
    while head.len() < MOST_BYTES && !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut part)? {
            0 => break,
            count => head.extend_from_slice(&part[..count]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Returns the path of a request.
///
/// # Errors
/// The answer to one that is refused.
fn path(head: &str, port: u16) -> Result<&str, Answer> {
    let Some((head, _)) = head.split_once("\r\n\r\n") else {
        return Err(Answer::error("400 Bad Request", "the head of the request has no end"));
    };
    let mut lines = head.split("\r\n");
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let &[method, target, version] = &words[..] else {
        return Err(Answer::error("400 Bad Request", "this is no request of HTTP"));
    };
    if !version.starts_with("HTTP/1.") {
        return Err(Answer::error("505 HTTP Version Not Supported", "only HTTP/1 is spoken here"));
    }
    if method != "GET" {
        return Err(Answer::error("405 Method Not Allowed", "the page can only be read"));
    }
    let named =
        |line: &str| line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
    let hosts: Vec<String> =
        lines.filter_map(named).filter(|(name, _)| name == "host").map(|(_, value)| value).collect();
    let own = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    match &hosts[..] {
        [host] if own.iter().any(|own| own.eq_ignore_ascii_case(host)) => {
            Ok(target.split('?').next().unwrap_or(target))
        }
        _ => Err(Answer::error("403 Forbidden", "the page is only for this machine, as 127.0.0.1 or localhost")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(head: &str) -> &'static str {
        path(head, 80).expect_err(head).status
    }

    #[test]
    fn requests_of_this_machine_have_a_path() {
        for host in ["127.0.0.1:80", "localhost:80", "LocalHost:80"] {
            let head = format!("GET /live.json?x=1 HTTP/1.1\r\nAccept: */*\r\nhost:{host}\r\n\r\n");
            assert_eq!(path(&head, 80), Ok("/live.json"), "{host}");
        }
    }

    #[test]
    fn other_names_for_this_machine_are_refused() {
        for host in ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:81", "localhost:80.evil.example", ""] {
            assert_eq!(refused(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")), "403 Forbidden", "{host}");
        }
        assert_eq!(refused("GET / HTTP/1.1\r\n\r\n"), "403 Forbidden");
        let both = "GET / HTTP/1.1\r\nHost: localhost:80\r\nHost: evil.example\r\n\r\n";
        assert_eq!(refused(both), "403 Forbidden");
    }

    #[test]
    fn only_get_is_answered() {
        for method in ["POST", "HEAD", "PUT", "DELETE", "OPTIONS"] {
            let head = format!("{method} / HTTP/1.1\r\nHost: localhost:80\r\n\r\n");
            assert_eq!(refused(&head), "405 Method Not Allowed", "{method}");
        }
        assert_eq!(refused("GET / HTTP/2\r\nHost: localhost:80\r\n\r\n"), "505 HTTP Version Not Supported");
        for head in ["GET /\r\n\r\n", "\r\n\r\n", "GET / HTTP/1.1\r\nHost: localhost:80\r\n", "\u{16}\u{3}\u{1}"] {
            assert_eq!(refused(head), "400 Bad Request", "{head:?}");
        }
    }

    #[test]
    fn heads_are_read_to_their_end_and_not_beyond_a_limit() {
        let text = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        assert_eq!(head(&mut text.as_bytes()).expect("it can be read"), text);
        let endless = head(&mut io::repeat(b'x')).expect("it can be read");
        assert!(endless.len() <= MOST_BYTES + 1024);
    }
}
