//! A campaign with everything that can happen to one, through `thermolab report`: verdicts in the right words, points
//! that count for nothing listed, warnings given, and one page that a browser shows.

use hdrhistogram::Histogram;
use serde_json::json;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use thermocline_lab::histogram::{latency_histogram, to_text};
use thermocline_lab::point::{EnvironmentLine, Line, Planned, PointLine, RunLine, Status, SCHEMA};
use thermocline_lab::workload::Random;

const EXPERIMENT: &str = r#"
question = "Does generational reclaim serve more operations a second than LRU?"
[[arm]]
name = "lru"
[[arm]]
name = "lru-again"
[[arm]]
name = "gen-duel"
[[arm]]
name = "<b>fifo</b>"
[[compare]]
metric = "ops_per_s"
baseline = "lru"
better = "higher"
smallest_effect_percent = 1.5
[[compare]]
metric = "service_ns_p99"
baseline = "lru"
arms = ["gen-duel"]
better = "lower"
"#;
const ARMS: [(&str, &str, f64); 4] = [
    ("lru", "lru", 1.0),
    ("lru-again", "lru", 1.0),
    ("gen-duel", "gen-duel", 1.06),
    ("<b>fifo</b>", "fifo", 0.93),
];
const SIZES: [&str; 3] = ["64MiB", "128MiB", "512MiB"];
const BLOCKS: usize = 8;

/// About normal, mean 0, deviation 1.
fn noise(random: &mut Random) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

fn latencies(random: &mut Random, middle: f64) -> Histogram<u64> {
    let mut histogram = latency_histogram();
    for _ in 0..5000 {
        let long = if random.below(200) == 0 { 20.0 } else { 1.0 };
        let ns = middle * long * (0.25 * noise(random)).exp();
        histogram.saturating_record(ns as u64);
    }
    histogram
}

fn point(index: usize, block: usize, arm: usize, size: usize, random: &mut Random) -> PointLine {
    let (name, policy, factor) = ARMS[arm];
    let speed = factor * (1.0 + 0.3 * size as f64) * (1.0 + 0.006 * noise(random));
    let histogram = latencies(random, 2000.0 / speed);
    let line = |start: f64, end: f64, random: &mut Random| -> Vec<(f64, f64)> {
        (0..40)
            .map(|i| {
                let t = f64::from(i) * 0.25;
                (
                    t,
                    end + (start - end) * (-t / 2.0).exp() + 0.01 * end * noise(random),
                )
            })
            .collect()
    };
    PointLine {
        index,
        block,
        arm: name.into(),
        params: [
            ("subject.memory".to_string(), json!(SIZES[size])),
            ("subject.policy".to_string(), json!(policy)),
        ]
        .into(),
        end: "duration".into(),
        started: "2026-11-30T12:00:00Z".into(),
        seconds: 10.0,
        metrics: [
            ("ops_per_s".to_string(), 70_000.0 * speed),
            ("hit_ratio".into(), 0.6 + 0.1 * size as f64),
            (
                "service_ns_p99".into(),
                histogram.value_at_quantile(0.99) as f64,
            ),
        ]
        .into(),
        series: [
            (
                "hit_ratio".to_string(),
                line(0.0, 0.6 + 0.1 * size as f64, random),
            ),
            (
                "rss_bytes".into(),
                line(2e6, 6e7 * (1 + size) as f64, random),
            ),
            ("major_faults".into(), line(900.0, 30.0, random)),
            ("psi_memory_some_us".into(), line(1e5, 2e4, random)),
        ]
        .into(),
        histograms: [("service_ns".to_string(), to_text(&histogram).unwrap())].into(),
        environment: "e1".into(),
        ..PointLine::default()
    }
}

/// `change` may spoil points before they are written.
fn campaign(directory: &Path, change: impl Fn(&mut PointLine)) {
    let mut random = Random::new(2026);
    let mut points = Vec::new();
    for block in 0..BLOCKS {
        // Arms in a turning order, so that none is always first.
        for turn in 0..ARMS.len() * SIZES.len() {
            let place = (turn + block * 5) % (ARMS.len() * SIZES.len());
            let (arm, size) = (place % ARMS.len(), place / ARMS.len());
            let mut point = point(points.len(), block, arm, size, &mut random);
            change(&mut point);
            points.push(point);
        }
    }
    let run = RunLine {
        schema: SCHEMA,
        experiment: "policies-over-memory".into(),
        experiment_text: EXPERIMENT.into(),
        experiment_sha256: "00112233445566778899".into(),
        seed: 7,
        planned: points
            .iter()
            .map(|p| Planned {
                index: p.index,
                block: p.block,
                arm: p.arm.clone(),
                params: p.params.clone(),
            })
            .collect(),
        started: "2026-11-30T12:00:00Z".into(),
        thermolab_version: "0.1.0".into(),
    };
    let environment = EnvironmentLine {
        hash: "e1".into(),
        groups: [(
            "1 kernel".to_string(),
            [("release".to_string(), json!("6.1.0"))].into(),
        )]
        .into(),
    };
    let lines = [Line::Run(run), Line::Environment(environment)];
    let points = points.into_iter().map(Line::Point);
    let text: String = lines
        .into_iter()
        .chain(points)
        .map(|line| serde_json::to_string(&line).unwrap() + "\n")
        .collect();
    std::fs::write(directory.join("points.jsonl"), text).unwrap();
}

fn thermolab(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_thermolab"))
        .args(args)
        .output()
        .expect("thermolab starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn report(directory: &Path) -> String {
    thermolab(&["report", directory.to_str().unwrap()])
}

/// Lines of the terminal's verdict table that speak of this arm.
fn verdicts<'a>(text: &'a str, metric: &str, arm: &str) -> Vec<&'a str> {
    let of = |line: &&str| line.starts_with(metric) && line.contains(&format!("  {arm}  "));
    text.lines().filter(of).collect()
}

#[test]
fn the_four_words_are_given_where_they_are_due() {
    let directory = tempfile::tempdir().unwrap();
    campaign(directory.path(), |_| {});
    let text = report(directory.path());
    let all = |metric: &str, arm: &str, word: &str| {
        let lines = verdicts(&text, metric, arm);
        assert_eq!(lines.len(), SIZES.len(), "{arm} in\n{text}");
        assert!(
            lines.iter().all(|line| line.trim_end().ends_with(word)),
            "{lines:#?}"
        );
    };
    all("operations per second", "gen-duel", "better");
    all("operations per second", "<b>fifo</b>", "worse");
    all("operations per second", "lru-again", "equivalent");
    assert!(text.contains("A/A arms (`lru` / `lru-again`)"), "{text}");
    assert!(text.contains("none shown"), "no drift was put in:\n{text}");
}

#[test]
fn what_counts_for_nothing_is_listed_and_changes_no_mean() {
    let spoilt = tempfile::tempdir().unwrap();
    campaign(spoilt.path(), |point| {
        let first = point.block == 0;
        match (point.arm.as_str(), first) {
            ("lru", true) => {
                point.status = Status::Failed;
                point.reason = Some("the server died: signal 9".into());
            }
            ("gen-duel", true) => {
                point.status = Status::DidNotComplete;
                point.reason = Some("40 of 100 M operations".into());
            }
            _ => return,
        }
        // Absurd, and in no mean.
        point.metrics.insert("ops_per_s".into(), 1.0);
    });
    let text = report(spoilt.path());
    assert!(
        text.contains("3 points failed: listed")
            && text.contains("3 points did not complete: listed"),
        "{text}"
    );
    assert!(text.contains("the server died: signal 9"), "{text}");
    assert!(text.contains("40 of 100 M operations"), "{text}");
    assert!(text.contains("7 / 7"), "{text}");
    // One death in eight does not take the ranks' word back.
    let lines = verdicts(&text, "operations per second", "gen-duel");
    let all_better = lines.iter().all(|line| line.trim_end().ends_with("better"));
    assert!(lines.len() == 3 && all_better, "{lines:#?}");
    // Lines are wrapped: compare words.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("did not complete. Means are of those that did"),
        "{text}"
    );
}

#[test]
fn drift_outliers_and_sets_of_environments_are_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    campaign(directory.path(), |point| {
        let drifted = 1.0 + 0.05 * point.index as f64 / 96.0;
        let far = if point.index == 40 { 0.5 } else { 1.0 };
        if let Some(ops) = point.metrics.get_mut("ops_per_s") {
            *ops *= drifted * far;
        }
        point.warnings.push("client CPU above 80 %".into());
    });
    let text = report(directory.path());
    let line = |part: &str| text.contains(part);
    assert!(line("! Drift of operations per second"), "{text}");
    assert!(line("Point 40 of"), "{text}");
    assert!(line("96 points warn: client CPU above 80 %"), "{text}");
}

#[test]
fn a_torn_file_is_read_and_said_to_be_torn() {
    let directory = tempfile::tempdir().unwrap();
    campaign(directory.path(), |_| {});
    let file = directory.path().join("points.jsonl");
    let text = std::fs::read(&file).unwrap();
    std::fs::write(&file, &text[..text.len() - 1000]).unwrap();
    let text = report(directory.path());
    assert!(text.contains("the last line is torn"), "{text}");
    assert!(
        text.contains("1 of 96 planned points were not taken"),
        "{text}"
    );
}

#[test]
fn two_runs_are_compared_arm_by_arm() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    campaign(a.path(), |_| {});
    campaign(b.path(), |point| {
        if let Some(ops) = point.metrics.get_mut("ops_per_s") {
            *ops *= 1.1;
        }
    });
    let out = tempfile::tempdir().unwrap();
    let text = thermolab(&[
        "compare",
        a.path().to_str().unwrap(),
        b.path().to_str().unwrap(),
        "--metric",
        "ops_per_s",
        "--out",
        out.path().to_str().unwrap(),
    ]);
    let better = text
        .lines()
        .filter(|line| line.trim_end().ends_with("better"))
        .count();
    assert_eq!(better, ARMS.len() * SIZES.len(), "{text}");
    assert!(text.contains("not interleaved"), "{text}");
    assert!(out.path().join("report.html").exists());
}

#[test]
fn a_browser_shows_the_page() {
    let directory = tempfile::tempdir().unwrap();
    campaign(directory.path(), |point| {
        if point.index == 40 {
            point.status = Status::Refused;
            point.reason = Some("needs root".into());
        }
    });
    report(directory.path());
    let markdown = std::fs::read_to_string(directory.path().join("report.md")).unwrap();
    assert!(markdown.contains("| operations per second |") && !markdown.contains("<b>fifo"));
    let page = directory.path().join("report.html");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(!html.contains("<script") && !html.contains("<b>fifo"));
    assert!(
        !html.contains("src=") && !html.contains("href="),
        "the page fetches something"
    );
    let pictures = html.matches("<svg ").count();
    assert!(pictures >= 9, "{pictures} pictures");
    let Some(browser) = browser() else {
        let why = "no chromium on this machine (scripts/test installs it)";
        assert!(
            std::env::var("THERMOCLINE_REQUIRE_CLIENTS").as_deref() != Ok("1"),
            "{why}"
        );
        println!("skipped: {why}");
        return;
    };
    let dom = run_browser(&browser, directory.path(), &["--dump-dom"], &page);
    let dom = String::from_utf8_lossy(&dom).into_owned();
    // What the parser kept: every picture and table, closed where they were meant to be.
    assert_eq!(dom.matches("<svg ").count(), pictures);
    assert_eq!(dom.matches("</figure>").count(), pictures);
    assert!(
        dom.trim_end().ends_with("</body></html>") || dom.contains("</main>"),
        "the page is cut"
    );
    for scheme in ["light", "dark"] {
        let shot = directory.path().join(format!("{scheme}.png"));
        let to = format!("--screenshot={}", shot.display());
        let mode = if scheme == "dark" {
            "--blink-settings=preferredColorScheme=0"
        } else {
            "--hide-scrollbars"
        };
        run_browser(
            &browser,
            directory.path(),
            &[&to, mode, "--window-size=1100,5000"],
            &page,
        );
        let (pixels, lively) = picture(&shot);
        assert!(pixels > 4_000_000, "{scheme}: {pixels} pixels");
        assert!(
            lively > 0.01,
            "{scheme}: {lively} of the page is anything but blank"
        );
        if let Ok(keep) = std::env::var("KEEP_SHOTS") {
            std::fs::copy(&shot, Path::new(&keep).join(format!("{scheme}.png"))).unwrap();
            std::fs::copy(&page, Path::new(&keep).join("report.html")).unwrap();
        }
    }
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut all = std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name)));
    all.find(|program| program.is_file())
}

fn run_browser(browser: &Path, home: &Path, args: &[&str], page: &Path) -> Vec<u8> {
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .arg(format!(
            "--user-data-dir={}",
            home.join("profile").display()
        ))
        .args(args)
        .arg(format!("file://{}", page.display()))
        .env("HOME", home)
        .output()
        .expect("the browser starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Pixels of a PNG, and the share of its bytes that differ from what stands left of or above them. A blank page has
/// next to none.
fn picture(path: &Path) -> (usize, f64) {
    let bytes = std::fs::read(path).expect("the browser wrote a picture");
    assert_eq!(&bytes[1..4], b"PNG");
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (width, height) = (word(16), word(20));
    let mut packed = Vec::new();
    let mut at = 8;
    while at + 8 < bytes.len() {
        let length = word(at);
        if &bytes[at + 4..at + 8] == b"IDAT" {
            packed.extend_from_slice(&bytes[at + 8..at + 8 + length]);
        }
        at += length + 12;
    }
    let mut rows = Vec::new();
    flate2::read::ZlibDecoder::new(packed.as_slice())
        .read_to_end(&mut rows)
        .unwrap();
    let live = rows.iter().filter(|byte| **byte != 0).count();
    // Unfiltered rows hold the colours themselves: count changes from pixel to pixel there.
    let line = rows.len() / height;
    let raw = rows.chunks(line).filter(|row| row[0] == 0).count() > height / 2;
    let live = if raw {
        rows.windows(5).filter(|w| w[0] != w[4]).count()
    } else {
        live
    };
    (width * height, live as f64 / rows.len() as f64)
}
