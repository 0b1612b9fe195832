//! A job's checkpoint as bytes: encoded as its arguments are, so that another shape is noticed.

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use super::{Codec, CodecError, encode_json, encode_postcard, reason::reason, split, take_whole};
use crate::job::fingerprint::Fingerprint;

/// Encodes the checkpoint of `job`.
pub(crate) fn encode_checkpoint<T>(job: &str, codec: Codec, value: &T) -> Result<Bytes, CodecError>
where
    T: Serialize + DeserializeOwned + 'static,
{
    let what = || format!("the checkpoint of `{job}`");
    match codec {
        Codec::Json => encode_json(&what, value),
        Codec::Postcard => encode_postcard(&what, Fingerprint::of_value::<T>, value, " on the job"),
    }
}

/// Reads the bytes of [`encode_checkpoint`]; the error says why they do not fit. The codec of the job may have changed since: JSON does
/// not begin like postcard.
pub(crate) fn decode_checkpoint<T: DeserializeOwned + 'static>(bytes: &[u8]) -> Result<T, String> {
    let Some((found, value)) = split(bytes) else {
        return serde_json::from_slice(bytes).map_err(|error| reason(&error));
    };
    let fingerprint = Fingerprint::of_value::<T>();
    if found != fingerprint.value {
        let (expected, shape) = (fingerprint.value, &fingerprint.shape);
        return Err(format!("it has shape {found:08x}, but this program takes shape {expected:08x}: {shape}"));
    }
    take_whole(value, &fingerprint.reads).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written_and_another_type_is_noticed() {
        for codec in [Codec::Postcard, Codec::Json] {
            let bytes = encode_checkpoint("import", codec, &(7_u64, "row".to_owned())).unwrap();
            assert_eq!(decode_checkpoint::<(u64, String)>(&bytes), Ok((7, "row".to_owned())));
            let other = decode_checkpoint::<Vec<(u64, u64)>>(&bytes);
            assert!(other.is_err(), "{codec:?}: {other:?}");
        }
        let bytes = encode_checkpoint("import", Codec::Postcard, &7_u64).unwrap();
        let error = decode_checkpoint::<u32>(&bytes).unwrap_err();
        assert!(error.contains("it has shape ") && error.ends_with(": u32"), "{error}");
        assert!(decode_checkpoint::<u64>(&bytes[..3]).is_err(), "it is cut off");
    }

    #[test]
    fn a_checkpoint_that_json_does_not_have_is_refused() {
        let error = encode_checkpoint("import", Codec::Json, &f64::NAN).unwrap_err().to_string();
        assert!(error.contains("the checkpoint of `import`") && error.contains("NaN"), "{error}");
    }

    #[test]
    fn a_checkpoint_that_only_json_can_carry_is_refused_with_the_way_out() {
        let error = encode_checkpoint("import", Codec::Postcard, &serde_json::json!({})).unwrap_err().to_string();
        assert!(error.contains("codec = \"json\""), "{error}");
    }
}
