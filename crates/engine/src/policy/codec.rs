//! Encodes rules as bytes for the log: a version byte, and then lists. Each list begins with its
//! length.
//!
//! Numbers are little-endian. A setting consists of a tag and a value. If a setting can be `none`,
//! its value begins with a byte: 0 for `none`, 1 for another value. Tags never change their
//! meaning. If the bytes have an unknown tag, [`Rules::decode`] refuses all the bytes. Otherwise
//! the engine would apply only a part of a policy.

use std::num::NonZeroU32;
use std::str::FromStr;

use super::{
    Aging, Backoff, DeadTarget, FairMode, KeptBody, Key, Name, OnDuplicate, Order, Pattern, Per,
    QueueSync, Rate, Rule, RuleSetting, Rules, Setting, UniqueWindow, Weight, WhenFull,
};

const VERSION: u8 = 1;

impl Rules {
    /// Encodes the rules as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        put_count(&mut bytes, self.0.len());
        for rule in &self.0 {
            bytes.extend(rule.line.to_le_bytes());
            put_count(&mut bytes, rule.patterns.len());
            for pattern in &rule.patterns {
                put_name(&mut bytes, pattern.as_bytes());
            }
            put_count(&mut bytes, rule.settings.len());
            for asked in &rule.settings {
                bytes.extend(asked.line.to_le_bytes());
                put_setting(&mut bytes, &asked.setting);
            }
        }
        bytes
    }

    /// Decodes rules from bytes. `None`: the bytes do not come from [`Rules::encode`], or they come
    /// from a later version.
    pub fn decode(bytes: &[u8]) -> Option<Rules> {
        let mut reader = Reader(bytes);
        reader.rules().ok().filter(|_| reader.0.is_empty())
    }
}

pub(crate) fn put_count(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend((count as u32).to_le_bytes());
}

pub(crate) fn put_name(bytes: &mut Vec<u8>, name: &[u8]) {
    put_count(bytes, name.len());
    bytes.extend(name);
}

fn put_names(bytes: &mut Vec<u8>, names: &[Name]) {
    put_count(bytes, names.len());
    for name in names {
        put_name(bytes, name);
    }
}

fn put_number(bytes: &mut Vec<u8>, number: Option<u64>) {
    bytes.push(number.is_some().into());
    if let Some(number) = number {
        bytes.extend(number.to_le_bytes());
    }
}

fn put_setting(bytes: &mut Vec<u8>, setting: &Setting) {
    bytes.push(tag(setting));
    match setting {
        Setting::JobsMax(number)
        | Setting::BytesMax(number)
        | Setting::ItemBytesMax(number)
        | Setting::AgeMax(number)
        | Setting::Idle(number)
        | Setting::OpenTimeout(number)
        | Setting::MemoryMax(number)
        | Setting::DeadKeep(number)
        | Setting::ResultKeep(number) => put_number(bytes, *number),
        // The parts of a pause window have one tag, and a byte of their own.
        Setting::PauseCron(cron) => {
            bytes.extend([0, cron.is_some().into()]);
            if let Some(cron) = cron {
                put_name(bytes, cron.as_str().as_bytes());
            }
        }
        Setting::PauseLength(number) => {
            bytes.push(1);
            put_number(bytes, *number);
        }
        Setting::PauseZone(zone) => {
            bytes.push(2);
            put_name(bytes, zone.as_str().as_bytes());
        }
        Setting::ExpireSweep(number) | Setting::Ttr(number) => {
            bytes.push(number.is_some().into());
            bytes.extend(number.iter().flat_map(|number| number.to_le_bytes()));
        }
        Setting::OpenMax(number)
        | Setting::RetryLimit(number)
        | Setting::RetryJitter(number)
        | Setting::Priority(number)
        | Setting::Delay(number) => bytes.extend(number.to_le_bytes()),
        Setting::WhenFull(when_full) => bytes.push(match when_full {
            WhenFull::Refuse => 0,
            WhenFull::DropOldest => 1,
            WhenFull::Block => 2,
        }),
        Setting::FanoutOnly(truth)
        | Setting::DurableLeases(truth)
        | Setting::Retries(truth)
        | Setting::RetryRelease(truth)
        | Setting::RetryDisconnect(truth)
        | Setting::DeadExpired(truth)
        | Setting::DeadDropped(truth)
        | Setting::Pause(truth)
        | Setting::IgnoreBuried(truth)
        | Setting::History(truth) => bytes.push((*truth).into()),
        // Two parts of `fair` have one tag, and a byte of their own.
        Setting::FairMode(mode) => {
            bytes.push(0);
            bytes.push(match mode {
                FairMode::RoundRobin => 0,
                FairMode::InFlight => 1,
            });
        }
        Setting::FairAcross(truth) => bytes.extend([1, (*truth).into()]),
        Setting::FairWeights(weights) => {
            put_count(bytes, weights.len());
            for (text, weight) in weights.iter() {
                put_name(bytes, text.as_bytes());
                bytes.extend(weight.get().to_le_bytes());
            }
        }
        Setting::ExpireTo(name) | Setting::SameAs(name) | Setting::PauseReason(name) => {
            bytes.push(name.is_some().into());
            if let Some(name) = name {
                put_name(bytes, name);
            }
        }
        Setting::Alias(names) | Setting::CopyTo(names) => put_names(bytes, names),
        Setting::Sync(sync) => match sync {
            None => bytes.push(0),
            Some(QueueSync::Always) => bytes.push(1),
            Some(QueueSync::Every(millis)) => {
                bytes.push(2);
                bytes.extend(millis.to_le_bytes());
            }
            Some(QueueSync::Never) => bytes.push(3),
            Some(QueueSync::Memory) => bytes.push(4),
        },
        Setting::RetryBase(number)
        | Setting::RetryMax(number)
        | Setting::DeadJobsMax(number)
        | Setting::BlockFor(number)
        | Setting::HistoryKeep(number)
        | Setting::HistoryMax(number) => {
            bytes.extend(number.to_le_bytes());
        }
        Setting::HistoryBody(KeptBody::Prefix(number)) => {
            bytes.push(1);
            bytes.extend(number.to_le_bytes());
        }
        Setting::HistoryBody(KeptBody::Full) => bytes.push(2),
        Setting::DeadQueue(DeadTarget::Bury) | Setting::HistoryBody(KeptBody::None) => {
            bytes.push(0);
        }
        Setting::DeadQueue(DeadTarget::Drop) => bytes.push(1),
        Setting::DeadQueue(DeadTarget::Queue(name)) => {
            bytes.push(2);
            put_name(bytes, name);
        }
        Setting::Rate(rate) => {
            bytes.push(rate.is_some().into());
            if let Some(Rate { milli, per }) = rate {
                bytes.extend(milli.get().to_le_bytes());
                bytes.push(match per {
                    Per::Second => 0,
                    Per::Minute => 1,
                    Per::Hour => 2,
                });
            }
        }
        Setting::Aging(aging) => {
            bytes.push(aging.is_some().into());
            if let Some(Aging { steps, per_ms }) = aging {
                bytes.extend(steps.get().to_le_bytes());
                bytes.extend(per_ms.get().to_le_bytes());
            }
        }
        Setting::RateBurst(number) | Setting::Concurrency(number) => {
            bytes.push(number.is_some().into());
            bytes.extend(number.iter().flat_map(|number| number.get().to_le_bytes()));
        }
        Setting::ConcurrencyOrder(order) => bytes.push(match order {
            Order::Loose => 0,
            Order::Strict => 1,
        }),
        Setting::RetryBackoff(backoff) => bytes.push(match backoff {
            Backoff::None => 0,
            Backoff::Linear => 1,
            Backoff::Exponential => 2,
        }),
        Setting::UniqueBy(key)
        | Setting::RateKey(key)
        | Setting::ConcurrencyKey(key)
        | Setting::FairKey(key) => {
            bytes.push(key.is_some().into());
            if let Some(key) = key {
                put_name(bytes, key.as_str().as_bytes());
            }
        }
        Setting::UniqueWindow(window) => match window {
            UniqueWindow::UntilDone => bytes.push(0),
            UniqueWindow::UntilStart => bytes.push(1),
            UniqueWindow::For(millis) => {
                bytes.push(2);
                bytes.extend(millis.to_le_bytes());
            }
        },
        Setting::OnDuplicate(answer) => bytes.push(match answer {
            OnDuplicate::ReturnExisting => 0,
            OnDuplicate::Refuse => 1,
            OnDuplicate::Bump => 2,
            OnDuplicate::ReplaceBody => 3,
        }),
    }
}

fn tag(setting: &Setting) -> u8 {
    match setting {
        Setting::JobsMax(_) => 1,
        Setting::BytesMax(_) => 2,
        Setting::ItemBytesMax(_) => 3,
        Setting::AgeMax(_) => 4,
        Setting::WhenFull(_) => 5,
        Setting::ExpireTo(_) => 6,
        Setting::ExpireSweep(_) => 7,
        Setting::Idle(_) => 8,
        Setting::OpenMax(_) => 9,
        Setting::OpenTimeout(_) => 10,
        Setting::FanoutOnly(_) => 11,
        Setting::Sync(_) => 12,
        Setting::DurableLeases(_) => 65,
        Setting::Alias(_) => 13,
        Setting::CopyTo(_) => 14,
        Setting::MemoryMax(_) => 15,
        Setting::Retries(_) => 16,
        Setting::RetryLimit(_) => 17,
        Setting::RetryBackoff(_) => 18,
        Setting::RetryBase(_) => 19,
        Setting::RetryMax(_) => 20,
        Setting::RetryJitter(_) => 21,
        Setting::RetryRelease(_) => 22,
        Setting::RetryDisconnect(_) => 23,
        Setting::DeadQueue(_) => 24,
        Setting::DeadKeep(_) => 25,
        Setting::DeadJobsMax(_) => 26,
        Setting::DeadExpired(_) => 66,
        Setting::DeadDropped(_) => 67,
        Setting::Ttr(_) => 41,
        Setting::Priority(_) => 42,
        Setting::Delay(_) => 43,
        Setting::SameAs(_) => 44,
        Setting::BlockFor(_) => 56,
        Setting::Pause(_) => 45,
        Setting::PauseReason(_) => 46,
        Setting::PauseCron(_) | Setting::PauseLength(_) | Setting::PauseZone(_) => 47,
        Setting::Rate(_) => 31,
        Setting::RateBurst(_) => 32,
        Setting::RateKey(_) => 33,
        Setting::Concurrency(_) => 34,
        Setting::ConcurrencyKey(_) => 35,
        Setting::ConcurrencyOrder(_) => 36,
        Setting::FairKey(_) => 37,
        Setting::FairWeights(_) => 38,
        Setting::FairMode(_) | Setting::FairAcross(_) => 39,
        Setting::Aging(_) => 40,
        Setting::UniqueBy(_) => 27,
        Setting::UniqueWindow(_) => 28,
        Setting::OnDuplicate(_) => 29,
        Setting::IgnoreBuried(_) => 30,
        Setting::History(_) => 60,
        Setting::HistoryKeep(_) => 61,
        Setting::HistoryMax(_) => 62,
        Setting::HistoryBody(_) => 63,
        Setting::ResultKeep(_) => 64,
    }
}

/// The error that the bytes are not encoded rules.
pub(crate) struct Malformed;

/// The bytes that are not read yet.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*array)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    fn boolean(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    pub(crate) fn small(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    fn small_or_none(&mut self) -> Result<Option<u32>, Malformed> {
        if self.boolean()? { self.small().map(Some) } else { Ok(None) }
    }

    pub(crate) fn large(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    fn number(&mut self) -> Result<Option<u64>, Malformed> {
        if self.boolean()? { self.large().map(Some) } else { Ok(None) }
    }

    pub(crate) fn name(&mut self) -> Result<Name, Malformed> {
        let length = self.small()? as usize;
        let (name, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(name.into())
    }

    fn name_or_none(&mut self) -> Result<Option<Name>, Malformed> {
        if self.boolean()? { self.name().map(Some) } else { Ok(None) }
    }

    /// Reads a list. Each element has at least one byte. So if the length of the list is wrong, the
    /// loop ends with an error at the end of the bytes.
    pub(crate) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.small()?;
        (0..count).map(|_| read(self)).collect()
    }

    fn rules(&mut self) -> Result<Rules, Malformed> {
        match self.byte()? {
            VERSION => self.list(Reader::rule).map(Rules),
            _ => Err(Malformed),
        }
    }

    fn rule(&mut self) -> Result<Rule, Malformed> {
        let line = self.small()?;
        let patterns = self.list(|reader| reader.name().map(|text| Pattern::new(&text)))?;
        let settings = self.list(Reader::rule_setting)?;
        Ok(Rule { patterns, settings, line })
    }

    fn rule_setting(&mut self) -> Result<RuleSetting, Malformed> {
        let line = self.small()?;
        Ok(RuleSetting { setting: self.setting()?, line })
    }

    fn setting(&mut self) -> Result<Setting, Malformed> {
        Ok(match self.byte()? {
            1 => Setting::JobsMax(self.number()?),
            2 => Setting::BytesMax(self.number()?),
            3 => Setting::ItemBytesMax(self.number()?),
            4 => Setting::AgeMax(self.number()?),
            5 => Setting::WhenFull(match self.byte()? {
                0 => WhenFull::Refuse,
                1 => WhenFull::DropOldest,
                2 => WhenFull::Block,
                _ => return Err(Malformed),
            }),
            56 => Setting::BlockFor(self.large()?),
            6 => Setting::ExpireTo(self.name_or_none()?),
            7 => Setting::ExpireSweep(self.small_or_none()?),
            8 => Setting::Idle(self.number()?),
            9 => Setting::OpenMax(self.small()?),
            10 => Setting::OpenTimeout(self.number()?),
            11 => Setting::FanoutOnly(self.boolean()?),
            12 => Setting::Sync(self.sync()?),
            65 => Setting::DurableLeases(self.boolean()?),
            13 => Setting::Alias(self.list(Reader::name)?.into()),
            14 => Setting::CopyTo(self.list(Reader::name)?.into()),
            15 => Setting::MemoryMax(self.number()?),
            16 => Setting::Retries(self.boolean()?),
            17 => Setting::RetryLimit(self.small()?),
            18 => Setting::RetryBackoff(self.backoff()?),
            19 => Setting::RetryBase(self.large()?),
            20 => Setting::RetryMax(self.large()?),
            21 => Setting::RetryJitter(self.small()?),
            22 => Setting::RetryRelease(self.boolean()?),
            23 => Setting::RetryDisconnect(self.boolean()?),
            24 => Setting::DeadQueue(match self.byte()? {
                0 => DeadTarget::Bury,
                1 => DeadTarget::Drop,
                2 => DeadTarget::Queue(self.name()?),
                _ => return Err(Malformed),
            }),
            25 => Setting::DeadKeep(self.number()?),
            26 => Setting::DeadJobsMax(self.large()?),
            66 => Setting::DeadExpired(self.boolean()?),
            67 => Setting::DeadDropped(self.boolean()?),
            41 => Setting::Ttr(self.small_or_none()?),
            42 => Setting::Priority(self.small()?),
            43 => Setting::Delay(self.small()?),
            44 => Setting::SameAs(self.name_or_none()?),
            45 => Setting::Pause(self.boolean()?),
            46 => Setting::PauseReason(self.name_or_none()?),
            47 => match self.byte()? {
                0 if self.boolean()? => Setting::PauseCron(Some(self.parsed()?)),
                0 => Setting::PauseCron(None),
                1 => Setting::PauseLength(self.number()?),
                2 => Setting::PauseZone(self.parsed()?),
                _ => return Err(Malformed),
            },
            31 => Setting::Rate(if self.boolean()? { Some(self.rate()?) } else { None }),
            32 => Setting::RateBurst(self.limit()?),
            33 => Setting::RateKey(self.key()?),
            34 => Setting::Concurrency(self.limit()?),
            35 => Setting::ConcurrencyKey(self.key()?),
            36 if self.boolean()? => Setting::ConcurrencyOrder(Order::Strict),
            36 => Setting::ConcurrencyOrder(Order::Loose),
            37 => Setting::FairKey(self.key()?),
            38 => Setting::FairWeights(self.list(Reader::weight)?.into()),
            39 => match self.byte()? {
                0 if self.boolean()? => Setting::FairMode(FairMode::InFlight),
                0 => Setting::FairMode(FairMode::RoundRobin),
                1 => Setting::FairAcross(self.boolean()?),
                _ => return Err(Malformed),
            },
            40 => Setting::Aging(if self.boolean()? { Some(self.aging()?) } else { None }),
            27 => Setting::UniqueBy(self.key()?),
            28 => Setting::UniqueWindow(match self.byte()? {
                0 => UniqueWindow::UntilDone,
                1 => UniqueWindow::UntilStart,
                2 => UniqueWindow::For(self.large()?),
                _ => return Err(Malformed),
            }),
            29 => Setting::OnDuplicate(match self.byte()? {
                0 => OnDuplicate::ReturnExisting,
                1 => OnDuplicate::Refuse,
                2 => OnDuplicate::Bump,
                3 => OnDuplicate::ReplaceBody,
                _ => return Err(Malformed),
            }),
            30 => Setting::IgnoreBuried(self.boolean()?),
            60 => Setting::History(self.boolean()?),
            61 => Setting::HistoryKeep(self.large()?),
            62 => Setting::HistoryMax(self.large()?),
            64 => Setting::ResultKeep(self.number()?),
            63 => Setting::HistoryBody(match self.byte()? {
                0 => KeptBody::None,
                1 => KeptBody::Prefix(self.small()?),
                2 => KeptBody::Full,
                _ => return Err(Malformed),
            }),
            _ => return Err(Malformed),
        })
    }

    fn rate(&mut self) -> Result<Rate, Malformed> {
        let milli = NonZeroU32::new(self.small()?).ok_or(Malformed)?;
        let per = match self.byte()? {
            0 => Per::Second,
            1 => Per::Minute,
            2 => Per::Hour,
            _ => return Err(Malformed),
        };
        Ok(Rate { milli, per })
    }

    fn aging(&mut self) -> Result<Aging, Malformed> {
        let steps = NonZeroU32::new(self.small()?).ok_or(Malformed)?;
        let per_ms = NonZeroU32::new(self.small()?).ok_or(Malformed)?;
        Ok(Aging { steps, per_ms })
    }

    fn weight(&mut self) -> Result<Weight, Malformed> {
        let text = self.parsed::<String>()?;
        let weight = NonZeroU32::new(self.small()?).ok_or(Malformed)?;
        Ok((text.into(), weight))
    }

    /// A number from 1 on, if there is one.
    fn limit(&mut self) -> Result<Option<NonZeroU32>, Malformed> {
        if !self.boolean()? {
            return Ok(None);
        }
        NonZeroU32::new(self.small()?).map(Some).ok_or(Malformed)
    }

    fn key(&mut self) -> Result<Option<Key>, Malformed> {
        if self.boolean()? { self.parsed().map(Some) } else { Ok(None) }
    }

    /// A value that is a text in the file, too.
    pub(crate) fn parsed<T: FromStr>(&mut self) -> Result<T, Malformed> {
        let text = self.name()?;
        let text = std::str::from_utf8(&text).map_err(|_| Malformed)?;
        text.parse().map_err(|_| Malformed)
    }

    fn backoff(&mut self) -> Result<Backoff, Malformed> {
        match self.byte()? {
            0 => Ok(Backoff::None),
            1 => Ok(Backoff::Linear),
            2 => Ok(Backoff::Exponential),
            _ => Err(Malformed),
        }
    }

    fn sync(&mut self) -> Result<Option<QueueSync>, Malformed> {
        match self.byte()? {
            0 => Ok(None),
            1 => Ok(Some(QueueSync::Always)),
            2 => Ok(Some(QueueSync::Every(self.large()?))),
            3 => Ok(Some(QueueSync::Never)),
            4 => Ok(Some(QueueSync::Memory)),
            _ => Err(Malformed),
        }
    }
}
