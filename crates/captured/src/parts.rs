//! Files whose ranks are on several nodes. Ranks are *together* if they hand over to the same spool. Each spool has a part of
//! the file, the values and logs of its ranks; the aggregator of the first one makes the file.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use knarr_array::comm::{Comm, agree, all_gather, read, written};
use knarr_array::error::{Error, Result};
use knarr_capture::{HandedOver, NodePart, SpoolPlace, Writers};
use knarr_config::InFlight;
use knarr_handover::{Bounded, Bounds, Crossed, RankValues, RemoteRank, TransferBound, WireCodecTuner, next_number};
use knarr_link::{Link, Peer, link_to};
use serde::{Deserialize, Serialize};

/// Where the library of each rank writes the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Headers {
    /// All ranks to one file.
    Shared,
    /// Each to a file of its own.
    Own,
}

/// Where a rank hands over, as it tells the others.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct RankSpool {
    token: String,
    node: String,
    peer: Option<Peer>,
    spool: Vec<u8>,
    disk: Vec<u8>,
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// The spools of the ranks.
pub struct RankSpools {
    /// In the order of their lowest ranks.
    all: Vec<RankSpool>,
    /// The ranks of each.
    ranks: Vec<Vec<usize>>,
    rank: usize,
    /// That of this rank.
    own: SpoolPlace,
}

impl RankSpools {
    /// All ranks tell where they hand over. Collective.
    ///
    /// # Errors
    /// As for [`all_gather`].
    pub fn exchange(comm: &dyn Comm, spool: &SpoolPlace) -> Result<Self> {
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let own = spool.clone();
        let SpoolPlace { directory, disk, node, token, peer, .. } = spool;
        let (spool, disk) = (bytes(directory), bytes(disk));
        let mine = RankSpool { token: token.clone(), node: node.clone(), peer: peer.clone(), spool, disk };
        let (mut all, mut ranks): (Vec<RankSpool>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
        for (rank, bytes) in all_gather(comm, &written(&mine)?)?.iter().enumerate() {
            let rank_spool: RankSpool = read(bytes)?;
            match all.iter().position(|known| known.token == rank_spool.token) {
                Some(known) => ranks[known].push(rank),
                None => {
                    all.push(rank_spool);
                    ranks.push(vec![rank]);
                }
            }
        }
        Ok(Self { all, ranks, rank: comm.rank(), own })
    }

    /// True if there are several.
    pub fn span_nodes(&self) -> bool {
        self.all.len() > 1
    }

    /// True on the lowest rank of each.
    pub fn is_first(&self) -> bool {
        self.ranks.iter().any(|ranks| ranks.first() == Some(&self.rank))
    }

    /// How the ranks write a file themselves that they open together: the launcher of the first rank looks after it, and all
    /// have to answer.
    ///
    /// # Errors
    /// Why that cannot be.
    pub fn writers(&self) -> std::result::Result<Writers, String> {
        /// Others are named in one message.
        const MOST: usize = 2000;
        let Some((first, others)) = self.all.split_first().filter(|(_, others)| !others.is_empty()) else {
            return Ok(Writers::SameNode);
        };
        if let Some(node) = self.closed() {
            return Err(format!("its ranks are on several nodes, and the 'knarr run' of node '{node}' answers nobody"));
        }
        if others.len() > MOST {
            return Err(format!("its ranks are on more than {MOST} nodes"));
        }
        Ok(match &first.peer {
            Some(peer) if self.mine() > 0 => Writers::OtherNode(peer.clone()),
            _ if self.rank == 0 => {
                Writers::SeveralNodes(others.iter().map(|rank_spool| rank_spool.token.clone()).collect())
            }
            _ => Writers::SeveralNodes(Vec::new()),
        })
    }

    /// The node of one whose aggregator answers nobody.
    pub fn closed(&self) -> Option<&str> {
        self.all.iter().find(|rank_spool| rank_spool.peer.is_none()).map(|rank_spool| rank_spool.node.as_str())
    }

    fn mine(&self) -> usize {
        self.ranks.iter().position(|ranks| ranks.contains(&self.rank)).unwrap_or(0)
    }
}

/// A file that is in several spools.
pub struct MultiNodeFile {
    parts: Vec<NodePart>,
    /// Number of that of this rank.
    part: usize,
    /// To the aggregator of each; `None` for those whose spool is on this node.
    links: Vec<Option<Arc<dyn Link>>>,
    /// To the one that makes the file, which numbers writes; even to that of this node.
    maker: OnceLock<Arc<dyn Link>>,
    /// The header that the ranks of all nodes reach, if they share one.
    header: Option<PathBuf>,
    /// How values come from other nodes.
    in_flight: InFlight,
    /// Bounds within which they may lose something, and the node that knows these.
    bounds: Option<(Arc<Bounds>, Arc<dyn Link>, String)>,
}

impl MultiNodeFile {
    /// Makes the directories of the parts. That of the first one has the name `first`, which rank 0 has made in its spool;
    /// `open` is what is known of the file. A header that is shared lies on the disk of the first one. Collective.
    ///
    /// # Errors
    /// On all ranks that of one of them; nothing stays but the directory of rank 0.
    pub fn begin(
        comm: &dyn Comm,
        spools: &RankSpools,
        (first, headers): (&str, Headers),
        open: &HandedOver,
        make: impl FnOnce() -> Result<String>,
    ) -> Result<Self> {
        let rank_spool = spools.all.first().ok_or_else(|| Error::internal("no ranks"))?;
        let disk = path(&rank_spool.disk);
        let header = HandedOver::shared_header(&disk, &rank_spool.token, first);
        let header = Some(header).filter(|_| headers == Headers::Shared);
        let mark = HandedOver::shared_mark(&disk, &rank_spool.token, first);
        let is_first = spools.is_first();
        let mine = if comm.rank() == 0 {
            File::create(&mark).map(|_| first.to_owned()).map_err(|error| Error::write(&mark, &error))
        } else {
            Ok(String::new())
        };
        let made = agree(comm, mine).and_then(|mine| {
            let name = if !is_first || comm.rank() == 0 {
                Ok(mine)
            } else if mark.exists() {
                make()
            } else {
                let what = format!("node '{}' does not see the directory", spools.all[spools.mine()].node);
                Err(Error::unsupported(what).at(disk.display().to_string()))
            };
            let names = all_gather(comm, &written(&name)?)?;
            let names = names.iter().map(|bytes| read::<Result<String>>(bytes)).collect::<Result<Vec<_>>>()?;
            match names.iter().find_map(|name| name.as_ref().err()) {
                None => Ok(names.into_iter().flatten().collect::<Vec<_>>()),
                Some(error) => {
                    if let (Ok(name), true) = (&name, is_first && comm.rank() > 0) {
                        HandedOver::discard(&path(&spools.all[spools.mine()].spool).join(name));
                    }
                    Err(error.clone())
                }
            }
        });
        if comm.rank() == 0 && fs::remove_file(&mark).is_err() {
            // What a link in the directory leads to goes with the directory.
            let _ = std::os::unix::fs::symlink(&mark, path(&rank_spool.spool).join(first).join("begin"));
        }
        let names = made?;
        let part = |(rank_spool, ranks): (&RankSpool, &Vec<usize>)| {
            let (first, peer) = (ranks.first()?, rank_spool.peer.clone()?);
            let (spool, file, token) = (path(&rank_spool.spool), names.get(*first)?.clone(), rank_spool.token.clone());
            Some(NodePart { peer, spool, token, file, ranks: ranks.clone() })
        };
        let parts: Vec<NodePart> = spools.all.iter().zip(&spools.ranks).filter_map(part).collect();
        let apart = Self { header, ..Self::of(parts, spools.mine(), InFlight::Raw, &spools.own) };
        let begun = if is_first { apart.begin_here(open) } else { Ok(()) };
        agree(comm, begun).inspect_err(|_| {
            if is_first && comm.rank() > 0 {
                HandedOver::discard(&apart.directory());
            }
        })?;
        Ok(apart)
    }

    /// One with these parts, of which part `part` is the one that this program sees as a directory. It hands over to the spool
    /// `own`.
    pub fn of(parts: Vec<NodePart>, part: usize, in_flight: InFlight, own: &SpoolPlace) -> Self {
        let link = |part: &NodePart| {
            let is_near = own.is_near(part.node(), &part.spool, &part.token);
            (!is_near).then(|| link_to(part.peer.clone()))
        };
        let links = parts.iter().map(link).collect();
        let first = parts.first().filter(|_| in_flight == InFlight::Bound);
        let bounds = first.map(|part| (Arc::default(), link_to(part.peer.clone()), part.file.clone()));
        Self { parts, part, links, maker: OnceLock::new(), header: None, in_flight, bounds }
    }

    fn begin_here(&self, open: &HandedOver) -> Result<()> {
        let directory = self.directory();
        self.note(open.clone()).begin(&directory)?;
        let Some(header) = self.header().filter(|_| self.part == 0) else { return Ok(()) };
        // What links in it lead to goes with the directory.
        let link = directory.join(HandedOver::HEADER);
        std::os::unix::fs::symlink(header, &link).map_err(|error| Error::write(&link, &error))
    }

    /// That of this rank, in its spool.
    pub fn directory(&self) -> PathBuf {
        self.parts.get(self.part).map(NodePart::directory).unwrap_or_default()
    }

    /// Path of the header that all ranks share, if they do.
    pub fn header(&self) -> Option<&Path> {
        self.header.as_deref()
    }

    /// True on the lowest rank of each part.
    pub fn is_first(&self, rank: usize) -> bool {
        self.parts.iter().any(|part| part.ranks.first() == Some(&rank))
    }

    /// What is said of the file, with that part of it which is here.
    pub fn note(&self, handed: HandedOver) -> HandedOver {
        HandedOver { parts: self.parts.clone(), part: self.part, ..handed }
    }

    /// A number for a write, larger than all that the ranks got before.
    ///
    /// # Errors
    /// As for [`next_number`].
    pub fn next_number(&self) -> Result<u64> {
        let maker = self.parts.first().ok_or_else(|| Error::internal("no node makes the file"))?;
        next_number(&**self.maker.get_or_init(|| link_to(maker.peer.clone())), &maker.file)
    }

    /// What has come of variables with a bound since this was asked last.
    pub fn take_crossed(&self) -> Vec<(Arc<TransferBound>, Crossed)> {
        self.bounds.as_ref().map(|(bounds, ..)| bounds.take_crossed()).unwrap_or_default()
    }

    /// Where the values of each of `ranks` ranks are.
    pub fn rank_values(&self, ranks: usize) -> impl Iterator<Item = RankValues> + '_ {
        (0..ranks).map(|rank| {
            let number = self.parts.iter().position(|part| part.ranks.contains(&rank)).unwrap_or(0);
            match (self.parts.get(number), self.links.get(number)) {
                (Some(part), Some(Some(link))) => {
                    let tuner = (self.in_flight != InFlight::Raw).then(|| WireCodecTuner::of(part.node()));
                    let bounded = self.bounds.as_ref().map(|(bounds, offers, file)| {
                        let (bounds, offers, file) = (Arc::clone(bounds), Arc::clone(offers), file.clone());
                        Arc::new(Bounded { bounds, offers, file, tuner: WireCodecTuner::within(part.node()) })
                    });
                    RankValues::There(RemoteRank {
                        link: Arc::clone(link),
                        file: part.file.clone(),
                        rank,
                        tuner,
                        bounded,
                    })
                }
                (Some(part), _) => here(&part.directory(), rank),
                (None, _) => here(&self.directory(), rank),
            }
        })
    }
}

/// The values of a rank that has them in a directory of this node.
pub(crate) fn here(directory: &Path, rank: usize) -> RankValues {
    RankValues::Here { values: directory.join(HandedOver::values(rank)), log: directory.join(HandedOver::log(rank)) }
}
