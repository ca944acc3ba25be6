//! Pictures as inline SVG. `plotters` draws; every colour it writes is one of a few marks that the page's stylesheet
//! maps to variables, so that one picture serves a light page, a dark page and paper.
//!
//! Drawn at twice the size it is shown at, since the library rounds to whole units.

mod arms;
mod curve;
mod percentiles;
mod timeline;

pub use arms::{arms, ArmRow};
pub use curve::{curve, CurvePoint};
pub use percentiles::{percentiles, Spectrum, NINES_MAX};
pub use timeline::{timeline, Trace};

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::fmt::Write;

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Drawn = Result<(), Box<dyn std::error::Error>>;

pub(super) const WIDTH: u32 = 1720;
pub(super) const TEXT: u32 = 30;
pub(super) const INK: RGBColor = RGBColor(1, 1, 1);
pub(super) const QUIET: RGBColor = RGBColor(2, 2, 2);
pub(super) const GRID: RGBColor = RGBColor(3, 3, 3);
/// Colours of the palette; more series than this share them in turn.
pub const SERIES: usize = 8;

/// The mark of the series at this place.
pub(super) fn series(at: usize) -> RGBColor {
    RGBColor(4, 0, (at % SERIES) as u8)
}

/// The class of the legend's swatch for the series at this place.
pub fn swatch(at: usize) -> String {
    format!("s{}", at % SERIES)
}

/// Rules that give the marks their colours.
pub fn stylesheet() -> String {
    let mut css = String::new();
    let mut rule = |mark: RGBColor, name: &str| {
        let hex = format!("#{:02X}{:02X}{:02X}", mark.0, mark.1, mark.2);
        let _ = writeln!(
            css,
            "svg [fill=\"{hex}\"]{{fill:var({name})}} svg [stroke=\"{hex}\"]{{stroke:var({name})}}"
        );
    };
    rule(INK, "--ink");
    rule(QUIET, "--quiet");
    rule(GRID, "--grid");
    for at in 0..SERIES {
        rule(series(at), &format!("--s{at}"));
    }
    for at in 0..SERIES {
        let _ = writeln!(css, ".s{at}{{background:var(--s{at})}}");
    }
    css
}

/// Runs a drawing; `None` if the library refused it, which leaves the report without that picture.
pub(super) fn draw(height: u32, drawing: impl FnOnce(&Area<'_>) -> Drawn) -> Option<String> {
    let mut svg = String::new();
    let drawn = {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        drawing(&area).and_then(|()| Ok(area.present()?))
    };
    drawn.ok()?;
    Some(svg)
}

pub(super) fn label(color: RGBColor, h: HPos, v: VPos) -> TextStyle<'static> {
    ("sans-serif", TEXT)
        .into_font()
        .color(&color)
        .pos(Pos::new(h, v))
}

/// A range that holds all values with some air, also when they are one value or none.
pub(super) fn padded(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.filter(|value| value.is_finite()) {
        (low, high) = (low.min(value), high.max(value));
    }
    if low > high {
        return (0.0, 1.0);
    }
    let air = match high - low {
        0.0 => (low.abs() * 0.05).max(1e-9),
        span => span * 0.06,
    };
    // A figure that cannot be negative has no axis below zero.
    let floor = if low >= 0.0 { 0.0 } else { f64::NEG_INFINITY };
    ((low - air).max(floor), high + air)
}

/// As [`padded`], but from zero when zero is not far: a curve is read by its height.
pub(super) fn from_zero(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = padded(values);
    if low > 0.0 && low < high * 0.6 {
        (0.0, high)
    } else {
        (low, high)
    }
}
