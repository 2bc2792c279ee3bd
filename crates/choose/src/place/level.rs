//! The level at which a file is encoded.

use serde::{Deserialize, Serialize};

use super::objective::Objective;
use super::outlook::Outlook;
use super::prices::{Prices, Resource, Way, Work};

/// What a level makes of data, or is expected to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Raw bytes over encoded bytes.
    pub ratio: f64,
    /// Core-seconds for a raw byte.
    pub encode: f64,
    /// The same, to decode it.
    pub decode: f64,
}

impl Level {
    fn encoded(&self) -> f64 {
        1.0 / self.ratio.max(f64::MIN_POSITIVE)
    }
}

impl Outlook {
    /// Which of the levels is best for the file that is next; of equal ones the first. `next` is what they make of it, `others` what
    /// they make of files that wait, with their raw bytes. What is to come counts as being like the next one.
    pub fn best(&self, next: &[Level], bytes: f64, others: &[(&[Level], f64)], objective: Objective) -> Option<usize> {
        let ways = |levels: &[Level]| levels.iter().map(|level| way(level, objective)).collect::<Vec<_>>();
        let own = ways(next);
        let others: Vec<_> = others.iter().map(|(levels, bytes)| (ways(levels), *bytes)).collect();
        let demand = |own_bytes: f64| {
            let others = others.iter().map(|(ways, bytes)| Work { ways, times: *bytes });
            [Work { ways: &own, times: own_bytes }].into_iter().chain(others).collect::<Vec<_>>()
        };
        let prices = match objective {
            Objective::Blocked => self.least_blocked(bytes, demand),
            Objective::Durable => self.soonest(&demand(bytes + self.to_come.bytes)),
            Objective::Size => Prices([1.0, 0.0]),
            Objective::Weighted { encode, ratio, .. } => Prices([ratio / self.drain, encode]),
        };
        let costs = own.iter().map(|way| prices.cost(way)).enumerate();
        costs.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(index, _)| index)
    }

    /// What the program would wait for: room for the next burst, or for all that is to come.
    fn least_blocked<'a>(&self, bytes: f64, demand: impl Fn(f64) -> Vec<Work<'a, 2>>) -> Prices<2> {
        // What may stay in memory is not in a hurry, as long as the next burst finds room.
        let stays = (self.memory - self.to_come.burst).max(0.0);
        let search = |bytes: f64, seconds: f64| {
            let resources = self.resources(seconds);
            Prices(resources.map(|resource| resource.least)).search(&demand(bytes), &resources)
        };
        let soon = search((bytes - stays).max(0.0), self.to_come.next);
        let later = search((bytes + self.to_come.bytes - stays).max(bytes), self.to_come.seconds);
        Prices(std::array::from_fn(|index| soon.0[index].max(later.0[index])))
    }

    /// What there is within so many seconds, and what more of it costs: a byte that finds no room makes the program wait for
    /// the link, and a second of encoding for which no core is left makes it wait or computes for it. Bytes cost a little even if
    /// there is room: what costs nobody anything is spent on smaller files.
    fn resources(&self, seconds: f64) -> [Resource; 2] {
        let (byte, second) = (1.0 / self.drain, 1.0 / self.cores.max(1.0));
        let bytes = self.room - self.queued + self.drain * seconds;
        [
            Resource { capacity: bytes.max(0.0), least: TIE * byte, most: byte },
            Resource { capacity: self.idle_cores * seconds, least: TIE * TIE * second, most: second },
        ]
    }

    /// The link and the processors are busy equally long.
    fn soonest(&self, demand: &[Work<'_, 2>]) -> Prices<2> {
        let cores = self.idle_cores.max(1.0);
        let at = |weight: f64| Prices([weight / self.drain, (1.0 - weight) / cores]);
        let takes = |weight: f64| {
            let prices = at(weight);
            (prices.used(demand, 0) / self.drain, prices.used(demand, 1) / cores)
        };
        // The larger the weight of the link, the fewer bytes go there.
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..STEPS {
            let middle = f64::midpoint(low, high);
            let (link, processors) = takes(middle);
            if link > processors { low = middle } else { high = middle }
        }
        let until = |weight: f64| {
            let (link, processors) = takes(weight);
            link.max(processors)
        };
        at(if until(low) < until(high) { low } else { high })
    }
}

/// Halvings of the range of a weight.
const STEPS: usize = 40;
/// Part of its highest price that a resource costs which is not scarce.
const TIE: f64 = 1e-3;

/// What a raw byte takes.
fn way(level: &Level, objective: Objective) -> Way<2> {
    let seconds = if let Objective::Weighted { decode, .. } = objective { decode * level.decode } else { 0.0 };
    Way { seconds, uses: [level.encoded(), level.encode] }
}
