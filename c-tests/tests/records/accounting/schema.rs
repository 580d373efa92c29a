//! The committed schema describes the files.

use lastuse_c_tests::{folder, follows_schema};
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
    follows_schema(&schema, file).unwrap_or_else(|why| panic!("{why}"));
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

#[test]
fn files_that_do_not_follow_the_schema_are_found() {
    let schema = schema();
    let good: Value = serde_json::from_str(
        r#"{"format":"lastuse-accounting","version":1,"process":1,"ggml":"","devices":[],"graphs":[],"unread":[],"turns":[],"buffers":[
           {"id":1,"device":"CPU","buffer_type":"CPU","usage":"any","mapped":false,"asked":0,"bytes":0,"resident":null,
            "weights":0,"kv":0,"compute":0,"other":0,"rounding":0,"total":0}]}"#,
    )
    .expect("JSON");
    assert_eq!(follows_schema(&schema, &good), Ok(()));
    let wrong = |pointer: &str, value: Value| {
        let mut file = good.clone();
        *file.pointer_mut(pointer).expect("it is there") = value;
        follows_schema(&schema, &file).expect_err(pointer)
    };
    assert!(wrong("/version", Value::from(2)).starts_with("file.version is 2"));
    assert!(wrong("/buffers/0/usage", Value::from("x")).starts_with("file.buffers[0].usage is \"x\""));
    assert!(wrong("/buffers/0/kv", Value::from(-1)).starts_with("file.buffers[0].kv is -1, against minimum"));
    assert!(wrong("/buffers/0", Value::from(1)).contains("file.buffers[0]"));
    let mut file = good.clone();
    file["buffers"][0].as_object_mut().expect("an object").remove("total");
    assert_eq!(follows_schema(&schema, &file), Err("file.buffers[0] has no \"total\"".to_owned()));
}
