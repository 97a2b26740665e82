//! Tests the listing of sessions in pages.

use glovebox_sessions::{PageRequest, StoredPage};

use super::*;

on_each_store![
    pages_have_the_requested_size_and_order,
    a_page_begins_after_any_id,
    stable_sessions_are_listed_once_during_changes,
    counting_stops_at_its_bound,
];

#[test]
fn page_limit_is_1_to_1000() {
    for limit in [0, 1_001, usize::MAX] {
        let error = PageRequest::new(limit).unwrap_err();
        assert_eq!(error.to_string(), format!("the page limit is `{limit}`; use 1 to 1000"));
    }
    for limit in [1, 2, 999, 1_000] {
        assert_eq!(PageRequest::new(limit).unwrap().limit(), limit);
    }
    assert_eq!(PageRequest::default(), PageRequest::new(1_000).unwrap());
}

fn page(store: &dyn SessionStore, limit: usize, after: Option<&str>) -> StoredPage {
    let request = PageRequest::new(limit).unwrap().after(after.map(id));
    let page = block_on(store.list(&request)).unwrap();
    assert!(page.entries.len() <= limit, "{page:?}");
    page
}

fn ids(page: &StoredPage) -> Vec<String> {
    page.entries.iter().map(|entry| entry.id.to_string()).collect()
}

fn pages_have_the_requested_size_and_order(place: &dyn TestStore) {
    let store = place.open();
    assert_eq!(page(&*store, 1, None), StoredPage::default(), "an empty store");
    // Names are ordered by their bytes: `-`, `.`, digits, uppercase letters, `_`, lowercase letters.
    let names = ["-", "1", "10", "2", "A", "_", "a", "a-", "a.b", "aa", "b"];
    for name in names.iter().rev() {
        store_session(&*store, name, 5_000, b"x");
    }
    for limit in [1, 2, 3, names.len() - 1, names.len(), names.len() + 1, 1_000] {
        let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = page(&*store, limit, after.as_deref());
            seen.extend(ids(&page));
            pages += 1;
            assert!(pages <= names.len() + 1, "limit {limit}: paging does not end");
            match page.next {
                Some(next) => after = Some(next.to_string()),
                None => break,
            }
        }
        assert_eq!(seen, names, "limit {limit}");
    }
}

fn a_page_begins_after_any_id(place: &dyn TestStore) {
    let store = place.open();
    for name in ["b", "d", "f"] {
        store_session(&*store, name, 5_000, b"x");
    }
    for (after, expected) in [("a", "b d f"), ("b", "d f"), ("c", "d f"), ("d", "f"), ("e", "f"), ("f", ""), ("z", "")]
    {
        assert_eq!(ids(&page(&*store, 1_000, Some(after))).join(" "), expected, "after {after}");
    }
    assert_eq!(page(&*store, 1_000, Some("f")).next, None);
}

fn stable_sessions_are_listed_once_during_changes(place: &dyn TestStore) {
    let (store, other) = (place.open(), place.open());
    let remove =
        |name: &str| assert!(block_on(other.remove(&lock(&*other, name), &ExpectedVersion::Any)).unwrap(), "{name}");
    let stays: Vec<String> = (1..=9).map(|n| format!("stay-{n}")).collect();
    for name in &stays {
        store_session(&*store, name, 5_000, b"x");
        store_session(&*store, &format!("{name}-goes"), 5_000, b"x");
    }
    let (mut seen, mut after, mut round) = (Vec::new(), None, 0);
    loop {
        let page = page(&*store, 3, after.as_deref());
        seen.extend(ids(&page));
        round += 1;
        // Adds sessions before and after the current position. Removes some, including the one that the next page
        // starts after.
        store_session(&*other, &format!("new-{round}"), 5_000, b"x");
        store_session(&*other, &format!("zzz-{round}"), 5_000, b"x");
        for gone in listed(&*other).iter().filter(|entry| entry.id.as_str().ends_with("-goes")).take(2) {
            remove(gone.id.as_str());
        }
        assert!(round < 60, "paging does not end");
        match page.next {
            // The listing would never end while sessions are added after its position.
            Some(next) if next.as_str() < "zzz" => after = Some(next.to_string()),
            _ => break,
        }
    }
    let seen_staying: Vec<&String> = seen.iter().filter(|name| stays.contains(name)).collect();
    assert_eq!(seen_staying, stays.iter().collect::<Vec<_>>());
    let mut once = seen.clone();
    once.dedup();
    assert_eq!(seen, once, "sorted without duplicates");
    assert!(seen.is_sorted());
}

fn counting_stops_at_its_bound(place: &dyn TestStore) {
    let store = place.open();
    for n in 0..=3 {
        for (max, expected) in [(0, 0), (2, n.min(2)), (3, n.min(3)), (usize::MAX, n)] {
            assert_eq!(block_on(store.count(max)).unwrap(), expected, "{n} sessions, at most {max}");
        }
        store_session(&*store, &format!("s{n}"), 5_000, b"x");
    }
}
