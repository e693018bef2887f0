//! The values of the kept fields of a JSON line.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::kept::Kept;

/// Appends the values of `fields` from a line whose text was good; null for a missing field. Calls `has` with each field that is present.
pub(crate) fn keep_of(line: &[u8], fields: &[String], kept: &mut Kept, has: &mut dyn FnMut(usize)) {
    let paths: Vec<&str> = fields.iter().map(String::as_str).collect();
    let values = values_of(str::from_utf8(line).unwrap_or_default(), &paths);
    for (field, value) in values.into_iter().enumerate() {
        if value.is_some() {
            has(field);
        }
        kept.bytes.extend_from_slice(value.map_or("null", RawValue::get).as_bytes());
        kept.end();
    }
}

/// The names of a JSON line's fields, and of the fields in its objects.
pub(crate) fn names_of(line: &[u8]) -> Vec<String> {
    let object: serde_json::Map<String, Value> = serde_json::from_slice(line).unwrap_or_default();
    let below = |(name, value): (&String, &Value)| -> Vec<String> {
        let fields = value.as_object().into_iter().flatten();
        [name.clone()].into_iter().chain(fields.map(|(below, _)| format!("{name}.{below}"))).collect()
    };
    object.iter().flat_map(below).collect()
}

/// The values under these paths in an object; nothing if the value is not an object.
pub(crate) fn values_of<'a>(object: &'a str, paths: &[&str]) -> Vec<Option<&'a RawValue>> {
    let mut json = serde_json::Deserializer::from_str(object);
    json.deserialize_map(Object(paths)).unwrap_or_else(|_| vec![None; paths.len()])
}

/// An object, and paths in it.
struct Object<'p>(&'p [&'p str]);

impl<'de> Visitor<'de> for Object<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut whole = vec![None; self.0.len()];
        let mut heads = whole.clone();
        while let Some(name) = object.next_key::<Cow<'de, str>>()? {
            let rest = |path: &&str| path.strip_prefix(&*name).map(str::len);
            let is_head = |path: &&str| path.split_once('.').is_some_and(|(head, _)| head == name);
            if !self.0.iter().any(|path| rest(path) == Some(0) || is_head(path)) {
                object.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = object.next_value::<&RawValue>()?;
            for ((path, whole), head) in self.0.iter().zip(&mut whole).zip(&mut heads) {
                if rest(path) == Some(0) {
                    *whole = Some(value);
                } else if is_head(path) {
                    *head = Some(value);
                }
            }
        }
        let below = |(path, head): (&&str, Option<&'de RawValue>)| {
            let (_, below) = path.split_once('.')?;
            values_of(head?.get(), &[below]).pop()?
        };
        let values = self.0.iter().zip(heads).zip(whole);
        Ok(values.map(|(path_and_head, whole)| whole.or_else(|| below(path_and_head))).collect())
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_as_they_are() {
        let line = r#"{"text": "t", "id": 1.50, "a": {"b": [1, {"c": "x\u00e9"}], "d": {}}, "a.d": null, "id2": "\"", "id": -0}"#;
        let values = |fields: &[&str]| {
            let mut kept = Kept::default();
            keep_of(
                line.as_bytes(),
                &fields.iter().map(|field| (*field).to_owned()).collect::<Vec<_>>(),
                &mut kept,
                &mut |_| {},
            );
            kept.values().iter().map(|value| str::from_utf8(value).unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(values(&["id", "id2", "id3"]), ["-0", "\"\\\"\"", "null"]);
        assert_eq!(values(&["a.b", "a.d", "a.b.c", "a", "a.x"])[..3], [r#"[1, {"c": "x\u00e9"}]"#, "null", "null"]);
        assert_eq!(values(&["text.x", "a.d.e"]), ["null", "null"]);
    }
}
