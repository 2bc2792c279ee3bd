//! Loaded filter plugins as codecs.

use knarr_array::filter::{FilterId, Hdf5Filter};
use knarr_array::{Error, Result};
use knarr_codec::codec::{Codec, Hdf5Form, Kind, OptionDoc, OptionKind, Options, Stage, Step, filter_name};
use std::sync::{Arc, Mutex, PoisonError};

use super::load::{Direction, Plugin};
use crate::support::filter;

const OPTIONS: &[OptionDoc] = &[OptionDoc {
    name: "cd",
    kind: OptionKind::Numbers,
    doc: "client data values as they stand in a file, after the filter's set_local",
}];

/// A filter plugin as the codec `plugin-ID`.
///
/// It is taken as a compressor because HDF5 hands filters bytes. Whether it is lossless depends on values that
/// only the plugin understands, so it is not offered to choices; it serves readers and forced chains.
pub(crate) struct PluginCodec {
    plugin: Arc<Plugin>,
    name: &'static str,
    summary: &'static str,
    ids: &'static [FilterId],
    wire_id: u16,
}

impl PluginCodec {
    /// The codec of a plugin; `None` if its number does not fit the frames or is reserved for HDF5 itself.
    pub(crate) fn new(plugin: Arc<Plugin>) -> Option<Self> {
        let wire_id = u16::try_from(plugin.id).ok().filter(|id| *id >= 256)?;
        let id = plugin.id;
        let summary = format!("the HDF5 filter plugin {id} ({}) that is installed on this machine", filter_name(id));
        let ids = [id];
        Some(Self {
            plugin,
            name: intern(format!("plugin-{id}")),
            summary: intern(summary),
            ids: intern_id(ids),
            wire_id,
        })
    }
}

/// Keeps one copy of a text for the life of the process. There is one per installed plugin.
fn intern(text: String) -> &'static str {
    static TEXTS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.iter().find(|known| **known == text) {
        return known;
    }
    let kept: &'static str = Box::leak(text.into_boxed_str());
    texts.push(kept);
    kept
}

/// As [`intern`], for the list of one filter number.
fn intern_id(ids: [FilterId; 1]) -> &'static [FilterId] {
    static IDS: Mutex<Vec<&'static [FilterId; 1]>> = Mutex::new(Vec::new());
    let mut known = IDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.iter().find(|found| ***found == ids) {
        return *found;
    }
    let kept: &'static [FilterId; 1] = Box::leak(Box::new(ids));
    known.push(kept);
    kept
}

impl Codec for PluginCodec {
    fn name(&self) -> &'static str {
        self.name
    }

    fn wire_id(&self) -> u16 {
        self.wire_id
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn examples(&self) -> &'static [&'static str] {
        // What its client data may be only the plugin knows.
        &[]
    }

    fn has_fixed_output(&self) -> bool {
        false
    }

    fn leaves_order(&self, _options: &Options) -> bool {
        // It may be a filter that rearranges bytes.
        true
    }

    fn options(&self) -> &'static [OptionDoc] {
        OPTIONS
    }

    fn prepare(&self, options: &Options, _input: &Stage) -> Result<Box<dyn Step>> {
        Ok(Box::new(PluginStep { plugin: Arc::clone(&self.plugin), cd_values: options.numbers("cd")? }))
    }

    fn hdf5(&self, options: &Options, _input: &Stage) -> Hdf5Form {
        options.numbers("cd").map_or(Hdf5Form::None, |cd_values| filter(self.plugin.id, cd_values))
    }

    fn hdf5_ids(&self) -> &'static [FilterId] {
        self.ids
    }

    fn from_hdf5(&self, filter: &Hdf5Filter, _input: &Stage) -> Option<Options> {
        self.plugin.has_decoder.then(|| Options::default().with_numbers("cd", &filter.cd_values))
    }
}

/// A plugin with its client data values.
pub(crate) struct PluginStep {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) cd_values: Vec<u32>,
}

impl Step for PluginStep {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        // Plugins do not say. Lossless filters expand by little, and a chunk that more than doubles is refused.
        2 * input_len + (1 << 16)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let refused = || {
            Error::unsupported(format!("plugin '{}' refuses to encode the chunk", self.plugin.name))
                .hint("choose another chain or other values for 'cd'")
        };
        if !self.plugin.has_encoder {
            return Err(Error::unsupported(format!("plugin '{}' can only decode", self.plugin.name)));
        }
        self.run(Direction::Encode, input, self.max_encoded_len(input.len()), out)?.ok_or_else(refused)
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let refused = || Error::corrupt(format!("plugin '{}' cannot decode the chunk", self.plugin.name));
        self.run(Direction::Decode, input, limit, out)?.ok_or_else(refused)
    }
}

impl PluginStep {
    fn run(&self, direction: Direction, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<Option<()>> {
        out.clear();
        // HDF5 never hands a filter an empty chunk, so plugins do not expect one.
        if input.is_empty() {
            return Ok(Some(()));
        }
        let Some(output) = self.plugin.run(direction, &self.cd_values, input)? else { return Ok(None) };
        if output.bytes().len() > limit {
            return Err(Error::corrupt(format!(
                "plugin '{}' produced {} bytes, at most {limit} expected",
                self.plugin.name,
                output.bytes().len()
            )));
        }
        out.extend_from_slice(output.bytes());
        Ok(Some(()))
    }
}
