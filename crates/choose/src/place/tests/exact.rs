//! Chunks that are encoded at one of four levels into one of three tiers: the cost of what prices say, over that of the best
//! there is. The rule of HCompress (equations 1 to 4: the least time of each task by itself, with the room that is left now)
//! is measured on the same instances.

use super::super::prices::{Prices, Resource, Way, Work};
use super::Random;

const LEVELS: [(f64, f64); 4] = [(1.0, f64::INFINITY), (1.5, 1500.0), (2.3, 350.0), (2.6, 60.0)];

/// Ways of each chunk, by level and tier, and what the tiers have room for.
struct Instance {
    chunks: Vec<Vec<Way<3>>>,
    room: [f64; 3],
}

/// Up to ten chunks of 10 to 100 MB of different kinds; memory holds a fifth of them, the next tier a third.
fn instance(random: &mut Random) -> Instance {
    let count = 4 + random.below(7);
    let rates = [6000.0, random.between(500.0, 2000.0), random.between(20.0, 200.0)];
    let sizes: Vec<f64> = (0..count).map(|_| random.between(10.0, 100.0)).collect();
    let all: f64 = sizes.iter().sum();
    let chunk = |size: &f64| {
        let (kind, pace) = (random.between(0.2, 1.8), random.between(0.6, 1.6));
        let way = |level: usize, tier: usize| {
            let (ratio, speed) = LEVELS[level];
            let encoded = size / (1.0 + (ratio - 1.0) * kind);
            let mut uses = [0.0; 3];
            uses[tier] = encoded;
            Way { seconds: size / (speed * pace) + encoded / rates[tier], uses }
        };
        (0..12).map(|index| way(index / 3, index % 3)).collect()
    };
    Instance { chunks: sizes.iter().map(chunk).collect(), room: [0.2 * all, 0.33 * all, f64::INFINITY] }
}

fn fits(way: &Way<3>, room: &[f64; 3]) -> bool {
    way.uses.iter().zip(room).all(|(used, left)| used <= left)
}

fn take(way: &Way<3>, room: &mut [f64; 3]) -> f64 {
    room.iter_mut().zip(way.uses).for_each(|(left, used)| *left -= used);
    way.seconds
}

/// The least cost: branch and bound, where what is not decided costs at least its cheapest way.
fn exact(instance: &Instance) -> f64 {
    fn search(chunks: &[Vec<Way<3>>], least: &[f64], room: [f64; 3], cost: f64, best: &mut f64) {
        let Some((chunk, rest)) = chunks.split_first() else { return *best = best.min(cost) };
        let mut ways: Vec<&Way<3>> = chunk.iter().filter(|way| fits(way, &room)).collect();
        ways.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        for way in ways {
            if cost + way.seconds + least[1] >= *best {
                break;
            }
            let mut room = room;
            let seconds = take(way, &mut room);
            search(rest, &least[1..], room, cost + seconds, best);
        }
    }
    // The largest first: bounds close sooner.
    let mut chunks = instance.chunks.clone();
    chunks.sort_by(|a, b| b[2].seconds.total_cmp(&a[2].seconds));
    let cheapest = |chunk: &Vec<Way<3>>| chunk.iter().map(|way| way.seconds).fold(f64::INFINITY, f64::min);
    let mut least = vec![0.0];
    for chunk in chunks.iter().rev() {
        least.push(least.last().unwrap() + cheapest(chunk));
    }
    least.reverse();
    let mut best = priced(instance) + 1e-9;
    search(&chunks, &least, instance.room, 0.0, &mut best);
    best
}

/// Each chunk in its turn, the largest first, even when it is encoded well, at prices for all that are left.
fn priced(instance: &Instance) -> f64 {
    let (mut room, mut cost) = (instance.room, 0.0);
    let mut chunks = instance.chunks.clone();
    let smallest =
        |chunk: &Vec<Way<3>>| chunk.iter().map(|way| way.uses.iter().sum::<f64>()).fold(f64::INFINITY, f64::min);
    chunks.sort_by(|a, b| smallest(b).total_cmp(&smallest(a)));
    let mut prices = Prices::NONE;
    for index in 0..chunks.len() {
        let left = &chunks[index..];
        let demand: Vec<Work<'_, 3>> = left.iter().map(|ways| Work { ways, times: 1.0 }).collect();
        prices = prices.search(&demand, &room.map(|capacity| Resource { capacity, least: 0.0, most: f64::INFINITY }));
        let ways: Vec<Way<3>> = left[0].iter().filter(|way| fits(way, &room)).copied().collect();
        cost += take(prices.cheapest(&ways).unwrap(), &mut room);
    }
    cost
}

/// HCompress: each chunk by itself, in the least time with the room that is left. A part of a chunk that finds no room goes to
/// the next tier.
fn greedy(instance: &Instance) -> f64 {
    let (mut room, mut cost) = (instance.room, 0.0);
    for chunk in &instance.chunks {
        let mut best = (f64::INFINITY, room);
        for level in 0..4 {
            for tier in 0..3 {
                let (mut left, mut seconds) = (room, chunk[level * 3 + 2].seconds);
                let (encoded, last) = (chunk[level * 3 + 2].uses[2], chunk[level * 3 + 2].seconds);
                let mut rest = encoded;
                for below in tier..2 {
                    let part = rest.min(left[below]);
                    left[below] -= part;
                    rest -= part;
                    seconds += (chunk[level * 3 + below].seconds - last) * part / encoded;
                }
                if seconds < best.0 {
                    best = (seconds, left);
                }
            }
        }
        cost += best.0;
        room = best.1;
    }
    cost
}

#[test]
fn prices_cost_little_more_than_the_optimum() {
    let mut random = Random(2024);
    let (mut sums, mut worst) = ([0.0; 2], [0.0_f64; 2]);
    const INSTANCES: usize = 1000;
    for _ in 0..INSTANCES {
        let instance = instance(&mut random);
        let optimum = exact(&instance);
        for (index, cost) in [priced(&instance), greedy(&instance)].into_iter().enumerate() {
            sums[index] += cost / optimum / INSTANCES as f64;
            worst[index] = worst[index].max(cost / optimum);
        }
    }
    println!(
        "of the optimum: prices {:.3} (worst {:.3}), HCompress {:.3} (worst {:.3})",
        sums[0], worst[0], sums[1], worst[1]
    );
    assert!(sums[0] <= 1.10 && worst[0] <= 1.35, "{sums:?} {worst:?}");
    assert!(sums[0] < sums[1], "{sums:?}");
}
