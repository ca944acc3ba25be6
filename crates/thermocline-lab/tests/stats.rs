//! The statistics against what R printed in the document of seed 000 and what scipy computes: the twelve
//! comparisons to 1e-12, perturbed copies of them, and the answers for what has no answer.

use serde_json::Value;
use thermocline_lab::stats::{self, Undefined};

fn golden(name: &str) -> Value {
    let path = format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(&path).expect(&path)).expect(&path)
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .expect("a list")
        .iter()
        .map(number)
        .collect()
}

/// Within `tolerance` of the golden relative to its size, or absolutely where `floor` is larger than that.
fn close(what: &str, got: f64, want: &Value, tolerance: f64, floor: f64) {
    let want = number(want);
    let allowed = tolerance * want.abs().max(floor);
    assert!(
        (got - want).abs() <= allowed,
        "{what}: got {got}, golden {want}, off by {:e}",
        (got - want).abs() / want.abs()
    );
}

#[test]
fn the_twelve_comparisons_to_twelve_digits() {
    let file = golden("golden_welch.json");
    let comparisons = file["comparisons"].as_array().unwrap();
    assert_eq!(comparisons.len(), 12);
    let mut p = Vec::new();
    for c in comparisons {
        let name = c["name"].as_str().unwrap();
        let (x, y) = (numbers(&c["x"]), numbers(&c["y"]));
        let w = stats::welch(&x, &y, 0.95).unwrap();
        let at = |field: &str| format!("{name} {field}");
        close(&at("mean x"), w.x.mean, &c["mean_x"], 1e-12, 0.0);
        close(&at("var y"), w.y.variance.unwrap(), &c["var_y"], 1e-12, 0.0);
        close(
            &at("cv x"),
            w.x.cv_percent().unwrap(),
            &c["cv_x_percent"],
            1e-12,
            0.0,
        );
        close(&at("se"), w.standard_error, &c["std_error"], 1e-12, 0.0);
        close(&at("t"), w.t, &c["t"], 1e-12, 0.0);
        close(&at("df"), w.df, &c["df"], 1e-12, 0.0);
        close(&at("p"), w.p, &c["p"], 1e-11, 0.0);
        close(&at("low"), w.interval.low, &c["ci_low"], 1e-12, 0.0);
        close(&at("high"), w.interval.high, &c["ci_high"], 1e-12, 0.0);
        let percent = stats::seed_percent(&w).unwrap();
        close(&at("% low"), percent.low, &c["percent_ci_low"], 1e-12, 0.0);
        close(
            &at("% high"),
            percent.high,
            &c["percent_ci_high"],
            1e-12,
            0.0,
        );
        close(
            &at("%"),
            w.change_percent().unwrap(),
            &c["percent_change"],
            1e-12,
            0.0,
        );
        let extra = &c["extra"];
        close(
            &at("g"),
            stats::hedges_g(&w).unwrap(),
            &extra["hedges_g"],
            1e-12,
            0.0,
        );
        let rank = stats::mann_whitney(&x, &y).unwrap();
        close(&at("U"), rank.u, &extra["mann_whitney_u"], 0.0, 0.0);
        close(&at("rank p"), rank.p, &extra["mann_whitney_p"], 1e-12, 0.0);
        // The golden solves the quadratic in doubles: near 1 it is good to 1e-14 of the ratio, 1e-12 in percent.
        let fieller = stats::fieller_percent(&w).unwrap();
        close(
            &at("fieller low"),
            fieller.low,
            &extra["fieller_percent_ci"][0],
            1e-12,
            10.0,
        );
        close(
            &at("fieller high"),
            fieller.high,
            &extra["fieller_percent_ci"][1],
            1e-12,
            10.0,
        );
        p.push(Some(w.p));
    }
    let (holm, bh) = (stats::holm(&p), stats::benjamini_hochberg(&p));
    for (i, c) in comparisons.iter().enumerate() {
        close(
            "holm",
            holm[i].unwrap(),
            &c["adjusted_p"]["holm"],
            1e-11,
            0.0,
        );
        close("bh", bh[i].unwrap(), &c["adjusted_p"]["bh"], 1e-11, 0.0);
    }
}

#[test]
fn perturbed_copies_agree_with_scipy() {
    let file = golden("stats_goldens.json");
    let comparisons = file["comparisons"].as_array().unwrap();
    assert_eq!(comparisons.len(), 84);
    for c in comparisons {
        let name = c["name"].as_str().unwrap();
        let (x, y) = (numbers(&c["x"]), numbers(&c["y"]));
        let level = number(&c["level"]);
        // Means of figures around 1e7 that differ by 1 are good to 1e-9 of the difference, here and in scipy.
        let offset = name.ends_with("offset");
        let (digits, p_digits) = if offset { (5e-9, 1e-8) } else { (1e-12, 1e-11) };
        let at = |field: &str| format!("{name} {field}");
        let w = stats::welch(&x, &y, level).unwrap();
        let scale = w.standard_error;
        let percent = scale * 100.0 / w.x.mean.abs();
        close(&at("t"), w.t, &c["welch"]["t"], digits, 1.0);
        close(&at("df"), w.df, &c["welch"]["df"], digits, 0.0);
        close(&at("p"), w.p, &c["welch"]["p"], p_digits, 0.0);
        close(
            &at("low"),
            w.interval.low,
            &c["welch"]["low"],
            digits,
            scale,
        );
        close(
            &at("high"),
            w.interval.high,
            &c["welch"]["high"],
            digits,
            scale,
        );
        close(
            &at("g"),
            stats::hedges_g(&w).unwrap(),
            &c["hedges_g"],
            digits,
            1.0,
        );
        match (stats::fieller_percent(&w), &c["fieller"]) {
            (Ok(interval), want) if want.is_array() => {
                close(&at("fieller low"), interval.low, &want[0], digits, percent);
                close(
                    &at("fieller high"),
                    interval.high,
                    &want[1],
                    digits,
                    percent,
                );
            }
            (got, want) => assert_eq!((got, want), (Err(Undefined::RatioUnbounded), &Value::Null)),
        }
        let rank = stats::mann_whitney(&x, &y).unwrap();
        close(&at("U"), rank.u, &c["rank"]["u"], 0.0, 0.0);
        close(&at("rank p"), rank.p, &c["rank"]["p"], 1e-12, 0.0);
        assert_eq!(
            rank.method == stats::RankMethod::Exact,
            c["rank"]["method"] == "exact",
            "{name}"
        );
        let (shift, interval) = stats::hodges_lehmann(&x, &y, level).unwrap();
        close(&at("shift"), shift, &c["shift"]["shift"], 1e-12, scale);
        close(
            &at("shift low"),
            interval.low,
            &c["shift"]["low"],
            1e-12,
            scale,
        );
        close(
            &at("shift high"),
            interval.high,
            &c["shift"]["high"],
            1e-12,
            scale,
        );
        close(
            &at("shift level"),
            interval.level,
            &c["shift"]["level"],
            1e-12,
            0.0,
        );
        let (bound, alpha) = (number(&c["tost"]["bound"]), number(&c["tost"]["alpha"]));
        let tost = stats::tost(&x, &y, bound, alpha).unwrap();
        close(
            &at("tost"),
            tost.p,
            &c["tost"]["p"],
            if offset { 1e-6 } else { 1e-9 },
            1e-12,
        );
        if c["paired"].is_object() {
            let pairs: Vec<(f64, f64)> = x.iter().copied().zip(y).collect();
            let paired = stats::paired(&pairs, level).unwrap();
            close(&at("paired t"), paired.t, &c["paired"]["t"], digits, 1.0);
            close(&at("paired p"), paired.p, &c["paired"]["p"], p_digits, 0.0);
            close(
                &at("paired low"),
                paired.interval.low,
                &c["paired"]["low"],
                digits,
                scale,
            );
        }
    }
}

#[test]
fn families_drift_power_and_alarm_rates_agree_with_scipy() {
    let file = golden("stats_goldens.json");
    let each = |name: &str| file[name].as_array().unwrap().clone();
    for f in each("families") {
        let p: Vec<Option<f64>> = numbers(&f["p"]).into_iter().map(Some).collect();
        let (holm, bh) = (stats::holm(&p), stats::benjamini_hochberg(&p));
        for i in 0..p.len() {
            close("holm", holm[i].unwrap(), &f["holm"][i], 1e-14, 0.0);
            close("bh", bh[i].unwrap(), &f["bh"][i], 1e-14, 0.0);
        }
    }
    for d in each("drifts") {
        let (position, value) = (numbers(&d["position"]), numbers(&d["value"]));
        let runs: Vec<stats::Placed> = (0..position.len())
            .map(|i| stats::Placed {
                position: position[i],
                arm: number(&d["arm"][i]) as usize,
                value: value[i],
            })
            .collect();
        let drift = stats::drift(&runs).unwrap();
        close("slope", drift.slope, &d["slope"], 1e-9, 0.0);
        close(
            "slope error",
            drift.standard_error,
            &d["standard_error"],
            1e-10,
            0.0,
        );
        assert_eq!(drift.df, number(&d["df"]));
        close("drift p", drift.p, &d["p"], 1e-8, 0.0);
    }
    for c in each("powers") {
        let (runs, effect) = (number(&c["runs"]) as usize, number(&c["effect"]));
        let power = stats::power(runs, effect, number(&c["cv"]), number(&c["alpha"])).unwrap();
        close("power", power, &c["power"], 1e-9, 0.0);
    }
    for t in each("tables") {
        let counted = |side: &Value| stats::Counted {
            ones: number(&side[0]) as usize,
            runs: number(&side[1]) as usize,
        };
        let p = stats::fisher_exact(counted(&t["x"]), counted(&t["y"]));
        close("fisher", p, &t["p"], 1e-11, 0.0);
    }
    for a in each("alarms") {
        let (hits, n) = (
            number(&a["alarms"]) as usize,
            number(&a["comparisons"]) as usize,
        );
        let p: Vec<f64> = (0..n).map(|i| if i < hits { 0.01 } else { 0.5 }).collect();
        let rate = stats::false_alarms(&p, 0.05, 0.95).unwrap();
        close("rate low", rate.interval.low, &a["low"], 1e-9, 0.0);
        close("rate high", rate.interval.high, &a["high"], 1e-9, 0.0);
    }
}

/// Any figures at all: answers or reasons, never a panic, never NaN.
#[test]
fn no_input_panics_or_gives_nan() {
    let seed = std::env::var("SEED").map_or(11, |s| s.parse().expect("SEED is a number"));
    println!("SEED={seed}");
    let mut random = thermocline_lab::workload::Random::new(seed);
    let odd = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        1e-320,
        1e-160,
        1e160,
        1e308,
        f64::MAX,
        f64::MIN,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::EPSILON,
        3.0,
        1e9,
    ];
    let list = |random: &mut thermocline_lab::workload::Random| -> Vec<f64> {
        let n = random.below(7);
        (0..n)
            .map(|_| match random.below(3) {
                0 => odd[random.below(odd.len() as u64) as usize],
                _ => random.unit() * 10.0,
            })
            .collect()
    };
    let sound = |what: &str, values: &[f64]| {
        assert!(values.iter().all(|v| !v.is_nan()), "{what}: {values:?}");
    };
    for _ in 0..20_000 {
        let (x, y) = (list(&mut random), list(&mut random));
        let judgement = stats::Judgement {
            better: stats::Better::Higher,
            alpha: 0.05,
            smallest_effect_percent: Some(1.0),
            family: 3,
        };
        let runs = |values| stats::Runs {
            values,
            did_not_complete: 1,
        };
        let c = stats::compare(runs(&x), runs(&y), &judgement);
        let _ = stats::judge(&c, c.p(), &judgement).to_string();
        if let Ok(w) = c.welch {
            sound("welch", &[w.t, w.df, w.p, w.interval.low, w.interval.high]);
        }
        if let Ok(i) = c.fieller_percent {
            sound("fieller", &[i.low, i.high]);
            assert!(i.low <= i.high, "{x:?} {y:?}");
        }
        if let Ok(g) = c.hedges_g {
            sound("g", &[g]);
        }
        if let Ok(m) = c.rank {
            sound("rank", &[m.p]);
        }
        if let Ok((shift, i)) = c.shift {
            sound("shift", &[shift, i.low, i.high]);
        }
        if let Some(Ok(e)) = c.equivalence {
            sound("tost", &[e.p, e.interval.low, e.interval.high]);
        }
        let pairs: Vec<(f64, f64)> = x.iter().copied().zip(y.iter().copied()).collect();
        if let Ok(p) = stats::paired(&pairs, 0.95) {
            sound("paired", &[p.t, p.p, p.interval.low, p.interval.high]);
        }
        let placed: Vec<stats::Placed> = pairs
            .iter()
            .enumerate()
            .map(|(arm, &(position, value))| stats::Placed {
                position,
                arm: arm % 2,
                value,
            })
            .collect();
        if let Ok(d) = stats::drift(&placed) {
            sound("drift", &[d.slope, d.standard_error, d.t, d.p]);
        }
        let _ = stats::outliers(&x);
    }
}
