//! The plain structure of hints: initialised, read, made into what the engine understands, and filled with what was
//! observed.

use knarr_array::goal::Goal;
use knarr_array::quality::{Accuracy, Quality};
use knarr_array::{Error, Result};
use knarr_codec::chain::ChainSpec;
use knarr_codec::client_data::FilterOptions;
use std::ffi::c_char;
use std::path::PathBuf;

use crate::types::{KNARR_UNSET, knarr_hints, knarr_speed_unit};

impl knarr_hints {
    /// Nothing is stated.
    pub(crate) const UNSTATED: Self = Self {
        size: size_of::<Self>(),
        max_abs_error: f64::NAN,
        max_range_error: f64::NAN,
        max_rel_error: f64::NAN,
        finest_abs_error: f64::NAN,
        significant_bits: KNARR_UNSET,
        significant_digits: KNARR_UNSET,
        exact_up_to: f64::NAN,
        exact_from: f64::NAN,
        fill_value: f64::NAN,
        encode_speed: f64::NAN,
        decode_speed: f64::NAN,
        encode_unit: knarr_speed_unit::KNARR_MB_PER_SECOND as i32,
        decode_unit: knarr_speed_unit::KNARR_MB_PER_SECOND as i32,
        network_speed: f64::NAN,
        storage_speed: f64::NAN,
        goal: [0; 128],
        chain: [0; 256],
        profile: [0; 1024],
    };

    /// The fields of `quality`.
    pub(crate) fn quality(&self) -> Result<Quality> {
        Ok(Quality {
            max_abs_error: stated(self.max_abs_error),
            max_range_error: stated(self.max_range_error),
            max_rel_error: stated(self.max_rel_error),
            finest_abs_error: stated(self.finest_abs_error),
            significant_bits: count("significant_bits", self.significant_bits)?,
            significant_digits: count("significant_digits", self.significant_digits)?,
            exact_up_to: stated(self.exact_up_to),
            exact_from: stated(self.exact_from),
        })
    }

    /// The reverse of [`knarr_hints::quality`].
    pub(crate) fn set_quality(&mut self, quality: &Quality) {
        let count = |count: Option<u32>| count.and_then(|count| i32::try_from(count).ok()).unwrap_or(KNARR_UNSET);
        self.max_abs_error = quality.max_abs_error.unwrap_or(f64::NAN);
        self.max_range_error = quality.max_range_error.unwrap_or(f64::NAN);
        self.max_rel_error = quality.max_rel_error.unwrap_or(f64::NAN);
        self.finest_abs_error = quality.finest_abs_error.unwrap_or(f64::NAN);
        self.significant_bits = count(quality.significant_bits);
        self.significant_digits = count(quality.significant_digits);
        self.exact_up_to = quality.exact_up_to.unwrap_or(f64::NAN);
        self.exact_from = quality.exact_from.unwrap_or(f64::NAN);
    }

    /// What was observed, in the fields that it answers; the others state nothing.
    pub(crate) fn observed(seen: &Accuracy) -> Self {
        let mut hints = Self::UNSTATED;
        hints.set_quality(&Quality {
            max_abs_error: Some(seen.max_abs.value),
            max_range_error: seen.max_range,
            max_rel_error: Some(seen.max_rel.value),
            finest_abs_error: seen.finest,
            significant_bits: seen.bits.map(|bits| bits.value),
            significant_digits: seen.digits.map(|digits| digits.value),
            exact_up_to: seen.exact_up_to,
            exact_from: seen.exact_from,
        });
        hints
    }

    /// Goal and quality, checked, and the fill value.
    pub(crate) fn options(&self) -> Result<FilterOptions> {
        let quality = self.quality()?;
        quality.validate(knarr_array::array::DType::F64)?;
        Ok(FilterOptions { goal: self.whole_goal()?, quality, missing: stated(self.fill_value) })
    }

    /// The goal with the speeds as limits.
    fn whole_goal(&self) -> Result<Goal> {
        let mut goal = words("goal", &self.goal)?.unwrap_or_else(|| "balanced".to_owned());
        let speeds = [("encode", self.encode_speed, self.encode_unit), ("decode", self.decode_speed, self.decode_unit)];
        for (name, speed, unit) in speeds {
            if let Some(limit) = self.speed(name, speed, unit)? {
                goal += &format!(",{name}>={limit}MB/s");
            }
        }
        goal.parse()
    }

    /// A speed in MB/s; `None` if it is not stated.
    fn speed(&self, name: &str, speed: f64, unit: i32) -> Result<Option<f64>> {
        let Some(speed) = stated(speed) else { return Ok(None) };
        let reference = match unit {
            unit if unit == knarr_speed_unit::KNARR_MB_PER_SECOND as i32 => 1.0,
            unit if unit == knarr_speed_unit::KNARR_TIMES_NETWORK as i32 => {
                reference(name, "network_speed", self.network_speed)?
            }
            unit if unit == knarr_speed_unit::KNARR_TIMES_STORAGE as i32 => {
                reference(name, "storage_speed", self.storage_speed)?
            }
            other => {
                return Err(Error::usage(format!("{name}_unit is {other}"))
                    .hint("pass a knarr_speed_unit, KNARR_MB_PER_SECOND (0) to KNARR_TIMES_STORAGE (2)"));
            }
        };
        positive(&format!("{name}_speed"), speed)
            .and_then(|speed| positive("the speed wished for", speed * reference))
            .map(Some)
    }

    /// The chain to use without choosing.
    pub(crate) fn forced_chain(&self) -> Result<Option<ChainSpec>> {
        words("chain", &self.chain)?.map(|text| text.parse()).transpose()
    }

    /// The file of the profile.
    pub(crate) fn profile_path(&self) -> Result<Option<PathBuf>> {
        Ok(words("profile", &self.profile)?.map(PathBuf::from))
    }
}

/// A real field that may state nothing.
pub(crate) fn stated(value: f64) -> Option<f64> {
    Some(value).filter(|value| !value.is_nan())
}

fn count(name: &str, value: i32) -> Result<Option<u32>> {
    if value == KNARR_UNSET {
        return Ok(None);
    }
    u32::try_from(value).map(Some).map_err(|_| {
        Error::usage(format!("{name} is {value}")).hint("give a number above 0, or KNARR_UNSET (-1) for none")
    })
}

fn reference(name: &str, field: &str, speed: f64) -> Result<f64> {
    let speed = stated(speed).ok_or_else(|| {
        Error::usage(format!("{name}_speed is a multiple of {field}, which is not stated"))
            .hint(format!("state {field} in MB/s"))
    })?;
    positive(field, speed)
}

fn positive(name: &str, speed: f64) -> Result<f64> {
    if speed.is_finite() && speed > 0.0 {
        return Ok(speed);
    }
    Err(Error::usage(format!("{name} is {speed}")).hint("give a finite number above 0, or NaN for none"))
}

/// The text of a field; `None` if it is empty.
pub(crate) fn words(name: &str, field: &[c_char]) -> Result<Option<String>> {
    let bytes: Vec<u8> = field.iter().map(|c| c.cast_unsigned()).take_while(|&byte| byte != 0).collect();
    if bytes.len() == field.len() {
        return Err(Error::usage(format!("{name} does not end with a NUL within its {} bytes", field.len())));
    }
    let text = String::from_utf8(bytes).map_err(|_| Error::usage(format!("{name} is not UTF-8")))?;
    Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
}

/// Puts text into a field.
pub(crate) fn set_words(name: &str, field: &mut [c_char], text: &str) -> Result<()> {
    if text.len() >= field.len() {
        return Err(Error::usage(format!("{name} of {} bytes, at most {} fit", text.len(), field.len() - 1)));
    }
    field.fill(0);
    field.iter_mut().zip(text.bytes()).for_each(|(slot, byte)| *slot = byte.cast_signed());
    Ok(())
}
