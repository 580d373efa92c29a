use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::values::*;
use super::*;
use crate::placement::{Bytes, Effort};

#[test]
fn names_are_those_of_the_variables() {
    let names: Vec<String> = SETTINGS.iter().filter(|setting| setting.is_of_process()).map(Setting::name).collect();
    let expected = [
        "rules",
        "effort",
        "reorder",
        "budget",
        "recompute",
        "on_demand",
        "arena",
        "recycle",
        "verify",
        "retain",
        "capture",
        "dump_dir",
        "dump",
        "accounting",
        "live",
    ];
    assert_eq!(names, expected);
    for setting in &SETTINGS {
        assert_eq!(setting.key.variable(), setting.variable);
    }
}

#[test]
fn names_are_found_in_any_case_and_others_are_quoted() {
    assert_eq!(find("Dump_Dir", Setting::is_of_process).map(|setting| setting.key), Ok(Key::DumpDir));
    assert_eq!(find("rules", Setting::is_of_allocator).map(|setting| setting.key), Ok(Key::Rules));
    let error = |name: &str, may| find(name, may).expect_err(name);
    let unknown = error("rule", Setting::is_of_allocator);
    assert_eq!(unknown, "unknown setting \"rule\"; expected rules, effort");
    let of_process = error("retain", Setting::is_of_allocator);
    assert_eq!(of_process, "retain is set for the process, by lastuse_set; expected rules, effort");
    let at_start = error("log", Setting::is_of_process);
    assert!(at_start.starts_with("log is set by LASTUSE_LOG alone, which was read at the start; expected rules, "));
}

fn budgets_of(value: &str) -> Result<Budgets, String> {
    let mut settings = Settings::default();
    settings.set(Key::Budget, OsStr::new(value)).map(|_| settings.budget)
}

fn budget_of(value: &str) -> Result<Option<Bytes>, String> {
    budgets_of(value).map(|budgets| budgets.of(&["CPU".to_owned()]))
}

#[test]
fn budgets_are_by_device() {
    let budgets = budgets_of("1GiB, cpu:2GiB,Vulkan1:off").expect("it is well-formed");
    let of = |name: &str| budgets.of(&["Vulkan_Host".to_owned(), name.to_owned()]);
    assert_eq!([of("CPU"), of("Vulkan0"), of("Vulkan1")], [Some(2 << 30), Some(1 << 30), None]);
    let remote = budgets_of("RPC0[127.0.0.1:50052]:2GiB").map(|it| it.of(&["RPC0[127.0.0.1:50052]".to_owned()]));
    assert_eq!(remote, Ok(Some(2 << 30)));
    assert!(!budgets.is_none() && budgets_of("CPU:off").is_ok_and(|none| none.is_none()));
    assert_eq!(budgets_of("CPU:much").map_err(|why| why.starts_with("\"much\" is not a budget")), Err(true));
}

#[test]
fn budgets_are_sizes_or_off() {
    let expected = [("700MiB", Some(700 << 20)), (" 1g ", Some(1 << 30)), ("", None), ("off", None), ("0", None)];
    for (text, budget) in expected {
        assert_eq!(budget_of(text), Ok(budget), "{text:?}");
    }
}

#[test]
fn malformed_budgets_are_quoted() {
    for text in ["much", "40%", "-1", "99999999999T"] {
        let wrong = budget_of(text).expect_err(text);
        assert!(wrong.starts_with(&format!("{text:?} is not a budget; expected ")), "{wrong}");
    }
}

#[test]
fn limits_are_bytes_and_seconds() {
    let limit = |text: &str| parse_limit(OsStr::new(text)).map(|limit| limit.map(|it| (it.bytes, it.time.as_secs())));
    assert_eq!(limit("1GiB,5"), Ok(Some((1 << 30, 5))));
    assert_eq!(limit(" 4096 "), Ok(Some((4096, 60))));
    assert_eq!([limit(""), limit("off"), limit("0")], [const { Ok(None) }; 3]);
    for text in ["1GiB,", "much", "1GiB,-1", "1GiB,5,6"] {
        assert!(limit(text).is_err_and(|why| why.starts_with(&format!("{text:?} is not a limit"))), "{text}");
    }
}

#[test]
fn each_kind_of_memory_is_on_demand_alone() {
    let of = |text: &str| text.parse::<OnDemand>().map(|of| (of.caches, of.compute));
    let expected = [
        ("", (true, false)),
        ("caches", (true, false)),
        ("compute", (false, true)),
        (" all ", (true, true)),
        ("off", (false, false)),
    ];
    for (text, parts) in expected {
        assert_eq!(of(text), Ok(parts), "{text:?}");
    }
    assert!(of("weights").is_err_and(|why| why.contains("is unknown; expected caches, compute, all or off")));
}

#[test]
fn arenas_are_shared_or_not() {
    let of = |text: &str| text.parse::<ArenaSetting>();
    assert_eq!(["", "off", "0"].map(of), [const { Ok(ArenaSetting::Off) }; 3]);
    assert_eq!((of(" shared "), of("shared,outputs")), (Ok(ArenaSetting::Shared), Ok(ArenaSetting::SharedButOutputs)));
    assert!(of("outputs").is_err_and(|why| why.contains("is unknown; expected shared, shared,outputs or off")));
}

#[test]
fn values_that_are_not_valid_change_nothing() {
    let mut settings = Settings::default();
    assert_eq!(settings.set(Key::Effort, OsStr::new("7000")), Ok(true));
    assert!(settings.set(Key::Effort, OsStr::new("7k")).is_err_and(|why| why.contains("expected a whole number")));
    assert_eq!(settings.effort, Effort::units(7000));
    assert!(settings.set(Key::Retain, OsStr::from_bytes(b"\xff")).is_err_and(|why| why.ends_with("is not UTF-8")));
    assert_eq!(settings.set(Key::Effort, OsStr::new("")), Ok(true));
    assert_eq!(settings.effort, Effort::default());
}

#[test]
fn each_setting_is_of_allocators_or_of_the_process() {
    let of_allocators = |setting: &&Setting| Settings::default().set(setting.key, OsStr::new("")) == Ok(true);
    let names: Vec<String> = SETTINGS.iter().filter(of_allocators).map(Setting::name).collect();
    assert_eq!(names, ["rules", "effort", "reorder", "budget", "recompute", "on_demand", "arena", "verify", "retain"]);
}

#[test]
fn words_for_on_and_off_are_accepted_in_any_case() {
    for off in ["off", "OFF", "Off", "0", "false", "FALSE", "no", "No", " off\n"] {
        assert_eq!(off.parse(), Ok(Switch::Off), "{off:?}");
    }
    for on in ["", " ", "on", "ON", "1", "true", "True", "yes"] {
        assert_eq!(on.parse(), Ok(Switch::On), "{on:?}");
    }
}

#[test]
fn unknown_words_are_quoted_in_the_error() {
    let wrong = "offf".parse::<Switch>().expect_err("an unknown word");
    assert_eq!(wrong, "\"offf\" is unknown; expected on, 1, true, yes, off, 0, false, no");
}

#[test]
fn levels_are_parsed_in_any_case() {
    assert_eq!(
        ["error", "warn", "info", "debug"].map(parse_level),
        [Level::Error, Level::Warn, Level::Info, Level::Debug].map(|level| Ok(Some(level)))
    );
    assert_eq!(parse_level(" WARN "), Ok(Some(Level::Warn)));
    assert!(Level::Error < Level::Warn && Level::Warn < Level::Info && Level::Info < Level::Debug);
}

#[test]
fn unknown_level_is_quoted_with_the_known_ones() {
    let unknown = parse_level("loud").expect_err("there is no such level");
    assert_eq!(unknown, "\"loud\" is unknown; expected error, warn, info, debug, off");
}

#[test]
fn words_add_up_and_off_removes_them() {
    let of = |text: &str| text.parse::<Verify>().expect("known words");
    assert_eq!(of(""), Verify::default());
    assert_eq!(of("plan"), Verify { plan: true, ..Verify::default() });
    assert_eq!(of(" memory "), Verify { plan: true, memory: true, ..Verify::default() });
    assert_eq!(of("weights,no-custom"), Verify { plan: true, memory: true, weights: true, trusts_custom: true });
    assert_eq!(of("memory,off,plan"), of("plan"));
    for off in ["0", "OFF", "false", "no"] {
        assert_eq!(of(&format!("memory,{off}")), Verify::default(), "{off}");
    }
    assert_eq!(of("Plan,NO-CUSTOM"), of("plan,no-custom"));
}

#[test]
fn unknown_words_are_named() {
    let wrong = "plan,memroy".parse::<Verify>().expect_err("an unknown word");
    assert_eq!(wrong, "\"memroy\" is unknown; expected off, plan, memory, weights, no-custom");
}
