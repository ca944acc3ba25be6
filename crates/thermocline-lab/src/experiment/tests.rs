//! Files that are right, and files that are not, with what is said of them.

use super::*;
use crate::stats::Better;

const GOOD: &str = r#"
question = "Does size matter?"
[subject]
kind = "thermocline"
memory = "32MiB"
[workload]
keys = 100000
[matrix]
"subject.objective" = ["balanced", "bytes"]
[plan]
repeats = 4
warmup = "1s"
duration = "10s"
[[compare]]
baseline = "objective=balanced"
smallest_effect_percent = 2
"#;

#[test]
fn a_file_becomes_arms_points_and_comparisons() {
    let experiment = Experiment::parse("good", GOOD).unwrap();
    assert_eq!(experiment.arms.len(), 2);
    let points = experiment.points().unwrap();
    assert_eq!(points.len(), 8);
    let resolved = experiment.resolve(&points[0].params).unwrap();
    assert!(resolved.subject.contains_key("objective"));
    assert_eq!(resolved.setup.warmup.as_secs(), 1);
    let comparison = &experiment.comparisons[0];
    assert_eq!(comparison.arms, ["objective=bytes"]);
    assert_eq!(comparison.better, Better::Higher);
}

#[test]
fn mistakes_are_told_with_line_and_suggestion() {
    for (from, to, said) in [
        ("memory =", "memroy =", "line 5: `subject.memroy`"),
        (
            "[subject]",
            "[subjet]",
            "line 3: `subjet`: unknown name `subjet`; did you mean `subject`?",
        ),
        ("warmup =", "warmpu =", "line 12: `plan.warmpu`"),
        (
            "keys = 100000",
            "keys = \"many\"",
            "line 7: `workload.keys`",
        ),
        ("\"bytes\"]", "\"byte\"]", "line 9: `subject.objective`"),
        (
            "\"thermocline\"",
            "\"thermoclin\"",
            "did you mean `thermocline`",
        ),
        (
            "repeats = 4",
            "repeats = 4\nblocks = 3",
            "line 12: `plan.blocks`",
        ),
        (
            "baseline = \"objective=balanced\"",
            "baseline = \"objective=balance\"",
            "did you mean",
        ),
        (
            "question = \"Does size matter?\"",
            "",
            "`question` is missing",
        ),
        ("[plan]", "[plan]\nrepeats = 3", "line 1"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let error = Experiment::parse("bad", &GOOD.replacen(from, to, 1));
        let error = format!("{:#}", error.err().expect(to));
        assert!(error.contains(said), "{to}: `{error}` lacks `{said}`");
    }
}

#[test]
fn an_arm_may_not_change_the_plan_itself() {
    let text = GOOD.replace(
        "[matrix]\n\"subject.objective\" = [\"balanced\", \"bytes\"]",
        "[[arm]]\nname = \"objective=balanced\"\nplan.repeats = 9\n[[arm]]\nname = \"b\"",
    );
    let error = format!("{:#}", Experiment::parse("bad", &text).err().unwrap());
    assert!(error.contains("plan.repeats"), "{error}");
}

#[test]
fn an_aa_arm_is_the_baseline_again() {
    let text = GOOD.replace("repeats = 4", "repeats = 4\naa = true");
    let experiment = Experiment::parse("aa", &text).unwrap();
    assert_eq!(experiment.arms.len(), 3);
    assert_eq!(experiment.arms[2].params, experiment.arms[0].params);
    assert_eq!(experiment.comparisons[1].family, "A/A");
    assert_eq!(
        experiment.comparisons[1].arms,
        [experiment.arms[2].name.clone()]
    );
}

#[test]
fn traps_are_warned_of() {
    let said = |text: &str| lint::warnings(&Experiment::parse("x", text).unwrap()).unwrap();
    assert!(said(GOOD).iter().any(|w| w.contains("4 runs an arm")));
    for (from, to, warning) in [
        ("repeats = 4", "repeats = 1", "nothing can be concluded"),
        ("warmup = \"1s\"", "warmup = 0", "no warm-up"),
        (
            "duration = \"10s\"",
            "duration = \"10s\"\noperations = 1000",
            "cause of the",
        ),
        (
            "duration = \"10s\"",
            "duration = \"1s\"",
            "measured part is 1.0 s",
        ),
        ("keys = 100000", "keys = 1000", "nothing is evicted"),
        (
            "smallest_effect_percent = 2",
            "",
            "without `smallest_effect_percent`",
        ),
        ("repeats = 4", "repeats = 5\norder = \"abba\"", "odd number"),
        (
            "[plan]",
            "[plan]\nload = false",
            "neither loaded nor filled",
        ),
    ] {
        let mut text = GOOD.replacen(from, to, 1);
        if warning.contains("neither") {
            text = text.replace("[workload]", "fill = false\n[workload]");
        }
        let warnings = said(&text);
        assert!(
            warnings.iter().any(|w| w.contains(warning)),
            "{warning}: {warnings:?}"
        );
    }
    let closed = "question = \"q\"\n[subject]\nkind = \"mock\"\nis_server = true\n[plan]\nloop = \"closed\"\n";
    assert!(said(closed)
        .iter()
        .any(|w| w.contains("leave the queueing out")));
}

#[test]
fn traps_of_ycsb_are_warned_of() {
    let ycsb = |extra: &str| {
        let text = format!(
            "question = \"q\"\n[subject]\nkind = \"moka\"\nmemory = \"16MiB\"\n[workload]\nkind = \"ycsb\"\nrecordcount = 100000\n{extra}\n"
        );
        lint::warnings(&Experiment::parse("x", &text).unwrap()).unwrap()
    };
    for (extra, warning) in [
        ("requestdistribution = \"exponential\"", "nearly uniform"),
        ("requestdistribution = \"zipfian\"", "scrambled"),
        ("[plan]\nload = false", "change the size of values"),
        ("scanproportion = 0.1", "scans"),
        ("operationcount = 3000000000", "counts in 32 bits"),
    ] {
        let warnings = ycsb(extra);
        assert!(
            warnings.iter().any(|w| w.contains(warning)),
            "{warning}: {warnings:?}"
        );
        let calm = ycsb("fieldlength = 100\nexponential.frac = 0.1");
        assert!(
            !calm.iter().any(|w| w.contains(warning)),
            "{warning}: {calm:?}"
        );
    }
}
