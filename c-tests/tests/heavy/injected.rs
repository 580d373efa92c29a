//! A ggml that is built with lastuse inside.

use crate::support::expect;
use lastuse_c_tests::packages::{Form, Prefix, check_ggml, check_unknown_layout};

#[test]
fn ggml_with_lastuse_inside_is_served_or_serves_itself() {
    let prefix = expect(Prefix::install(true));
    for form in [Form::PartShared, Form::PartStatic] {
        let bytes = expect(check_ggml(&prefix, form));
        assert!(bytes.iter().any(|[with, without]| with < without), "{form:?}: {bytes:?}");
    }
    expect(check_unknown_layout(&prefix));
}
