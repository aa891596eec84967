//! `--ssl`: the files that the original's flags and environment variables name.

use std::path::PathBuf;

use server::config::{ClientAuth, Tls};

use super::options::Options;

/// The original's default files in Debian's build.
const CERTIFICATE_DEFAULT: &str = "/etc/ssl/certs/gearmand.pem";
const KEY_DEFAULT: &str = "/etc/ssl/certs/gearmand.key";
const CA_DEFAULT: &str = "/etc/ssl/certs/gearmand-ca.pem";

const CERTIFICATE_VARIABLE: &str = "GEARMAND_SERVER_PEM";
const KEY_VARIABLE: &str = "GEARMAND_SERVER_KEY";
const CA_VARIABLE: &str = "GEARMAND_CA_CERTIFICATE";

/// The TLS settings. `variable` reads an environment variable.
pub(super) fn settings(
    options: &Options,
    variable: impl Fn(&str) -> Option<PathBuf>,
) -> Result<Tls, String> {
    // COMPAT(gearmand): the environment overrides the flags.
    let named = |name: &str, flag: &Option<PathBuf>| variable(name).or_else(|| flag.clone());
    let certificate = named(CERTIFICATE_VARIABLE, &options.ssl_certificate);
    let key = named(KEY_VARIABLE, &options.ssl_key);
    let ca = named(CA_VARIABLE, &options.ssl_ca_file);
    // COMPAT(gearmand): the server requests no certificates from clients, even if it has a
    // certificate authority. Only `--ssl-client-auth` changes this. The original does not have this
    // flag.
    let client_auth = match options.ssl_client_auth.as_deref() {
        None => ClientAuth::None,
        Some(text) => {
            ClientAuth::parse(text).map_err(|error| format!("--ssl-client-auth: {error}"))?
        }
    };
    let client_ca = match client_auth {
        ClientAuth::None | ClientAuth::Auto => ca,
        ClientAuth::Optional | ClientAuth::Required => {
            Some(ca.unwrap_or_else(|| CA_DEFAULT.into()))
        }
    };
    Ok(Tls {
        certificate: Some(certificate.unwrap_or_else(|| CERTIFICATE_DEFAULT.into())),
        key: Some(key.unwrap_or_else(|| KEY_DEFAULT.into())),
        client_ca,
        client_auth,
    })
}

/// True if `--ssl` is missing, but a flag that needs `--ssl` is given.
pub(super) fn is_meant_but_off(options: &Options) -> bool {
    let is_named = options.ssl_certificate.is_some()
        || options.ssl_key.is_some()
        || options.ssl_ca_file.is_some()
        || options.ssl_client_auth.is_some();
    is_named && !options.ssl
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_of_the_environment_the_flags_or_the_originals_in_this_order() {
        let mut options = Options::default();
        let usual = settings(&options, |_| None).unwrap();
        assert_eq!(usual.certificate, Some("/etc/ssl/certs/gearmand.pem".into()));
        assert_eq!(usual.key, Some("/etc/ssl/certs/gearmand.key".into()));
        assert_eq!((usual.client_ca, usual.client_auth), (None, ClientAuth::None));
        options.ssl_certificate = Some("/flag.pem".into());
        options.ssl_key = Some("/flag.key".into());
        options.ssl_ca_file = Some("/flag-ca.pem".into());
        let mixed = settings(&options, |name| {
            (name == "GEARMAND_SERVER_PEM").then(|| PathBuf::from("/variable.pem"))
        });
        let expected = Tls {
            certificate: Some("/variable.pem".into()),
            key: Some("/flag.key".into()),
            client_ca: Some("/flag-ca.pem".into()),
            client_auth: ClientAuth::None,
        };
        assert_eq!(mixed, Ok(expected));
    }

    #[test]
    fn clients_are_verified_only_if_configured() {
        let mut options =
            Options { ssl_client_auth: Some("required".to_owned()), ..Options::default() };
        let asking = settings(&options, |_| None).unwrap();
        assert_eq!(asking.client_auth, ClientAuth::Required);
        assert_eq!(asking.client_ca, Some("/etc/ssl/certs/gearmand-ca.pem".into()));
        options.ssl_client_auth = Some("perhaps".to_owned());
        assert!(
            settings(&options, |_| None).unwrap_err().starts_with("--ssl-client-auth: `perhaps`")
        );
    }
}
