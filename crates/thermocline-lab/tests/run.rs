//! Whole runs through the binary: an experiment on the embedded engine, killed in its middle and resumed; and what
//! `check` and `list` say.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use thermocline_lab::histogram::from_text;
use thermocline_lab::point::{Results, Status, POINTS_FILE};

const EXPERIMENT: &str = r#"
question = "Does a run survive being killed?"
[subject]
memory = "16MiB"
[workload]
keys = 200_000
popularity = "zipf:0.9"
[[arm]]
name = "ours"
subject.kind = "thermocline"
[[arm]]
name = "quick_cache"
subject.kind = "quick_cache"
[plan]
repeats = 3
workers = 1
warmup = "200ms"
duration = "1s"
[[compare]]
baseline = "quick_cache"
"#;

fn thermolab(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thermolab"));
    command.args(args).stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("thermolab-e2e-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn points(dir: &Path) -> usize {
    Results::read(dir).map_or(0, |results| results.points.len())
}

#[test]
fn a_run_on_the_embedded_engine_is_killed_and_resumed() {
    let dir = scratch("killed");
    let file = dir.join("killed.toml");
    std::fs::write(&file, EXPERIMENT).unwrap();
    let out = dir.join("run");
    let (file, out_text) = (file.to_str().unwrap(), out.to_str().unwrap());
    let mut run = thermolab(&["run", file, "--out", out_text])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while points(&out) < 2 {
        assert!(
            start.elapsed() < Duration::from_secs(120),
            "no second point"
        );
        assert!(run.try_wait().unwrap().is_none(), "the run ended by itself");
        std::thread::sleep(Duration::from_millis(50));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    let before = Results::read(&out).unwrap();
    assert!(before.points.len() < 6, "killed too late to see anything");
    // Half a line, as a crash of the machine may leave it.
    let path = out.join(POINTS_FILE);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"kind\":\"point\",\"index\":5,\"arm\":\"ou");
    std::fs::write(&path, bytes).unwrap();

    let resumed = thermolab(&["resume", out_text]).output().unwrap();
    assert!(resumed.status.success(), "{}", said(&resumed));
    assert!(
        said(&resumed).contains("the last line is torn"),
        "{}",
        said(&resumed)
    );
    let results = Results::read(&out).unwrap();
    let indices: Vec<usize> = results.points.iter().map(|point| point.index).collect();
    assert_eq!(indices, [0, 1, 2, 3, 4, 5]);
    assert_eq!(results.points[..before.points.len()], before.points[..]);
    for (point, planned) in results.points.iter().zip(&results.run.planned) {
        assert_eq!(point.arm, planned.arm);
        assert_eq!(point.status, Status::Ok, "{:?}", point.reason);
        let m = &point.metrics;
        assert!(
            m["ops_per_s"] > 1000.0 && m["hit_ratio"] > 0.1 && m["hit_ratio"] < 1.0,
            "{m:?}"
        );
        assert!(
            m["operations_total"] > 1000.0 && m["wrong_total"] == 0.0,
            "{m:?}"
        );
        assert!(
            m["loaded_total"] == 200_000.0 && m["peak_rss_bytes"] > 16e6,
            "{m:?}"
        );
        assert_eq!(point.end, "duration");
        assert!(point.seconds >= 1.0 && point.series.contains_key("ops_per_s"));
        let service = from_text(&point.histograms["service_ns"]).unwrap();
        assert!(service.len() > 100);
        let environment = results.environment_of(point).expect("recorded");
        assert!(!environment.groups.is_empty());
    }
    let again = thermolab(&["run", file, "--out", out_text])
        .output()
        .unwrap();
    assert!(!again.status.success() && said(&again).contains("thermolab resume"));
    an_exported_run_is_an_experiment(&dir, out_text);
    std::fs::remove_dir_all(dir).unwrap();
}

fn an_exported_run_is_an_experiment(dir: &Path, run: &str) {
    let bundle = dir.join("exported.json");
    let name = bundle.to_str().unwrap();
    let exported = thermolab(&["export", run, "--out", name]).output().unwrap();
    assert!(exported.status.success(), "{}", said(&exported));
    let plan = thermolab(&["run", name, "--dry-run"]).output().unwrap();
    let text = said(&plan);
    assert!(plan.status.success(), "{text}");
    assert!(
        text.contains("Does a run survive") && text.contains("block   2"),
        "{text}"
    );
    assert!(
        text.contains("declared fields match"),
        "the same machine: {text}"
    );
    // A file that the experiment names must be there as it was.
    let mut json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&bundle).unwrap()).unwrap();
    json["files"]["no/such.properties"] = "recordcount=1".into();
    std::fs::write(&bundle, json.to_string()).unwrap();
    let refused = thermolab(&["run", name, "--dry-run"]).output().unwrap();
    assert!(!refused.status.success());
    assert!(
        said(&refused).contains("`no/such.properties`"),
        "{}",
        said(&refused)
    );
}

#[test]
fn check_and_list_say_what_is_there() {
    let dir = scratch("check");
    let (good, bad) = (dir.join("good.toml"), dir.join("bad.toml"));
    std::fs::write(&good, EXPERIMENT).unwrap();
    std::fs::write(&bad, EXPERIMENT.replace("workers", "worker")).unwrap();
    let (good, bad) = (good.to_str().unwrap(), bad.to_str().unwrap());
    let checked = thermolab(&["check", good, bad]).output().unwrap();
    assert!(!checked.status.success());
    let text = said(&checked);
    assert!(
        text.contains("2 arms, 6 points") && text.contains("warning: "),
        "{text}"
    );
    assert!(text.contains("line 16: `plan.worker`"), "{text}");
    assert!(text.contains("did you mean `workers`?"), "{text}");
    let listed = thermolab(&["list", dir.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(said(&listed).contains("good: Does a run survive being killed?"));
    let plan = thermolab(&["run", good, "--dry-run"]).output().unwrap();
    assert!(
        plan.status.success() && said(&plan).contains("block   2"),
        "{}",
        said(&plan)
    );
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn the_shipped_experiments_are_right() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut command = thermolab(&["check"]);
    let mut count = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            command.arg(path);
            count += 1;
        }
    }
    let checked = command.current_dir(dir.join("..")).output().unwrap();
    assert!(count > 0 && checked.status.success(), "{}", said(&checked));
}

#[test]
fn the_docs_first_experiment_is_right_as_it_stands_there() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/measuring.md");
    let page = std::fs::read_to_string(page).unwrap();
    let block = page.split("```toml\n").nth(1).unwrap();
    let text = block.split("```").next().unwrap();
    let lines = text.lines().count();
    assert!(lines <= 10, "{lines} lines: ten were promised");
    let dir = scratch("docs");
    let file = dir.join("mine.toml");
    std::fs::write(&file, text).unwrap();
    let checked = thermolab(&["check", "--strict", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", said(&checked));
    std::fs::remove_dir_all(dir).unwrap();
}

/// Where we may not set it, the same plan says so.
#[test]
fn a_dry_run_says_what_would_change_for_each_arm() {
    let dir = scratch("foretold");
    let file = dir.join("knob.toml");
    let knobs = "[[arm]]\nname = \"hot\"\nmachine.swappiness = 61\n[[arm]]\nname = \"plain\"\n\
                 [[arm]]\nname = \"odd\"\nmachine.vm.no_such_setting = 1\n";
    let text = format!("question = \"?\"\nsubject.kind = \"null\"\n{knobs}");
    std::fs::write(&file, text).unwrap();
    let before = std::fs::read_to_string("/proc/sys/vm/swappiness").unwrap();
    let plan = thermolab(&["run", file.to_str().unwrap(), "--dry-run"])
        .output()
        .unwrap();
    let text = said(&plan);
    assert!(plan.status.success(), "{text}");
    let changed = format!(
        "would change for hot: /proc/sys/vm/swappiness: {} -> 61",
        before.trim()
    );
    let refused = "would be refused: hot: machine.swappiness needs root";
    assert!(text.contains(&changed) || text.contains(refused), "{text}");
    assert!(text.contains("would be refused: odd: "), "{text}");
    assert!(
        !text.contains("for plain") && !text.contains("refused: plain"),
        "{text}"
    );
    let after = std::fs::read_to_string("/proc/sys/vm/swappiness").unwrap();
    assert_eq!(before, after);
    std::fs::remove_dir_all(dir).unwrap();
}
