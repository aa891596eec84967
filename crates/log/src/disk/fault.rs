//! The simulated disk: in memory, deterministic, and with the faults of a real disk.
//!
//! A write stays in the simulated kernel's cache until its file is synced. The kernel can also
//! write it to the disk earlier. A power failure keeps any subset of the unsynced 512-byte sectors.
//! Each sector has its current content or an older content, never a mixture. A power failure also
//! keeps any subset of the unsynced changes to the folder. After a failed sync, all sectors look
//! clean, even those that are not on the disk. A sync waits only for the writes before it: what is
//! written during a sync can be lost.
//!
//! The disk counts the calls that change something. So a test can plan a crash or a failure at any
//! of these calls. The disk counts reads separately. It can fill up, and a test can flip bits. It
//! does not simulate torn sectors, or bits that change without a request.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Formatter};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::disk::{Disk, DiskFile, Space};

/// "Too many open files".
const EMFILE: i32 = 24;

/// The size of a sector. A power failure never tears a sector.
const SECTOR_BYTES: usize = 512;
/// The size of a block. To write a part of a block, the simulated kernel reads the block first.
const BLOCK_BYTES: usize = 4096;

/// A disk in memory. All clones use the same disk.
#[derive(Clone, Debug)]
pub struct FaultDisk(Arc<Mutex<State>>);

/// The planned fault of a call.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Planned {
    /// The power fails in the middle of the call.
    Crash,
    /// The call fails with EIO. Later calls succeed.
    Fail,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    /// The content in the kernel's cache: a read returns it.
    live: Vec<u8>,
    /// The content on the disk: a read returns it after a power failure.
    durable: Vec<u8>,
    /// The sectors that are not on the disk, each with the numbers of the oldest and the newest write that are
    /// missing.
    dirty: BTreeMap<usize, (u64, u64)>,
    /// The number of writes so far.
    writes: u64,
}

/// What happens during each sync.
#[derive(Clone)]
struct DuringSync(Arc<dyn Fn() + Send + Sync>);

impl Debug for DuringSync {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("DuringSync")
    }
}

/// A change of the folder that is not synced yet.
#[derive(Clone, Debug)]
enum FolderChange {
    Create(String, usize),
    Rename(String, String),
    Remove(String),
}

#[derive(Clone, Debug)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    folder_changes: Vec<FolderChange>,
    locked: bool,
    /// The number of the process's *life*: how many crashes and restarts there were so far. Calls
    /// with a file that was opened in an earlier life fail.
    life: u64,
    powered: bool,
    calls: u64,
    reads: u64,
    rests: u64,
    rested: Duration,
    /// How long a sync takes.
    sync_time: Duration,
    during_sync: Option<DuringSync>,
    planned: Option<(u64, Planned)>,
    planned_reads: Range<u64>,
    /// How many files can still be opened or created. `None`: any number.
    opens_left: Option<u64>,
    /// How often there was no descriptor.
    refused_opens: u64,
    /// The sectors that cannot be read, as pairs of an inode and a sector.
    bad_sectors: BTreeSet<(usize, usize)>,
    capacity: u64,
    /// See [`FaultDisk::set_quota`].
    quota: u64,
    random: u64,
}

/// An open file of one process.
#[derive(Debug)]
struct FaultFile {
    disk: FaultDisk,
    inode: usize,
    life: u64,
    is_syncing: AtomicBool,
}

fn power_is_off() -> io::Error {
    io::Error::other("the simulated power is off")
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(5)
}

impl FaultDisk {
    /// An empty disk with this capacity in bytes. All its random choices come from the seed.
    pub fn new(seed: u64, capacity: u64) -> FaultDisk {
        FaultDisk(Arc::new(Mutex::new(State {
            inodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            folder_changes: Vec::new(),
            locked: false,
            life: 0,
            powered: true,
            calls: 0,
            reads: 0,
            rests: 0,
            rested: Duration::ZERO,
            sync_time: Duration::ZERO,
            during_sync: None,
            planned: None,
            planned_reads: 0..0,
            opens_left: None,
            refused_opens: 0,
            bad_sectors: BTreeSet::new(),
            capacity,
            quota: u64::MAX,
            random: seed,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets each sync take this time. Other calls go on meanwhile.
    pub fn set_sync_time(&self, time: Duration) {
        self.state().sync_time = time;
    }

    /// Calls this function during each sync of a file, before the sync ends.
    pub fn set_during_sync(&self, during: impl Fn() + Send + Sync + 'static) {
        self.state().during_sync = Some(DuringSync(Arc::new(during)));
    }

    /// An independent disk with the same files and planned faults.
    #[must_use]
    pub fn fork(&self) -> FaultDisk {
        FaultDisk(Arc::new(Mutex::new(self.state().clone())))
    }

    /// The number of calls so far that change something.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// The number of reads so far.
    pub fn reads(&self) -> u64 {
        self.state().reads
    }

    /// How often the log has let other threads use the disk so far.
    pub fn rests(&self) -> u64 {
        self.state().rests
    }

    /// For how long the log has let other threads use the disk so far.
    pub fn rested(&self) -> Duration {
        self.state().rested
    }

    /// Plans a power failure in the middle of a changing call: the call with this number, from 1.
    /// Afterwards every call fails, until the test calls `crash`.
    pub fn crash_at(&self, call: u64) {
        self.state().planned = Some((call, Planned::Crash));
    }

    /// Plans a failure of the changing call with this number. Later calls succeed.
    pub fn fail_at(&self, call: u64) {
        self.state().planned = Some((call, Planned::Fail));
    }

    /// Plans a failure of the read with this number. Later reads succeed.
    pub fn fail_read_at(&self, read: u64) {
        self.fail_reads(read..read + 1);
    }

    /// Plans a failure of the reads with these numbers.
    pub fn fail_reads(&self, reads: Range<u64>) {
        self.state().planned_reads = reads;
    }

    /// From now on, all reads of the sector at this offset of a file fail, and all writes of a part of its
    /// block of 4096 bytes. Such a write writes what comes before the block. A write of the whole block
    /// mends the sector.
    pub fn fail_sector(&self, name: &str, offset: u64) {
        let mut state = self.state();
        if let Some(&inode) = state.names.get(name) {
            state.bad_sectors.insert((inode, offset as usize / SECTOR_BYTES));
        }
    }

    /// From now on, files can be opened and created, or cannot be, as if the process had too many
    /// open files.
    pub fn set_fail_opens(&self, fails: bool) {
        self.state().opens_left = fails.then_some(0);
    }

    /// Only this many more files can be opened or created. Then the process has too many open files,
    /// until [`FaultDisk::set_fail_opens`].
    pub fn limit_opens(&self, count: u64) {
        self.state().opens_left = Some(count);
    }

    /// How often a file could not be opened or created for want of a descriptor.
    pub fn refused_opens(&self) -> u64 {
        self.state().refused_opens
    }

    /// Removes all planned faults, and mends all sectors.
    pub fn plan_nothing(&self) {
        let mut state = self.state();
        state.planned = None;
        state.bad_sectors.clear();
        state.planned_reads = 0..0;
    }

    /// Whether a planned crash has happened.
    pub fn has_crashed(&self) -> bool {
        !self.state().powered
    }

    /// The power fails and comes back. The seed decides which unsynced sectors and folder changes
    /// survive.
    pub fn crash(&self) {
        self.state().crash();
    }

    /// The process ends, and another process starts. The kernel's cache stays as it is.
    pub fn restart(&self) {
        self.state().begin_life();
    }

    /// Sets the capacity of the disk in bytes.
    pub fn set_capacity(&self, capacity: u64) {
        self.state().capacity = capacity;
    }

    /// Lets files have at most this many bytes, although the disk shows more room.
    pub fn set_quota(&self, bytes: u64) {
        self.state().quota = bytes;
    }

    /// The bytes used by files.
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// The names of all files.
    pub fn names(&self) -> Vec<String> {
        self.state().names.keys().cloned().collect()
    }

    /// A file's bytes.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(name).map(|&inode| state.inodes[inode].live.clone())
    }

    /// Replaces a file's bytes, in the cache and on the disk. Creates the file if necessary.
    pub fn set_bytes(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state();
        let inode = Inode { live: bytes.clone(), durable: bytes, ..Inode::default() };
        state.inodes.push(inode);
        let index = state.inodes.len() - 1;
        state.names.insert(name.to_owned(), index);
        state.durable_names.insert(name.to_owned(), index);
    }

    /// Flips one bit of a file, in the cache and on the disk.
    pub fn flip_bit(&self, name: &str, bit: u64) {
        let mut state = self.state();
        let Some(&inode) = state.names.get(name) else { return };
        let inode = &mut state.inodes[inode];
        for image in [&mut inode.live, &mut inode.durable] {
            if let Some(byte) = image.get_mut((bit / 8) as usize) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }

    /// Removes a file, in the cache and on the disk.
    pub fn remove_file(&self, name: &str) {
        let mut state = self.state();
        state.names.remove(name);
        state.durable_names.remove(name);
    }

    /// Gives a file a second name, as a backup does.
    pub fn link(&self, from: &str, to: &str) {
        let mut state = self.state();
        if let Some(&inode) = state.names.get(from) {
            state.names.insert(to.to_owned(), inode);
            state.durable_names.insert(to.to_owned(), inode);
        }
    }
}

fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl State {
    /// Splitmix64.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.random)
    }

    fn coin(&mut self) -> bool {
        self.random() & 1 == 1
    }

    /// A random bit that does not change later random numbers.
    fn coin_of_call(&self) -> bool {
        mixed(self.random ^ self.calls) & 1 == 1
    }

    fn used(&self) -> u64 {
        let inodes: BTreeSet<usize> = self.names.values().copied().collect();
        inodes.iter().map(|&inode| self.inodes[inode].live.len() as u64).sum()
    }

    /// Fails if the process has too many open files.
    fn check_descriptors(&mut self) -> io::Result<()> {
        if self.opens_left != Some(0) {
            return Ok(());
        }
        self.refused_opens += 1;
        Err(io::Error::from_raw_os_error(EMFILE))
    }

    /// Takes a descriptor for a file.
    fn take_descriptor(&mut self) -> io::Result<()> {
        self.check_descriptors()?;
        self.opens_left = self.opens_left.map(|left| left - 1);
        Ok(())
    }

    /// Counts a call that changes something, and returns its planned fault.
    fn call(&mut self) -> io::Result<Option<Planned>> {
        if !self.powered {
            return Err(power_is_off());
        }
        self.calls += 1;
        Ok(self.planned.take_if(|(call, _)| *call == self.calls).map(|(_, planned)| planned))
    }

    /// Counts a read. Fails if a failure of this read is planned.
    fn read(&mut self) -> io::Result<()> {
        self.reads += 1;
        if self.planned_reads.contains(&self.reads) { Err(eio()) } else { Ok(()) }
    }

    /// Makes a changing call. A planned failure prevents the change. A planned crash prevents it in
    /// half of the cases.
    fn simple_call(&mut self, apply: impl FnOnce(&mut State) -> io::Result<()>) -> io::Result<()> {
        match self.call()? {
            None => apply(self),
            Some(Planned::Fail) => Err(eio()),
            Some(Planned::Crash) => {
                if self.coin() {
                    apply(self)?;
                }
                self.powered = false;
                Err(power_is_off())
            }
        }
    }

    fn begin_life(&mut self) {
        self.locked = false;
        self.powered = true;
        self.life += 1;
        self.planned = None;
        self.planned_reads = 0..0;
    }

    fn crash(&mut self) {
        for index in 0..self.inodes.len() {
            self.crash_inode(index);
        }
        // With a journal, a change survives only if all changes before it survive. Without a
        // journal, any of the changes can survive.
        let in_order = self.coin();
        let changes = std::mem::take(&mut self.folder_changes);
        let keep = self.random() as usize % (changes.len() + 1);
        for (index, change) in changes.into_iter().enumerate() {
            if if in_order { index < keep } else { self.coin() } {
                apply_change(&mut self.durable_names, &change);
            }
        }
        self.names = self.durable_names.clone();
        self.begin_life();
    }

    fn crash_inode(&mut self, index: usize) {
        let dirty = std::mem::take(&mut self.inodes[index].dirty);
        // In half of the cases, all or none of the sectors survive. Otherwise any subset survives.
        let mode = self.random() % 4;
        for sector in dirty.into_keys() {
            let keep = match mode {
                0 => false,
                1 => true,
                _ => self.coin(),
            };
            if keep {
                self.inodes[index].write_back(sector);
            }
        }
        let inode = &mut self.inodes[index];
        inode.live.clone_from(&inode.durable);
    }
}

impl Inode {
    /// Writes one sector to the disk.
    fn write_back(&mut self, sector: usize) {
        let live = std::mem::take(&mut self.live);
        self.write_back_from(&live, sector);
        self.live = live;
    }

    /// Writes this content of a sector to the disk.
    fn write_back_from(&mut self, live: &[u8], sector: usize) {
        let start = sector * SECTOR_BYTES;
        let end = (start + SECTOR_BYTES).min(live.len());
        if start >= end {
            return;
        }
        if self.durable.len() < end {
            self.durable.resize(end, 0);
        }
        self.durable[start..end].copy_from_slice(&live[start..end]);
    }

    /// Writes the dirty sectors between two offsets to the disk, before they are overwritten.
    fn write_back_dirty(&mut self, start: usize, end: usize) {
        let sectors = start / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES);
        for sector in self.dirty.range(sectors).map(|(&sector, _)| sector).collect::<Vec<_>>() {
            self.write_back(sector);
        }
    }

    fn touch(&mut self, start: usize, end: usize) {
        self.writes += 1;
        for sector in start / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            self.dirty.entry(sector).or_insert((self.writes, 0)).1 = self.writes;
        }
    }
}

fn apply_change(names: &mut BTreeMap<String, usize>, change: &FolderChange) {
    match change {
        FolderChange::Create(name, inode) => {
            names.insert(name.clone(), *inode);
        }
        FolderChange::Rename(from, to) => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
        FolderChange::Remove(name) => {
            names.remove(name);
        }
    }
}

impl FaultDisk {
    fn change(&self, change: FolderChange) -> io::Result<()> {
        self.state().simple_call(|state| {
            apply_change(&mut state.names, &change);
            state.folder_changes.push(change);
            Ok(())
        })
    }

    fn handle(&self, inode: usize) -> Arc<dyn DiskFile> {
        let life = self.state().life;
        Arc::new(FaultFile { disk: self.clone(), inode, life, is_syncing: AtomicBool::new(false) })
    }
}

impl Disk for FaultDisk {
    fn folder(&self) -> String {
        "simulated".into()
    }

    fn rest(&self, time: Duration) {
        let mut state = self.state();
        state.rests += 1;
        state.rested += time;
    }

    fn lock(&self) -> io::Result<bool> {
        let mut state = self.state();
        let free = !state.locked;
        state.locked = true;
        Ok(free)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        if state.powered { Ok(state.names.keys().cloned().collect()) } else { Err(power_is_off()) }
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let inode = {
            let mut state = self.state();
            if state.names.contains_key(name) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state.take_descriptor()?;
            state.inodes.push(Inode::default());
            state.inodes.len() - 1
        };
        self.change(FolderChange::Create(name.to_owned(), inode))?;
        Ok(self.handle(inode))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let inode = {
            let mut state = self.state();
            if !state.powered {
                return Err(power_is_off());
            }
            state.take_descriptor()?;
            *state.names.get(name).ok_or(io::ErrorKind::NotFound)?
        };
        Ok(self.handle(inode))
    }

    fn look_at(&self, name: &str) -> io::Result<(u64, u64)> {
        let file = self.open(name)?;
        self.state().read()?;
        Ok((file.size()?, file.links()?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if !self.state().names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.change(FolderChange::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if !self.state().names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.change(FolderChange::Remove(name.to_owned()))
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.state().simple_call(|state| {
            for change in std::mem::take(&mut state.folder_changes) {
                apply_change(&mut state.durable_names, &change);
            }
            Ok(())
        })
    }

    fn space(&self) -> io::Result<Space> {
        let state = self.state();
        let free = state.capacity.saturating_sub(state.used());
        Ok(Space { capacity: state.capacity, free })
    }

    fn copies_on_write(&self) -> bool {
        false
    }

    fn random(&self) -> io::Result<u64> {
        let mut state = self.state();
        // A real disk opens a device for this moment.
        state.check_descriptors()?;
        Ok(state.random())
    }
}

impl FaultFile {
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.state();
        if state.life == self.life && state.powered { Ok(state) } else { Err(power_is_off()) }
    }

    /// Panics if another sync with the same handle is in progress: a real kernel reports an error once for each
    /// handle, so one of the two could miss it.
    fn sync(&self) -> io::Result<()> {
        let is_alone = !self.is_syncing.swap(true, Ordering::SeqCst);
        assert!(is_alone, "two syncs with one handle");
        let result = self.sync_alone();
        self.is_syncing.store(false, Ordering::SeqCst);
        result
    }

    fn sync_alone(&self) -> io::Result<()> {
        let mut state = self.state()?;
        let planned = state.call()?;
        let Inode { writes, live, .. } = &state.inodes[self.inode];
        let (writes, len) = (*writes, live.len());
        // The kernel writes what it has now. If nothing can happen meanwhile, this needs no copy.
        let mut live = Vec::new();
        let (time, during) = (state.sync_time, state.during_sync.clone());
        if !time.is_zero() || during.is_some() {
            live.clone_from(&state.inodes[self.inode].live);
            drop(state);
            std::thread::sleep(time);
            if let Some(DuringSync(during)) = during {
                during();
            }
            state = self.state()?;
        }
        // If another sync that began later has ended already, nothing is left. It has written these sectors,
        // or lost them.
        let inode = &mut state.inodes[self.inode];
        let dirty: Vec<_> =
            inode.dirty.extract_if(.., |_, (oldest, _)| *oldest <= writes).collect();
        for (sector, (_, newest)) in dirty {
            let is_written = planned.is_none() || state.coin();
            let inode = &mut state.inodes[self.inode];
            if newest <= writes {
                if is_written {
                    inode.write_back(sector);
                }
                continue;
            }
            // The sector was written again meanwhile.
            inode.dirty.insert(sector, (writes + 1, newest));
            if is_written {
                inode.write_back_from(&live, sector);
            }
        }
        match planned {
            None => {
                let inode = &mut state.inodes[self.inode];
                // The file can have become longer or shorter meanwhile.
                let len = len.max(inode.durable.len()).min(inode.live.len());
                inode.durable.resize(len, 0);
                Ok(())
            }
            // The sync fails. Now all sectors look clean, even those that are not on the disk.
            Some(Planned::Fail) => Err(eio()),
            Some(Planned::Crash) => {
                state.powered = false;
                Err(power_is_off())
            }
        }
    }
}

impl DiskFile for FaultFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state()?;
        state.read()?;
        let live = &state.inodes[self.inode].live;
        let start = (offset as usize).min(live.len());
        let n = buffer.len().min(live.len() - start);
        let sectors = start / SECTOR_BYTES..(start + n).div_ceil(SECTOR_BYTES);
        let is_bad =
            |&(inode, sector): &(usize, usize)| inode == self.inode && sectors.contains(&sector);
        if state.bad_sectors.iter().any(is_bad) {
            return Err(eio());
        }
        buffer[..n].copy_from_slice(&live[start..start + n]);
        Ok(n)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.state()?;
        let planned = state.call()?;
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        let block_in_the_way = |&(inode, sector): &(usize, usize)| {
            let block = sector * SECTOR_BYTES / BLOCK_BYTES * BLOCK_BYTES;
            let block = block..block + BLOCK_BYTES;
            let is_touched = block.start < end && start < block.end;
            let is_in_part = block.start < start || end < block.end;
            (inode == self.inode && is_touched && is_in_part).then_some(block.start)
        };
        // The kernel copies block by block, until it must read a bad block.
        let in_the_way = state.bad_sectors.iter().filter_map(block_in_the_way).min();
        let end = in_the_way.map_or(end, |block| block.max(start));
        let bytes = &bytes[..end - start];
        state.bad_sectors.retain(|&(inode, sector)| {
            let at = sector * SECTOR_BYTES;
            inode != self.inode || at < start || end <= at
        });
        let grows = end.saturating_sub(state.inodes[self.inode].live.len()) as u64;
        if grows > 0 && state.used() + grows > state.capacity.min(state.quota) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let writes_back = state.coin_of_call();
        let inode = &mut state.inodes[self.inode];
        if writes_back {
            inode.write_back_dirty(start, end);
        }
        if inode.live.len() < end {
            inode.live.resize(end, 0);
        }
        // A failed write writes half of the bytes.
        let written = if planned == Some(Planned::Fail) { bytes.len() / 2 } else { bytes.len() };
        inode.live[start..start + written].copy_from_slice(&bytes[..written]);
        inode.touch(start, start + written);
        match planned {
            None if in_the_way.is_none() => Ok(()),
            None | Some(Planned::Fail) => Err(eio()),
            Some(Planned::Crash) => {
                state.powered = false;
                Err(power_is_off())
            }
        }
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let inode = self.inode;
        self.state()?.simple_call(|state| {
            let old = state.inodes[inode].live.len() as u64;
            if state.used() + len.saturating_sub(old) > state.capacity.min(state.quota) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            if len > old {
                state.inodes[inode].live.resize(len as usize, 0);
            }
            Ok(())
        })
    }

    fn shrink(&self, len: u64) -> io::Result<()> {
        let inode = self.inode;
        self.state()?.simple_call(|state| {
            // This does not change `durable`. So if the power fails before a sync, the file has its
            // old length again.
            let inode = &mut state.inodes[inode];
            inode.live.truncate(len as usize);
            inode.dirty.retain(|sector, _| ((sector * SECTOR_BYTES) as u64) < len);
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.state()?.inodes[self.inode].live.len() as u64)
    }

    fn links(&self) -> io::Result<u64> {
        let state = self.state()?;
        Ok(state.names.values().filter(|&&inode| inode == self.inode).count() as u64)
    }
}
