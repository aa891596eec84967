//! The form that reloads the configuration.

use api::AccessSettings;
use api::types::Role;
use origin::Reach;

use crate::world::{World, csrf};

fn world(anonymous: Role) -> World {
    World::with_access(AccessSettings { anonymous, ..AccessSettings::default() })
}

#[test]
fn an_admin_reloads_the_configuration() {
    let world = world(Role::Admin);
    let page = world.show("/policies");
    assert!(page.text.contains("Reload the configuration"), "{}", page.text);
    assert!(page.text.contains("/api/v1/server/reload"), "{}", page.text);
    let secret = csrf(&page);
    let submit =
        |secret: &str| world.submit("/policies/reload", "", &[("csrf", secret)], Reach::Loopback);
    assert_eq!(submit("wrong").status, 403, "another page cannot reload");
    let done = submit(&secret);
    assert_eq!(done.status, 303, "{}", done.text);
    let path = done.headers["location"].to_str().unwrap().strip_prefix("/console").unwrap();
    assert!(world.show(path).text.contains("was read again, and applies"));
    assert!(world.show_in("zh", path).text.contains("配置已重新读取并生效"));

    let mistake = "lineshaft.toml:3: unknown policy key `retrys`; did you mean `retries`?";
    *world.mistake.lock().unwrap() = Some(mistake.to_owned());
    let failed = submit(&secret);
    assert_eq!(failed.status, 409);
    assert!(failed.text.contains(mistake), "{}", failed.text);
}

#[test]
fn others_cannot_reload_the_configuration() {
    for role in [Role::Viewer, Role::Operator] {
        let world = world(role);
        let page = world.show("/policies");
        assert!(!page.text.contains("/policies/reload"), "{}", page.text);
        assert!(!page.text.contains("/server/reload"), "{}", page.text);
        let secret = csrf(&page);
        *world.mistake.lock().unwrap() = Some("was read".to_owned());
        let refused = world.submit("/policies/reload", "", &[("csrf", &secret)], Reach::Loopback);
        assert!([401, 403].contains(&refused.status), "{role:?}: {}", refused.status);
        assert!(!refused.text.contains("was read"), "{role:?}");
    }
}
