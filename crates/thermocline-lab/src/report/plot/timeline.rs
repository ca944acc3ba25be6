//! A figure over the measured part of every run: thin lines in the arm's colour.

use super::arms::tick;
use super::*;
use crate::report::figures::Scale;

pub struct Trace<'a> {
    pub series: usize,
    /// (seconds, value)
    pub points: &'a [(f64, f64)],
}

pub fn timeline(traces: &[Trace<'_>], axis: &str, metric: &str) -> Option<String> {
    let finite = |trace: &Trace<'_>| -> Vec<(f64, f64)> {
        let points = trace.points.iter().copied();
        points
            .filter(|(t, v)| t.is_finite() && v.is_finite())
            .collect()
    };
    let lines: Vec<(usize, Vec<(f64, f64)>)> =
        traces.iter().map(|t| (t.series, finite(t))).collect();
    let all = || lines.iter().flat_map(|(_, points)| points.iter());
    let end = all().map(|(t, _)| *t).fold(0.0, f64::max);
    if end <= 0.0 {
        return None;
    }
    let scale = Scale::of(metric, all().map(|(_, v)| v.abs()).fold(0.0, f64::max));
    let (low, high) = from_zero(all().map(|(_, v)| v / scale.divisor));
    let unit = match scale.unit {
        "" => axis.to_string(),
        unit => format!("{axis}, {unit}"),
    };
    draw(520, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(24)
            .x_label_area_size(88)
            .y_label_area_size(170)
            .build_cartesian_2d(0.0..end, low..high)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(8)
            .x_label_formatter(&|value| tick(*value, end))
            .y_label_formatter(&|value| tick(*value, high - low))
            .x_desc("seconds since measuring began")
            .y_desc(unit)
            .label_style(label(QUIET, HPos::Center, VPos::Top))
            .axis_desc_style(label(QUIET, HPos::Center, VPos::Bottom))
            .axis_style(GRID)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (at, points) in &lines {
            let line = points
                .iter()
                .map(|(t, v)| (*t, v / scale.divisor))
                .collect::<Vec<_>>();
            chart.draw_series([PathElement::new(
                line,
                series(*at).mix(0.75).stroke_width(3),
            )])?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_run() {
        let points = [(0.5, 1e9), (1.5, 2e9), (2.5, f64::NAN), (3.5, 2e9)];
        let trace = |series| Trace {
            series,
            points: &points,
        };
        let svg = timeline(&[trace(0), trace(1)], "resident memory", "rss_bytes").unwrap();
        assert!(svg.matches("<polyline").count() >= 2 && svg.contains("GiB"));
        assert!(!svg.contains("NaN"));
        assert!(timeline(&[], "x", "y").is_none());
        let still = Trace {
            series: 0,
            points: &points[..1],
        };
        assert!(timeline(&[still], "x", "rss_bytes").is_some());
    }
}
