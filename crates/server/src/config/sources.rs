//! Loads a configuration: first `lineshaft.toml`, then the environment, then flags. Later sources
//! override earlier sources. Reports all mistakes together. Each mistake has its place. For a
//! misspelt key, it suggests a correct key.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use broker::policy::{Setting as PolicySetting, parent_name};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::Config;
use crate::config::crons;
use crate::config::policies;
use crate::config::protocol::Protocol;
use crate::config::settings::{Setting, settings};
pub use crate::config::values::FilePosition;
use crate::config::values::{scalar, suggestion, text};
use crate::net::tls::{Certificates, TlsError};

/// The file that the server reads by default, if the file exists.
pub const DEFAULT_FILE: &str = "lineshaft.toml";
/// The variable that names the file. A flag overrides the variable.
pub const FILE_VARIABLE: &str = "LINESHAFT_CONFIG";

/// The largest configuration file. Large ones have some 100 KiB of policies. The bound is for a file
/// without an end, such as `/dev/zero`.
const FILE_BYTES_MAX: u64 = 16 << 20;

const VARIABLE_PREFIX: &str = "LINESHAFT_";
/// Keys whose value can be any text. Such a value needs quotes: a number or boolean without quotes
/// is a mistake. For all other keys, quotes are optional.
const FREE_TEXTS: [&str; 13] = [
    "data.dir",
    "tls.certificate",
    "tls.key",
    "tls.client_ca",
    "gearman.handle_prefix",
    "kestrel.version",
    "cluster.nats_credentials",
    "cluster.nats_ca",
    "cluster.nats_certificate",
    "cluster.nats_key",
    "cluster.ca",
    "cluster.certificate",
    "cluster.key",
];
/// Variables that only the tools use, without the prefix. The server ignores them, but reports
/// misspelt names as mistakes.
const OTHER_VARIABLES: [&str; 7] =
    ["CONFIG", "SERVER", "JOB_ID", "QUEUE", "ATTEMPT", "UNIQUE", "REDUCER"];
/// Renamed sections: the old name and the current name. Keys and variables with the old name still
/// work.
const RENAMED_SECTIONS: [(&str, &str); 1] = [("log", "messages")];

/// All sources of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file to read. It must exist.
    pub file: Option<PathBuf>,
    /// The file to read if `file` is `None` and this file exists.
    pub usual_file: Option<PathBuf>,
    /// The environment.
    pub environment: Vec<(String, String)>,
    /// The flags.
    pub flags: Vec<Flag>,
    /// Whether only flags can name listeners. Then the server ignores the listeners of the file,
    /// the environment and the defaults.
    pub only_named_listeners: bool,
    /// Values that replace the defaults of these keys. All other sources override them, also at a
    /// reload.
    pub defaults: &'static [(&'static str, &'static str)],
}

/// A flag with its values.
#[derive(Clone, Debug)]
pub struct Flag {
    /// The name of the flag, for messages.
    pub name: &'static str,
    /// The key that the flag sets.
    pub key: &'static str,
    /// The values of the flag.
    pub values: Vec<String>,
}

/// The origin of a value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origin {
    /// The default.
    Default,
    /// A place in the file.
    File(PathBuf, FilePosition),
    /// A variable of the environment.
    Environment(String),
    /// A flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => formatter.write_str("default"),
            Origin::File(file, place) => write!(formatter, "{}:{}", file.display(), place.line),
            Origin::Environment(variable) => write!(formatter, "environment {variable}"),
            Origin::Flag(name) => formatter.write_str(name),
        }
    }
}

impl Origin {
    /// The place of a mistake. For a file, this includes the column.
    fn place(&self) -> String {
        match self {
            Origin::File(file, place) => format!("{}:{place}", file.display()),
            Origin::Default | Origin::Environment(_) | Origin::Flag(_) => self.to_string(),
        }
    }
}

/// A configuration, and the origin of each value.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The values.
    pub config: Config,
    /// The file that was read. `None` if no file was read.
    pub file: Option<PathBuf>,
    origins: BTreeMap<&'static str, Origin>,
}

/// One mistake in a configuration.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Mistake {
    /// Where the mistake is: a line and column of the file, a variable, or a flag.
    pub place: String,
    /// What is wrong, and how to fix it.
    pub message: String,
}

/// All mistakes of a configuration.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(formatter, "{separator}{mistake}")?;
        }
        Ok(())
    }
}

impl Sources {
    /// The sources of this process: its environment and one file. The file is `file`. If `file` is
    /// `None`, it is the file that the environment names, or else the default file in the working
    /// directory. The caller adds the flags.
    pub fn of_process(file: Option<PathBuf>) -> Sources {
        let named = || std::env::var_os(FILE_VARIABLE).filter(|name| !name.is_empty());
        Sources {
            file: file.or_else(|| named().map(PathBuf::from)),
            usual_file: Some(PathBuf::from(DEFAULT_FILE)),
            environment: std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
                })
                .filter(|(name, _)| name.starts_with(VARIABLE_PREFIX))
                .collect(),
            ..Sources::default()
        }
    }

    /// Like [`Sources::load`]. Also sets `self.file` to the file that was read. So if the file is
    /// missing at a later reload, the reload reports a mistake, and does not silently apply the
    /// defaults.
    pub fn load_and_keep(&mut self) -> Result<Effective, Mistakes> {
        let effective = self.load()?;
        self.file.clone_from(&effective.file);
        Ok(effective)
    }

    /// Reads and applies all sources.
    pub fn load(&self) -> Result<Effective, Mistakes> {
        let Loading { effective, mistakes, .. } = self.read();
        if mistakes.is_empty() { Ok(effective) } else { Err(Mistakes(mistakes)) }
    }

    /// Like [`Sources::load`], but also returns a configuration with mistakes. It lacks each wrong
    /// value. `None`: the file cannot be read, or is no TOML, so all its values are unknown.
    pub fn load_with_mistakes(&self) -> (Option<Effective>, Mistakes) {
        let Loading { effective, mistakes, is_file_unknown } = self.read();
        ((!is_file_unknown).then_some(effective), Mistakes(mistakes))
    }

    fn read(&self) -> Loading {
        let usual = || self.usual_file.clone().filter(|file| file.is_file());
        let file = self.file.clone().or_else(usual);
        let mut loading = Loading {
            effective: Effective {
                config: Config::default(),
                file: file.clone(),
                origins: BTreeMap::new(),
            },
            mistakes: Vec::new(),
            is_file_unknown: false,
        };
        for &(key, value) in self.defaults {
            loading.assign(key, &[value], Origin::Default);
        }
        if let Some(file) = &file {
            loading.read_file(file);
        }
        loading.read_environment(&self.environment);
        if self.only_named_listeners {
            loading.switch_off_listeners();
        }
        for flag in &self.flags {
            let values: Vec<&str> = flag.values.iter().map(String::as_str).collect();
            loading.assign(flag.key, &values, Origin::Flag(flag.name));
        }
        loading.check_tls();
        loading.check_client_auth();
        loading.check_traces();
        loading.check_disk();
        loading.check_cluster();
        loading
    }
}

/// A setting, its value in the form of the file, and where the value comes from.
#[derive(Clone, Debug)]
pub struct ShownSetting {
    /// The patterns of the policy that has the setting. Empty for a setting of the server, and for
    /// the policy of one queue.
    pub patterns: Vec<String>,
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// Where the value comes from.
    pub origin: String,
}

impl Effective {
    /// The origin of a key's value.
    pub fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).unwrap_or(&Origin::Default)
    }

    /// The whole configuration as a file, each line with the origin of its value.
    pub fn show(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for setting in settings() {
            let (this_section, name) = setting.key.rsplit_once('.').unwrap_or(("", setting.key));
            if this_section != section {
                section = this_section;
                text.extend(["\n[", section, "]\n"]);
            }
            let line = format!("{name} = {}", (setting.show)(&self.config));
            text += &policies::line_with_origin(&line, &self.origin(setting.key).to_string());
        }
        text += &policies::show(&self.config.policies, |line| self.place(line));
        text + &crons::show(&self.config.crons, |line| self.place(line))
    }

    /// All settings, then those of each policy.
    pub fn settings(&self) -> impl Iterator<Item = ShownSetting> {
        let own = settings().map(|setting| ShownSetting {
            patterns: Vec::new(),
            key: setting.key.to_owned(),
            value: (setting.show)(&self.config),
            origin: self.origin(setting.key).to_string(),
        });
        let of_rules = self.config.policies.0.iter().flat_map(move |rule| {
            let patterns: Vec<String> = rule
                .patterns
                .iter()
                .map(|pattern| String::from_utf8_lossy(pattern.as_bytes()).into_owned())
                .collect();
            rule.settings.iter().map(move |asked| ShownSetting {
                patterns: patterns.clone(),
                key: asked.setting.key().to_owned(),
                value: policies::show_value(&asked.setting),
                origin: self.place(asked.line),
            })
        });
        own.chain(of_rules)
    }

    /// The policy of the queue with this name, each line with the origin of its value. A name with
    /// a `+` is a child.
    pub fn show_policy(&self, name: &[u8]) -> String {
        let lines = self.policy_settings(name).map(|setting| {
            let ShownSetting { key, value, origin, .. } = setting;
            policies::line_with_origin(&format!("{key} = {value}"), &origin)
        });
        lines.collect()
    }

    /// The settings of the policy of the queue with this name.
    pub fn policy_settings(&self, name: &[u8]) -> impl Iterator<Item = ShownSetting> {
        self.settings_and_lines(name).map(|(setting, _)| setting)
    }

    /// The settings that a policy of the file has for the queue with this name.
    pub fn asked_policy_settings(&self, name: &[u8]) -> impl Iterator<Item = ShownSetting> {
        let all = self.settings_and_lines(name).filter(|(_, line)| line.is_some());
        all.map(|(setting, _)| setting)
    }

    /// The settings of the policy of the queue with this name, with their lines in the file.
    fn settings_and_lines(&self, name: &[u8]) -> impl Iterator<Item = (ShownSetting, Option<u32>)> {
        let all = self.config.policies.resolve_with_origins(name, parent_name(name));
        all.into_iter().map(|(setting, line)| {
            let origin = line.map_or_else(|| Origin::Default.to_string(), |line| self.place(line));
            let (value, origin) = if matches!(setting, PolicySetting::Sync(None)) {
                // Show the effective value. The value `none` would look as if jobs were not
                // durable.
                let origin = format!("{origin}: as data.sync, {}", self.origin("data.sync"));
                (format!("\"{}\"", self.config.data.sync), origin)
            } else {
                (policies::show_value(&setting), origin)
            };
            let key = setting.key().to_owned();
            (ShownSetting { patterns: Vec::new(), key, value, origin }, line)
        })
    }

    /// Checks the files that the configuration names, like a start of the server. Checks TLS files
    /// only if a listener speaks TLS.
    pub fn check_files(&self) -> Result<(), TlsError> {
        let listen = &self.config.listen;
        if Protocol::ALL.into_iter().any(|protocol| listen.has_tls(protocol)) {
            Certificates::load(&self.config.tls)?;
        }
        Ok(())
    }

    /// A line of the file, for messages.
    fn place(&self, line: u32) -> String {
        self.file.as_ref().map_or_else(String::new, |file| format!("{}:{line}", file.display()))
    }
}

struct Loading {
    effective: Effective,
    mistakes: Vec<Mistake>,
    /// The file cannot be read, or is no TOML.
    is_file_unknown: bool,
}

impl Loading {
    fn assign(&mut self, key: &'static str, values: &[&str], origin: Origin) {
        let setting = find(key).expect("flags, defaults, variables and keys are looked up before");
        if let Some(place) = self.earlier_place(key, &origin) {
            return self.refuse(origin.place(), format!("{key}: already set at {place}"));
        }
        match (setting.set)(&mut self.effective.config, values) {
            Ok(()) => drop(self.effective.origins.insert(key, origin)),
            // A message about a flag starts with the flag, so it needs no key.
            Err(message) if matches!(origin, Origin::Flag(_)) => {
                self.refuse(origin.place(), message);
            }
            Err(message) => self.refuse(origin.place(), format!("{key}: {message}")),
        }
    }

    /// The place where the same source has already set this key. This can happen if the source uses
    /// both the old and the current name of a section.
    fn earlier_place(&self, key: &str, origin: &Origin) -> Option<String> {
        let earlier = self.effective.origin(key);
        match (earlier, origin) {
            (Origin::File(..), Origin::File(..))
            | (Origin::Environment(_), Origin::Environment(_)) => Some(earlier.place()),
            _ => None,
        }
    }

    /// Checks that TLS addresses have a certificate and its key.
    fn check_tls(&mut self) {
        let Config { listen, tls, .. } = &self.effective.config;
        let (certificate, key) = (tls.certificate.is_some(), tls.key.is_some());
        let missing = match (certificate, key) {
            (true, true) => return,
            (false, true) => "tls.certificate",
            (true, false) => "tls.key",
            (false, false) => "tls.certificate and tls.key",
        };
        let listeners: Vec<String> = Protocol::ALL
            .into_iter()
            .filter(|protocol| listen.has_tls(*protocol))
            .map(|protocol| format!("listen.{}", protocol.name()))
            .collect();
        for listener in listeners {
            let place = self.effective.origin(&listener).to_string();
            self.refuse(place, format!("{listener}: an address with `tls:` also needs {missing}"));
        }
    }

    /// If clients need certificates, checks that `tls.client_ca` is set. Without this authority,
    /// the server would admit all clients.
    fn check_client_auth(&mut self) {
        let tls = &self.effective.config.tls;
        if tls.client_auth.needs_authority() && tls.client_ca.is_none() {
            let name = tls.client_auth.name();
            let place = self.effective.origin("tls.client_auth").to_string();
            self.refuse(place, format!("tls.client_auth: `{name}` also needs tls.client_ca"));
        }
    }

    /// One of the two settings for traces does nothing without the other.
    fn check_traces(&mut self) {
        let traces = &self.effective.config.traces;
        let (set, missing) = match (&traces.pointer, &traces.endpoint) {
            (Some(_), None) => ("traces.pointer", "traces.endpoint"),
            (None, Some(_)) => ("traces.endpoint", "traces.pointer"),
            (None, None) | (Some(_), Some(_)) => return,
        };
        let place = self.effective.origin(set).to_string();
        self.refuse(place, format!("{set} also needs {missing}"));
    }

    /// The server must warn before it refuses puts.
    fn check_disk(&mut self) {
        if self.effective.config.limits.disk.are_reversed() {
            let place = self.effective.origin("disk.critical").to_string();
            let low = find("disk.low").expect("it is a key");
            let low = (low.show)(&self.effective.config);
            let message = format!(
                "disk.critical: must not be above disk.low, which is {low}; raise disk.low"
            );
            self.refuse(place, message);
        }
    }

    fn check_cluster(&mut self) {
        let Config { cluster, data, .. } = &self.effective.config;
        let Err((key, message)) = cluster.check(data.sync) else { return };
        let place = self.effective.origin(key).to_string();
        self.refuse(place, format!("{key}: {message}"));
    }

    fn refuse(&mut self, place: String, message: String) {
        self.mistakes.push(Mistake { place, message });
    }

    fn switch_off_listeners(&mut self) {
        // Under `listen.`, only the listeners are lists.
        let listeners =
            settings().filter(|setting| setting.many && setting.key.starts_with("listen."));
        for setting in listeners {
            self.assign(setting.key, &["off"], Origin::Flag("--only"));
        }
    }

    fn read_environment(&mut self, variables: &[(String, String)]) {
        let mut variables = variables.to_vec();
        variables.sort();
        for (variable, value) in &variables {
            let Some(name) = variable.strip_prefix(VARIABLE_PREFIX) else { continue };
            let origin = Origin::Environment(variable.clone());
            let today = variable_of_today(name);
            match settings().find(|setting| variable_suffix(setting.key) == today) {
                Some(setting) if setting.many => {
                    let values: Vec<&str> = value.split(',').map(str::trim).collect();
                    self.assign(setting.key, &values, origin);
                }
                Some(setting) => self.assign(setting.key, &[value], origin),
                None if OTHER_VARIABLES.contains(&name) => {}
                None if is_of_kubernetes(name, value) => {}
                None => {
                    let known = settings().map(|setting| variable_suffix(setting.key));
                    let others = OTHER_VARIABLES.into_iter().map(str::to_owned);
                    let meant = suggestion(&today, known.chain(others));
                    // Tests and scripts can have other variables with this prefix. So an unknown
                    // variable is a mistake only if its name resembles a setting, or begins with
                    // the name of a section.
                    if meant.is_some() || is_of_a_section(name) {
                        let hint =
                            meant.map(|known| format!("; did you mean {VARIABLE_PREFIX}{known}?"));
                        let hint = hint.unwrap_or_default();
                        self.refuse(variable.clone(), format!("no such setting{hint}"));
                    }
                }
            }
        }
    }

    fn read_file(&mut self, file: &Path) {
        let bytes = operator_file::read_any(file, FILE_BYTES_MAX);
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                self.is_file_unknown = true;
                return self.refuse(file.display().to_string(), format!("cannot read: {error}"));
            }
        };
        match DeTable::parse(&text) {
            Ok(table) => {
                let source = Source { file, text: &text };
                self.read_table(&source, "", table.get_ref());
            }
            Err(error) => {
                self.is_file_unknown = true;
                let place = FilePosition::of(&text, error.span().map_or(0, |span| span.start));
                let message = error.message().replace('\n', ", ");
                self.refuse(format!("{}:{place}", file.display()), message);
            }
        }
    }

    fn read_table(&mut self, source: &Source<'_>, section: &str, table: &DeTable<'_>) {
        // The parser sorts the table by name. Sort the entries by their places in the file, because
        // the server reports mistakes in this order.
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let name = key.get_ref();
            let path =
                if section.is_empty() { name.to_string() } else { format!("{section}.{name}") };
            let place = source.place(key.span().start);
            if path == policies::SECTION {
                self.read_policies(source, value);
            } else if path == crons::SECTION {
                self.read_crons(source, value);
            } else if let Some(setting) = find(&key_of_today(&path)) {
                self.read_value(source, setting, value);
            } else if let Some(inner) = value.get_ref().as_table()
                && is_section(&path)
            {
                self.read_table(source, &path, inner);
            } else if is_section(&path) {
                let today = key_of_today(&path);
                let message = format!("`{path}` is a section: write [{today}], and its keys below");
                self.refuse(place, message);
            } else {
                let hint = suggest_key(&path)
                    .map_or_else(String::new, |known| format!("; did you mean `{known}`?"));
                self.refuse(place, format!("unknown key `{path}`{hint}"));
            }
        }
    }

    fn read_policies(&mut self, source: &Source<'_>, value: &Spanned<DeValue<'_>>) {
        let mut refuse = |place: FilePosition, message| {
            let place = format!("{}:{place}", source.file.display());
            self.mistakes.push(Mistake { place, message });
        };
        self.effective.config.policies = policies::read(source.text, value, &mut refuse);
    }

    fn read_crons(&mut self, source: &Source<'_>, value: &Spanned<DeValue<'_>>) {
        let mut refuse = |place: FilePosition, message| {
            let place = format!("{}:{place}", source.file.display());
            self.mistakes.push(Mistake { place, message });
        };
        let folder = source.file.parent().unwrap_or(Path::new("."));
        self.effective.config.crons = crons::read(source.text, folder, value, &mut refuse);
    }

    fn read_value(&mut self, source: &Source<'_>, setting: &Setting, value: &Spanned<DeValue<'_>>) {
        let place = FilePosition::of(source.text, value.span().start);
        let origin = Origin::File(source.file.to_owned(), place);
        let read = if FREE_TEXTS.contains(&setting.key) { text } else { scalar };
        let values: Option<Vec<String>> = match value.get_ref() {
            DeValue::Array(items) if setting.many => {
                items.iter().map(|item| read(item.get_ref())).collect()
            }
            other => read(other).map(|text| vec![text]),
        };
        if let Some(values) = values {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            self.assign(setting.key, &values, origin);
        } else {
            let kind = value.get_ref().type_str();
            let message = format!("{}: cannot be of type {kind}", setting.key);
            self.refuse(origin.place(), message);
        }
    }
}

struct Source<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    fn place(&self, offset: usize) -> String {
        format!("{}:{}", self.file.display(), FilePosition::of(self.text, offset))
    }
}

fn find(key: &str) -> Option<&'static Setting> {
    settings().find(|setting| setting.key == key)
}

/// The current name of a key or a section.
fn key_of_today(path: &str) -> Cow<'_, str> {
    let (section, rest) = path.split_at(path.find('.').unwrap_or(path.len()));
    let renamed = RENAMED_SECTIONS.iter().find(|(old, _)| *old == section);
    renamed.map_or(Cow::Borrowed(path), |(_, today)| Cow::Owned(format!("{today}{rest}")))
}

/// The current name of a variable, without its prefix.
fn variable_of_today(name: &str) -> Cow<'_, str> {
    for (old, today) in RENAMED_SECTIONS {
        if let Some(rest) = name.strip_prefix(&variable_suffix(old))
            && rest.starts_with('_')
        {
            return Cow::Owned(format!("{}{rest}", variable_suffix(today)));
        }
    }
    Cow::Borrowed(name)
}

fn is_section(path: &str) -> bool {
    let path = key_of_today(path);
    settings().any(|setting| setting.key.split_once('.').is_some_and(|(name, _)| name == path))
}

fn variable_suffix(key: &str) -> String {
    key.replace('.', "_").to_uppercase()
}

fn is_of_a_section(name: &str) -> bool {
    name.split_once('_').is_some_and(|(section, _)| is_section(&section.to_lowercase()))
}

/// Whether Kubernetes set this variable. In each container, Kubernetes sets variables for every
/// service of the namespace. If a service is named `lineshaft-gearman`, its variables look like
/// settings. But the names of such variables have parts that no setting has, such as
/// `_SERVICE_HOST`. Only a name that ends with `_PORT` is ambiguous, because a user may set such a
/// variable, and expect that the server uses the port. So such a variable counts as a variable of
/// Kubernetes only if its value looks like `tcp://10.0.0.1:4730`.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    let has_port = |suffix: &str| {
        let digits = suffix.split('_').next().unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || (name.ends_with("_PORT") && value.contains("://"))
        || name.contains("_SERVICE_PORT_")
        || name.match_indices("_PORT_").any(|(at, found)| has_port(&name[at + found.len()..]))
}

fn suggest_key(path: &str) -> Option<String> {
    let path = &*key_of_today(path);
    let sections = settings().filter_map(|setting| setting.key.split_once('.'));
    let keys = settings().map(|setting| setting.key.to_owned());
    // A missing or wrong section is more likely than a misspelt key. So look first for the same key
    // in all sections.
    let name = path.rsplit_once('.').map_or(path, |(_, name)| name);
    let elsewhere = sections.clone().find(|(_, known)| *known == name);
    if let Some((section, known)) = elsewhere {
        return Some(format!("{section}.{known}"));
    }
    suggestion(path, keys.chain(sections.map(|(section, _)| section.to_owned())))
}

#[cfg(test)]
pub(crate) mod tests;
