//! Parses a request: command, format, parameters.

use percent_encoding::percent_decode_str;

/// The format of a response.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    Json,
    Text,
}

/// A parsed path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Command {
    /// The first part, without `.json` or `.txt`.
    pub(crate) name: String,
    /// The rest of the path.
    pub(crate) rest: Option<String>,
    pub(crate) form: Form,
}

impl Command {
    /// Reads the path of a request.
    pub(crate) fn read(path: &str) -> Command {
        let path = percent_decode_str(path).decode_utf8_lossy();
        let path = path.trim_start_matches('/');
        // A queue name after the command can contain slashes and dots. So only the end of the
        // command can name the format.
        let (name, rest) = match path.split_once('/') {
            Some((name, rest)) => (name, Some(rest.to_owned())),
            None => (path, None),
        };
        let (name, form) = match name.rsplit_once('.') {
            Some((name, "txt")) => (name, Form::Text),
            Some((name, "json")) => (name, Form::Json),
            _ => (name, Form::Json),
        };
        Command { name: name.to_owned(), rest, form }
    }
}

/// The parameters of a request. If a name occurs twice, the first parameter counts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads the part of the URI after the `?`.
    pub(crate) fn read(query: Option<&str>) -> Parameters {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Parameters(pairs.into_owned().collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_command_and_a_form() {
        let command = |name: &str, rest: Option<&str>, form| Command {
            name: name.to_owned(),
            rest: rest.map(str::to_owned),
            form,
        };
        for (path, wanted) in [
            ("/stats", command("stats", None, Form::Json)),
            ("/stats.json", command("stats", None, Form::Json)),
            ("/stats.txt", command("stats", None, Form::Text)),
            ("/stats.xml", command("stats.xml", None, Form::Json)),
            ("/", command("", None, Form::Json)),
            ("/report/", command("report", Some(""), Form::Json)),
            (
                "/graph_data/gauge:q/a.b+c/items",
                command("graph_data", Some("gauge:q/a.b+c/items"), Form::Json),
            ),
            (
                "/graph_data/counter%3Acmd_get",
                command("graph_data", Some("counter:cmd_get"), Form::Json),
            ),
        ] {
            assert_eq!(Command::read(path), wanted, "{path}");
        }
    }

    #[test]
    fn parameters_are_decoded() {
        let parameters = Parameters::read(Some("period=60&namespace=a+b%26c&&callback&period=1"));
        assert_eq!(parameters.get("period"), Some("60"));
        assert_eq!(parameters.get("namespace"), Some("a b&c"));
        assert_eq!(parameters.get("callback"), Some(""));
        assert_eq!(parameters.get("filtered"), None);
        assert_eq!(Parameters::read(None), Parameters::default());
    }
}
