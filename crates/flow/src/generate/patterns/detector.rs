//! Frames of a photon-counting detector: Poisson background, powder rings, Bragg peaks, hot pixels.

use super::count;
use crate::generate::{Asked, Field, Pattern, Stream, Values, linear};
use knarr_array::array::DType;
use knarr_array::error::Result;
use knarr_codec::codec::{OptionDoc, OptionKind};

pub(super) struct Detector;

impl Pattern for Detector {
    fn name(&self) -> &'static str {
        "detector"
    }

    fn summary(&self) -> &'static str {
        "detector frames over the last two axes: Poisson counts, rings, peaks that move, hot pixels"
    }

    fn options(&self) -> &'static [OptionDoc] {
        const OPTIONS: &[OptionDoc] = &[
            OptionDoc {
                name: "background",
                kind: OptionKind::FloatOr(4.0),
                doc: "mean counts at the beam; a quarter of it at the corners",
            },
            OptionDoc {
                name: "rings",
                kind: OptionKind::Int { min: 0, max: 100, default: Some(4) },
                doc: "powder rings, the same in all frames",
            },
            OptionDoc {
                name: "peaks",
                kind: OptionKind::Int { min: 0, max: 10_000, default: Some(40) },
                doc: "Bragg peaks, at other places in each frame",
            },
            OptionDoc {
                name: "hot",
                kind: OptionKind::FloatOr(0.0001),
                doc: "fraction of pixels that always show the largest count",
            },
        ];
        OPTIONS
    }

    fn dtype(&self) -> DType {
        DType::U16
    }

    fn values(&self) -> Values {
        Values::Own("counts follow from 'detector:background=4'")
    }

    fn prepare(&self, asked: &Asked<'_>) -> Result<Box<dyn Field>> {
        let options = asked.options;
        let stream = Stream::new(asked.seed, "detector");
        let (height, width) = match asked.shape {
            [] => (1, 1),
            [width] => (1, *width),
            [.., height, width] => (*height, *width),
        };
        let background = options.float("background")?;
        let reach = 0.5 * ((height * height) as f64 + (width * width) as f64).sqrt();
        let rings = (0..u64::from(count(options, "rings")?)).map(|number| {
            let own = stream.of(number);
            Ring { radius: own.between(0, 0.15, 0.9) * reach, height: background * own.between(1, 1.0, 5.0) }
        });
        Ok(Box::new(Frames {
            stream,
            frames: asked.shape.get(..asked.shape.len().saturating_sub(2)).unwrap_or_default().to_vec(),
            size: (height, width),
            background,
            reach: reach.max(1.0),
            rings: rings.collect(),
            peaks: u64::from(count(options, "peaks")?),
            hot: options.float("hot")?,
            most: match asked.dtype {
                DType::I8 => 127.0,
                DType::U8 => 255.0,
                DType::I16 => 32_767.0,
                _ => 65_535.0,
            },
        }))
    }
}

/// A ring around the middle of the frame.
struct Ring {
    /// In pixels.
    radius: f64,
    /// Mean counts on it.
    height: f64,
}

/// A peak in one frame: its middle in pixels and its mean counts there.
struct Peak {
    y: f64,
    x: f64,
    height: f64,
}

/// Width of rings and peaks (standard deviation) in pixels.
const WIDTH: f64 = 1.5;
/// Beyond so many widths nothing is left of them.
const FAR: f64 = 4.0 * WIDTH;

struct Frames {
    stream: Stream,
    /// Extents of what numbers the frames.
    frames: Vec<u64>,
    /// Height and width of a frame.
    size: (u64, u64),
    background: f64,
    /// From the middle to a corner, in pixels.
    reach: f64,
    rings: Vec<Ring>,
    peaks: u64,
    hot: f64,
    most: f64,
}

fn bell(distance: f64) -> f64 {
    libm::exp(-0.5 * (distance / WIDTH) * (distance / WIDTH))
}

impl Frames {
    /// Peaks of a frame that reach into row `y`.
    fn peaks_near(&self, frame: Stream, y: f64) -> Vec<Peak> {
        let peak = |number: u64| {
            let own = frame.of(number);
            let (height, width) = (self.size.0 as f64, self.size.1 as f64);
            // Few peaks are high.
            let bright = 1.0 / (0.01 + own.unit(2));
            Peak { y: own.unit(0) * height, x: own.unit(1) * width, height: 20.0 * bright * self.background }
        };
        (0..self.peaks).map(peak).filter(|peak| (peak.y - y).abs() < FAR).collect()
    }

    /// Mean counts at a place.
    fn mean(&self, y: f64, x: f64, peaks: &[Peak]) -> f64 {
        let (dy, dx) = (y - 0.5 * self.size.0 as f64, x - 0.5 * self.size.1 as f64);
        let radius = (dy * dy + dx * dx).sqrt();
        let far = radius / self.reach;
        let mut mean = self.background * (1.0 - 0.75 * far.min(1.0));
        for ring in self.rings.iter().filter(|ring| (ring.radius - radius).abs() < FAR) {
            mean += ring.height * bell(ring.radius - radius);
        }
        for peak in peaks.iter().filter(|peak| (peak.x - x).abs() < FAR) {
            mean += peak.height * bell(peak.y - y) * bell(peak.x - x);
        }
        mean
    }
}

impl Field for Frames {
    fn row(&self, start: &[u64], out: &mut [f64]) {
        let frame = linear(&self.frames, start);
        let row = start.len().checked_sub(2).and_then(|axis| start.get(axis)).copied().unwrap_or(0);
        let first = start.last().copied().unwrap_or(0);
        let own = self.stream.of(frame ^ (1 << 63));
        let peaks = self.peaks_near(own.of(0), row as f64);
        let (counts, hot) = (own.of(1), self.stream.of(1 << 62));
        for (i, value) in out.iter_mut().enumerate() {
            let column = first + i as u64;
            let pixel = row.wrapping_mul(self.size.1).wrapping_add(column);
            *value = if hot.unit(pixel) < self.hot {
                self.most
            } else {
                counts.poisson(pixel, self.mean(row as f64, column as f64, &peaks)).min(self.most)
            };
        }
    }
}
