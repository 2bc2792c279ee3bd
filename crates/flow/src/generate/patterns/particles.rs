//! Particles: positions in a periodic box, most of them in clusters, and momenta that clusters share.

use super::count;
use crate::generate::{Asked, Field, Pattern, Stream, Values, linear};
use knarr_array::error::{Error, Result};
use knarr_codec::codec::{OptionDoc, OptionKind};

pub(super) struct Particles;

/// What is known of a particle, in the order of columns.
const COLUMNS: [&str; 6] = ["x", "y", "z", "px", "py", "pz"];
/// Columns of positions; the others are momenta.
const POSITIONS: u64 = 3;
/// Share of the particles that belong to no cluster.
const FIELD: f64 = 0.2;

impl Pattern for Particles {
    fn name(&self) -> &'static str {
        "particles"
    }

    fn summary(&self) -> &'static str {
        "clustered particles: columns x, y, z, px, py, pz of a shape NxC, or one of them for a shape N"
    }

    fn options(&self) -> &'static [OptionDoc] {
        const OPTIONS: &[OptionDoc] = &[
            OptionDoc {
                name: "column",
                kind: OptionKind::Word(&COLUMNS),
                doc: "which one, for a shape of one dimension; variables with the same seed are of the same particles",
            },
            OptionDoc {
                name: "clusters",
                kind: OptionKind::Int { min: 1, max: 1_000_000, default: Some(64) },
                doc: "how many clusters; particles of a cluster are neighbours in the file",
            },
            OptionDoc { name: "box", kind: OptionKind::FloatOr(1.0), doc: "length of the periodic box" },
            OptionDoc {
                name: "width",
                kind: OptionKind::FloatOr(0.01),
                doc: "width of a cluster as a fraction of the box",
            },
            OptionDoc {
                name: "momentum",
                kind: OptionKind::FloatOr(1.0),
                doc: "standard deviation of momenta in a cluster",
            },
        ];
        OPTIONS
    }

    fn values(&self) -> Values {
        Values::Own("say 'particles:box=100' for positions, 'particles:momentum=300' for momenta")
    }

    fn prepare(&self, asked: &Asked<'_>) -> Result<Box<dyn Field>> {
        let options = asked.options;
        let column = options.word("column")?;
        let column = COLUMNS.iter().position(|known| *known == column).unwrap_or(0) as u64;
        let (rows, columns) = match asked.shape {
            [] => (1, 1),
            [n] => (*n, 1),
            [.., n, columns] => (*n, *columns),
        };
        if columns > COLUMNS.len() as u64 {
            return Err(Error::usage(format!("a particle has {} columns, not {columns}", COLUMNS.len()))
                .hint("give a shape like 100000x6, the last extent at most 6"));
        }
        Ok(Box::new(Cloud {
            stream: Stream::new(asked.seed, "particles"),
            shape: asked.shape.to_vec(),
            rows,
            column,
            clusters: u64::from(count(options, "clusters")?),
            length: options.float("box")?,
            width: options.float("width")?,
            momentum: options.float("momentum")?,
        }))
    }
}

struct Cloud {
    stream: Stream,
    shape: Vec<u64>,
    /// Particles of one set.
    rows: u64,
    /// The column of a shape of one dimension.
    column: u64,
    clusters: u64,
    length: f64,
    width: f64,
    momentum: f64,
}

impl Cloud {
    /// A column of particle `row` of a set.
    fn value(&self, set: Stream, row: u64, column: u64) -> f64 {
        let own = set.of(row);
        let is_lone = own.unit(0) < FIELD;
        // Clusters are of different sizes: their ends are shifted at random.
        let scaled = row as f64 / self.rows.max(1) as f64 + 0.3 * (own.unit(1) - 0.5) / self.clusters as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the number of clusters")]
        let cluster = set.of(u64::MAX).of((scaled.clamp(0.0, 1.0) * self.clusters as f64) as u64);
        if column < POSITIONS {
            let place = if is_lone {
                own.unit(2 + column)
            } else {
                // Narrow in the middle with a long tail, as haloes are.
                let spread = self.width * own.unit(8) / (1.02 - own.unit(8));
                cluster.unit(column) + spread * own.normal(2 + column)
            };
            return self.length * (place - place.floor()).min(1.0 - f64::EPSILON);
        }
        let bulk = if is_lone { 0.0 } else { 2.0 * cluster.normal(column) };
        self.momentum * (bulk + own.normal(2 + column))
    }
}

impl Field for Cloud {
    fn row(&self, start: &[u64], out: &mut [f64]) {
        let set_axes = self.shape.len().saturating_sub(2);
        let set = self.stream.of(linear(&self.shape[..set_axes], start));
        for (i, value) in out.iter_mut().enumerate() {
            *value = match start {
                [] => self.value(set, 0, self.column),
                [row] => self.value(set, row + i as u64, self.column),
                [.., row, column] => self.value(set, *row, column + i as u64),
            };
        }
    }
}
