//! The pipeline on a source and a sink in memory: nothing lost, one order, bounds kept, failures reported.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use knarr_array::array::DType;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::libver::{LibverBounds, Release};
use knarr_array::model::Model;
use knarr_array::quality::Quality;
use knarr_array::region::{Region, chunk_region};
use knarr_choose::form::FormatLimits;
use knarr_choose::plan::{Action, Choice, Plan};
use knarr_codec::chain::{Chain, ChainSpec, Scratch};
use knarr_codec::codec::{CodecList, ReaderLevel};
use knarr_flow::engine::{Engine, Silent};
use knarr_flow::pipeline::{Execution, advise, execute, for_later, plan};
use knarr_flow::settings::{ChunkRule, Rule, Settings};
use knarr_flow::store::Source;
use knarr_testing::data::{Pattern, Random, sample};
use knarr_testing::memory::{MemorySink, MemorySource};

/// The codecs of this crate alone: what they write without a standard form lies in frames.
const TARGET: FormatLimits = FormatLimits::hdf5(ReaderLevel::Knarr);

fn engine(jobs: usize) -> Engine {
    Engine { jobs, ..Engine::new(CodecList::pure()) }
}

/// Smooth, masked and noisy variables with partial edge chunks.
fn source() -> MemorySource {
    let array = |name, dtype, shape: &[u64], pattern| {
        let extents: Vec<usize> = shape.iter().map(|&n| usize::try_from(n).unwrap()).collect();
        let sample = sample(dtype, &extents, pattern, 5);
        (name, dtype, shape.to_vec(), sample.spec.fills, sample.bytes)
    };
    MemorySource::new(vec![
        array("smooth", DType::F32, &[50, 37, 41], Pattern::Smooth),
        array("masked", DType::F64, &[20, 30, 31], Pattern::Masked),
        array("noise", DType::F32, &[9, 1000], Pattern::Noise),
        array("counts", DType::I16, &[3000], Pattern::Smooth),
        array("special", DType::F32, &[70, 90], Pattern::Special),
    ])
}

fn settings(chunks: &str) -> Settings {
    let rule = |pattern: &str, text: &str| Rule {
        pattern: pattern.to_owned(),
        chunks: Some(text.parse::<ChunkRule>().unwrap()),
        ..Rule::default()
    };
    Settings {
        goal: "ratio".parse().unwrap(),
        chunks: ChunkRule::Auto,
        rules: vec![
            rule("smooth", chunks),
            rule("masked", "7x30x31"),
            rule("noise", "2x300"),
            rule("special", "16x16"),
        ],
        ..Settings::default()
    }
}

fn repack(source: &MemorySource, settings: &Settings, jobs: usize) -> (Plan, MemorySink, Execution) {
    let engine = engine(jobs);
    let plan = advise(&engine, source, settings, TARGET, &Silent).unwrap();
    let mut sink = MemorySink::default();
    let execution = execute(&engine, source, &plan, TARGET, true, &mut sink, &Silent).unwrap();
    (plan, sink, execution)
}

fn choice(plan: &Plan, index: usize) -> &Choice {
    match &plan.variables[index].action {
        Action::Encode(choice) => choice,
        Action::Copy(why) => panic!("copied: {why}"),
    }
}

/// Decodes every chunk as a reader would and compares its valid part with the source.
fn compare(source: &MemorySource, plan: &Plan, sink: &MemorySink, mut same: impl FnMut(usize, &[u8], &[u8])) {
    let codecs = CodecList::pure();
    for (variable, position, bytes, mask) in sink.chunks() {
        let info = &source.model().variables[variable];
        let choice = choice(plan, variable);
        let region = chunk_region(&info.shape, &choice.chunk, &position);
        let chain = Chain::prepare(&codecs, &choice.chain, &info.chunk_spec(&choice.chunk)).unwrap();
        let mut decoded = Vec::new();
        if mask == 0 {
            let framed = chain.hdf5_pipeline().is_none();
            let bytes = if framed { knarr_codec::frame::read(&bytes).unwrap().payload } else { &bytes };
            chain.decode(bytes, &mut Scratch::default(), &mut decoded).unwrap();
        } else {
            decoded = bytes;
        }
        let mut original = Vec::new();
        source.read_region(variable, &region, &mut original).unwrap();
        let full = MemorySource::new(vec![("chunk", info.dtype, choice.chunk.clone(), vec![], decoded)]);
        let mut valid = Vec::new();
        full.read_region(0, &Region::whole(&region.count), &mut valid).unwrap();
        same(variable, &original, &valid);
    }
}

/// A source whose values are not to be read.
struct Unread(MemorySource);

impl Source for Unread {
    fn model(&self) -> &Model {
        self.0.model()
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn format(&self) -> &str {
        self.0.format()
    }

    fn read_region(&self, variable: usize, _: &Region, _: &mut Vec<u8>) -> Result<()> {
        Err(Error::internal(format!("variable {variable} was read")))
    }

    fn is_written(&self, _: usize, _: &Region) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn values_that_are_stored_as_they_are_are_not_looked_at() {
    let raw = Settings { chain: Some(ChainSpec::raw()), ..Settings::default() };
    let plan = advise(&engine(2), &Unread(source()), &raw, TARGET, &Silent).unwrap();
    for index in 0..5 {
        let choice = choice(&plan, index);
        assert!(choice.chain.is_raw() && choice.sample_bytes == 0 && choice.reason == "as asked");
        assert!(choice.expected.ratio == 1.0 && choice.expected.encode > 0.0);
        assert!(choice.explained("any").contains("not looked at") && !choice.explained("any").contains("candidate"));
    }
    // A bound is resolved and proven, whatever the chain.
    let bound = Settings { quality: Quality { max_range_error: Some(0.1), ..Quality::LOSSLESS }, ..raw };
    assert!(advise(&engine(2), &Unread(source()), &bound, TARGET, &Silent).is_err());
}

#[test]
fn what_a_given_chain_reaches_is_tried_for_advice_and_left_to_writing_otherwise() {
    let source = source();
    let settings = Settings { chain: Some("shuffle | brotli:1".parse().unwrap()), ..Settings::default() };
    let advised = advise(&engine(2), &source, &settings, TARGET, &Silent).unwrap();
    let planned = plan(&engine(2), &source, &settings, TARGET, &Silent).unwrap();
    let execution = execute(&engine(2), &source, &planned, TARGET, true, &mut MemorySink::default(), &Silent).unwrap();
    for (index, written) in &execution.variables {
        let (tried, believed) = (choice(&advised, *index), choice(&planned, *index));
        assert_eq!((&tried.chain, &tried.reason), (&believed.chain, &believed.reason));
        assert!(tried.sample_bytes > 0 && believed.sample_bytes == 0);
        let reached = written.raw_bytes as f64 / written.encoded_bytes as f64;
        // Frames add a header to what the chain reaches.
        assert!((tried.expected.ratio / reached - 1.0).abs() < 0.15, "{index}: {} for {reached}", tried.expected.ratio);
    }
    assert_eq!(execution.variables.len(), 5);
}

#[test]
fn every_bit_arrives_and_threads_do_not_matter() {
    let source = source();
    let settings = settings("4x20x41");
    let (plan, sink, execution) = repack(&source, &settings, 1);
    compare(&source, &plan, &sink, |variable, a, b| assert!(a == b, "variable {variable} changed"));
    assert_eq!(execution.variables.len(), 5);
    for jobs in [2, 3, 16] {
        let (other_plan, other, _) = repack(&source, &settings, jobs);
        assert!(other.chunks() == sink.chunks(), "{jobs} threads gave other bytes or another order");
        for index in 0..5 {
            assert_eq!(choice(&plan, index).chain, choice(&other_plan, index).chain);
        }
    }
    let noise = execution.variables[&2];
    assert_eq!(noise.stored_chunks, noise.chunks, "random bits are stored, never larger");
    assert!(execution.variables.values().all(|report| report.encoded_bytes <= report.raw_bytes * 2));
}

#[test]
fn threads_that_may_work_at_times_write_the_same_bytes() {
    let (source, settings) = (source(), settings("4x20x41"));
    let (plan, sink, _) = repack(&source, &settings, 1);
    let (engine, is_over) = (engine(4), AtomicBool::new(false));
    let mut other = MemorySink::default();
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in (1..=4).cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
                engine.allowed.set(number);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let done = execute(&engine, &source, &plan, TARGET, true, &mut other, &Silent);
        is_over.store(true, Ordering::Relaxed);
        done
    });
    assert_eq!(done.unwrap().variables.len(), 5);
    assert!(other.chunks() == sink.chunks());
}

#[test]
fn bounds_hold_for_every_element_and_specials_stay() {
    let source = source();
    for quality in [
        Quality { max_abs_error: Some(0.01), ..Quality::LOSSLESS },
        Quality { max_range_error: Some(1e-3), ..Quality::LOSSLESS },
        Quality { max_rel_error: Some(1e-3), finest_abs_error: Some(1e-6), ..Quality::LOSSLESS },
        Quality { significant_digits: Some(3), max_abs_error: Some(0.5), ..Quality::LOSSLESS },
        Quality { significant_bits: Some(8), ..Quality::LOSSLESS },
    ] {
        let settings = Settings { quality, ..settings("4x20x41") };
        let (plan, sink, execution) = repack(&source, &settings, 2);
        for index in [0, 1, 4] {
            assert!(choice(&plan, index).bound.is_some(), "{quality}: {}", choice(&plan, index).chain);
        }
        assert!(choice(&plan, 3).bound.is_none(), "integers stay lossless");
        compare(&source, &plan, &sink, |variable, a, b| {
            let info = &source.model().variables[variable];
            match choice(&plan, variable).bound {
                Some(bound) => {
                    let mut spec = info.chunk_spec(&[(a.len() / info.dtype.size()) as u64]);
                    spec.fills.clone_from(&info.fills);
                    bound.check(&spec, a, b).unwrap_or_else(|error| panic!("{quality}: {error}"));
                }
                None => assert!(a == b),
            }
        });
        let smooth = execution.variables[&0];
        assert!(smooth.observed.is_some_and(|seen| seen.changed > 0), "{quality}: rounding was expected");
    }
}

#[test]
fn little_memory_and_many_threads_do_not_block() {
    let source = source();
    let settings = settings("1x5x5");
    let small = Engine { max_mem: 2 << 20, ..engine(8) };
    let plan = advise(&small, &source, &settings, TARGET, &Silent).unwrap();
    let mut sink = MemorySink::default();
    execute(&small, &source, &plan, TARGET, true, &mut sink, &Silent).unwrap();
    assert_eq!(sink.chunks().len(), sink.by_place().len());
    let tiny = Engine { max_mem: 1000, ..engine(2) };
    let error = execute(&tiny, &source, &plan, TARGET, true, &mut MemorySink::default(), &Silent).unwrap_err();
    assert!(error.to_string().contains("--max-mem"), "{error}");
}

#[test]
fn failures_say_where_and_stop_everything() {
    let mut source = source();
    let settings = settings("4x20x41");
    let engine = engine(3);
    let plan = advise(&engine, &source, &settings, TARGET, &Silent).unwrap();
    let mut full = MemorySink::default();
    full.full_after = Some(7);
    let error = execute(&engine, &source, &plan, TARGET, true, &mut full, &Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Write);
    assert_eq!(full.chunks().len(), 7);
    source.damaged = Some((1, 18_000));
    let error = execute(&engine, &source, &plan, TARGET, true, &mut MemorySink::default(), &Silent).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("memory: variable 'masked': chunk ("), "{text}");
    engine.cancel.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = execute(&engine, &source, &plan, TARGET, true, &mut MemorySink::default(), &Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
}

#[test]
fn requests_that_cannot_be_served_are_errors() {
    let source = source();
    let standard = FormatLimits::hdf5(ReaderLevel::Standard);
    let try_with = |settings: Settings| advise(&engine(1), &source, &settings, standard, &Silent).unwrap_err();
    let forced = |chain: &str| Settings { chain: Some(chain.parse().unwrap()), ..Settings::default() };
    assert_eq!(try_with(forced("round:abs=0.1 | shuffle")).kind(), ErrorKind::Quality);
    assert!(try_with(forced("shuffle | no-such")).to_string().contains("choose from"));
    assert!(try_with(forced("pcodec")).to_string().contains("--portable knarr"));
    let rule = Rule {
        pattern: "counts".to_owned(),
        quality: Some(Quality { max_abs_error: Some(1.0), ..Quality::LOSSLESS }),
        ..Rule::default()
    };
    let settings = Settings { rules: vec![rule], ..Settings::default() };
    let error = advise(&engine(1), &source, &settings, TARGET, &Silent).unwrap_err();
    assert!(error.to_string().contains("variable 'counts'"), "{error}");
}

#[test]
fn random_bytes_of_a_random_shape_survive_random_chunks() {
    let mut random = Random::new(2024);
    for _ in 0..40 {
        let rank = 1 + random.below(4);
        let shape: Vec<u64> = (0..rank).map(|_| 1 + random.below(30) as u64).collect();
        let chunk: Vec<String> = (0..rank).map(|_| (1 + random.below(12)).to_string()).collect();
        let len = usize::try_from(shape.iter().product::<u64>()).unwrap() * 4;
        let bytes: Vec<u8> = (0..len).map(|_| u8::try_from(random.below(3)).unwrap()).collect();
        let source = MemorySource::new(vec![("v", DType::F32, shape, vec![], bytes)]);
        let settings = Settings {
            chunks: chunk.join("x").parse().unwrap(),
            chain: Some("shuffle | snappy".parse().unwrap()),
            ..Settings::default()
        };
        let (plan, sink, _) = repack(&source, &settings, 2);
        compare(&source, &plan, &sink, |_, a, b| assert!(a == b));
    }
}

/// Blocks of two kinds in turn, as codes with adaptive meshes write them.
fn blocks(count: u64) -> MemorySource {
    let names =
        ["smooth", "noise"].map(|kind| (0..count).map(|i| format!("{kind}{i}").leak() as &str).collect::<Vec<_>>());
    let block = |name, pattern, seed| {
        let sample = sample(DType::F32, &[16, 16, 16], pattern, seed);
        (name, DType::F32, vec![16, 16, 16], sample.spec.fills, sample.bytes)
    };
    let pairs = names[0].iter().zip(&names[1]).zip(0..);
    MemorySource::new(
        pairs
            .flat_map(|((smooth, noise), seed)| {
                [block(*smooth, Pattern::Smooth, seed), block(*noise, Pattern::Noise, seed)]
            })
            .collect(),
    )
}

#[test]
fn a_plan_is_carried_out_again_and_serves_other_shapes_without_a_look() {
    let bound = |pattern: &str| Rule {
        pattern: pattern.to_owned(),
        quality: Some(Quality { max_abs_error: Some(0.01), ..Quality::LOSSLESS }),
        ..Rule::default()
    };
    let mut asked = settings("8x37x41");
    asked.rules.extend([bound("smooth"), bound("masked")]);
    let (first, sink, _) = repack(&source(), &asked, 2);
    let again = Settings { plan: Some(Arc::new(first.clone())), goal: first.goal.clone(), ..Settings::default() };
    let (second, repeated, _) = repack(&source(), &again, 1);
    assert_eq!(repeated.by_place(), sink.by_place());
    for (index, variable) in second.variables.iter().enumerate() {
        let Action::Encode(choice) = &variable.action else { continue };
        assert!(choice.sample_bytes == 0 && choice.reason.starts_with("as planned: "), "{}", choice.reason);
        assert_eq!(
            (&choice.chain, choice.bound),
            (&self::choice(&first, index).chain, self::choice(&first, index).bound)
        );
    }
    // A plan of a plan says why the chain was chosen, once.
    let third = Settings { plan: Some(Arc::new(second)), ..again.clone() };
    assert_eq!(choice(&repack(&source(), &third, 1).0, 0).reason.matches("as planned").count(), 1);
    // A fraction of the range of other values is another bound.
    let ranged = |source: &MemorySource, plan: Option<Plan>| {
        let quality = Quality { max_range_error: Some(0.001), ..Quality::LOSSLESS };
        let asked = match plan {
            None => Settings { quality, goal: "ratio".parse().unwrap(), ..Settings::default() },
            Some(plan) => Settings { plan: Some(Arc::new(plan)), ..Settings::default() },
        };
        let (plan, _, execution) = repack(source, &asked, 1);
        assert_eq!(execution.variables[&0].fallback_chunks, 0);
        plan
    };
    let times = |factor: f32| {
        let found = sample(DType::F32, &[50, 37, 41], Pattern::Smooth, 5);
        let scaled = found
            .bytes
            .chunks_exact(4)
            .flat_map(|bytes| (f32::from_le_bytes(bytes.try_into().unwrap()) * factor).to_le_bytes());
        MemorySource::new(vec![("smooth", DType::F32, vec![50, 37, 41], Vec::new(), scaled.collect())])
    };
    let small = ranged(&times(1.0), None);
    let large = ranged(&times(0.01), Some(small.clone()));
    let bounds = [&small, &large].map(|plan| choice(plan, 0).bound.unwrap().abs);
    assert!((bounds[0] / bounds[1] - 100.0).abs() < 1.0, "{bounds:?}");
    assert!(choice(&large, 0).chain.to_string().contains(&format!("{:?}", bounds[1])), "{}", choice(&large, 0).chain);
    // Another month, and a variable that the plan does not know.
    let other = sample(DType::F32, &[13, 37, 41], Pattern::Smooth, 9);
    let array = |name| (name, DType::F32, vec![13, 37, 41], other.spec.fills.clone(), other.bytes.clone());
    let other = MemorySource::new(vec![array("new"), array("smooth")]);
    let (plan, sink, _) = repack(&other, &again, 2);
    assert!(choice(&plan, 0).sample_bytes > 0 && choice(&plan, 1).sample_bytes == 0);
    compare(&other, &plan, &sink, |index, a, b| match index {
        0 => assert_eq!(a, b),
        _ => a.chunks_exact(4).zip(b.chunks_exact(4)).for_each(|(a, b)| {
            let [a, b] = [a, b].map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
            assert!((f64::from(a) - f64::from(b)).abs() <= 0.01);
        }),
    });
}

#[test]
fn plans_that_do_not_fit_are_errors() {
    let (plan, ..) = repack(&source(), &settings("8x37x41"), 1);
    let refuse = |change: fn(&mut Plan), target, text: &str| {
        let mut plan = plan.clone();
        change(&mut plan);
        let settings = Settings { plan: Some(Arc::new(plan)), ..Settings::default() };
        let error = advise(&engine(1), &source(), &settings, target, &Silent).unwrap_err();
        assert!(error.to_string().contains(text) && error.advice().is_some(), "{error}");
    };
    fn first(plan: &mut Plan) -> &mut Choice {
        match &mut plan.variables[0].action {
            Action::Encode(choice) => choice,
            Action::Copy(why) => panic!("copied: {why}"),
        }
    }
    refuse(
        |_| (),
        FormatLimits::zarr(ReaderLevel::Core),
        "the plan is for an HDF5 or netCDF-4 file, the output is a Zarr store",
    );
    refuse(|plan| plan.variables[0].dtype = DType::F64, TARGET, "the plan is for f64 with 3 dimensions");
    refuse(|plan| plan.variables[0].shape = vec![4], TARGET, "1 dimension, the variable is f32 with 3");
    refuse(|plan| first(plan).chunk[1] = 0, TARGET, "chunks");
    refuse(|plan| first(plan).chain = "zstd:9".parse().unwrap(), TARGET, "zstd");
}

#[test]
fn small_variables_that_look_alike_share_a_choice_whatever_the_threads() {
    let (source, settings) = (blocks(40), Settings { goal: "ratio".parse().unwrap(), ..Settings::default() });
    let (plan, sink, _) = repack(&source, &settings, 1);
    let mut compared = 0;
    compare(&source, &plan, &sink, |_, original, valid| {
        assert_eq!(original, valid);
        compared += 1;
    });
    assert!(compared >= 40);
    let own = plan.choices().filter(|choice| !choice.candidates.is_empty()).count();
    assert!((1..=12).contains(&own), "{own} choices for 80 blocks of two kinds");
    for (index, planned) in plan.variables.iter().enumerate().step_by(2) {
        let smooth = choice(&plan, index);
        assert!(smooth.expected.ratio > 1.1, "{}: {}", planned.path, smooth.reason);
        assert!(!smooth.reason.contains("noise"), "{}: {}", planned.path, smooth.reason);
        assert!(smooth.features.elements > 0);
    }
    let (other, again, _) = repack(&source, &settings, 3);
    assert_eq!(again.chunks(), sink.chunks());
    for (a, b) in plan.choices().zip(other.choices()) {
        assert_eq!((&a.chain, &a.reason), (&b.chain, &b.reason));
    }
}

#[test]
fn values_that_look_as_in_an_earlier_file_are_encoded_as_there() {
    let file = |pattern, seed, shape: [u64; 3]| {
        let values = |name, shape: [u64; 3]| {
            let sample = sample(DType::F32, &shape.map(|n| usize::try_from(n).unwrap()), pattern, seed);
            (name, DType::F32, shape.to_vec(), sample.spec.fills, sample.bytes)
        };
        MemorySource::new(vec![values("large", shape), values("small", [6, 37, 41])])
    };
    let bound = |max_abs_error| Quality { max_abs_error, ..Quality::LOSSLESS };
    let settings = |quality, earlier: Option<&Plan>| Settings {
        rules: vec![Rule { pattern: "large".into(), chunks: Some("8x37x41".parse().unwrap()), ..Rule::default() }],
        quality,
        earlier: earlier.map(|plan| Arc::new(for_later(plan.clone()))),
        ..Settings::default()
    };
    let taken = |plan: &Plan, index| choice(plan, index).reason.contains("as in an earlier file");
    for quality in [bound(None), bound(Some(0.01))] {
        let (first, ..) = repack(&file(Pattern::Smooth, 5, [50, 37, 41]), &settings(quality, None), 2);
        assert!(!taken(&first, 0) && !choice(&first, 0).candidates.is_empty());
        let later = file(Pattern::Smooth, 6, [70, 37, 41]);
        let (second, sink, _) = repack(&later, &settings(quality, Some(&first)), 2);
        assert!(taken(&second, 0) && taken(&second, 1), "small ones, too");
        assert_eq!(choice(&second, 0).chain, choice(&first, 0).chain);
        let most = quality.max_abs_error.unwrap_or(0.0);
        compare(&later, &second, &sink, |_, original, valid| {
            for (a, b) in original.as_chunks().0.iter().zip(valid.as_chunks().0) {
                let (a, b) = (f32::from_le_bytes(*a), f32::from_le_bytes(*b));
                assert!(f64::from((a - b).abs()) <= most, "{a} {b}");
            }
        });
        // It serves the third as it did the second.
        let (third, ..) = repack(&file(Pattern::Smooth, 7, [50, 37, 41]), &settings(quality, Some(&second)), 2);
        assert!(taken(&third, 0));
        assert_eq!(choice(&third, 0).features, choice(&first, 0).features);
        let other = if quality.is_lossless() { bound(Some(0.01)) } else { bound(Some(0.02)) };
        for (source, quality) in [(file(Pattern::Noise, 6, [50, 37, 41]), quality), (later, other)] {
            let (anew, ..) = repack(&source, &settings(quality, Some(&first)), 2);
            assert!(!taken(&anew, 0), "{}", choice(&anew, 0).reason);
        }
    }
}

#[test]
fn few_small_variables_have_choices_of_their_own() {
    let (source, settings) = (blocks(7), Settings { goal: "ratio".parse().unwrap(), ..Settings::default() });
    let plan = advise(&engine(2), &source, &settings, TARGET, &Silent).unwrap();
    assert!(plan.choices().all(|choice| !choice.reason.contains("looks alike")));
}

#[test]
fn an_index_of_chunks_must_pay_for_itself() {
    let words = |count: u32| (0..count).flat_map(|i| (i / 7).to_le_bytes()).collect::<Vec<u8>>();
    let source = MemorySource::new(vec![
        ("small", DType::U32, vec![8, 8, 12], Vec::new(), words(768)),
        ("large", DType::U32, vec![8, 8, 64], Vec::new(), words(4096)),
    ]);
    let planned = |settings: &Settings| advise(&engine(1), &source, settings, TARGET, &Silent).unwrap();
    let plan = planned(&Settings::default());
    assert!(matches!(&plan.variables[0].action, Action::Copy(why) if why.contains("index of chunks")));
    assert!(matches!(&plan.variables[1].action, Action::Encode(_)));
    // Later forms of the file have no index for one chunk, and who names a chain gets it.
    let low = Settings { libver: LibverBounds { low: Release::V110, high: Release::V200 }, ..Settings::default() };
    assert!(matches!(&planned(&low).variables[0].action, Action::Encode(_)));
    let named = Settings { chain: Some("shuffle | brotli:5".parse().unwrap()), ..Settings::default() };
    assert!(matches!(&planned(&named).variables[0].action, Action::Encode(_)));
}
