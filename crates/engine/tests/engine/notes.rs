//! Notes of the owner, and their limits.

use lineshaft_engine::limits::{NOTES_BYTES_MAX, NOTES_MAX};
use lineshaft_engine::{NoteRefused, Record};

use crate::world::World;

fn set(world: &mut World, name: &str, value: &[u8]) -> Result<(), NoteRefused> {
    world.effects.records.clear();
    world.act(|e, fx| e.set_note(name.as_bytes(), value, fx))
}

#[test]
fn a_note_is_recorded_only_when_it_changes() {
    let mut world = World::new();
    let name: Box<[u8]> = b"operation/1"[..].into();
    for (value, is_new) in [
        (&b""[..], false),
        (b"one", true),
        (b"one", false),
        (b"two", true),
        (b"", true),
        (b"", false),
    ] {
        set(&mut world, "operation/1", value).expect("there is room");
        let recorded = [Record::Note(name.clone())];
        assert_eq!(world.effects.records[..], recorded[usize::from(!is_new)..], "{value:?}");
        let kept = world.engine.note_of(&name);
        assert_eq!(kept, Some(value).filter(|value| !value.is_empty()));
    }
    assert_eq!(world.engine.notes().count(), 0);
}

#[test]
fn there_are_at_most_16_notes() {
    let mut world = World::new();
    for number in 0..NOTES_MAX {
        set(&mut world, &number.to_string(), b"x").expect("there is room");
    }
    assert_eq!(set(&mut world, "one more", b"x"), Err(NoteRefused::TooMany));
    assert!(world.effects.records.is_empty());
    set(&mut world, "3", b"it can change").expect("it is no new note");
    set(&mut world, "3", b"").expect("a note can always go");
    set(&mut world, "one more", b"x").expect("one has gone");
}

#[test]
fn all_notes_together_have_a_limit() {
    let mut world = World::new();
    let half = vec![b'x'; NOTES_BYTES_MAX / 2 - 1];
    set(&mut world, "a", &half).expect("there is room");
    set(&mut world, "b", &half).expect("names count, too");
    assert_eq!(set(&mut world, "c", b""), Ok(()), "there is no such note");
    assert_eq!(set(&mut world, "c", b"x"), Err(NoteRefused::TooLong));
    let longer = [&half[..], b"x"].concat();
    assert_eq!(set(&mut world, "b", &longer), Err(NoteRefused::TooLong));
    assert_eq!(world.engine.note_of(b"b"), Some(&half[..]), "it is unchanged");
    set(&mut world, "b", &half[1..]).expect("it is shorter");
    set(&mut world, "b", &half).expect("there is room again");
    world.engine.check_invariants();
}

#[test]
fn a_note_of_the_log_comes_back_whatever_its_length_is() {
    let mut world = World::new();
    let long = vec![b'x'; NOTES_BYTES_MAX + 1];
    world.engine.restore_note(b"long", &long);
    assert_eq!(world.engine.note_of(b"long"), Some(&long[..]));
    assert_eq!(set(&mut world, "other", b"x"), Err(NoteRefused::TooLong));
    set(&mut world, "long", &long[1..]).expect("it is shorter");
    world.engine.restore_note(b"long", b"");
    assert_eq!(world.engine.notes().count(), 0);
}
