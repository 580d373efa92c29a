//! A real browser without a window: opens pages, clicks, types, takes screenshots.
//!
//! Chromium is driven through two pipes by its DevTools protocol: each message is a JSON object followed by a zero.

mod base64;
mod install;
mod pipe;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;
pub use install::is_root;
use pipe::Pipe;

/// The time limit of a command.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page. It ends when dropped.
#[derive(Debug)]
pub struct Browser {
    pipe: Pipe,
    session: String,
    /// The loader of the page that was loaded last.
    loaded: Value,
    problems: Vec<String>,
}

impl Browser {
    /// Starts Chromium with an empty page of `width` x `height` pixels; tries to install it if it is missing.
    ///
    /// # Errors
    /// The instruction to install it if it is missing, or the message of the browser.
    pub fn start(width: u32, height: u32) -> Result<Self> {
        let mut browser = Self {
            pipe: Pipe::open(&install::chromium()?)?,
            session: String::new(),
            loaded: Value::Null,
            problems: Vec::new(),
        };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", &attach)?;
        session["sessionId"].as_str().unwrap_or_default().clone_into(&mut browser.session);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable", "Network.enable"] {
            browser.call(domain, &json!({}))?;
        }
        browser.call("Page.setLifecycleEventsEnabled", &json!({"enabled": true}))?;
        browser.resize(width, height)?;
        Ok(browser)
    }

    /// Resizes the page, in pixels.
    ///
    /// # Errors
    /// The message of the browser.
    pub fn resize(&mut self, width: u32, height: u32) -> Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size).map(drop)
    }

    /// Sets the preferred colour scheme of the user: dark or light.
    ///
    /// # Errors
    /// The message of the browser.
    pub fn prefer_dark(&mut self, dark: bool) -> Result<()> {
        let value = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.call("Emulation.setEmulatedMedia", &features).map(drop)
    }

    /// Opens a file and waits until it is loaded and painted.
    ///
    /// # Errors
    /// The message of the browser.
    pub fn open(&mut self, file: &Path) -> Result<()> {
        self.open_at(file, "")
    }

    /// Opens a file with a fragment, which is empty or starts with "#", as [`Browser::open`].
    ///
    /// # Errors
    /// The message of the browser.
    pub fn open_at(&mut self, file: &Path, fragment: &str) -> Result<()> {
        let file = std::path::absolute(file).map_err(|error| error.to_string())?;
        // Another fragment of the page that is open would not load it again.
        self.navigate("about:blank")?;
        self.navigate(&format!("file://{}{fragment}", file.display()))?;
        // The `load` event may come before expressions are evaluated in the new page.
        self.wait_for("location.protocol === 'file:' && document.readyState === 'complete'")?;
        self.paint()
    }

    /// Opens the page of a server on this machine and waits until it is loaded and painted.
    ///
    /// # Errors
    /// The message of the browser.
    pub fn open_served(&mut self, url: &str) -> Result<()> {
        self.navigate("about:blank")?;
        self.navigate(url)?;
        self.wait_for("location.protocol === 'http:' && document.readyState === 'complete'")?;
        self.paint()
    }

    /// Loads a page and waits for its `load` event: a document that is not parsed yet already calls itself complete.
    fn navigate(&mut self, url: &str) -> Result<()> {
        let response = self.call("Page.navigate", &json!({"url": url}))?;
        if let Some(error) = response.get("errorText") {
            return Err(format!("{url}: {error}"));
        }
        let start = Instant::now();
        while self.loaded != response["loaderId"] {
            if start.elapsed() > PATIENCE {
                return Err(format!("{url} is not loaded"));
            }
            let message = self.pipe.receive(PATIENCE).map_err(|error| format!("{url}: {error}"))?;
            self.take_event(&message);
        }
        Ok(())
    }

    /// Waits for two frames.
    ///
    /// # Errors
    /// The message of the browser.
    pub fn paint(&mut self) -> Result<()> {
        let frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))";
        self.evaluate(frames).map(drop)
    }

    /// Evaluates a JavaScript expression in the page; waits for promises.
    ///
    /// # Errors
    /// The exception.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let what = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let response = self.call("Runtime.evaluate", &what)?;
        match response.get("exceptionDetails") {
            Some(details) => Err(format!("{expression}: {}", thrown(details))),
            None => Ok(response["result"]["value"].clone()),
        }
    }

    /// Waits until an expression is true.
    ///
    /// # Errors
    /// When it is not true within the time limit, or the exception.
    pub fn wait_for(&mut self, expression: &str) -> Result<()> {
        let start = Instant::now();
        while self.evaluate(expression)? != Value::Bool(true) {
            if start.elapsed() > PATIENCE {
                return Err(format!("{expression} has not come true"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Presses and releases a key, named as in `KeyboardEvent.key`: "a", "Enter", "ArrowLeft".
    ///
    /// # Errors
    /// The message of the browser.
    pub fn press(&mut self, key: &str) -> Result<()> {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Tab" => 9,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => 0,
        };
        let text = if key.chars().count() == 1 { key } else { "" };
        let down = json!({"type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": code});
        self.call("Input.dispatchKeyEvent", &down)?;
        self.call("Input.dispatchKeyEvent", &json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}))?;
        self.paint()
    }

    /// Types text into the element that has the focus.
    ///
    /// # Errors
    /// The message of the browser.
    pub fn type_text(&mut self, text: &str) -> Result<()> {
        self.call("Input.insertText", &json!({"text": text}))?;
        self.paint()
    }

    /// Moves the mouse to a place of the page.
    ///
    /// # Errors
    /// The message of the browser.
    pub fn point(&mut self, [x, y]: [f64; 2]) -> Result<()> {
        self.call("Input.dispatchMouseEvent", &json!({"type": "mouseMoved", "x": x, "y": y}))?;
        self.paint()
    }

    /// Clicks at a place of the page.
    ///
    /// # Errors
    /// The message of the browser.
    pub fn click(&mut self, [x, y]: [f64; 2]) -> Result<()> {
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", &event)?;
        }
        self.paint()
    }

    /// Presses the mouse at one place and releases it at another.
    ///
    /// # Errors
    /// The message of the browser.
    pub fn drag(&mut self, from: [f64; 2], to: [f64; 2]) -> Result<()> {
        for (kind, [x, y]) in [("mousePressed", from), ("mouseMoved", to), ("mouseReleased", to)] {
            let event = json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", &event)?;
        }
        self.paint()
    }

    /// Turns the wheel at a place of the page; up is negative.
    ///
    /// # Errors
    /// The message of the browser.
    pub fn wheel(&mut self, [x, y]: [f64; 2], delta: f64) -> Result<()> {
        let event = json!({"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": delta});
        self.call("Input.dispatchMouseEvent", &event)?;
        self.paint()
    }

    /// Takes a screenshot: PNG in base64.
    ///
    /// # Errors
    /// The message of the browser.
    pub fn screenshot(&mut self) -> Result<String> {
        let response = self.call("Page.captureScreenshot", &json!({"format": "png"}))?;
        response["data"].as_str().map(str::to_owned).ok_or_else(|| "the browser made no screenshot".to_owned())
    }

    /// Takes a screenshot: the bytes of a PNG.
    ///
    /// # Errors
    /// The message of the browser.
    pub fn png(&mut self) -> Result<Vec<u8>> {
        base64::decoded(&self.screenshot()?).ok_or_else(|| "the browser sent no base64".to_owned())
    }

    /// Counts the colours in a screenshot.
    ///
    /// # Errors
    /// The message of the browser.
    pub fn colours(&mut self) -> Result<u64> {
        let png = self.screenshot()?;
        // The browser decodes the PNG.
        let count = format!(
            "fetch('data:image/png;base64,{png}').then((answer) => answer.blob()).then(createImageBitmap).then((image) => {{
                const pen = new OffscreenCanvas(image.width, image.height).getContext('2d');
                pen.drawImage(image, 0, 0);
                return new Set(new Uint32Array(pen.getImageData(0, 0, image.width, image.height).data.buffer)).size;
            }})"
        );
        self.evaluate(&count)?.as_u64().ok_or_else(|| "the colours cannot be counted".to_owned())
    }

    /// Returns the problems of all pages so far: uncaught exceptions, errors and warnings in the console, and loads
    /// from other places.
    ///
    /// # Errors
    /// The message of the browser.
    pub fn problems(&mut self) -> Result<Vec<String>> {
        // Earlier events arrive before this response.
        self.evaluate("0")?;
        Ok(self.problems.clone())
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Result<Value> {
        let id = self.pipe.send(method, parameters, &self.session)?;
        loop {
            let message = self.pipe.receive(PATIENCE).map_err(|error| format!("{method}: {error}"))?;
            if message["id"] != id {
                self.take_event(&message);
            } else if let Some(error) = message.get("error") {
                return Err(format!("{method}: {}", error["message"]));
            } else {
                return Ok(message["result"].clone());
            }
        }
    }

    fn take_event(&mut self, event: &Value) {
        if event["method"] == "Page.lifecycleEvent" && event["params"]["name"] == "load" {
            self.loaded.clone_from(&event["params"]["loaderId"]);
        }
        self.problems.extend(problem(event));
    }
}

/// Describes the problem that an event reports, if any.
fn problem(event: &Value) -> Option<String> {
    let parameters = &event["params"];
    match event["method"].as_str()? {
        "Runtime.exceptionThrown" => Some(thrown(&parameters["exceptionDetails"])),
        "Log.entryAdded" => Some(parameters["entry"]["text"].to_string()),
        "Runtime.consoleAPICalled" if ["error", "warning", "assert"].contains(&parameters["type"].as_str()?) => {
            Some(parameters["args"].to_string())
        }
        "Network.requestWillBeSent" => {
            let url = parameters["request"]["url"].as_str()?;
            let is_own = ["file:", "data:", "blob:", "about:"].iter().any(|start| url.starts_with(start));
            (!is_own).then(|| format!("the page loads {url}"))
        }
        _ => None,
    }
}

fn thrown(details: &Value) -> String {
    let description = details["exception"]["description"].as_str();
    description.map_or_else(|| details["text"].to_string(), str::to_owned)
}
