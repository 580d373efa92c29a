//! The committed schema describes the files. The part of JSON Schema that it uses is checked here.

use lastuse_c_tests::folder;
use serde_json::Value;

/// Reads the committed schema.
fn schema() -> Value {
    let file = folder().with_file_name("docs").join("accounting.schema.json");
    let text = std::fs::read_to_string(file).expect("it is committed");
    serde_json::from_str(&text).expect("JSON")
}

/// Ends the test if a file does not follow the schema.
pub fn assert_follows_schema(file: &Value) {
    let schema = schema();
    check(&schema, &schema, file, "file").unwrap_or_else(|why| panic!("{why}"));
    assert_sums(file);
}

/// Checks properties that a schema cannot express: that sums add up, and are those of the buffers.
fn assert_sums(file: &Value) {
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"));
    let parts = ["weights", "kv", "compute", "other", "rounding"];
    let list = |key: &str| file[key].as_array().expect("a list").clone();
    assert!(!list("devices").is_empty() && !list("buffers").is_empty(), "{file}");
    for it in list("devices").iter().chain(&list("buffers")) {
        assert_eq!(parts.iter().map(|part| number(&it[*part])).sum::<u64>(), number(&it["total"]), "{it}");
    }
    for buffer in list("buffers") {
        assert_eq!(buffer["asked"], buffer["total"], "{buffer}");
    }
    for device in list("devices") {
        let on_device = list("buffers").into_iter().filter(|buffer| buffer["device"] == device["name"]);
        assert_eq!(on_device.map(|buffer| number(&buffer["total"])).sum::<u64>(), number(&device["total"]), "{device}");
    }
}

fn check(root: &Value, schema: &Value, value: &Value, path: &str) -> Result<(), String> {
    for (key, rule) in schema.as_object().expect("a schema is an object") {
        let follows = match key.as_str() {
            "$schema" | "title" | "description" | "$defs" => true,
            "$ref" => {
                let name = rule.as_str().and_then(|name| name.strip_prefix("#/")).expect("a part of this schema");
                let part = root.pointer(&format!("/{name}")).unwrap_or_else(|| panic!("there is no {name}"));
                check(root, part, value, path)?;
                true
            }
            "allOf" => {
                rule.as_array().expect("a list").iter().try_for_each(|part| check(root, part, value, path))?;
                true
            }
            "type" => types(rule).any(|name| is_of_type(value, name)),
            "const" => value == rule,
            "enum" => rule.as_array().expect("a list").contains(value),
            "minimum" => value.is_null() || value.as_f64() >= rule.as_f64(),
            "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().expect("a number")),
            "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= rule.as_u64().expect("a number")),
            "required" => {
                let missing = rule
                    .as_array()
                    .expect("a list")
                    .iter()
                    .find(|key| value.get(key.as_str().expect("a name")).is_none());
                missing.map_or(Ok(true), |key| Err(format!("{path} has no {key}")))?
            }
            "properties" => {
                for (name, part) in rule.as_object().expect("an object") {
                    if let Some(member) = value.get(name) {
                        check(root, part, member, &format!("{path}.{name}"))?;
                    }
                }
                true
            }
            "items" => {
                for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, item, &format!("{path}[{at}]"))?;
                }
                true
            }
            other => panic!("the check does not know {other}"),
        };
        if !follows {
            return Err(format!("{path} is {value}, against {key} {rule}"));
        }
    }
    Ok(())
}

fn types(rule: &Value) -> impl Iterator<Item = &str> {
    let one = rule.as_str().into_iter();
    one.chain(rule.as_array().into_iter().flatten().filter_map(Value::as_str))
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "null" => value.is_null(),
        other => panic!("the check does not know the type {other}"),
    }
}

#[test]
fn files_that_do_not_follow_the_schema_are_found() {
    let schema = schema();
    let good: Value = serde_json::from_str(
        r#"{"format":"lastuse-accounting","version":1,"process":1,"ggml":"","devices":[],"graphs":[],"unread":[],"turns":[],"buffers":[
           {"id":1,"device":"CPU","buffer_type":"CPU","usage":"any","mapped":false,"asked":0,"bytes":0,"resident":null,
            "weights":0,"kv":0,"compute":0,"other":0,"rounding":0,"total":0}]}"#,
    )
    .expect("JSON");
    assert_eq!(check(&schema, &schema, &good, "file"), Ok(()));
    let wrong = |pointer: &str, value: Value| {
        let mut file = good.clone();
        *file.pointer_mut(pointer).expect("it is there") = value;
        check(&schema, &schema, &file, "file").expect_err(pointer)
    };
    assert!(wrong("/version", Value::from(2)).starts_with("file.version is 2"));
    assert!(wrong("/buffers/0/usage", Value::from("x")).starts_with("file.buffers[0].usage is \"x\""));
    assert!(wrong("/buffers/0/kv", Value::from(-1)).starts_with("file.buffers[0].kv is -1, against minimum"));
    assert!(wrong("/buffers/0", Value::from(1)).contains("file.buffers[0]"));
    let mut file = good.clone();
    file["buffers"][0].as_object_mut().expect("an object").remove("total");
    assert_eq!(check(&schema, &schema, &file, "file"), Err("file.buffers[0] has no \"total\"".to_owned()));
}
