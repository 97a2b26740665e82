use std::collections::BTreeSet;

use glovebox_vfs::{InodeId, Vfs, VfsError};

use crate::{fresh, touch};

fn names(vfs: &mut Vfs, dir: InodeId) -> Vec<String> {
    let mut found = Vec::new();
    let mut cookie = 0;
    loop {
        let part = vfs.read_dir(dir, cookie, 3).unwrap();
        let Some(last) = part.last() else { break };
        cookie = last.next_cookie;
        found.extend(part.iter().map(|entry| entry.name.to_string()));
    }
    found
}

#[test]
fn every_page_size_gives_the_whole_listing() {
    let (mut vfs, _, top) = fresh();
    let dir = vfs.create_dir(top, b"d").unwrap();
    for n in 0..50 {
        touch(&mut vfs, dir, &format!("f{n}")).unwrap();
    }
    let whole = vfs.read_dir(dir, 0, 1_000).unwrap();
    assert_eq!(whole.len(), 52);
    assert_eq!((&*whole[0].name, whole[0].inode), (".", dir));
    assert_eq!((&*whole[1].name, whole[1].inode), ("..", top));
    assert_eq!(vfs.read_dir(top, 0, 2).unwrap()[1].inode, top);
    for size in 1..10 {
        let mut paged = Vec::new();
        let mut cookie = 0;
        loop {
            let part = vfs.read_dir(dir, cookie, size).unwrap();
            let Some(last) = part.last() else { break };
            assert!(part.len() <= size);
            cookie = last.next_cookie;
            paged.extend(part);
        }
        assert_eq!(paged, whole);
    }
    // Every cookie continues where its entry ended.
    for (at, entry) in whole.iter().enumerate() {
        let rest = vfs.read_dir(dir, entry.next_cookie, 1_000).unwrap();
        assert_eq!(rest, whole[at + 1..]);
    }
}

#[test]
fn renaming_in_a_loop_over_a_directory_ends() {
    let (mut vfs, _, top) = fresh();
    for n in 0..100 {
        touch(&mut vfs, top, &format!("f{n}")).unwrap();
    }
    let mut seen = 0;
    let mut cookie = 0;
    loop {
        let part = vfs.read_dir(top, cookie, 1).unwrap();
        let Some(entry) = part.first() else { break };
        cookie = entry.next_cookie;
        if entry.name.starts_with('f') {
            seen += 1;
            assert!(seen <= 100, "the listing meets what the loop makes");
            let new = format!("f{}x{seen}", entry.name);
            vfs.rename(top, entry.name.as_bytes(), top, new.as_bytes()).unwrap();
        }
    }
    assert_eq!(seen, 100);
}

#[test]
fn removing_between_pages_skips_nothing() {
    let (mut vfs, _, top) = fresh();
    for n in 0..100 {
        touch(&mut vfs, top, &format!("f{n:02}")).unwrap();
    }
    let mut seen = BTreeSet::new();
    let mut cookie = 0;
    loop {
        let part = vfs.read_dir(top, cookie, 7).unwrap();
        let Some(last) = part.last() else { break };
        cookie = last.next_cookie;
        for entry in &part {
            assert!(seen.insert(entry.name.clone()), "{} twice", entry.name);
            if entry.name.starts_with('f') {
                vfs.unlink(top, entry.name.as_bytes()).unwrap();
            }
        }
        // A name that is removed and created again is another entry; other entries keep their places.
        let _ = touch(&mut vfs, top, "f00");
    }
    assert_eq!(seen.len(), 102);
}

#[test]
fn replacing_between_pages_shows_the_name_once() {
    let (mut vfs, _, top) = fresh();
    for name in ["a", "b", "c", "d"] {
        touch(&mut vfs, top, name).unwrap();
    }
    let first = vfs.read_dir(top, 0, 3).unwrap();
    vfs.rename(top, b"d", top, b"c").unwrap();
    let rest = vfs.read_dir(top, first[2].next_cookie, 9).unwrap();
    let rest: Vec<&str> = rest.iter().map(|entry| &*entry.name).collect();
    assert_eq!(rest, ["b", "c"]);
}

#[test]
fn made_up_cookies_do_no_harm() {
    let (mut vfs, _, top) = fresh();
    let file = touch(&mut vfs, top, "f").unwrap();
    for cookie in [1, 2, 3, 4, 1 << 32, u64::MAX, u64::MAX - 1, 0xffff_ffff, 1 << 63] {
        assert!(vfs.read_dir(top, cookie, 10).unwrap().len() <= 3);
    }
    assert_eq!(vfs.read_dir(file, 0, 9), Err(VfsError::NotADirectory));
    assert!(vfs.read_dir(top, 0, 0).unwrap().is_empty());
    assert_eq!(names(&mut vfs, top), [".", "..", "f"]);
}
