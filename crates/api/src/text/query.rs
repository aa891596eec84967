//! The parameters behind the `?` of a request.

use hyper::Uri;

use crate::problem::{Problem, ProblemKind};
use crate::text::form::BodyForm;

/// The largest page of a list.
const LIMIT_MAX: usize = 500;
/// The usual page of a list.
const LIMIT_DEFAULT: usize = 50;
/// The longest text to search for, in characters. The fields of the console have the same limit.
const TEXT_CHARACTERS_MAX: usize = 200;
/// A suggestion must be at least this similar.
const SIMILARITY_MIN: f64 = 0.7;

/// The parameters of a request. Each name is known to the endpoint, and occurs once.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the parameters. `known` has the names that the endpoint knows.
    pub(crate) fn read(uri: &Uri, known: &[&str]) -> Result<Query, Problem> {
        let mut read: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            if !known.contains(&name.as_ref()) {
                return Err(unknown(&name, known));
            }
            if read.iter().any(|(earlier, _)| *earlier == name) {
                let why = format!("the parameter `{name}` occurs twice; write it once");
                return Err(Problem::new(ProblemKind::BadRequest, why).of_parameter(&name));
            }
            read.push((name.into_owned(), value.into_owned()));
        }
        Ok(Query(read))
    }

    /// Like [`Query::read`], for the text behind the `?`. A parameter without a value counts as
    /// absent, because a browser sends all fields of a form.
    pub(crate) fn read_form(text: &str, known: &[&str]) -> Result<Query, Problem> {
        let uri = Uri::builder().path_and_query(format!("/?{text}")).build();
        let uri = uri.map_err(|_| {
            Problem::new(ProblemKind::BadRequest, "the parameters are not valid text")
        })?;
        let mut query = Query::read(&uri, known)?;
        query.0.retain(|(_, value)| !value.is_empty());
        Ok(query)
    }

    /// The value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The parameter `limit`: the size of a page.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        let Some(text) = self.get("limit") else { return Ok(LIMIT_DEFAULT) };
        let limit = text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
        limit.ok_or_else(|| {
            let why = format!("write a number from 1 to {LIMIT_MAX}");
            Problem::new(ProblemKind::BadRequest, why).of_parameter("limit")
        })
    }

    /// The parameter `text`: the text to search for. Empty: none.
    pub(crate) fn text(&self) -> Result<&str, Problem> {
        let text = self.get("text").unwrap_or_default();
        if text.chars().count() > TEXT_CHARACTERS_MAX {
            let why = format!("the text has more than {TEXT_CHARACTERS_MAX} characters");
            return Err(Problem::new(ProblemKind::BadRequest, why).of_parameter("text"));
        }
        Ok(text)
    }

    /// The parameter `as`: the form of a body. `None`: the bytes as they are.
    pub(crate) fn form(&self) -> Result<Option<BodyForm>, Problem> {
        let Some(name) = self.get("as") else { return Ok(None) };
        let form = BodyForm::ALL.into_iter().find(|form| form.name() == name);
        form.map(Some).ok_or_else(|| {
            let why = "write `json`, `php`, `text` or `hex`";
            Problem::new(ProblemKind::BadRequest, why).of_parameter("as")
        })
    }

    /// The value of a parameter that the request must have.
    pub(crate) fn require(&self, name: &str) -> Result<&str, Problem> {
        self.get(name).ok_or_else(|| {
            let why = format!("the parameter `{name}` is missing");
            Problem::new(ProblemKind::BadRequest, why).of_parameter(name)
        })
    }
}

fn unknown(name: &str, known: &[&str]) -> Problem {
    let similarity = |known: &&&str| strsim::jaro_winkler(name, known);
    let nearest = known
        .iter()
        .filter(|known| similarity(known) >= SIMILARITY_MIN)
        .max_by(|one, other| similarity(one).total_cmp(&similarity(other)));
    let why = match (nearest, known) {
        (Some(nearest), _) => format!("unknown parameter; did you mean `{nearest}`?"),
        (None, []) => "unknown parameter; this endpoint has no parameters".to_owned(),
        (None, known) => format!("unknown parameter; the parameters are: {}", known.join(", ")),
    };
    let mut problem = Problem::new(ProblemKind::UnknownParameter, why).of_parameter(name);
    problem.hint = nearest.map(|nearest| (*nearest).to_owned());
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Query, Problem> {
        let uri = format!("/queues?{query}").parse().unwrap();
        Query::read(&uri, &["limit", "cursor", "search"])
    }

    #[test]
    fn parameters_are_decoded() {
        let query = read("limit=5&search=a%26b+c%2F").unwrap();
        assert_eq!(query.get("limit"), Some("5"));
        assert_eq!(query.get("search"), Some("a&b c/"));
        assert_eq!(query.get("cursor"), None);
        let problem = query.require("cursor").unwrap_err();
        assert_eq!((problem.status, problem.parameter.as_deref()), (400, Some("cursor")));
    }

    #[test]
    fn a_mistake_gets_a_hint() {
        let problem = read("limti=5").unwrap_err();
        assert_eq!(problem.hint.as_deref(), Some("limit"));
        assert_eq!(problem.parameter.as_deref(), Some("limti"));
        let problem = read("q=5").unwrap_err();
        assert_eq!(problem.hint, None);
        assert!(problem.detail.contains("limit, cursor, search"), "{problem:?}");
        assert!(read("limit=5&limit=6").unwrap_err().detail.contains("twice"));
    }
}
