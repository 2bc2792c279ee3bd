//! Axes of charts: where a value lies, and which ticks a person would choose.

use super::html::put;

/// How values are spread along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    Logarithmic,
}

/// An axis from `low` to `high`, drawn from coordinate `start` to coordinate `end`.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    pub(super) scale: Scale,
    low: f64,
    high: f64,
    start: f64,
    end: f64,
}

impl Axis {
    /// From zero to a round number not below `most`.
    pub(super) fn from_zero(most: f64, start: f64, end: f64) -> Self {
        let most = most.max(f64::MIN_POSITIVE);
        let step = round_step(most, 5.0);
        Self { scale: Scale::Linear, low: 0.0, high: (most / step).ceil() * step, start, end }
    }

    /// Linear, around all of `values` with some room.
    pub(super) fn around(values: &[f64], start: f64, end: f64) -> Self {
        let (least, most) = span(values);
        let room = (most - least).max(0.02 * most.abs()).max(1e-9) * 0.1;
        Self { scale: Scale::Linear, low: least - room, high: most + room, start, end }
    }

    /// Logarithmic, around all of `values` with some room. Values must be positive.
    pub(super) fn logarithmic(values: &[f64], start: f64, end: f64) -> Self {
        let (least, most) = span(values);
        let (least, most) = (least.max(1e-9), most.max(1e-9));
        let room = (most / least).powf(0.06).max(1.15);
        Self { scale: Scale::Logarithmic, low: least / room, high: most * room, start, end }
    }

    /// Coordinate of `value`, kept within the axis.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        self.start + share.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// Values to mark, within the axis.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = round_step(self.high - self.low, 5.0);
                let first = (self.low / step).ceil();
                // A tick that falls short of the end by rounding alone is still drawn.
                (0..=12)
                    .map(|n| (first + f64::from(n)) * step)
                    .filter(|tick| *tick <= self.high + step * 1e-6)
                    .collect()
            }
            Scale::Logarithmic => {
                // The coarsest set of ticks that has three of them.
                let sets: [&[f64]; 3] = [&[1.0], &[1.0, 3.0], &[1.0, 2.0, 5.0]];
                let found = sets.iter().map(|digits| self.decades(digits)).find(|ticks| ticks.len() >= 3);
                found.unwrap_or_else(|| self.decades(&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]))
            }
        }
    }

    /// Vertical lines at the ticks of a horizontal axis, down to `body`, with their labels below.
    pub(super) fn grid(&self, svg: &mut String, width: f64, body: f64, label: impl Fn(f64) -> String) {
        for tick in self.ticks() {
            let x = self.at(tick);
            put!(svg, "<line class=\"grid\" x1=\"{x:.1}\" y1=\"0\" x2=\"{x:.1}\" y2=\"{body}\"/>");
            let anchor = if x < width * 0.1 {
                "start"
            } else if x > width * 0.9 {
                "end"
            } else {
                "middle"
            };
            put!(
                svg,
                "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>\n",
                body + 16.0,
                label(tick)
            );
        }
    }

    fn decades(&self, digits: &[f64]) -> Vec<f64> {
        #[expect(clippy::cast_possible_truncation, reason = "exponents of a double are below 400")]
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        (first..=last)
            .flat_map(|exponent| digits.iter().map(move |digit| digit * 10f64.powi(exponent)))
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }
}

fn span(values: &[f64]) -> (f64, f64) {
    let finite = values.iter().copied().filter(|value| value.is_finite());
    let (least, most) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| (a.min(value), b.max(value)));
    if least <= most { (least, most) } else { (0.0, 1.0) }
}

/// The step among 1, 2 and 5 times a power of ten that divides `span` into about `pieces`.
fn round_step(span: f64, pieces: f64) -> f64 {
    let rough = span / pieces;
    let power = 10f64.powf(rough.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= rough * 0.999).unwrap_or(10.0);
    digit * power
}

/// A number as a tick or a label shows it: about three digits, no needless zeros.
pub(super) fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 99.95 || size == 0.0 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.1 => 2,
        _ => return format!("{value:.1e}"),
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_on_the_axis() {
        let axis = Axis::from_zero(43.0, 0.0, 100.0);
        assert_eq!(axis.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!((axis.at(0.0), axis.at(25.0), axis.at(1e9)), (0.0, 50.0, 100.0));
        let axis = Axis::logarithmic(&[12.0, 2500.0], 0.0, 1.0);
        assert!(axis.ticks().len() >= 3 && axis.ticks().contains(&100.0));
        let axis = Axis::logarithmic(&[100.0], 0.0, 1.0);
        assert!(axis.ticks().contains(&100.0));
        assert!((axis.at(100.0) - 0.5).abs() < 1e-9);
        assert!(Axis::around(&[], 0.0, 1.0).at(0.5).is_finite());
        assert!(!Axis::around(&[2.0, 2.0], 0.0, 1.0).ticks().is_empty());
    }

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in
            [(0.0, "0"), (1234.4, "1234"), (12.0, "12"), (2.3456, "2.35"), (0.5, "0.5"), (99.96, "100")]
        {
            assert_eq!(number(value), text);
        }
    }
}
