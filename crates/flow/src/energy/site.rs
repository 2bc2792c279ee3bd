//! What a centre pays for stored bytes, to turn saved bytes into energy and money.

use serde::{Deserialize, Serialize};

use knarr_array::error::{Error, ErrorKind, Result};

/// `[site]` of `knarr.toml`. The first two defaults are those of a paper on green compression (one PB of storage needs
/// 3 kW; 1 kWh costs 0.14 €).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Site {
    /// Power that a PB (1e15 bytes) of storage takes, W.
    pub watts_per_pb: f64,
    /// Price of energy, € per kWh.
    pub eur_per_kwh: f64,
    /// Price of a PB of storage, €; not counted if it is 0.
    pub eur_per_pb: f64,
    /// Years that storage lasts: its price is spread over them.
    pub years: f64,
}

impl Default for Site {
    fn default() -> Self {
        Self { watts_per_pb: 3000.0, eur_per_kwh: 0.14, eur_per_pb: 0.0, years: 5.0 }
    }
}

/// What saved bytes are worth in a year of storage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Yearly {
    /// Energy that storage does not take, kWh.
    pub kwh: f64,
    /// Money that energy and storage do not cost, €.
    pub eur: f64,
}

/// Hours of a mean year.
const HOURS: f64 = 8766.0;

impl Site {
    /// Checks what was read.
    ///
    /// # Errors
    /// `Config` for a figure that is negative or not finite, and for `years = 0`.
    pub fn check(&self) -> Result<()> {
        let figures = [
            ("watts_per_pb", self.watts_per_pb),
            ("eur_per_kwh", self.eur_per_kwh),
            ("eur_per_pb", self.eur_per_pb),
            ("years", self.years),
        ];
        for (name, figure) in figures {
            if !figure.is_finite() || figure < 0.0 || (name == "years" && figure == 0.0) {
                return Err(Error::new(ErrorKind::Config, format!("{name} = {figure} is no figure of a site"))
                    .hint(format!("{name} is a finite number above 0"))
                    .at("[site]"));
            }
        }
        Ok(())
    }

    /// What `saved` bytes (negative if files grew) are worth in a year.
    pub fn yearly(&self, saved: f64) -> Yearly {
        let petabytes = saved / 1e15;
        let kwh = petabytes * self.watts_per_pb * HOURS / 1000.0;
        Yearly { kwh, eur: kwh * self.eur_per_kwh + petabytes * self.eur_per_pb / self.years }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_petabyte_costs_what_the_paper_says() {
        let yearly = Site::default().yearly(1e15);
        assert!((yearly.kwh - 26_298.0).abs() < 1.0, "{yearly:?}");
        assert!((yearly.eur - 3681.7).abs() < 1.0, "{yearly:?}");
        let dear = Site { eur_per_pb: 100_000.0, ..Site::default() }.yearly(5e14);
        assert!((dear.eur - (3681.7 / 2.0 + 10_000.0)).abs() < 1.0, "{dear:?}");
    }

    #[test]
    fn figures_that_are_none_are_refused() {
        assert!(Site::default().check().is_ok());
        assert!(Site { years: 0.0, ..Site::default() }.check().is_err());
        assert!(Site { eur_per_kwh: -1.0, ..Site::default() }.check().is_err());
        assert!(Site { watts_per_pb: f64::NAN, ..Site::default() }.check().is_err());
    }
}
