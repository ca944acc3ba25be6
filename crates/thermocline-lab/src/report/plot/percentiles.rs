//! Latency over percentiles. The axis counts nines, so that the tail has as much room as the middle; each line is
//! the median over an arm's runs of their own percentiles, with the range of the runs around it. Histograms of
//! different runs are never pooled.

use super::arms::tick;
use super::*;
use crate::report::figures::Scale;

/// One arm: per place on the axis the lowest, middle and highest run.
pub struct Spectrum {
    pub series: usize,
    /// (nines, low, median, high), nines = -log10(1 - quantile).
    pub points: Vec<(f64, f64, f64, f64)>,
}

/// From the median to 99.99 %.
pub const NINES_MAX: f64 = 4.0;

pub fn percentiles(spectra: &[Spectrum], axis: &str, metric: &str) -> Option<String> {
    let values = spectra
        .iter()
        .flat_map(|s| &s.points)
        .flat_map(|p| [p.1, p.3]);
    let positive = values.filter(|value| *value > 0.0);
    let (low, high) = positive.fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    if low > high {
        return None;
    }
    let scale = Scale::of(metric, (low * high).sqrt());
    let (low, high) = (low / scale.divisor / 1.15, high / scale.divisor * 1.15);
    draw(620, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(24)
            .x_label_area_size(88)
            .y_label_area_size(170)
            .build_cartesian_2d(0.0..NINES_MAX, (low..high).log_scale())?;
        chart
            .configure_mesh()
            .x_labels(5)
            .x_label_formatter(&|nines| nine_label(*nines))
            .y_label_formatter(&|value| tick(*value, *value))
            .y_desc(format!("{axis}, {}", scale.unit))
            .label_style(label(QUIET, HPos::Center, VPos::Top))
            .axis_desc_style(label(QUIET, HPos::Center, VPos::Bottom))
            .axis_style(GRID)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for spectrum in spectra {
            let color = series(spectrum.series);
            let at = |p: &(f64, f64, f64, f64), value: f64| (p.0, value.max(1e-3) / scale.divisor);
            let points = &spectrum.points;
            let upper = points.iter().map(|p| at(p, p.3));
            let lower = points.iter().rev().map(|p| at(p, p.1));
            let band: Vec<(f64, f64)> = upper.chain(lower).collect();
            chart.draw_series([Polygon::new(band, color.mix(0.15).filled())])?;
            let middle: Vec<(f64, f64)> = points.iter().map(|p| at(p, p.2)).collect();
            chart.draw_series([PathElement::new(middle, color.stroke_width(5))])?;
        }
        Ok(())
    })
}

fn nine_label(nines: f64) -> String {
    // The library may put marks between whole nines, which have no name.
    if (nines - nines.round()).abs() > 1e-6 {
        return String::new();
    }
    match nines.round() as i32 {
        0 => "0 %".into(),
        1 => "90 %".into(),
        2 => "99 %".into(),
        n => format!("99.{} %", "9".repeat((n - 2).max(0) as usize)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_and_a_band_an_arm() {
        let points = (0..=8)
            .map(|i| (f64::from(i) / 2.0, 900.0, 1000.0, 5000.0))
            .collect();
        let spectra = [Spectrum { series: 0, points }];
        let svg = percentiles(&spectra, "service time", "service_ns").unwrap();
        assert_eq!(svg.matches("<polygon").count(), 1);
        assert!(svg.contains("99.9 %") && svg.contains("µs"));
        assert!(percentiles(&[], "service time", "service_ns").is_none());
    }
}
