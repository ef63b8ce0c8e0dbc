//! The words in which a user says what the columns of a foreign table mean, and in which units they are.

use std::{fmt, str::FromStr};

use peryton_units::{Bytes, Op};

use crate::{field, formats::TimeUnit};

/// What a column says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Time,
    End,
    Op,
    Offset,
    Size,
    Volume,
    Id,
    Latency,
    Count,
}

impl Role {
    const ALL: [(&str, Role); 9] = [
        ("time", Role::Time),
        ("end", Role::End),
        ("op", Role::Op),
        ("offset", Role::Offset),
        ("size", Role::Size),
        ("volume", Role::Volume),
        ("id", Role::Id),
        ("latency", Role::Latency),
        ("count", Role::Count),
    ];

    pub(crate) fn name(self) -> &'static str {
        Role::ALL.iter().find(|(_, role)| *role == self).map_or("", |(name, _)| name)
    }
}

/// The place of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Its name in the header.
    Name(String),
    /// Its number, counted from 1, or from the end with -1 for the last.
    Number(i16),
}

/// Which columns of a table are a trace: `time=…,op=…,offset=…,size=…,volume=…`, each by its name in the header or by its
/// number, counted from 1 (from the end with -1 for the last).
///
/// | column | meaning |
/// |---|---|
/// | `time` | arrival; without it, requests come one microsecond apart |
/// | `end` | completion, in place of the arrival; needs `latency` |
/// | `op` | the operation; without it, all are reads |
/// | `offset` | the place on the volume; or |
/// | `id` | the object, a number or a word: the trace is one of objects |
/// | `size` | the length, or the size of the object; `size=3+4` adds two columns |
/// | `volume` | the volume, a number or a word |
/// | `latency` | how long the request took |
/// | `count` | how many equal requests the row stands for |
///
/// ```
/// use peryton_trace::{Columns, OpenOptions, Source, read};
///
/// let text = "lba kind blocks when\n8 Rd 16 0.5\n0 Wr 8 0.75\n";
/// let options = OpenOptions {
///     columns: Some("time=when,op=kind,offset=lba,size=blocks".parse()?),
///     units: "time=ms,offset=sectors,size=sectors,op=read:Rd+write:Wr".parse()?,
///     ..OpenOptions::default()
/// };
/// let (mut trace, mut batch) = (read("example", text.as_bytes(), &options)?, Vec::new());
/// trace.next_batch(&mut batch)?;
/// assert_eq!((batch[0].len.0, batch[1].at.0), (8192, 250_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    pub(crate) roles: Vec<(Role, Place)>,
}

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Columns, String> {
        let mut roles: Vec<(Role, Place)> = Vec::new();
        for part in text.split(',') {
            let known = || Role::ALL.map(|(name, _)| name).join(", ");
            let (name, places) = part
                .split_once('=')
                .ok_or_else(|| format!("'{part}' is no column: give time=…,op=…,offset=…,size=…,volume=…"))?;
            let role = Role::ALL.iter().find(|(known, _)| *known == name.trim()).map(|(_, role)| *role);
            let role = role.ok_or_else(|| format!("'{name}' is no column of a trace: use {}", known()))?;
            if roles.iter().any(|(known, _)| *known == role) {
                return Err(format!("the column {name} is given twice"));
            }
            // Only sizes are added up, and a name may have a plus.
            let sum = role == Role::Size && places.split('+').all(|place| !place.trim().is_empty());
            let each: Vec<&str> = if sum { places.split('+').collect() } else { vec![places] };
            for place in each {
                let place = match place.trim() {
                    "" | "0" => {
                        return Err(format!("{part}: give the name of a column, or its number, counted from 1"));
                    }
                    text => text.parse().map_or_else(|_| Place::Name(text.to_owned()), Place::Number),
                };
                roles.push((role, place));
            }
        }
        let has = |role| roles.iter().any(|(known, _)| *known == role);
        match () {
            () if has(Role::Offset) && has(Role::Id) => {
                Err("a trace has offsets or ids of objects: give one of them".into())
            }
            () if has(Role::End) && !has(Role::Latency) => Err("end needs latency, which is subtracted from it".into()),
            () if has(Role::End) && has(Role::Time) => Err("give time or end, not both".into()),
            () => Ok(Columns { roles }),
        }
    }
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = None;
        for (role, place) in &self.roles {
            match before {
                Some(before) if before == *role => write!(f, "+")?,
                Some(_) => write!(f, ",{}=", role.name())?,
                None => write!(f, "{}=", role.name())?,
            }
            before = Some(*role);
            match place {
                Place::Name(name) => write!(f, "{name}")?,
                Place::Number(number) => write!(f, "{number}")?,
            }
        }
        Ok(())
    }
}

/// Which words of a column are which operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpCodes(Vec<(Box<[u8]>, Option<Op>)>);

const OPS: [(&str, Option<Op>); 5] = [
    ("read", Some(Op::Read)),
    ("write", Some(Op::Write)),
    ("discard", Some(Op::Discard)),
    ("flush", Some(Op::Flush)),
    ("none", None),
];

impl OpCodes {
    /// The operation of a word: `None` if it is unknown, `Some(None)` if it is to be left out.
    #[inline]
    pub(crate) fn op(&self, word: &[u8]) -> Option<Option<Op>> {
        self.0.iter().find(|(code, _)| **code == *word).map(|(_, op)| *op)
    }
}

impl FromStr for OpCodes {
    type Err = String;

    fn from_str(text: &str) -> Result<OpCodes, String> {
        let mut codes = Vec::new();
        for part in text.split('+') {
            let wrong =
                || format!("op={text}: give words by operation, such as op=read:1+write:0 or op=read:1/2+write:3");
            let (name, words) = part.split_once(':').ok_or_else(wrong)?;
            let op = OPS.iter().find(|(known, _)| *known == name).map(|(_, op)| *op).ok_or_else(wrong)?;
            codes.extend(words.split('/').map(|word| (word.as_bytes().into(), op)));
        }
        Ok(OpCodes(codes))
    }
}

impl fmt::Display for OpCodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = None;
        for (word, op) in &self.0 {
            let name = OPS.iter().find(|(_, known)| known == op).map_or("", |(name, _)| name);
            match before {
                Some(before) if before == *op => write!(f, "/")?,
                Some(_) => write!(f, "+{name}:")?,
                None => write!(f, "{name}:")?,
            }
            before = Some(*op);
            write!(f, "{}", String::from_utf8_lossy(word))?;
        }
        Ok(())
    }
}

/// The units of the numbers of a trace: `time=ns|us|ms|s|clock`, `latency=…` likewise, `offset=bytes|sectors|SIZE`, `size=…`
/// likewise, `op=read:1+write:0`, `volume=number|name`. What is not given is what the format says.
///
/// ```
/// use peryton_trace::{OpenOptions, Source, TimeUnit, Units, read};
///
/// let units: Units = "time=us".parse()?;
/// assert_eq!(units.time, Some(TimeUnit::Microseconds));
/// let (mut trace, mut batch) = (read("t", &b"5 0 0 8 1\n7 0 0 8 1\n"[..], &OpenOptions { units, ..Default::default() })?, vec![]);
/// trace.next_batch(&mut batch)?;
/// assert_eq!(batch[1].at.0, 2_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// The unit of arrivals.
    pub time: Option<TimeUnit>,
    /// The unit of latencies.
    pub latency: Option<TimeUnit>,
    /// The unit of offsets, in bytes.
    pub offset: Option<Bytes>,
    /// The unit of sizes, in bytes.
    pub size: Option<Bytes>,
    pub(crate) op: Option<OpCodes>,
    /// Whether volumes are names; otherwise they are numbers.
    pub volume_is_name: Option<bool>,
}

/// The unit of offsets in many formats.
pub(crate) const SECTOR: Bytes = Bytes(512);

impl Units {
    /// These, and those of `others` where nothing is given.
    pub(crate) fn or(&self, others: &Units) -> Units {
        Units {
            time: self.time.or(others.time),
            latency: self.latency.or(others.latency),
            offset: self.offset.or(others.offset),
            size: self.size.or(others.size),
            op: self.op.clone().or_else(|| others.op.clone()),
            volume_is_name: self.volume_is_name.or(others.volume_is_name),
        }
    }
}

impl FromStr for Units {
    type Err = String;

    fn from_str(text: &str) -> Result<Units, String> {
        let mut units = Units::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let wrong = || {
                format!(
                    "'{part}' is no unit: give time=ns|us|ms|s|clock, offset=bytes|sectors|SIZE, size=bytes|sectors|SIZE, \
                     latency=ns|us|ms|s, op=read:1+write:0, volume=number|name"
                )
            };
            let (name, unit) = part.split_once('=').ok_or_else(wrong)?;
            let bytes = || match unit {
                "bytes" => Ok(Bytes(1)),
                "sectors" => Ok(SECTOR),
                _ => unit.parse::<Bytes>().ok().filter(|unit| unit.0 > 0).ok_or_else(wrong),
            };
            let time =
                || TimeUnit::ALL.iter().find(|(known, _)| *known == unit).map(|(_, unit)| *unit).ok_or_else(wrong);
            match name {
                "time" | "end" => units.time = Some(time()?),
                "latency" => units.latency = Some(time()?),
                "offset" => units.offset = Some(bytes()?),
                "size" => units.size = Some(bytes()?),
                "op" => units.op = Some(unit.parse()?),
                "volume" if ["number", "name"].contains(&unit) => units.volume_is_name = Some(unit == "name"),
                _ => return Err(wrong()),
            }
        }
        Ok(units)
    }
}

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |unit: Bytes| match unit {
            Bytes(1) => "bytes".to_owned(),
            SECTOR => "sectors".to_owned(),
            unit => unit.to_string(),
        };
        let parts = [
            self.time.map(|unit| format!("time={}", unit.name())),
            self.latency.map(|unit| format!("latency={}", unit.name())),
            self.offset.map(|unit| format!("offset={}", bytes(unit))),
            self.size.map(|unit| format!("size={}", bytes(unit))),
            self.op.as_ref().map(|codes| format!("op={codes}")),
            self.volume_is_name.map(|name| format!("volume={}", if name { "name" } else { "number" })),
        ];
        write!(f, "{}", parts.into_iter().flatten().collect::<Vec<_>>().join(","))
    }
}

/// Guesses which columns of a table without a format are what, in the words of [`Columns`] and [`Units`]; for a message.
pub(crate) fn guess(rows: &[Vec<&[u8]>]) -> Option<String> {
    let width = rows.iter().map(Vec::len).min().filter(|&width| width > 1 && rows.len() > 1)?;
    let column = |place: usize| rows.iter().map(move |row| row[place]);
    let numbers = |place: usize| -> Option<Vec<f64>> {
        column(place)
            .map(|text| std::str::from_utf8(text).ok()?.parse::<f64>().ok().filter(|v| v.is_finite()))
            .collect()
    };
    let mut words: Vec<String> = Vec::new();
    let mut say = |role: &str, place: Option<usize>| words.extend(place.map(|place| format!("{role}={}", place + 1)));
    let is_op = |&place: &usize| column(place).all(|text| field::op(text).is_some());
    let op = (0..width).find(is_op);
    let grows = |&place: &usize| {
        Some(place) != op
            && numbers(place)
                .is_some_and(|all| all.is_sorted() && all.first() < all.last() && all.first() >= Some(&0.0))
    };
    let time = (0..width).find(grows);
    let rest: Vec<(usize, Vec<f64>)> = (0..width)
        .filter(|place| Some(*place) != op && Some(*place) != time)
        .filter_map(|place| Some((place, numbers(place)?)))
        .collect();
    let mean = |all: &Vec<f64>| all.iter().sum::<f64>() / all.len() as f64;
    let varied = |all: &Vec<f64>| all.iter().any(|value| *value != all[0]);
    let offset = rest.iter().filter(|(_, all)| varied(all)).max_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)));
    let others = rest.iter().filter(|(place, all)| Some(*place) != offset.map(|(place, _)| *place) && mean(all) >= 1.0);
    let size = others.max_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)));
    say("time", time);
    say("op", op);
    say("offset", offset.map(|(place, _)| *place));
    say("size", size.map(|(place, _)| *place));
    (words.len() > 1).then(|| words.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_back() {
        for text in ["time=1,op=kind,offset=-3,size=key_size+value,volume=disk", "end=4,latency=5,id=key,count=n"] {
            assert_eq!(text.parse::<Columns>().unwrap().to_string(), text);
        }
        for text in ["time=ns,offset=sectors,size=bytes,op=read:1/2+write:0+none:h,volume=name", "offset=4KiB", ""] {
            assert_eq!(text.parse::<Units>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn rubbish_gets_the_words_that_there_are() {
        for (text, part) in [
            ("time", "give time="),
            ("when=1", "use time, end, op"),
            ("time=0", "counted from 1"),
            ("time=1,time=2", "twice"),
            ("offset=1,id=2", "one of them"),
            ("end=1", "needs latency"),
        ] {
            let message = text.parse::<Columns>().unwrap_err();
            assert!(message.contains(part) && !message.contains('\n'), "{message}");
        }
        for text in ["time=h", "offset=0", "op=1", "op=reads:1", "volume=7", "colour=red", "x"] {
            assert!(text.parse::<Units>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_guess_names_what_looks_like_what() {
        let rows =
            |text: &'static str| text.lines().map(|line| field::words(line.as_bytes()).collect()).collect::<Vec<_>>();
        assert_eq!(guess(&rows("0.5 W 8192 4096\n0.7 R 0 512\n")).unwrap(), "time=1,op=2,offset=3,size=4");
        assert_eq!(guess(&rows("x\ny\n")), None);
    }
}
