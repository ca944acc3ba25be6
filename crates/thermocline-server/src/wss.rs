//! `thermocline wss`: how much memory is enough, from a running server's live curve: a table and a plot.

use crate::admin_client;
use crate::config::Listen;
use serde_json::Value;
use std::fmt::Write;

/// Characters and lines of the plot.
const PLOT_WIDTH: usize = 60;
const PLOT_LINES: usize = 12;

/// By so much the hit ratio of all reads may differ without a word.
const WORTH_SAYING: f64 = 0.01;
const WHY_ANOTHER: &str = "\
A request of this curve is a read that hits, or an item stored under a
new key: what is stored before anybody asks for it is a miss, and a miss that nobody fills is none.";

/// Asks the server at `at` and renders its curve; `as_json` hands the page through.
pub fn run(at: &Listen, as_json: bool) -> Result<String, String> {
    let page = admin_client::json(at, "/mrc")?;
    match as_json {
        true => Ok(format!("{page:#}\n")),
        false => text(&page)
            .ok_or_else(|| format!("{at}/mrc: a figure is missing; is it another version?")),
    }
}

struct Point {
    factor: f64,
    memory_bytes: f64,
    hit_ratio: f64,
    is_far: bool,
}

fn text(page: &Value) -> Option<String> {
    let number = |name: &str| page.get(name)?.as_f64();
    let requests = number("requests")?;
    if requests == 0.0 {
        return Some("no requests yet: a curve needs some\n".into());
    }
    let points: Option<Vec<Point>> = page.get("points")?.as_array()?.iter().map(point).collect();
    let points = points?;
    let (memory, now, error) = (
        number("memory_bytes")?,
        number("hit_ratio")?,
        number("error")?,
    );
    let mut out = String::new();
    let line = |out: &mut String, text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(
        &mut out,
        format!(
            "{} of memory, {requests:.0} requests, hit ratio {:.2} %; one key in {:.0} is sampled; error about {:.2} points\n",
            bytes(memory),
            now * 100.0,
            number("one_key_in")?,
            error * 100.0
        ),
    );
    let since_start = number("hit_ratio_since_start");
    if let (Some(reads), Some(requests)) = (number("reads_hit_ratio"), since_start) {
        if (reads - requests).abs() > WORTH_SAYING {
            let percent = reads * 100.0;
            line(
                &mut out,
                format!("Of all reads {percent:.2} % have hit. {WHY_ANOTHER}\n"),
            );
        }
    }
    line(
        &mut out,
        "  memory           hit ratio    against now".into(),
    );
    for point in &points {
        line(
            &mut out,
            format!(
                "{:>6}x {:>10}   {:>7.2} %   {:>+7.2} points{}",
                point.factor,
                bytes(point.memory_bytes),
                point.hit_ratio * 100.0,
                (point.hit_ratio - now) * 100.0,
                if point.is_far {
                    "   (by an LRU curve)"
                } else {
                    ""
                }
            ),
        );
    }
    line(&mut out, String::new());
    out.push_str(&plot(&points));
    let spare = number("spare_bytes_for_one_point")?;
    line(
        &mut out,
        format!(
            "\n{} could be given back for one point of hit ratio",
            bytes(spare)
        ),
    );
    Some(out)
}

fn point(value: &Value) -> Option<Point> {
    Some(Point {
        factor: value.get("factor")?.as_f64()?,
        memory_bytes: value.get("memory_bytes")?.as_f64()?,
        hit_ratio: value.get("hit_ratio")?.as_f64()?,
        is_far: value.get("estimate")?.as_str()? != "miniature",
    })
}

/// Hit ratio over memory, memory by octaves: `*` a miniature, `o` the far range, `|` now.
fn plot(points: &[Point]) -> String {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return String::new();
    };
    let most = points
        .iter()
        .map(|point| point.hit_ratio)
        .fold(0.0, f64::max)
        .max(0.01);
    let top = ((most * 10.0).ceil() / 10.0).clamp(0.1, 1.0);
    let octaves = (last.factor / first.factor).max(2.0).log2();
    let column = |factor: f64| {
        let at = (factor / first.factor).max(1.0).log2() / octaves;
        // Whatever the server says of itself.
        ((at * (PLOT_WIDTH - 1) as f64).round() as usize).min(PLOT_WIDTH - 1)
    };
    let row = |ratio: f64| {
        let from_top = (1.0 - ratio.clamp(0.0, top) / top) * (PLOT_LINES - 1) as f64;
        from_top.round() as usize
    };
    let mut canvas = vec![vec![' '; PLOT_WIDTH]; PLOT_LINES];
    for line in &mut canvas {
        line[column(1.0).min(PLOT_WIDTH - 1)] = '|';
    }
    for point in points {
        let mark = if point.is_far { 'o' } else { '*' };
        canvas[row(point.hit_ratio)][column(point.factor).min(PLOT_WIDTH - 1)] = mark;
    }
    let mut out = String::new();
    for (number, line) in canvas.iter().enumerate() {
        let ratio = top * (1.0 - number as f64 / (PLOT_LINES - 1) as f64);
        let text: String = line.iter().collect();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{:>4.0} % {}", ratio * 100.0, text.trim_end());
    }
    let _ = writeln!(out, "       {}", "-".repeat(PLOT_WIDTH));
    let mut labels = vec![' '; PLOT_WIDTH + 4];
    for point in points {
        for (offset, letter) in format!("{}x", point.factor).chars().enumerate() {
            let at = column(point.factor) + offset;
            // Labels of small factors would run into each other.
            if point.factor >= 0.25 && at < labels.len() {
                labels[at] = letter;
            }
        }
    }
    let _ = writeln!(
        out,
        "       {}",
        labels.iter().collect::<String>().trim_end()
    );
    out
}

pub(crate) fn bytes(count: f64) -> String {
    let steps = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let step = steps
        .into_iter()
        .find(|(_, bits)| count >= 2f64.powi(*bits));
    match step {
        Some((unit, bits)) => format!("{:.1} {unit}", count / 2f64.powi(bits)),
        None => format!("{count:.0} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page() -> Value {
        let point = |factor: f64, hit_ratio: f64, estimate: &str| json!({"factor": factor, "memory_bytes": factor * 1e9, "hit_ratio": hit_ratio, "estimate": estimate});
        json!({
            "memory_bytes": 1e9, "hit_ratio": 0.6, "error": 0.004, "requests": 1000, "one_key_in": 64.0,
            "spare_bytes_for_one_point": 1 << 27,
            "points": [point(0.125, 0.2, "lru"), point(0.5, 0.5, "miniature"), point(1.0, 0.6, "miniature"),
                       point(2.0, 0.7, "miniature"), point(16.0, 0.75, "lru")],
        })
    }

    #[test]
    fn table_and_plot_say_what_more_and_less_memory_would_bring() {
        let text = text(&page()).unwrap();
        for wanted in [
            "hit ratio 60.00 %",
            "error about 0.40 points",
            "   0.5x  476.8 MiB     50.00 %    -10.00 points",
            "     2x    1.9 GiB     70.00 %    +10.00 points",
            "128.0 MiB could be given back",
        ] {
            assert!(text.contains(wanted), "`{wanted}` is not in\n{text}");
        }
        let plotted = text
            .lines()
            .skip_while(|line| !line.contains('%') || !line.contains('|'));
        assert_eq!(
            plotted.filter(|line| line.contains(" % ")).count(),
            PLOT_LINES,
            "{text}"
        );
        assert_eq!(text.matches('*').count(), 3, "{text}");
    }

    #[test]
    fn a_page_of_another_shape_or_without_requests_is_said_so() {
        assert_eq!(text(&json!({"requests": 5})), None);
        let empty = text(&json!({"requests": 0})).unwrap();
        assert!(empty.contains("no requests yet"));
        // A single point, a hit ratio of nothing: no division by it.
        let one = Point {
            factor: 1.0,
            memory_bytes: 0.0,
            hit_ratio: 0.0,
            is_far: false,
        };
        assert_eq!(plot(&[one]).lines().count(), PLOT_LINES + 2);
        assert_eq!(plot(&[]), "");
    }
}
