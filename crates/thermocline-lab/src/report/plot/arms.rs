//! One row an arm: every run as a dot, below them the mean with the interval of the mean.

use super::*;
use crate::report::figures::{fixed, Scale};

pub struct ArmRow {
    /// Rows of one group stand together under its name.
    pub group: String,
    pub name: String,
    pub series: usize,
    pub values: Vec<f64>,
    /// Mean, low, high; `None` when there are too few runs for an interval.
    pub interval: Option<(f64, f64, f64)>,
}

const ROW: u32 = 72;
const NAMES: u32 = 420;
const BELOW: u32 = 96;

/// The picture; `axis` names the metric.
pub fn arms(rows: &[ArmRow], axis: &str, scale: Scale) -> Option<String> {
    let groups = rows.chunk_by(|a, b| a.group == b.group);
    let lines: Vec<Option<&ArmRow>> = groups
        .clone()
        .flat_map(|group| {
            let head = (!group[0].group.is_empty()).then_some(None);
            head.into_iter().chain(group.iter().map(Some))
        })
        .collect();
    let heads: Vec<&str> = groups.map(|group| group[0].group.as_str()).collect();
    let shown = |value: f64| value / scale.divisor;
    let all = rows.iter().flat_map(|row| {
        let ends = row.interval.map(|(_, low, high)| [low, high]);
        row.values.iter().copied().chain(ends.into_iter().flatten())
    });
    let (low, high) = padded(all.map(shown));
    let count = lines.len() as f64;
    draw(lines.len() as u32 * ROW + BELOW + 16, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_right(40)
            .margin_top(16)
            .x_label_area_size(BELOW)
            .y_label_area_size(NAMES)
            .build_cartesian_2d(low..high, 0.0..count)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .x_labels(7)
            .x_desc(axis)
            .x_label_formatter(&|value| tick(*value, high - low))
            .label_style(label(QUIET, HPos::Center, VPos::Top))
            .axis_desc_style(label(QUIET, HPos::Center, VPos::Bottom))
            .axis_style(GRID)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;
        let mut heads = heads.iter();
        for (at, line) in lines.iter().enumerate() {
            let middle = count - at as f64 - 0.5;
            let (x, y) = chart.plotting_area().map_coordinate(&(low, middle));
            let Some(row) = line else {
                let head = heads.next().copied().unwrap_or_default();
                area.draw(&Text::new(
                    head.to_string(),
                    (16, y),
                    label(QUIET, HPos::Left, VPos::Center),
                ))?;
                continue;
            };
            let name = shortened(&row.name, 26);
            area.draw(&Text::new(
                name,
                (x - 24, y),
                label(INK, HPos::Right, VPos::Center),
            ))?;
            let color = series(row.series);
            chart.draw_series(row.values.iter().map(|value| {
                Circle::new((shown(*value), middle + 0.16), 8, color.mix(0.55).filled())
            }))?;
            if let Some((mean, low, high)) = row.interval {
                let at = middle - 0.18;
                chart.draw_series([PathElement::new(
                    vec![(shown(low), at), (shown(high), at)],
                    color.stroke_width(6),
                )])?;
                chart.draw_series([Circle::new((shown(mean), at), 9, color.filled())])?;
            }
        }
        Ok(())
    })
}

/// A tick with as many decimals as the axis' length asks for.
pub(super) fn tick(value: f64, span: f64) -> String {
    let decimals = (1 - span.abs().max(1e-12).log10().floor() as i32).clamp(0, 9) as usize;
    fixed(value, decimals)
}

pub(super) fn shortened(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_a_dot_and_names_are_escaped() {
        let rows = [
            ArmRow {
                group: "memory 64MiB".into(),
                name: "a<b".into(),
                series: 0,
                values: vec![1.0, 2.0, 3.0],
                interval: Some((2.0, 1.0, 3.0)),
            },
            ArmRow {
                group: "memory 64MiB".into(),
                name: "c".into(),
                series: 1,
                values: vec![2.0],
                interval: None,
            },
        ];
        let svg = arms(&rows, "ops", Scale::of("ops_per_s", 3.0)).unwrap();
        assert_eq!(svg.matches("<circle").count(), 3 + 1 + 1);
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
        assert!(svg.contains("memory 64MiB"));
    }

    #[test]
    fn no_figures_or_one_still_make_a_picture() {
        assert!(arms(&[], "ops", Scale::of("ops", 0.0)).is_some());
        let one = ArmRow {
            group: String::new(),
            name: "one".into(),
            series: 0,
            values: vec![5.0],
            interval: None,
        };
        assert!(arms(&[one], "ops", Scale::of("ops", 5.0)).is_some());
    }

    #[test]
    fn ticks_have_the_decimals_that_tell_them_apart() {
        assert_eq!(tick(0.87, 0.05), "0.870");
        assert_eq!(tick(70123.4, 5000.0), "70,123");
        assert_eq!(tick(0.0, 10.0), "0");
    }
}
