//! Every rule of admission and of draining from numbers, one test each. Whole replays are in `replays`.

use super::*;

const STRICT: Setting = setting(Test::Strict, 0.25);
const ALPHA_1: Setting = setting(Test::Strict, 1.0);
const DRAWS: usize = 40_000;

const fn setting(test: Test, alpha: f64) -> Setting {
    Setting {
        probation_share: 0.10,
        test,
        alpha,
        margin: 0.01,
        rules: &setting::GENERATIONAL,
    }
}

/// A warm cache of 1000 bytes in segments of 10; the mean item has 100 bytes.
fn insert() -> Insert {
    Insert {
        size: 100,
        ghost_age: None,
        now: 20,
        oldest_main: Some(16),
        evicted_before: true,
        main_bytes: 500,
        capacity_bytes: 1000,
        reserve_bytes: 10,
        segment_bytes: 10,
    }
}

fn policy() -> Policy {
    let policy = Policy::new(ReclaimPolicy::Fifo, Objective::Balanced, 1000, 7);
    policy.inserted(1, 100);
    policy
}

fn item(pool: Pool, counter: u8, size: u64) -> ItemFacts {
    ItemFacts {
        pool,
        counter,
        size,
    }
}

/// Shares of promotions (or survivals, by counter kept) in many draws of one item.
fn share(setting: &Setting, item: ItemFacts, wanted: Verdict) -> f64 {
    let policy = policy();
    let drawn = (0..DRAWS)
        .filter(|_| policy.item(setting, &item) == wanted)
        .count();
    drawn as f64 / DRAWS as f64
}

fn assert_near(found: f64, wanted: f64) {
    assert!((found - wanted).abs() < 0.01, "{found}, not {wanted}");
}

#[test]
fn a_stranger_enters_probation_once_warm() {
    assert_eq!(policy().admit(&STRICT, &insert()), Pool::Probation);
}

#[test]
fn all_admits_every_item_to_main() {
    let all = Setting {
        test: Test::All,
        ..STRICT
    };
    assert_eq!(policy().admit(&all, &insert()), Pool::Main);
}

#[test]
fn always_asks_only_for_a_ghost() {
    let always = Setting {
        test: Test::Always,
        ..STRICT
    };
    assert_eq!(policy().admit(&always, &insert()), Pool::Probation);
    let back = Insert {
        ghost_age: Some(15),
        ..insert()
    };
    assert_eq!(policy().admit(&always, &back), Pool::Main);
    assert_eq!(
        policy().admit(&STRICT, &back),
        Pool::Probation,
        "strict asks for more"
    );
}

#[test]
fn strict_compares_the_ghost_with_mains_oldest() {
    let admitted = |age| {
        policy().admit(
            &STRICT,
            &Insert {
                ghost_age: Some(age),
                ..insert()
            },
        )
    };
    assert_eq!(admitted(3), Pool::Main);
    assert_eq!(
        admitted(4),
        Pool::Probation,
        "as old as main's oldest is not younger"
    );
    assert_eq!(admitted(5), Pool::Probation);
}

#[test]
fn strict_passes_any_ghost_while_main_has_nothing_sealed() {
    let back = Insert {
        ghost_age: Some(15),
        oldest_main: None,
        ..insert()
    };
    assert_eq!(policy().admit(&STRICT, &back), Pool::Main);
    let stranger = Insert {
        oldest_main: None,
        ..insert()
    };
    assert_eq!(policy().admit(&STRICT, &stranger), Pool::Probation);
}

#[test]
fn strict_forgives_small_items_and_doubts_large_ones() {
    // alpha 1, a quarter of the mean: e = 2, so 4.5 generations count as 18.
    let small = Insert {
        size: 25,
        ghost_age: Some(15),
        ..insert()
    };
    assert_eq!(policy().admit(&ALPHA_1, &small), Pool::Main);
    // Four times the mean: 4.5 count as 1.1.
    let large = |age| Insert {
        size: 400,
        ghost_age: Some(age),
        ..insert()
    };
    assert_eq!(policy().admit(&ALPHA_1, &large(0)), Pool::Main);
    assert_eq!(policy().admit(&ALPHA_1, &large(1)), Pool::Probation);
}

#[test]
fn the_forgiveness_is_clamped() {
    // Huge items: 2^-6 of 40.5 generations is 0.63, so an age of 0 still passes and 1 does not.
    let huge = |age| Insert {
        size: 100 << 20,
        ghost_age: Some(age),
        now: 40,
        oldest_main: Some(0),
        ..insert()
    };
    assert_eq!(policy().admit(&ALPHA_1, &huge(0)), Pool::Main);
    assert_eq!(policy().admit(&ALPHA_1, &huge(1)), Pool::Probation);
}

#[test]
fn an_item_over_a_third_of_a_full_cache_must_have_come_back() {
    let large = |size, ghost_age| Insert {
        size,
        ghost_age,
        ..insert()
    };
    let refused = |setting, insert: Insert| policy().refuses(setting, &insert);
    assert!(!refused(&STRICT, large(333, None)));
    assert!(refused(&STRICT, large(334, None)));
    assert!(!refused(&STRICT, large(334, Some(1))));
    assert!(refused(&STRICT, large(334, Some(4))), "not soon enough");
    let all = &ReclaimPolicy::GenDuel.settings(Objective::Balanced)[4];
    assert_eq!(all.test, Test::All);
    assert!(refused(all, large(334, None)) && !refused(all, large(334, Some(9))));
    let cold = Insert {
        evicted_before: false,
        ..large(400, None)
    };
    assert!(!refused(&STRICT, cold), "nobody loses anything");
}

#[test]
fn cold_main_fills_up_to_probations_share() {
    let cold = |main_bytes| Insert {
        evicted_before: false,
        main_bytes,
        ..insert()
    };
    // 1000 - 10 reserve - 100 share = 890; the item has 100.
    assert_eq!(policy().admit(&STRICT, &cold(790)), Pool::Main);
    assert_eq!(policy().admit(&STRICT, &cold(791)), Pool::Probation);
}

#[test]
fn cold_fill_leaves_probation_a_segment_at_least() {
    let small_share = Setting {
        probation_share: 0.001,
        ..STRICT
    };
    let cold = |main_bytes| Insert {
        evicted_before: false,
        segment_bytes: 50,
        main_bytes,
        ..insert()
    };
    assert_eq!(policy().admit(&small_share, &cold(840)), Pool::Main);
    assert_eq!(policy().admit(&small_share, &cold(841)), Pool::Probation);
}

#[test]
fn a_cache_smaller_than_its_reserve_does_not_wrap() {
    let tiny = Insert {
        evicted_before: false,
        capacity_bytes: 5,
        main_bytes: 0,
        ..insert()
    };
    assert_eq!(policy().admit(&STRICT, &tiny), Pool::Probation);
}

#[test]
fn equal_sizes_need_two_hits_and_no_luck() {
    let verdict = |counter| policy().item(&ALPHA_1, &item(Pool::Probation, counter, 100));
    assert_eq!(verdict(0), Verdict::Evict { ghost: true });
    assert_eq!(verdict(1), Verdict::Evict { ghost: true });
    assert_eq!(verdict(2), Verdict::Promote);
    assert_eq!(verdict(3), Verdict::Promote);
}

#[test]
fn small_items_leave_probation_for_main_with_fewer_hits() {
    let promoted = |counter, size| {
        share(
            &ALPHA_1,
            item(Pool::Probation, counter, size),
            Verdict::Promote,
        )
    };
    // e = 0.5, 1, 2, 3.
    assert_near(promoted(1, 71), 0.494);
    assert_near(promoted(1, 50), 1.0);
    assert_near(promoted(1, 25), 1.0);
    assert_near(promoted(0, 50), 0.0);
    assert_near(promoted(0, 25), 0.5);
    assert_near(
        promoted(0, 12),
        1.0 - 2f64.powf(1.0 - (100.0f64 / 12.0).log2()),
    );
}

#[test]
fn large_items_need_more_than_two_hits() {
    let promoted = |size| share(&ALPHA_1, item(Pool::Probation, 3, size), Verdict::Promote);
    assert_near(promoted(200), 1.0);
    assert_near(promoted(400), 0.5);
    assert_near(promoted(1600), 0.125);
}

#[test]
fn main_gives_a_second_chance_for_one_count() {
    let verdict = |counter| policy().item(&ALPHA_1, &item(Pool::Main, counter, 100));
    assert_eq!(verdict(0), Verdict::Evict { ghost: true });
    assert_eq!(verdict(1), Verdict::Keep { counter: 0 });
    assert_eq!(verdict(2), Verdict::Keep { counter: 1 });
    assert_eq!(verdict(3), Verdict::Keep { counter: 2 });
}

#[test]
fn small_items_survive_main_cheaply() {
    let kept = |counter, size, left| {
        share(
            &ALPHA_1,
            item(Pool::Main, counter, size),
            Verdict::Keep { counter: left },
        )
    };
    // e = 1: half of the unreferenced survive, half of the others pay.
    assert_near(kept(0, 50, 0), 0.5);
    assert_near(kept(2, 50, 1), 0.5);
    assert_near(kept(2, 50, 2), 0.5);
    assert_near(kept(0, 25, 0), 0.75);
}

#[test]
fn large_items_pay_more_to_survive_main() {
    let kept = |counter, left| {
        share(
            &ALPHA_1,
            item(Pool::Main, counter, 400),
            Verdict::Keep { counter: left },
        )
    };
    // e = -2: a quarter pays one count, the others all of them.
    assert_near(kept(3, 2), 0.25);
    assert_near(kept(3, 0), 0.75);
    assert_near(kept(1, 0), 0.25);
    let gone = share(
        &ALPHA_1,
        item(Pool::Main, 1, 400),
        Verdict::Evict { ghost: true },
    );
    assert_near(gone, 0.75);
}

#[test]
fn the_bytes_objective_ignores_size() {
    let setting = ReclaimPolicy::GenDuel.settings(Objective::Bytes)[1];
    for size in [1, 100, 1 << 30] {
        assert_eq!(
            policy().item(&setting, &item(Pool::Main, 2, size)),
            Verdict::Keep { counter: 1 }
        );
        assert_eq!(
            policy().item(&setting, &item(Pool::Probation, 1, size)),
            Verdict::Evict { ghost: true }
        );
    }
}

#[test]
fn a_policy_without_a_mean_treats_sizes_as_equal() {
    let fresh = Policy::new(ReclaimPolicy::Fifo, Objective::Balanced, 1000, 1);
    assert_eq!(
        fresh.item(&ALPHA_1, &item(Pool::Main, 1, 5)),
        Verdict::Keep { counter: 0 }
    );
    assert_eq!(
        fresh.item(&ALPHA_1, &item(Pool::Probation, 1, 0)),
        Verdict::Evict { ghost: true }
    );
}

#[test]
fn a_main_segment_nine_tenths_referenced_is_relinked() {
    let facts = |pool, referenced_bytes| SegmentFacts {
        pool,
        used_bytes: 1000,
        referenced_bytes,
    };
    assert_eq!(segment(&STRICT, &facts(Pool::Main, 900)), Whole::Relink);
    assert_eq!(segment(&STRICT, &facts(Pool::Main, 899)), Whole::Walk);
    assert_eq!(segment(&STRICT, &facts(Pool::Probation, 1000)), Whole::Walk);
    let empty = SegmentFacts {
        pool: Pool::Main,
        used_bytes: 0,
        referenced_bytes: 0,
    };
    assert_eq!(
        segment(&STRICT, &empty),
        Whole::Walk,
        "an empty segment is freed, not moved for ever"
    );
}
