//! A headless Chromium, driven through chromedriver on a port of its own.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, OnceLock, mpsc},
    time::{Duration, Instant},
};

use asynq_tests::PATIENCE;
use fantoccini::{
    Client, ClientBuilder, Locator,
    actions::{InputSource as _, KeyAction, KeyActions},
    elements::Element,
    error::CmdError,
    wd::WebDriverCompatibleCommand,
};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Why these tests are skipped. The list of accepted skips lacks this reason, so that a browser is required where `CI` is set.
pub(crate) const NO_BROWSER: &str =
    "there is no chromedriver here: apt-get install chromium-headless-shell chromium-driver";

/// Whether a browser can be started.
pub(crate) fn is_here() -> bool {
    static IS_HERE: OnceLock<bool> = OnceLock::new();
    let runs = || Command::new("chromedriver").arg("--version").output().is_ok_and(|output| output.status.success());
    *IS_HERE.get_or_init(runs)
}

/// The Chromium without windows, if it is installed: its processes start in a quarter of the time.
fn headless_shell() -> Option<&'static Path> {
    static SHELL: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let folders = std::env::var_os("PATH")?;
        std::env::split_paths(&folders).map(|folder| folder.join("chromium-headless-shell")).find(|path| path.exists())
    };
    SHELL.get_or_init(find).as_deref()
}

/// Ends chromedriver and its browser when the script's standard input ends, then removes the browser's files. chromedriver makes
/// the folder for them itself: with a given folder, the headless shell opens no first tab, and chromedriver would wait for one.
/// Ctrl+C signals the shell, too, which must outlive the test program for that. A killed Chromium may still write a file for a moment,
/// so the files are removed until all of them are gone.
const WATCH: &str = r#"trap "" INT TERM HUP; "$@" & pid=$!; read end; kill -9 $pid; pkill -9 -f -- "--user-data-dir=$TMPDIR"; wait
n=0; until rm -rf "$TMPDIR" || [ $n = 50 ]; do n=$((n + 1)); sleep 0.1; done"#;

/// Browsers that no test uses now: the start of one takes longer than most tests.
static IDLE: Mutex<Vec<Browser>> = Mutex::new(Vec::new());

/// A browser window. A test that ends without [`close`](Self::close) keeps other tests from using it.
pub(crate) struct Browser {
    client: Client,
    driver: Driver,
    logs_network: bool,
}

impl Browser {
    /// Returns a browser without any state. Starts chromedriver and Chromium if none is idle; both are in Debian's package
    /// `chromium-driver`, and a lighter browser is in `chromium-headless-shell`.
    pub(crate) async fn start() -> Self {
        let idle = IDLE.lock().unwrap().pop();
        match idle {
            Some(browser) => browser,
            None => Self::start_new(false).await,
        }
    }

    /// Starts a browser for [`network`](Self::network) that no other test gets: the log would cost each a twelfth of its time.
    pub(crate) async fn with_network_log() -> Self {
        Self::start_new(true).await
    }

    async fn start_new(logs_network: bool) -> Self {
        let (driver, port) = Driver::start();
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            "--lang=en-GB",
            "--window-size=1360,900",
            // The tab of the next test needs no new process, and no script of a page runs for so long that compiling it again pays.
            "--renderer-process-limit=1",
            "--js-flags=--no-opt --no-sparkplug --max-lazy",
            // A request to another host fails, also where the environment names a proxy, and is a complaint.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--no-proxy-server",
        ];
        let mut capabilities = json!({
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        if logs_network {
            capabilities["goog:chromeOptions"]["perfLoggingPrefs"] =
                json!({ "enableNetwork": true, "enablePage": false });
            capabilities["goog:loggingPrefs"]["performance"] = json!("ALL");
        }
        if let Some(shell) = headless_shell() {
            capabilities["goog:chromeOptions"]["binary"] = json!(shell);
        }
        let Value::Object(capabilities) = capabilities else { unreachable!("it is an object") };
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let client = builder.capabilities(capabilities).connect(&format!("http://127.0.0.1:{port}")).await;
        Self { client: client.expect("a browser session"), driver, logs_network }
    }

    /// Returns the browser to the pool without any state of this test; emulated settings end with the tab.
    pub(crate) async fn close(self) {
        if self.logs_network {
            return;
        }
        let old = self.client.windows().await.unwrap();
        let tab = self.client.new_window(true).await.unwrap();
        for window in old {
            self.client.switch_to_window(window).await.unwrap();
            self.client.close_window().await.unwrap();
        }
        self.client.switch_to_window(tab.handle).await.unwrap();
        self.chromium("Network.clearBrowserCookies", json!({})).await;
        self.chromium("Network.clearBrowserCache", json!({})).await;
        self.chromium("Storage.clearDataForOrigin", json!({ "origin": "*", "storageTypes": "all" })).await;
        self.log("browser").await;
        IDLE.lock().unwrap().push(self);
    }

    /// Opens a page and waits until its scripts have run.
    pub(crate) async fn open(&self, url: &str) {
        self.client.goto(url).await.unwrap();
    }

    /// Goes on in one more window beside those that are open.
    pub(crate) async fn another_window(&self) {
        let window = self.client.new_window(false).await.unwrap();
        self.client.switch_to_window(window.handle).await.unwrap();
    }

    /// Replaces the page as the pages themselves do at a notification, without loading a script again, and then returns the value
    /// of `script`, the body of a function.
    pub(crate) async fn turn_to(&self, path: &str, script: &str) -> Value {
        let path = json!(path);
        self.js(&format!(
            "history.replaceState(null, '', {path}); const app = document.querySelector('script[type=module]').src;
             return import(app.replace('app.js', 'live.js')).then((live) => live.refresh(true)).then(() => {{ {script} }})"
        ))
        .await
    }

    /// Runs the body of a function and returns its value.
    pub(crate) async fn js(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// The text of an element; empty if no element matches.
    pub(crate) async fn text(&self, css: &str) -> String {
        let found = self.js(&format!("return document.querySelector({})?.textContent ?? ''", json!(css))).await;
        found.as_str().unwrap_or_default().to_owned()
    }

    /// The number of matching elements.
    pub(crate) async fn count(&self, css: &str) -> u64 {
        self.js(&format!("return document.querySelectorAll({}).length", json!(css))).await.as_u64().unwrap()
    }

    /// Clicks as a person does: a hidden or covered element cannot be clicked.
    pub(crate) async fn click(&self, css: &str) {
        self.act(css, async |element| element.click().await).await;
    }

    /// Clicks as a mouse does that has clicked there `before` times just now.
    pub(crate) async fn click_again(&self, css: &str, before: u64) {
        let middle = format!(
            "const element = document.querySelector({}); element.scrollIntoView({{ block: 'center' }});
             const {{ x, y, width, height }} = element.getBoundingClientRect(); return [x + width / 2, y + height / 2]",
            json!(css)
        );
        let at = self.js(&middle).await;
        for event in ["mousePressed", "mouseReleased"] {
            let parameters =
                json!({ "type": event, "x": at[0], "y": at[1], "button": "left", "clickCount": before + 1 });
            self.chromium("Input.dispatchMouseEvent", parameters).await;
        }
    }

    /// Presses keys at the current focus.
    pub(crate) async fn press(&self, keys: &str) {
        // Keys of the keyboard go to the focus. Keys sent to an element are refused while it is not shown yet, as a
        // dialog is for a moment after it has opened.
        let down_and_up = keys.chars().flat_map(|value| [KeyAction::Down { value }, KeyAction::Up { value }]);
        let keys = down_and_up.fold(KeyActions::new("keyboard".to_owned()), KeyActions::then);
        self.client.perform_actions(keys).await.unwrap();
    }

    /// Replaces the text of a field.
    pub(crate) async fn fill(&self, css: &str, text: &str) {
        let replace = async |field: Element| {
            field.clear().await?;
            // A page may take an emptied field away at once.
            if text.is_empty() { Ok(()) } else { field.send_keys(text).await }
        };
        self.act(css, replace).await;
    }

    /// Acts on an element once it is there and laid out.
    async fn act(&self, css: &str, act: impl AsyncFn(Element) -> Result<(), CmdError>) {
        let begun = Instant::now();
        loop {
            let found = self.client.wait().at_most(PATIENCE).for_element(Locator::Css(css)).await;
            let element = found.unwrap_or_else(|error| panic!("{css}: {error}"));
            match act(element).await {
                Ok(()) => return,
                // The page was redrawn between the search and the act, or is not laid out yet.
                Err(error)
                    if (error.is_stale_element_reference() || error.is_element_not_interactable())
                        && begun.elapsed() < PATIENCE => {}
                Err(error) => panic!("{css}: {error}"),
            }
        }
    }

    /// Waits until an expression is true.
    ///
    /// The page itself looks every 25 ms, because a command to the browser costs milliseconds of a processor. A command ends after
    /// some forty looks.
    pub(crate) async fn until(&self, expression: &str) {
        self.until_after("", expression).await;
    }

    /// Waits until an expression is true on a page that refreshes itself now and each second, as it does when it is notified: a
    /// notification comes every five seconds. A test of what an open page learns by itself waits with [`until`](Self::until).
    pub(crate) async fn until_refreshed(&self, expression: &str) {
        // The listener of this event refreshes the page, as that of a notification does.
        self.until_after("document.dispatchEvent(new Event('visibilitychange'));", expression).await;
    }

    /// Waits until an expression is true; each command runs the statement `first`.
    async fn until_after(&self, first: &str, expression: &str) {
        let begun = Instant::now();
        let looks = format!(
            "{first}
             return new Promise((done) => {{
                 const look = (left) => {{
                     try {{ if ({expression}) return done(true); }} catch {{}}
                     if (left > 0) setTimeout(look, 25, left - 1); else done(false);
                 }};
                 look(40);
             }})"
        );
        loop {
            // A page that is being left does not answer.
            let answer = self.client.execute(&looks, Vec::new()).await;
            if matches!(answer, Ok(Value::Bool(true))) {
                return;
            }
            if begun.elapsed() > PATIENCE {
                let page = self.js("return document.body.innerText").await;
                let complaints = self.complaints().await;
                panic!(
                    "never true: {expression}\nat {}\n{complaints:#?}\n{page:#}",
                    self.client.current_url().await.unwrap()
                );
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// The path and the query of the window's address.
    pub(crate) async fn path(&self) -> String {
        self.js("return location.pathname + location.search").await.as_str().unwrap().to_owned()
    }

    /// Sends a command of Chromium's own protocol.
    pub(crate) async fn chromium(&self, command: &'static str, parameters: Value) -> Value {
        let body = json!({ "cmd": command, "params": parameters });
        self.client.issue_cmd(Extra { path: "goog/cdp/execute", body }).await.unwrap()
    }

    /// The entries of a log since the last call: `browser` or `performance`.
    pub(crate) async fn log(&self, name: &str) -> Vec<Value> {
        let log = self.client.issue_cmd(Extra { path: "se/log", body: json!({ "type": name }) }).await.unwrap();
        log.as_array().cloned().unwrap_or_default()
    }

    /// The complaints of the pages since the last call, above all refused content and requests to other hosts.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let message = |entry: &Value| entry["message"].as_str().unwrap_or_default().to_owned();
        self.log("browser").await.iter().map(message).collect()
    }

    /// The network's events since the last call, of a browser [`with_network_log`](Self::with_network_log).
    pub(crate) async fn network(&self) -> Vec<Value> {
        let parse = |entry: Value| serde_json::from_str::<Value>(entry["message"].as_str()?).ok();
        self.log("performance").await.into_iter().filter_map(parse).map(|event| event["message"].clone()).collect()
    }

    /// Sets the size of a phone, or with `None` that of a desktop.
    pub(crate) async fn screen(&self, size: Option<(u32, u32)>) {
        match size {
            Some((width, height)) => {
                let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": true });
                self.chromium("Emulation.setDeviceMetricsOverride", size).await;
            }
            None => _ = self.chromium("Emulation.clearDeviceMetricsOverride", json!({})).await,
        }
    }

    /// Sets the colour scheme that the system prefers: `light` or `dark`.
    pub(crate) async fn prefer(&self, scheme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.chromium("Emulation.setEmulatedMedia", features).await;
    }

    /// Takes a picture of the window as a PNG.
    pub(crate) async fn picture(&self) -> Vec<u8> {
        self.client.screenshot().await.unwrap()
    }
}

/// How often chromedriver is started: it takes a free port for IPv4 and ends when another program has that port for IPv6.
const STARTS: usize = 5;

/// A running chromedriver. It ends with the test program however that ends: a `static` is never dropped.
struct Driver {
    watcher: Child,
    /// Dropping this pipe ends chromedriver.
    control: Option<ChildStdin>,
    /// The folder of the browser's files.
    profile: PathBuf,
}

impl Driver {
    /// Starts chromedriver and returns it with its port.
    fn start() -> (Self, u16) {
        let mut printed = Vec::new();
        for _ in 0..STARTS {
            // A start that fails removes its folder.
            let profile = TempDir::new().unwrap().keep();
            let mut watcher = Command::new("sh")
                .args(["-c", WATCH, "sh", "chromedriver", "--port=0"])
                .env("TMPDIR", &profile)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("sh can be run");
            let (control, stdout) = (watcher.stdin.take(), watcher.stdout.take().unwrap());
            let driver = Self { watcher, control, profile };
            match port_of(stdout) {
                Ok(port) => return (driver, port),
                Err(lines) => printed.extend(lines),
            }
        }
        panic!("chromedriver ended {STARTS} times at its start: {printed:#?}")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.control.take());
        let _ = self.watcher.wait();
    }
}

/// The port that chromedriver prints, or all its lines if it ends before that.
fn port_of(stdout: ChildStdout) -> Result<u16, Vec<String>> {
    let lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let (sender, receiver) = mpsc::channel();
    // The thread reads to the end: an unread pipe would fill up and block chromedriver.
    std::thread::spawn(move || lines.for_each(|line| _ = sender.send(line)));
    let (end, mut printed) = (Instant::now() + PATIENCE, Vec::new());
    while let Ok(line) = receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
        if line.contains("started successfully on port")
            && let Some(port) = line.trim_end_matches('.').rsplit(' ').next().and_then(|port| port.parse().ok())
        {
            return Ok(port);
        }
        printed.push(line);
    }
    Err(printed)
}

/// A command beyond those of WebDriver.
#[derive(Debug)]
struct Extra {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Extra {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.body.to_string()))
    }
}

#[test]
fn a_browser_leaves_no_files_also_after_a_signal_to_its_whole_group() {
    crate::wait(async {
        let browser = Browser::start_new(false).await;
        let profile = browser.driver.profile.clone();
        assert!(profile.exists());
        asynq_test_support::process::signal("INT", browser.driver.watcher.id());
        drop(browser);
        assert!(!profile.exists(), "{} is left over", profile.display());
    });
}

#[test]
fn a_request_to_another_host_is_a_complaint() {
    crate::wait(async {
        let browser = Browser::start().await;
        browser.open("data:text/html,<img src=http://other.example/x>").await;
        let complaints = browser.complaints().await;
        assert!(complaints.iter().any(|message| message.contains("net::ERR_NAME_NOT_RESOLVED")), "{complaints:?}");
        browser.close().await;
    });
}
