use serde::{Deserialize, de::DeserializeOwned};

use super::*;
use crate::job::{
    Secret,
    shape::{Leaf, of_type::shape_of},
};

fn document<T: DeserializeOwned>() -> ShapeDocument {
    shape_of::<T>(false).document
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "never read")]
struct Plain {
    to: String,
    tree: Tree<String>,
    cards: (Card, Card),
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "never read")]
struct Card {
    #[serde(alias = "pin")]
    code: String,
}

mod newer {
    use super::*;

    #[derive(Deserialize)]
    #[allow(dead_code, reason = "never read")]
    pub(super) struct Plain {
        #[serde(alias = "recipient")]
        to: Address,
        tree: Tree<Secret<String>>,
        cards: (Card, Other),
    }

    #[derive(Deserialize)]
    struct Address(#[allow(dead_code, reason = "never read")] String);

    #[derive(Deserialize)]
    #[allow(dead_code, reason = "never read")]
    struct Card {
        code: String,
    }
    #[derive(Deserialize)]
    #[allow(dead_code, reason = "never read")]
    struct Other {
        code: Secret<String>,
    }
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "never read")]
enum Tree<T> {
    Leaf { token: T },
    Fork(Box<Tree<T>>, Box<Tree<T>>),
}

#[test]
fn a_secret_and_an_alias_of_either_document_is_in_the_joined_one() {
    let (plain, newer) = (document::<Plain>(), document::<newer::Plain>());
    for (ours, theirs) in [(&plain, &newer), (&newer, &plain)] {
        let joined = ours.joined(theirs).expect("the same shape");
        let mut secrets = joined.secret_names();
        secrets.sort_unstable();
        assert_eq!(secrets, ["code", "pin", "token"]);
        let text = String::from_utf8(joined.to_bytes().unwrap()).unwrap();
        assert!(text.contains(r#""aliases":["recipient"]"#), "{text}");
        assert_eq!(joined.to_text(), ours.to_text());
        assert_eq!(joined.joined(theirs).as_ref(), Some(&joined), "it does not grow");
    }
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "never read")]
struct Token(Secret<String>);

#[derive(Deserialize)]
#[allow(dead_code, reason = "never read")]
struct Has<T> {
    token: T,
}

#[test]
fn a_secret_of_a_secret_is_one_secret() {
    let (plain, secret, token) =
        (document::<Has<String>>(), document::<Has<Secret<String>>>(), document::<Has<Token>>());
    let joined = token.joined(&secret).expect("the same shape");
    assert_eq!(joined, secret);
    let joined = plain.joined(&joined).expect("the same shape");
    assert_eq!(joined.secret_names(), ["token"]);
    let twice = |node: Node| Node::Secret(Box::new(Node::Secret(Box::new(node))));
    let twice = ShapeDocument::new(twice(document::<String>().root), Vec::new());
    assert_eq!(document::<String>().joined(&twice), Some(document::<Secret<String>>()));
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "never read")]
struct Pair(String, Secret<String>);

#[test]
fn a_tuple_and_a_tuple_struct_are_one_shape() {
    let (tuple, pair) = (document::<Has<(String, String)>>(), document::<Has<Pair>>());
    for (ours, theirs) in [(&tuple, &pair), (&pair, &tuple)] {
        let joined = ours.joined(theirs).expect("the same shape");
        assert_eq!(joined.secret_names(), ["token"]);
        assert_eq!(joined.joined(theirs).as_ref(), Some(&joined), "it does not grow");
    }
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "never read")]
enum Login {
    None,
    Pin(Secret<String>),
    Pair(u8, Vec<Token>),
    Guest { name: String },
}

#[test]
fn a_secret_in_a_newtype_or_a_variant_has_the_name_of_the_field_around_it() {
    assert_eq!(document::<Has<Token>>().secret_names(), ["token"]);
    assert_eq!(document::<Has<Option<Login>>>().secret_names(), ["token"]);
    assert_eq!(document::<Login>().of_argument(Some("login"), &[]).secret_names(), ["login"]);
    // The secret has a nearer name.
    assert_eq!(document::<Has<(u8, Has<Secret<String>>)>>().secret_names(), ["token"]);
    assert_eq!(document::<Has<Card>>().secret_names(), [""; 0]);
}

#[test]
fn types_may_be_nested_deeply() {
    let next = |i: usize| Form::Tuple(if i < 2_000 { vec![Node::Type(i + 1)] } else { vec![Node::Is(Leaf::Str)] });
    let nested = ShapeDocument::new(Node::Type(0), (0..=2_000).map(next).collect());
    assert_eq!(nested.joined(&nested).as_ref(), Some(&nested));
}

#[test]
fn each_name_of_a_lone_argument_is_kept() {
    let of = |name| document::<String>().of_argument(Some(name), &[]);
    let joined = of("to").joined(&of("recipient").joined(&of("to")).unwrap()).unwrap();
    assert_eq!(joined.argument_names().collect::<Vec<_>>(), ["to", "recipient"]);
    assert_eq!(ShapeDocument::from_bytes(&joined.to_bytes().unwrap()), Ok(joined));
}

#[test]
fn documents_of_other_shapes_and_endless_ones_are_not_joined() {
    let plain = document::<Plain>();
    for other in [document::<Card>(), document::<String>(), document::<(u8, u8)>()] {
        assert_eq!(plain.joined(&other), None);
    }
    let endless = ShapeDocument::new(Node::Type(0), vec![Form::Newtype(Node::Type(0))]);
    assert_eq!(document::<String>().joined(&endless), None);
    let chain = |i: usize| Form::Tuple(vec![Node::Type(i + 1)]);
    let long = ShapeDocument::new(Node::Type(0), (0..20_000).map(chain).collect());
    let circle = ShapeDocument::new(Node::Type(0), vec![Form::Tuple(vec![Node::Type(0)])]);
    assert_eq!(circle.joined(&long), None);
}
