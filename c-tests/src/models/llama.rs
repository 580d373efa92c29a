//! A text model for programs of llama.cpp that need its words, too.

use std::path::Path;

use lastuse_neurons::gguf::{GgufArray, GgufValue, ValueType};

use crate::Result;

use super::gguf::write_gguf;
use super::layers::{Kinds, Layers, spread};
use super::weight::Kind;

const CONTEXT: u32 = 2048;
const LAYERS: u32 = 4;
const WIDTH: u32 = 256;
const HEADS: u32 = 4;
const KEY_HEADS: u32 = 2;
const FEED_FORWARD: u32 = 704;

/// Words: three special ones, one for each byte, and words without a meaning.
const VOCABULARY: u32 = 512;

/// llama.cpp's numbers of the kinds of words.
const NORMAL: i64 = 1;
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const BYTE: i64 = 6;

/// Writes a model of the architecture llama: 4 layers of width 256, 512 words, matrices of f32, a file of 12 MiB.
///
/// # Errors
/// The error of the system.
pub fn write_llama(path: &Path, seed: u64) -> Result<()> {
    let kinds = Kinds { matrix: Kind::F32, convolution: Kind::F32 };
    let mut layers = Layers::new("", kinds);
    let [width, key_width] = [WIDTH, WIDTH / HEADS * KEY_HEADS].map(u64::from);
    let norm = |layers: &mut Layers, name: &str| layers.add(&format!("{name}.weight"), Kind::F32, &[width], 1.0, 0.1);
    layers.add("token_embd.weight", Kind::F32, &[width, VOCABULARY.into()], 0.0, spread(1));
    for layer in 0..LAYERS {
        let name = |part: &str| format!("blk.{layer}.{part}");
        norm(&mut layers, &name("attn_norm"));
        for (part, outputs) in [("q", width), ("k", key_width), ("v", key_width), ("output", width)] {
            layers.matrix(&name(&format!("attn_{part}")), width, outputs);
        }
        norm(&mut layers, &name("ffn_norm"));
        for part in ["ffn_gate", "ffn_up"] {
            layers.matrix(&name(part), width, FEED_FORWARD.into());
        }
        layers.matrix(&name("ffn_down"), FEED_FORWARD.into(), width);
    }
    norm(&mut layers, "output_norm");
    layers.matrix("output", width, VOCABULARY.into());
    write_gguf(path, &keys(), &layers.finish(), seed)
}

fn keys() -> Vec<(String, GgufValue)> {
    let sizes = [
        ("context_length", CONTEXT),
        ("embedding_length", WIDTH),
        ("block_count", LAYERS),
        ("feed_forward_length", FEED_FORWARD),
        ("attention.head_count", HEADS),
        ("attention.head_count_kv", KEY_HEADS),
        ("rope.dimension_count", WIDTH / HEADS),
    ];
    let mut keys = vec![("general.architecture".to_owned(), GgufValue::String("llama".to_owned()))];
    keys.extend(sizes.map(|(name, size)| (format!("llama.{name}"), GgufValue::u32(size))));
    let epsilon = GgufValue::Float(ValueType::F32, 1e-5);
    keys.push(("llama.attention.layer_norm_rms_epsilon".to_owned(), epsilon));
    keys.extend(words().map(|(name, value)| (format!("tokenizer.ggml.{name}"), value)));
    keys
}

fn words() -> [(&'static str, GgufValue); 6] {
    let special = ["<unk>", "<s>", "</s>"].map(str::to_owned);
    let bytes = (0..=u8::MAX).map(|byte| format!("<0x{byte:02X}>"));
    let named = special.into_iter().chain(bytes);
    let words: Vec<String> = named.chain((0..VOCABULARY).map(|number| format!("\u{2581}w{number}"))).collect();
    let words = &words[..VOCABULARY as usize];
    let kind = |at: usize| match at {
        0 => UNKNOWN,
        1 | 2 => CONTROL,
        3..259 => BYTE,
        _ => NORMAL,
    };
    let array = |element, values: Vec<GgufValue>| GgufValue::Array(GgufArray::new(element, &values));
    let texts = words.iter().map(|word| GgufValue::String(word.clone())).collect();
    let scores = (0..VOCABULARY).map(|at| GgufValue::Float(ValueType::F32, -f64::from(at))).collect();
    let kinds = (0..words.len()).map(|at| GgufValue::Signed(ValueType::I32, kind(at))).collect();
    [
        ("model", GgufValue::String("llama".to_owned())),
        ("tokens", array(ValueType::String, texts)),
        ("scores", array(ValueType::F32, scores)),
        ("token_type", array(ValueType::I32, kinds)),
        ("bos_token_id", GgufValue::u32(1)),
        ("eos_token_id", GgufValue::u32(2)),
    ]
}
