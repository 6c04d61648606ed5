//! Recorded calldata, and what it says.

use chronolith_projection_adfs::{Cause, HeaderForm, Profile, Reason, decode};
use serde_json::{Value, json};

const VECTORS: &str = include_str!("../../testdata/adfs.json");

fn check(vector: &Value) {
    let name = &vector["name"];
    let calldata = const_hex::decode(vector["calldata"].as_str().unwrap()).unwrap();
    assert_eq!(json!(calldata.len()), vector["byteLength"], "{name}");
    let form = match vector["hasBlockNumber"].as_bool().unwrap() {
        true => HeaderForm::BlockNumber,
        false => HeaderForm::Accumulators,
    };
    let decoded = decode(&calldata, &Profile::new(form));
    let Some(expected) = vector.get("expect") else {
        assert_eq!(vector["expectError"], "truncated", "{name}");
        let fault = decoded.expect_err("truncated calldata was taken");
        assert_eq!(fault.reason(), Reason::Malformed, "{name}");
        let Cause::Truncated { need, .. } = fault.cause else {
            panic!("{name}: {fault}");
        };
        let reported = format!("truncated at {} need {need}", fault.offset);
        assert_eq!(vector["detail"], reported, "{name}");
        return;
    };
    let message = decoded.unwrap().to_json();
    assert_eq!(
        message["hasBlockNumber"], vector["hasBlockNumber"],
        "{name}"
    );
    // Every field of the vector is there, under the same name but for the ring index.
    for (field, value) in expected.as_object().unwrap() {
        match value {
            Value::Array(items) => {
                let shown = message[field].as_array().unwrap();
                assert_eq!(shown.len(), items.len(), "{name} {field}");
                for (shown, item) in shown.iter().zip(items) {
                    for (key, value) in item.as_object().unwrap() {
                        let ours = if key == "slotIndex" { "index" } else { key };
                        assert_eq!(&shown[ours], value, "{name} {field} {key}");
                    }
                }
            }
            value => assert_eq!(&message[field], value, "{name} {field}"),
        }
    }
}

#[test]
fn every_vector_decodes_as_it_says() {
    let file: Value = serde_json::from_str(VECTORS).unwrap();
    let vectors = file["vectors"].as_array().unwrap();
    assert_eq!(vectors.len(), 11);
    vectors.iter().for_each(check);
}
