//! What a unit of each scarce resource is worth, in seconds.

/// Prices that are tried for each resource: so many, each so much lower than the one before.
const STEPS: i32 = 32;
const STEP: f64 = 0.7;

/// A way to do something: the seconds that it takes by itself, and what it uses of each of `R` resources.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Way<const R: usize> {
    /// Seconds, whatever else happens.
    pub seconds: f64,
    /// Units of each resource.
    pub uses: [f64; R],
}

/// A resource: how much of it there is, and the most that a unit beyond that costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resource {
    /// Units.
    pub capacity: f64,
    /// Seconds a unit, even if there is enough.
    pub least: f64,
    /// Seconds that a unit beyond what there is costs; infinite if there is no more at any price.
    pub most: f64,
}

/// Something to be done, so many times, in one of some ways.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a, const R: usize> {
    /// The ways.
    pub ways: &'a [Way<R>],
    /// How often; parts count, too.
    pub times: f64,
}

/// Seconds that a unit of each resource is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices<const R: usize>(pub [f64; R]);

impl<const R: usize> Prices<R> {
    /// Nothing costs anything.
    pub const NONE: Self = Self([0.0; R]);

    /// Seconds that a way costs.
    pub fn cost(&self, way: &Way<R>) -> f64 {
        self.0.iter().zip(&way.uses).fold(way.seconds, |cost, (price, used)| cost + price * used)
    }

    /// The cheapest way; of equal ones the first. `None` if there is none.
    pub fn cheapest<'a>(&self, ways: impl IntoIterator<Item = &'a Way<R>>) -> Option<&'a Way<R>> {
        let mut best: Option<(&Way<R>, f64)> = None;
        for way in ways {
            let cost = self.cost(way);
            if best.is_none_or(|(_, least)| cost < least) {
                best = Some((way, cost));
            }
        }
        best.map(|(way, _)| way)
    }

    /// The prices at which all that is to be done costs least: each thing in its turn, in its cheapest way that there is room for.
    /// Where things do not fit piece by piece, the largest should come first. If nothing is cheaper than these prices, they stay.
    pub fn search(self, demand: &[Work<'_, R>], resources: &[Resource; R]) -> Self {
        let mut best = (self.cost_of_all(demand, resources), self);
        let least = Self(resources.map(|resource| resource.least));
        // What everybody takes who pays the least can be had: no other prices are better.
        if resources.iter().enumerate().all(|(index, of)| least.used(demand, index) <= of.capacity) {
            return if least.cost_of_all(demand, resources) < best.0 { least } else { best.1 };
        }
        let tried: Vec<Vec<f64>> = resources.iter().enumerate().map(|(index, of)| of.prices(demand, index)).collect();
        let mut chosen = [0; R];
        loop {
            let mut prices = Self::NONE;
            for (price, (tried, chosen)) in prices.0.iter_mut().zip(tried.iter().zip(&chosen)) {
                *price = tried.get(*chosen).copied().unwrap_or_default();
            }
            let cost = prices.cost_of_all(demand, resources);
            if cost < best.0 {
                best = (cost, prices);
            }
            // The next combination.
            let has_more =
                |(index, tried): (usize, &Vec<f64>)| chosen.get(index).is_some_and(|at| at + 1 < tried.len());
            let Some(next) = tried.iter().enumerate().position(has_more) else { return best.1 };
            for (index, at) in chosen.iter_mut().enumerate().take(next + 1) {
                *at = if index == next { *at + 1 } else { 0 };
            }
        }
    }

    /// Seconds that all of it costs at these prices, in turn: what it takes, and what is used beyond what there is.
    fn cost_of_all(&self, demand: &[Work<'_, R>], resources: &[Resource; R]) -> f64 {
        let (mut used, mut cost) = ([0.0; R], 0.0);
        for Work { ways, times } in demand {
            let fits = |way: &&Way<R>| {
                let all = way.uses.iter().zip(resources).zip(&used);
                all.into_iter().all(|((more, of), used)| of.most.is_finite() || used + more * times <= of.capacity)
            };
            let Some(way) = self.cheapest(ways.iter().filter(fits)) else { return f64::INFINITY };
            cost += times * way.seconds;
            used.iter_mut().zip(&way.uses).for_each(|(used, more)| *used += more * times);
        }
        let of = |(of, used): (&Resource, &f64)| match used - of.capacity {
            beyond if beyond > 0.0 => of.capacity * of.least + beyond * of.most,
            _ => used * of.least,
        };
        cost + resources.iter().zip(&used).map(of).sum::<f64>()
    }

    /// Units of one resource that are used at these prices.
    pub(super) fn used(&self, demand: &[Work<'_, R>], index: usize) -> f64 {
        let of = |work: &Work<'_, R>| Some(work.times * self.cheapest(work.ways)?.uses.get(index)?);
        demand.iter().filter_map(of).sum()
    }
}

impl Resource {
    /// Prices to try, the lowest first: the highest one is that of what is beyond, or one at which no thing changes its way.
    fn prices<const R: usize>(&self, demand: &[Work<'_, R>], index: usize) -> Vec<f64> {
        if self.capacity.is_infinite() {
            return vec![self.least];
        }
        let used = |way: &Way<R>| way.uses.get(index).copied().unwrap_or_default();
        let decisive = |Work { ways, .. }: &Work<'_, R>| {
            let seconds = ways.iter().map(|way| way.seconds).fold(0.0, f64::max);
            let least = ways.iter().map(used).filter(|used| *used > 0.0).fold(f64::INFINITY, f64::min);
            seconds / least
        };
        let highest = if self.most.is_finite() { self.most } else { demand.iter().map(decisive).fold(0.0, f64::max) };
        let mut tried: Vec<f64> = (0..STEPS).rev().map(|step| highest * STEP.powi(step)).collect();
        tried.retain(|price| *price > self.least);
        tried.insert(0, self.least);
        tried
    }
}
