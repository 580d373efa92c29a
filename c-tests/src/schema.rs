//! Checks JSON by a schema: the part of JSON Schema that the committed schemas use.

use serde_json::Value;

/// Checks that a value follows a schema.
///
/// # Errors
/// The first place that does not.
///
/// # Panics
/// If the schema uses more than is known here.
pub fn follows_schema(schema: &Value, value: &Value) -> Result<(), String> {
    check(schema, schema, value, "file")
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
