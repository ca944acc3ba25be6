//! A metric over a swept parameter: a line an arm through the means, with their intervals.

use super::arms::{shortened, tick};
use super::*;
use crate::report::figures::Scale;

pub struct CurvePoint {
    pub series: usize,
    /// Where on the axis, and what is written there.
    pub at: f64,
    pub name: String,
    pub mean: f64,
    pub interval: Option<(f64, f64)>,
}

/// `axis_x` names the parameter, `axis_y` the metric.
pub fn curve(points: &[CurvePoint], axis_x: &str, axis_y: &str, scale: Scale) -> Option<String> {
    let (least, most) = padded(points.iter().map(|p| p.at));
    // Limits that double from step to step are evenly spaced by their logarithm.
    let smallest = points.iter().map(|p| p.at).fold(f64::INFINITY, f64::min);
    let log = smallest > 0.0 && most / smallest > 6.0;
    let place = |at: f64| if log { at.log2() } else { at };
    let (left, right) = match log {
        true => padded_free(points.iter().map(|p| place(p.at))),
        false => (least, most),
    };
    let shown = |value: f64| value / scale.divisor;
    let heights = points.iter().flat_map(|p| {
        let (low, high) = p.interval.unwrap_or((p.mean, p.mean));
        [shown(p.mean), shown(low), shown(high)]
    });
    let (low, high) = from_zero(heights);
    draw(640, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(24)
            .x_label_area_size(110)
            .y_label_area_size(170)
            .build_cartesian_2d(left..right, low..high)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_label_formatter(&|_| String::new())
            .x_desc(axis_x)
            .y_desc(axis_y)
            .y_label_formatter(&|value| tick(*value, high - low))
            .label_style(label(QUIET, HPos::Center, VPos::Top))
            .axis_desc_style(label(QUIET, HPos::Center, VPos::Bottom))
            .axis_style(GRID)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;
        let mut written: Vec<f64> = Vec::new();
        for point in points {
            if !written.contains(&point.at) {
                written.push(point.at);
                let (x, y) = chart
                    .plotting_area()
                    .map_coordinate(&(place(point.at), low));
                let name = shortened(&point.name, 14);
                area.draw(&Text::new(
                    name,
                    (x, y + 14),
                    label(QUIET, HPos::Center, VPos::Top),
                ))?;
            }
        }
        for at in 0..=points.iter().map(|p| p.series).max().unwrap_or(0) {
            let color = series(at);
            let mut of: Vec<&CurvePoint> = points.iter().filter(|p| p.series == at).collect();
            of.sort_by(|a, b| a.at.total_cmp(&b.at));
            let line: Vec<(f64, f64)> = of.iter().map(|p| (place(p.at), shown(p.mean))).collect();
            chart.draw_series([PathElement::new(line.clone(), color.stroke_width(4))])?;
            chart.draw_series(line.iter().map(|xy| Circle::new(*xy, 8, color.filled())))?;
            chart.draw_series(of.iter().filter_map(|p| {
                let (low, high) = p.interval?;
                let x = place(p.at);
                Some(PathElement::new(
                    vec![(x, shown(low)), (x, shown(high))],
                    color.mix(0.7).stroke_width(5),
                ))
            }))?;
        }
        Ok(())
    })
}

/// Some air on both sides, on either side of zero.
fn padded_free(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(f64::NEG_INFINITY, f64::max);
    let air = (high - low).max(0.1) * 0.06;
    (low - air, high + air)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_written_once() {
        let point = |series, at: f64, mean| CurvePoint {
            series,
            at,
            name: format!("{at}MiB"),
            mean,
            interval: Some((mean * 0.9, mean * 1.1)),
        };
        let points = [
            point(0, 64.0, 1.0),
            point(1, 64.0, 2.0),
            point(0, 1024.0, 3.0),
            point(1, 1024.0, 4.0),
        ];
        let svg = curve(&points, "memory", "ops/s", Scale::of("ops_per_s", 4.0)).unwrap();
        assert_eq!(svg.matches("64MiB").count(), 1);
        assert_eq!(svg.matches("1024MiB").count(), 1);
        assert_eq!(svg.matches("<circle").count(), 4);
        assert!(curve(&[], "memory", "ops/s", Scale::of("ops_per_s", 4.0)).is_some());
    }
}
